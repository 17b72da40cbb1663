defmodule BeTree.MessagesTest do
  # Error messages as users read them. They spell a backtick in a name as two, so no name here has one.
  use ExUnit.Case, async: true

  alias BeTree.{Error, Pattern, Rules}
  alias BeTree.Test.Language

  # The corpus of wrong expressions, with names that need no backticks. Some become valid or fail differently, which does
  # not matter.
  @names ~w(b i j f s e il sl seg now ip at t items user loose)

  defp quoted(expression) do
    if String.valid?(expression),
      do: Regex.replace(~r/\b(#{Enum.join(@names, "|")})\b(?!')/, expression, "`\\1 `"),
      else: expression
  end

  defp schema do
    for {name, domain} <- Language.schema() do
      {if("#{name}" in @names, do: "`#{name} `", else: "#{name}"), domain}
    end
  end

  defp messages(results),
    do: for({:error, error} <- results, do: Exception.message(error) |> String.split("\n\n") |> hd())

  defp assert_plain(messages) do
    assert messages != []
    assert Enum.filter(messages, &(&1 =~ "``")) == []
    messages
  end

  test "messages about expressions double no backtick" do
    tree = BeTree.new!(schema())
    refused = for {text, _kind, _attribute, _column} <- Language.refusals(), do: BeTree.insert(tree, 1, quoted(text))

    others =
      for text <- [
            "`no such` = 1",
            "`s ` = `i `",
            "`i",
            "`i ``",
            "`i ` = 1.5",
            "~",
            "`",
            "x`",
            "any `items ` (`q` = 1)"
          ],
          do: BeTree.insert(tree, 1, text)

    messages = assert_plain(messages(refused ++ others))
    assert length(messages) > 100
    assert Enum.any?(messages, &(&1 =~ "`i `"))
  end

  test "messages about events and their objects double no backtick" do
    types = [
      boolean: 1,
      integer: "x",
      float: "x",
      string: 1,
      integer_enum: "x",
      integer_list: ["x"],
      string_list: [1],
      segments: [1],
      frequency_caps: [1],
      ip: "x",
      datetime: "x"
    ]

    results =
      for {type, wrong} <- types, name <- ["`a b`", "x.`a b`"], required <- [wrong, nil] do
        tree = BeTree.new!([{name, type}])
        event = if name == "`a b`", do: %{"a b" => required}, else: %{"x" => %{"a b" => required}}
        BeTree.search(tree, event)
      end

    objects = BeTree.new!([{"`a b`", {:list, [{"`c d`", :integer}]}}, {"x.`y z`", {:string, optional: true}}])

    others = [
      BeTree.search(objects, %{"a b" => [%{"c d" => "x"}]}),
      BeTree.search(objects, %{"a b" => [%{}]}),
      BeTree.search(objects, %{"a b" => []}, strict: true),
      BeTree.search(objects, %{"a b" => [], "x" => 1}),
      BeTree.search(objects, %{"a b" => [], "no such" => 1}, strict: true),
      BeTree.search(objects, {:json, ~s({"a b": [], "x": {"q q": 1}})}, strict: true)
    ]

    messages = assert_plain(messages(results ++ others))
    assert length(messages) >= 2 * length(types) + 4
    assert Enum.any?(messages, &(&1 =~ "attribute x.`a b` of type"))
  end

  test "messages about schemas, patterns and rules double no backtick" do
    schemas =
      for domains <- [
            [{"`a b`", :integer}, {"`a b`", :integer}],
            [{"`a b`", :integer}, {"`a b`.c", :integer}],
            [{"`a b`", :nothing}],
            [{"`a b`", {:integer, min: 2, max: 1}}],
            [{"`a b`", {:integer, max: "x"}}],
            [{"`a b`", {:integer, count: 1}}],
            [{"`a b`", {:integer, optional: 1}}],
            [{"`a b`", {:string, count: 0}}],
            [{"`a b`", {:segments, coerce: true}}],
            [{"`a b`", {:integer, 1}}],
            [{"`a b`", []}],
            [{"`a b`", {:list, [{"`c d`", :segments}]}}]
          ],
          do: BeTree.new(domains)

    patterns =
      for pattern <- [
            ~s({"a b": 1}),
            ~s({"a b": ["x", 1]}),
            ~s({"a b": [[]]}),
            ~s({"a b": [{"no": 1}]}),
            ~s({"a b": {"c d": []}})
          ],
          result <- [Pattern.to_expression(pattern), Pattern.schema([pattern])],
          do: result

    listed = Pattern.to_expression(~s({"a b": [1.5]}), arrays: ["`a b`"])
    {:ok, rules} = Rules.new("fact f(x: string)\nrule r when a: f then notify n")

    about_rules = [
      Rules.new("fact f`(x: string)"),
      Rules.new("fact f(x: `)"),
      Rules.assert(rules, {"`f`", %{"x" => "a"}}),
      Rules.assert(rules, ~s({"f`": {"x": "a"}})),
      Rules.assert(rules, ~s({"f": {"`x`": "a"}})),
      Rules.explain(rules, "`r`")
    ]

    tree = BeTree.new!([{"`a b`", {:string, count: 1}}])
    BeTree.insert!(tree, 1, "`a b` = 'x'")
    count = BeTree.insert(tree, 2, "`a b` = 'y'")
    messages = assert_plain(messages(schemas ++ patterns ++ about_rules ++ [listed, count]))
    assert length(messages) > 25
  end

  test "a byte order mark is named at the beginning of any text" do
    tree = BeTree.new!(a: {:integer, optional: true})
    mark = "\uFEFF"

    for {:error, %Error{kind: kind, column: column} = error} <- [
          BeTree.insert(tree, 1, mark <> "a = 1"),
          BeTree.insert(tree, 1, "a = 1 and " <> mark <> "a = 1"),
          BeTree.search(tree, {:json, mark <> ~s({"a": 1})}),
          BeTree.search(tree, {:json, mark <> ~s({"a": 1})}, strict: true),
          Pattern.to_expression(mark <> ~s({"a": [1]})),
          Rules.new(mark <> "fact f(x: string)")
        ] do
      assert kind == :syntax
      assert error.message =~ "a byte order mark (U+FEFF) is here"
      assert column in [1, 11]
    end

    assert {:error, %Error{kind: :syntax, message: message}} = BeTree.search(tree, {:json, mark <> ~s({"a": 1})})
    assert message =~ "byte order mark"
    assert {:error, %Error{}} = BeTree.insert(tree, 1, mark <> "a = 1")
    {:ok, rules} = Rules.new("fact f(x: string)\nrule r when a: f then notify n")
    assert {:error, %Error{message: message}} = Rules.assert(rules, mark <> ~s({"f": {"x": "a"}}))
    assert message =~ "byte order mark"
    # Inside a string a byte order mark is an ordinary character.
    assert BeTree.insert(BeTree.new!(s: :string), 1, "s = '#{mark}x'") == :ok
  end

  test "a wrong leap second is refused with the possible dates" do
    tree = BeTree.new!(at: {:datetime, optional: true})
    assert {:error, %Error{kind: :type} = error} = BeTree.insert(tree, 1, "at > '2026-03-31T23:59:60Z'")
    assert error.message =~ "only a leap second is the second 60: at 23:59:60 in UTC, on 30 June or 31 December"
    assert BeTree.insert(tree, 2, "at = '2017-01-01'") == :ok
    assert BeTree.search(tree, {:json, ~s({"at": "2016-12-31T23:59:60Z"})}) == {:ok, [2]}
    assert BeTree.search(tree, {:json, ~s({"at": "2017-01-01T08:59:60+09:00"})}) == {:ok, [2]}
    assert {:error, %Error{kind: :type}} = BeTree.search(tree, {:json, ~s({"at": "2026-03-31T23:59:60Z"})})
  end

  test "a refused anchor comes with the pattern to write instead" do
    tree = BeTree.new!(v: :string)
    assert {:error, %Error{kind: :syntax, column: 12} = error} = BeTree.insert(tree, 1, "v matches '^hello$'")
    assert error.message =~ "a match is the whole string: leave the `^` out, and write `.*` at the end"
    assert BeTree.insert(tree, 1, "v matches 'hello'") == :ok
    assert BeTree.search(tree, %{v: "hello"}) == {:ok, [1]}
  end
end

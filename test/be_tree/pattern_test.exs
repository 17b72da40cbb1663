defmodule BeTree.PatternTest do
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.Json
  alias BeTree.Test.Pattern, as: Naive
  alias BeTree.Test.Reductions

  doctest BeTree.Pattern

  @texts [
    {~s({"a": ["x"]}), "a = 'x'"},
    {~s({"a": ["x", "y"], "b": [1]}), "a in ('x', 'y') and b = 1"},
    {~s({"a": ["x", 1.5, "y", true, false, null]}),
     "a in ('x', 'y') or a = 1.5 or a or a is not null and not a or a is null"},
    {~s({"a": {"b": {"c": ["x"]}}}), "a.b.c = 'x'"},
    {~s({"a-b": {"c d": ["it's \\\\ \\n"]}}), ~S(a-b.`c d` = 'it\'s \\ \n')},
    {~s({"a.b": ["x"], "not": ["y"], "é`": [1]}), "`a.b` = 'x' and `not` = 'y' and `é``` = 1"},
    {~s({"a": [{"prefix": "x"}, {"suffix": "y"}]}), "starts_with(a, 'x') or ends_with(a, 'y')"},
    {~s({"a": [{"exists": true}], "b": [{"exists": false}]}), "a is not null and b is null"},
    {~s({"a": [{"numeric": ["=", 3.018e2]}]}), "a = 301.8"},
    {~s({"a": [{"numeric": [">", 0, "<=", 5]}, {"numeric": ["<", -5]}]}), "a > 0 and a <= 5 or a < -5"},
    {~s({"a": [{"anything-but": "x"}]}), "a <> 'x'"},
    {~s({"a": [{"anything-but": ["x", "y"]}]}), "a not in ('x', 'y')"},
    {~s({"a": [{"anything-but": [1, 2.5]}]}), "a <> 1 and a <> 2.5"},
    {~s({"a": [{"anything-but": {"prefix": "x"}}]}), "a is not null and not starts_with(a, 'x')"},
    {~s({"a": [{"anything-but": {"suffix": ["x", "y"]}}]}),
     "a is not null and not ends_with(a, 'x') and not ends_with(a, 'y')"},
    {~s({"b": [1], "a": [{"anything-but": {"prefix": "x"}}, "y"]}),
     "(a is not null and not starts_with(a, 'x') or a = 'y') and b = 1"},
    {~s({"$or": [{"a": ["x"]}, {"b": [1], "c": [2]}], "d": [3]}), "(a = 'x' or b = 1 and c = 2) and d = 3"},
    {~s({"d": {"$or": [{"a": ["x"]}, {"b": {"c": [1]}}]}}), "d.a = 'x' or d.b.c = 1"},
    {~s({"$or": [{"a": ["x"]}, {"$or": [{"b": ["y"]}, {"c": ["z"]}]}]}), "a = 'x' or b = 'y' or c = 'z'"},
    # `$or` as the name of a field
    {~s({"$or": {"a": ["x"]}}), "`$or`.a = 'x'"},
    {~s({"$or": [{"prefix": "x"}]}), "starts_with(`$or`, 'x')"},
    {~s({"$or": [{"numeric": [">", 1]}, {"numeric": ["<", 0]}]}), "`$or` > 1 or `$or` < 0"},
    {~s({"$or": [1]}), "`$or` = 1"},
    {~s({"a": [{"cidr": "10.0.0.0/8"}]}), "a in ('10.0.0.0/8')"},
    {~s({"a": [{"equals-ignore-case": "Xy"}, {"prefix": {"equals-ignore-case": "Z"}}]}),
     "lower(a) = 'Xy' or starts_with(lower(a), 'Z')"},
    {~s({"a": [{"suffix": {"equals-ignore-case": "Z"}}]}), "ends_with(lower(a), 'Z')"},
    {~S({"a": [{"wildcard": "x*y?\\*\\\\"}]}), ~S(a like 'x*y\\?\\*\\\\')},
    {~s({"a": [{"anything-but": {"wildcard": ["*x", "y"]}}]}), "a is not null and not a like '*x' and not a like 'y'"},
    {~s({"a": [{"anything-but": {"equals-ignore-case": "X"}}]}), "a is not null and not lower(a) = 'X'"}
  ]

  test "to_expression/2 translates each test" do
    for {pattern, text} <- @texts do
      assert {pattern, BeTree.Pattern.to_expression(pattern)} == {pattern, {:ok, text}}
      {:ok, decoded} = BeTree.Input.Json.decode(pattern)
      assert BeTree.Pattern.to_expression!(decoded) == text
    end
  end

  @refused [
    {~s([]), :type, nil, ~r/a pattern is an object/},
    {~s({}), :type, nil, ~r/one field or more/},
    {~s({"a": {}}), :type, "a", ~r/one field or more/},
    {~s({"a": []}), :type, "a", ~r/one test or more/},
    {~s({"a": "x"}), :type, "a", ~r/such as \["x"\]/},
    {~s({"a": {"b": 1}}), :type, "a.b", ~r/an object or an array of tests/},
    {~s({"a": [["x"]]}), :type, "a", ~r/a test is a string/},
    {~s({"a": [{}]}), :type, "a", ~r/an object with one name/},
    {~s({"a": [{"prefix": "x", "suffix": "y"}]}), :type, "a", ~r/an object with one name/},
    {~s({"a": [{"regex": "x"}]}), :type, "a", ~r/"regex" is no test/},
    {~s({"$or": [{"a": ["x"]}]}), :type, "`$or`", ~r/two objects or more/},
    {~s({"a": [{"prefix": 1}]}), :type, "a", ~r/takes a string/},
    {~s({"a": [{"exists": "yes"}]}), :type, "a", ~r/true or false/},
    {~s({"a": [{"numeric": []}]}), :type, "a", ~r/numeric is like/},
    {~s({"a": [{"numeric": ["<", 1, ">", 0]}]}), :type, "a", ~r/numeric is like/},
    {~s({"a": [{"numeric": [">", 5, "<", 5]}]}), :type, "a", ~r/less than the second/},
    {~s({"a": [{"numeric": [">", "5"]}]}), :type, "a", ~r/takes numbers/},
    {~s({"a": [{"anything-but": []}]}), :type, "a", ~r/one value or more/},
    {~s({"a": [{"anything-but": ["x", 1]}]}), :type, "a", ~r/but not both/},
    {~s({"a": [{"anything-but": null}]}), :type, "a", ~r/and nothing else/},
    {~s({"a": [{"anything-but": {"numeric": [">", 1]}}]}), :type, "a", ~r/anything-but takes/},
    {~s({"a": [{"anything-but": {"prefix": ""}}]}), :type, "a", ~r/not empty/},
    {~s({"a": [{"wildcard": "a**b"}]}), :syntax, "a", ~r/in a row/},
    {~S({"a": [{"wildcard": "a\\b"}]}), :syntax, "a", ~r/backslash/},
    {~s({"a": [1), :syntax, nil, ~r/no JSON/}
  ]

  test "to_expression/2 refuses invalid patterns by their field" do
    for {pattern, kind, attribute, message} <- @refused do
      assert {:error, %Error{} = error} = BeTree.Pattern.to_expression(pattern)
      assert {pattern, error.kind, error.attribute} == {pattern, kind, attribute}
      assert Exception.message(error) =~ message

      assert {:error, %Error{kind: ^kind, attribute: ^attribute, position: 1}} =
               BeTree.Pattern.schema([~s({"z": ["x"]}), pattern])
    end

    assert {:error, %Error{column: 9}} = BeTree.Pattern.to_expression(~s({"a": [1))
    assert {:error, %Error{}} = BeTree.Pattern.to_expression(%{a: ["x"]})
    assert {:error, %Error{}} = BeTree.Pattern.to_expression(%{"a" => [:x]})
    assert {:error, %Error{}} = BeTree.Pattern.to_expression(%{"a" => ["x" | "y"]})
    assert {:error, %Error{}} = BeTree.Pattern.to_expression(%{"a" => [<<255>>]})
    assert_raise ArgumentError, ~r/arrays/, fn -> BeTree.Pattern.to_expression(~s({"a": [1]}), arrays: [:a]) end
    assert {:error, %Error{attribute: "a b"}} = BeTree.Pattern.to_expression(~s({"a": [1]}), arrays: ["a b"])

    for test <- [~s({"prefix": "x"}), ~s({"anything-but": "x"}), "1.5", "true"] do
      assert {:error, %Error{kind: :type, attribute: "a"}} =
               BeTree.Pattern.to_expression(~s({"a": [#{test}]}), arrays: ["a"])
    end
  end

  test "to_expression/2 refuses a repeated name at its second place" do
    for {pattern, column} <- [
          {~s({"a": ["x"], "b": [1], "a": ["y"]}), 24},
          {~s({"é": {"a": ["x"], "a": ["y"]}}), 20},
          {~s({"a": [{"prefix": "x", "prefix": "y"}]}), 24},
          {~s({"$or": [{"a": [1]}, {"b": [1], "b": [1]}]}), 33}
        ] do
      assert {:error, %Error{kind: :syntax, column: ^column} = error} = BeTree.Pattern.to_expression(pattern)
      assert Exception.message(error) =~ ~r/an object has the name "\w+" twice; give all tests of a field in one array/
      assert {:error, %Error{kind: :syntax, column: ^column, position: 0}} = BeTree.Pattern.schema([pattern])
    end
  end

  test "to_expression/2 names a byte order mark" do
    assert {:error, %Error{kind: :syntax, column: 1} = error} =
             BeTree.Pattern.to_expression("\uFEFF" <> ~s({"a": ["x"]}))

    assert error.message =~ "a byte order mark (U+FEFF) is here"
  end

  test "exists is false of an empty array" do
    patterns = [~s({"a": [{"exists": true}]}), ~s({"a": [{"exists": false}]}), ~s({"b": ["x", {"exists": false}]})]
    {:ok, schema} = BeTree.Pattern.schema(patterns, arrays: ["b"])
    tree = BeTree.new!(schema)

    for {pattern, id} <- Enum.with_index(patterns, 1) do
      BeTree.insert!(tree, id, BeTree.Pattern.to_expression!(pattern, schema: schema))
    end

    for {event, expected} <- [
          {~s({"a": []}), [2, 3]},
          {~s({"a": ["x"], "b": []}), [1, 3]},
          {~s({"a": "x", "b": ["x"]}), [1, 3]},
          {~s({"a": 5, "b": ["y"]}), [1]},
          {~s({}), [2, 3]}
        ] do
      assert {event, BeTree.search!(tree, {:json, event})} == {event, expected}
    end

    assert_raise ArgumentError, ~r/schema/, fn -> BeTree.Pattern.to_expression(hd(patterns), schema: [:a]) end
  end

  test "schema/2 returns the types of the patterns' tests" do
    patterns = [
      ~s({"s": ["x"], "n": [1], "b": [true], "e": [{"exists": true}], "ip": [{"cidr": "10.0.0.0/8"}]}),
      ~s({"$or": [{"s": [{"prefix": "x"}]}, {"n": [{"numeric": [">", 1]}]}], "ip": ["10.0.0.1"], "l": ["x"], "il": [1]}),
      ~s({"b": [null], "e": [{"exists": false}]})
    ]

    {:ok, schema} = BeTree.Pattern.schema(patterns, arrays: ["l", "il"])

    assert for(domain <- schema, do: {domain.name, domain.type, domain.optional, domain.coerce}) == [
             {"b", :boolean, true, false},
             {"e", :string_list, true, true},
             {"il", :integer_list, true, true},
             {"ip", :ip, true, false},
             {"l", :string_list, true, true},
             {"n", :float, true, false},
             {"s", :string, true, false}
           ]

    for {other, first, second} <- [{"[1]", "string", "number"}, {"[true]", "string", "boolean"}] do
      assert {:error, %Error{kind: :type, attribute: "d.s", position: 1} = error} =
               BeTree.Pattern.schema([~s({"d": {"s": ["x"]}}), ~s({"d": {"s": #{other}}})])

      assert error.message =~ "as a #{first} and as a #{second}"
    end

    assert BeTree.Pattern.schema([]) == {:ok, []}
    assert_raise ArgumentError, fn -> BeTree.Pattern.schema(~s({"a": [1]})) end
  end

  test "searches find what the oracle finds" do
    for seed <- 1..30 do
      :rand.seed(:exsss, seed)
      patterns = for id <- 1..60, do: {id, Naive.random([:ignore_case, :wildcard])}
      options = [arrays: Naive.arrays()]
      tree = patterns |> Enum.map(&elem(&1, 1)) |> BeTree.Pattern.schema!(options) |> BeTree.new!()

      BeTree.insert_all!(
        tree,
        for({id, pattern} <- patterns, do: {id, BeTree.Pattern.to_expression!(pattern, options)})
      )

      for _ <- 1..40 do
        event = Naive.event()
        expected = for {id, pattern} <- patterns, Naive.matches?(pattern, event), do: id
        assert {seed, event, BeTree.search(tree, event)} == {seed, event, {:ok, expected}}
        assert {seed, event, BeTree.search(tree, {:json, Json.encode(event)})} == {seed, event, {:ok, expected}}
      end
    end
  end

  test "networks and exact addresses share an attribute" do
    patterns =
      for test <- [~s({"cidr": "10.0.0.0/8"}), ~s({"cidr": "2001:db8::/32"}), ~s("10.0.0.1")], do: ~s({"ip": [#{test}]})

    tree = patterns |> BeTree.Pattern.schema!() |> BeTree.new!()

    BeTree.insert_all!(
      tree,
      for({pattern, id} <- Enum.with_index(patterns), do: {id, BeTree.Pattern.to_expression!(pattern)})
    )

    for address <- ["10.0.0.1", "10.255.0.1", "11.0.0.1", "2001:db8::1", "2001:db9::1"] do
      expected =
        for {pattern, id} <- Enum.with_index(patterns),
            Naive.matches?(BeTree.Input.Json.decode!(pattern), %{"ip" => address}),
            do: id

      assert {address, BeTree.search!(tree, %{ip: address})} == {address, expected}
    end

    assert {:error, %Error{kind: :type, attribute: "ip"}} =
             BeTree.insert(tree, 9, BeTree.Pattern.to_expression!(~s({"ip": [{"cidr": "10.0.0.0/99"}]})))
  end

  # Kinds of growing patterns, by size.
  defp grown(:fields, n), do: for(i <- 1..n, into: %{}, do: {"f#{i}", ["x"]})
  defp grown(:tests, n), do: %{"a" => for(i <- 1..n, do: %{"prefix" => "p#{i}"})}
  defp grown(:strings, n), do: %{"a" => for(i <- 1..n, do: "p#{i}")}
  defp grown(:numbers, n), do: %{"a" => [%{"anything-but" => for(i <- 1..n, do: i)}]}
  defp grown(:long_string, n), do: %{"a" => [String.duplicate("s", 20 * n)]}
  defp grown(:wildcard, n), do: %{"a" => [%{"wildcard" => String.duplicate("s*", 10 * n)}]}
  defp grown(:alternatives, n), do: %{"$or" => for(i <- 1..n, do: %{"f#{i}" => ["x"]})}
  defp grown(:nested_alternatives, n), do: Enum.reduce(1..n, %{"z" => ["x"]}, &%{"$or" => [&2, %{"f#{&1}" => ["x"]}]})
  defp grown(:deep_fields, n), do: for(i <- 1..div(n, 90), into: %{}, do: {"f#{i}", levels(80)})

  # Nested objects, each with a test.
  defp levels(n), do: Enum.reduce(1..n, %{"z" => ["x"]}, fn _level, inner -> %{"a" => inner, "b" => ["x"]} end)

  for kind <- ~w(fields tests strings numbers long_string wildcard alternatives nested_alternatives deep_fields)a do
    test "schema/2 and to_expression/2 have linear cost in #{kind}" do
      texts = for n <- [1_000, 2_000], do: unquote(kind) |> grown(n) |> Json.encode()

      for run <- [&BeTree.Pattern.to_expression/1, &BeTree.Pattern.schema([&1])] do
        assert {:ok, _result} = run.(hd(texts))
        [fewer, more] = for text <- texts, do: Reductions.reductions(fn -> run.(text) end)
        assert more <= 2.4 * fewer, "#{fewer} reductions, and #{more} of twice as much"
      end
    end
  end

  test "schema/2 and to_expression/2 have linear cost in the fields with arrays" do
    run = fn n ->
      names = for i <- 1..n, do: "f#{i}"
      pattern = Map.new(names, &{&1, ["x"]})
      {BeTree.Pattern.schema([pattern], arrays: names), BeTree.Pattern.to_expression(pattern, arrays: names)}
    end

    assert {{:ok, _schema}, {:ok, _text}} = run.(1_000)
    [fewer, more] = for n <- [1_000, 2_000], do: Reductions.reductions(fn -> run.(n) end)
    assert more <= 2.4 * fewer
  end

  test "schema/2 and to_expression/2 refuse fields that are too deep or too long" do
    assert {:ok, text} = BeTree.Pattern.to_expression(levels(99))
    assert text =~ String.duplicate("a.", 99) <> "z"

    for pattern <- [levels(100), levels(8_000), Json.encode(levels(8_000))] do
      assert {:error, %Error{kind: :type, message: message}} = BeTree.Pattern.to_expression(pattern)
      assert message =~ "more than 100 levels deep"
      assert {:error, %Error{kind: :type, position: 0}} = BeTree.Pattern.schema([pattern])
    end

    name = String.duplicate("n", 2_000)
    assert {:ok, _text} = BeTree.Pattern.to_expression(%{name => %{name => ["x"]}})
    assert {:error, %Error{kind: :type} = error} = BeTree.Pattern.to_expression(%{name => %{name => %{"a" => ["x"]}}})
    assert error.message =~ "more than 4000 bytes"
  end
end

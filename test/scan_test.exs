Code.require_file("examples/scan/scan.ex")

defmodule BeTree.ScanTest do
  @moduledoc "Another index module, written from docs/abi.md, in the place of the built-in one."
  use ExUnit.Case, async: true

  alias BeTree.{Error, Guest}
  alias BeTree.Test.{Json, Language, Naive, Random}

  setup_all do
    {:ok, guest} = Guest.load(Scan.wasm!())
    {:ok, guest: guest}
  end

  test "the module has no imports, the exports of docs/abi.md, and a small size" do
    wasm = Scan.wasm!()
    {:ok, compiled} = BeTree.Runtime.Wasmtime.load(wasm)
    assert BeTree.Runtime.Wasmtime.imports(compiled) == []
    assert byte_size(wasm) < div(File.stat!(Application.app_dir(:be_tree, "priv/be_tree.wasm")).size, 2)
  end

  test "evaluates all rows of the language", %{guest: guest} do
    tree = BeTree.new!(Language.flat_schema(), guest: guest)
    BeTree.insert_all!(tree, Language.subscriptions(Language.flat_rows()))

    for {{text, event, holds}, id} <- Enum.with_index(Language.flat_rows()) do
      record = for {name, _} <- Language.flat_schema(), do: event[name]
      json = Json.encode(for {name, value} <- event, do: {"#{name}", value})

      for given <- [event, Map.to_list(event), {:record, record}, {:record, List.to_tuple(record)}, {:json, json}],
          options <- [[], [slice: 1]] do
        assert {text, given, id in BeTree.search!(tree, given, options)} == {text, given, holds}
      end

      assert {text, BeTree.explain!(tree, event, id).match} == {text, holds}
    end
  end

  @bounded [
    small: {:integer, optional: true, min: 0, max: 9},
    low: {:float, optional: true, max: 1.5},
    two: {:string, optional: true, count: 2},
    one: {:integer_enum, optional: true, count: 1}
  ]

  test "refuses invalid expressions without a change", %{guest: guest} do
    tree = BeTree.new!(Language.flat_schema() ++ @bounded, guest: guest)
    BeTree.insert!(tree, 0, "two = 'a'")

    for {expression, kind, attribute, column} <- Language.flat_refusals() do
      assert {:error, %Error{} = error} = BeTree.insert_all(tree, [{1, "b"}, {2, expression}])
      assert {expression, error.kind, error.attribute, error.position} == {expression, kind, attribute, 1}
      if column, do: assert({expression, error.column} == {expression, column})
      assert BeTree.info!(tree).expressions == 1
    end

    assert {:error, %Error{kind: :missing_attribute, attribute: "flight_id"}} =
             BeTree.insert(tree, 1, "within_frequency_cap('flight', 'ns', 1, 1)")

    assert {:error, %Error{kind: :duplicate_id, position: 1}} = BeTree.insert_all(tree, [{1, "b"}, {0, "b"}])
    assert {:error, %Error{kind: :duplicate_id, position: 1}} = BeTree.insert_all(tree, [{1, "b"}, {1, "b"}])
    assert {:error, %Error{kind: :not_found}} = BeTree.delete(tree, 1)
    assert {:error, %Error{kind: :not_found}} = BeTree.explain(tree, %{}, 1)
  end

  test "counts distinct constants over the present subscriptions", %{guest: guest} do
    tree = BeTree.new!([country: {:string, count: 2}], guest: guest)
    BeTree.insert_all!(tree, [{1, "country = 'CA'"}, {2, "country in ('CA', 'US')"}])
    assert {:error, %Error{kind: :out_of_bounds, attribute: "country"}} = BeTree.insert(tree, 3, "country = 'MX'")
    BeTree.delete!(tree, 2)
    assert BeTree.insert(tree, 3, "country = 'MX'") == :ok
  end

  # {event, the kind of its error, the attribute}
  @wrong [
    {%{}, :missing_attribute, "i"},
    {%{i: nil}, :missing_attribute, "i"},
    {%{i: "1"}, :type, "i"},
    {%{i: 1.0}, :type, "i"},
    {%{i: 0x8000_0000_0000_0000}, :out_of_bounds, "i"},
    {%{i: 1, s: true}, :type, "s"},
    {%{i: 1, il: [1, nil]}, :type, "il"},
    {%{i: 1, sl: "a"}, :type, "sl"},
    {%{i: 1, seg: [[1, 2]]}, :type, "seg"},
    {%{i: 1, caps: [{{"flights", 1, "ns"}, 1, nil}]}, :type, "caps"},
    {%{1 => 2}, :type, nil},
    {[:i], :type, nil},
    {{:record, [1, 2]}, :type, nil},
    {{:json, ~s({"i": 1, "seg": [{}]})}, :type, "seg"},
    {{:json, ~s({"i": 1.0})}, :type, "i"},
    {{:json, ~s({"i": 1, "f": 1e400})}, :out_of_bounds, "f"},
    {{:json, ~s([1])}, :type, nil},
    {{:json, ~s({"i": 1,})}, :syntax, nil},
    {{:json, ~s({"i": 01})}, :syntax, nil},
    {{:json, ~s({"i": 1} 2)}, :syntax, nil},
    {{:json, ~s({"s": "\\ud800", "i": 1})}, :syntax, nil},
    {{:json, <<?{, 0xFF>>}, :syntax, nil}
  ]

  test "refuses invalid events like the built-in module", %{guest: guest} do
    domains = [
      i: :integer,
      f: {:float, optional: true},
      s: {:string, optional: true},
      il: {:integer_list, optional: true},
      sl: {:string_list, optional: true},
      seg: {:segments, optional: true},
      caps: {:frequency_caps, optional: true}
    ]

    for tree <- [BeTree.new!(domains, guest: guest), BeTree.new!(domains)], {event, kind, attribute} <- @wrong do
      assert {:error, %Error{} = error} = BeTree.search(tree, event)
      assert {event, error.kind, error.attribute} == {event, kind, attribute}
      assert {:ok, []} = BeTree.search(tree, %{i: 1, other: [self(), make_ref(), fn -> 1 end, {1, %{"a" => 2.5}}]})
    end
  end

  test "reports its own limits as errors", %{guest: guest} do
    tree = BeTree.new!([a: {:string, optional: true}], guest: guest)
    BeTree.insert!(tree, 1, "a is null or contains(a, 'x')")
    assert {:error, %Error{kind: :out_of_bounds}} = BeTree.search(tree, %{a: String.duplicate("x", 70_000)})
    assert BeTree.search(tree, %{a: String.duplicate("x", 60_000)}) == {:ok, [1]}
    assert {:error, %Error{kind: :out_of_bounds}} = BeTree.search(tree, %{b: Enum.reduce(1..200, [], &[&1, &2])})
  end

  test "refuses a change without memory and keeps room for others", %{guest: guest} do
    tree = BeTree.new!([a: :integer], guest: guest, memory: 8_000_000)
    long = Enum.map_join(1..200_000, " or ", &"a = #{&1}")
    many = for id <- 1..100_000, do: {id, "a = #{id} or a > 5"}

    for _ <- 1..20 do
      assert {:error, %Error{kind: :out_of_memory}} = BeTree.insert(tree, 1, long)
      assert {:error, %Error{kind: :out_of_memory}} = BeTree.insert_all(tree, many)
    end

    assert {:ok, 5_000} = BeTree.insert_all(tree, Enum.take(many, 5_000))
    assert BeTree.search(tree, %{a: 3}) == {:ok, [3]}
  end

  test "survives a search that is cut off anywhere", %{guest: guest} do
    tree = BeTree.new!(Language.flat_schema(), guest: guest)
    BeTree.insert_all!(tree, Language.subscriptions(Language.flat_rows()))
    {_text, event, _holds} = Enum.max_by(Language.flat_rows(), fn {_text, event, _holds} -> map_size(event) end)
    {:ok, found, %{fuel: fuel}} = BeTree.search(tree, event, stats: true)

    for budget <- 1..(fuel - 1_000)//97 do
      assert {:error, %Error{kind: :out_of_fuel}} = BeTree.search(tree, event, fuel: budget)
      assert {:ok, ^found, %{fuel: ^fuel}} = BeTree.search(tree, event, stats: true)
    end
  end

  for seed <- 1..20 do
    test "finds what the oracle and the built-in module find, seed #{seed}", %{guest: guest} do
      :rand.seed(:exsss, unquote(seed))
      Random.original()
      domains = Random.schema()
      expressions = for id <- Enum.take_random(1..1_000, 150), do: {id, Random.expression(domains)}
      texts = Random.subscriptions(expressions)
      scan = BeTree.new!(domains, guest: guest)
      tree = BeTree.new!(domains)

      for tree <- [scan, tree] do
        BeTree.insert_all!(tree, texts)
        {deleted, _} = Enum.split(texts, 30)
        for {id, _, _} <- deleted, do: BeTree.delete!(tree, id)
        for {id, text, options} <- deleted, do: BeTree.insert!(tree, id, text, options)
      end

      for number <- 1..50 do
        event = Random.event(domains)
        dressed = Random.dress(event, domains)
        holds = fn {_id, expression} -> Naive.eval(expression, Map.new(event), Random.constants()) end
        expected = expressions |> Enum.filter(holds) |> Enum.map(&elem(&1, 0)) |> Enum.sort()
        some = for {id, _} <- Enum.take_random(expressions, 40), do: id

        for given <- [Map.new(dressed), dressed, {:json, Json.encode(dressed)}] do
          assert {number, given, BeTree.search(scan, given)} == {number, given, {:ok, expected}}
          assert BeTree.search(tree, given) == {:ok, expected}
          assert BeTree.search(scan, given, ids: [0 | some]) == {:ok, Enum.filter(expected, &(&1 in some))}
        end

        assert BeTree.search(scan, event, slice: 1_000) == {:ok, expected}

        for form <- [:binary, :bitmap] do
          assert BeTree.search(scan, event, as: form) == BeTree.search(tree, event, as: form)
        end

        {:ok, prepared} = BeTree.Event.prepare(scan, {:json, Json.encode(dressed)})
        assert BeTree.search(scan, prepared) == {:ok, expected}
        id = hd(some)
        assert texts_of(BeTree.explain!(scan, event, id)) == texts_of(BeTree.explain!(tree, event, id))
      end
    end
  end

  test "finds the same for many events as for each alone", %{guest: guest} do
    :rand.seed(:exsss, 1)
    Random.original()
    domains = Random.schema()
    texts = for id <- 1..100, do: {id * 7, Random.text(Random.expression(domains)), constants: Random.constants()}
    [scan, tree] = for options <- [[guest: guest], []], do: BeTree.new!(domains, options)
    for tree <- [scan, tree], do: BeTree.insert_all!(tree, texts)
    events = for _ <- 1..600, do: Random.event(domains)

    for options <- [[], [as: :binary], [as: :bitmap], [ids: Enum.to_list(1..300)], [slice: 5_000]] do
      assert BeTree.search_many(scan, events, options) == BeTree.search_many(tree, events, options)
    end

    wrong = Enum.take(events, 3) ++ [{:json, "{"}] ++ events
    assert {:error, %Error{kind: :syntax, position: 3, column: 2, text: nil}} = BeTree.search_many(scan, wrong)
    assert scan |> BeTree.stream(wrong) |> Enum.count(&match?({_event, {:error, _}}, &1)) == 1

    BeTree.insert!(scan, 5_000_000, "true")
    assert {:error, %Error{kind: :out_of_bounds}} = BeTree.search(scan, hd(events), as: :bitmap)
    assert {:error, %Error{kind: :out_of_bounds, position: 0}} = BeTree.search_many(scan, events, as: :bitmap)
  end

  test "can be published and written as an image", %{guest: guest} do
    tree = BeTree.new!([a: :integer], guest: guest)
    BeTree.insert_all!(tree, for(id <- 1..100, do: {id, "a > #{id}"}))
    index = BeTree.publish!(tree)
    BeTree.delete!(tree, 1)
    image = {:binary, BeTree.Image.to_binary!(index)}

    for index <- [index, BeTree.Image.read!(image)] do
      searches = for a <- 1..50, do: Task.async(fn -> BeTree.search!(index, %{a: a}, slice: 2_000) end)
      assert Task.await_many(searches, :infinity) == for(a <- 1..50, do: Enum.to_list(1..(a - 1)//1))
    end
  end

  # The evaluated predicates. Chains of one operator may be nested.
  defp texts_of(%{match: match, root: root}), do: {match, predicates(root)}

  defp predicates(%{kind: :predicate} = node), do: [{node.verdict, node.attribute, node.text, normal(node.actual)}]
  defp predicates(node), do: Enum.flat_map(node.children, &predicates/1)

  # The built-in module sorts the elements of a list.
  defp normal(list) when is_list(list), do: list |> Enum.uniq() |> Enum.sort()
  defp normal(other), do: other
end

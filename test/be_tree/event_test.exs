defmodule BeTree.EventTest do
  use ExUnit.Case, async: true

  defmodule Person do
    defstruct [:age, :country, :__meta__]
  end

  defmodule Account do
    defstruct [:user]
  end

  setup_all do
    tree = BeTree.new!(age: :integer, country: {:string, optional: true}, adult: {:boolean, optional: true})
    BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "country = 'CA'"}, {3, "country is null"}, {4, "adult"}])
    {:ok, tree: tree}
  end

  test "maps, keyword lists, pairs, structs, JSON and records are equivalent events", %{tree: tree} do
    for event <- [
          %{age: 30, country: "CA", adult: false},
          %{"age" => 30, "country" => "CA"},
          %{"age" => 30, country: :CA},
          [age: 30, country: "CA"],
          [{"age", 30}, {:country, "CA"}],
          %Person{age: 30, country: "CA"},
          {:json, ~s({"age": 30, "country": "CA"})},
          {:json, ~s({"country": "C\\u0041", "adult": null, "age": 30})},
          {:record, [30, "CA", nil]},
          {:record, {30, "CA", 0}}
        ] do
      assert {event, BeTree.search(tree, event)} == {event, {:ok, [1, 2]}}
    end
  end

  test "nil, :undefined and null are undefined", %{tree: tree} do
    for event <- [
          %{age: 1},
          %{age: 1, country: nil},
          %{age: 1, country: :undefined},
          %Person{age: 1},
          {:json, ~s({"age": 1, "country": null})},
          {:record, [1, :undefined, nil]}
        ] do
      assert {event, BeTree.search(tree, event)} == {event, {:ok, [3]}}
    end
  end

  test "paths read fields of maps, keyword lists, structs and objects" do
    tree = BeTree.new!(user: [age: :integer, country: {:string, optional: true}], "`a.b`": {:integer, optional: true})
    BeTree.insert_all!(tree, [{1, "user.age >= 21"}, {2, "user.country = 'CA'"}, {3, "`a.b` = 1"}])

    for user <- [
          %{age: 30, country: "CA"},
          %{"age" => 30, country: :CA},
          [age: 30, country: "CA"],
          [{"age", 30}, {:country, "CA"}, {:age, 1}],
          %Person{age: 30, country: "CA"}
        ],
        event <- [%{user: user}, %{"user" => user}, [user: nil, user: user, user: %{age: 1}], %Account{user: user}] do
      assert {event, BeTree.search(tree, event)} == {event, {:ok, [1, 2]}}
      assert BeTree.search(tree, BeTree.Event.prepare!(tree, event)) == {:ok, [1, 2]}
    end

    json = ~s({"user": {"age": 30, "country": "CA"}, "user.country": 3, "a": {"b": 1}})
    assert BeTree.search(tree, {:json, json}) == {:ok, [1, 2]}
    # Of two objects of one name the last counts, with all of its fields.
    assert BeTree.search(tree, {:json, ~s({"user": {"country": "CA"}, "a.b": 1, "user": {"age": 30}})}) == {:ok, [1, 3]}
    assert BeTree.search(tree, {:record, [30, "CA", nil]}) == {:ok, [1, 2]}

    for event <- [%{}, %{user: nil}, %{user: %{}}, {:json, "{}"}, %{age: 30}, {:json, ~s({"user.age": 30})}] do
      assert {:error, %{kind: :missing_attribute, attribute: "user.age"}} = BeTree.search(tree, event)
    end

    assert {:error, %{kind: :type, attribute: "user"}} = BeTree.search(tree, %{user: 3})
    assert {:error, %{kind: :type, attribute: "user", column: 10}} = BeTree.search(tree, {:json, ~s({"user": [1]})})
    assert {:error, %{kind: :type, attribute: "user.age"}} = BeTree.search(tree, %{user: %{age: "x"}})
  end

  test "1 and 0 are booleans in records only", %{tree: tree} do
    assert BeTree.search(tree, {:record, {1, nil, 1}}) == {:ok, [3, 4]}
    assert {:error, %{kind: :type, attribute: "adult"}} = BeTree.search(tree, %{age: 1, adult: 1})
    assert {:error, %{kind: :type, attribute: "adult"}} = BeTree.search(tree, {:json, ~s({"age": 1, "adult": 1})})
  end

  test "values without an attribute are skipped", %{tree: tree} do
    odd = %{
      age: 30,
      function: &String.upcase/1,
      closure: fn -> tree end,
      pid: self(),
      reference: make_ref(),
      port: hd(Port.list()),
      bits: <<1::3>>,
      big: Integer.pow(7, 1_000),
      improper: [1 | 2],
      nested: Enum.reduce(1..10_000, [], fn _, list -> [list] end),
      date: ~D[2024-01-01]
    }

    assert BeTree.search(tree, odd) == {:ok, [1, 3]}
    assert BeTree.search(tree, Map.to_list(odd)) == {:ok, [1, 3]}
    deep = String.duplicate("[", 100_000) <> String.duplicate("]", 100_000)
    assert BeTree.search(tree, {:json, ~s({"deep": #{deep}, "age": 30})}) == {:ok, [1, 3]}
  end

  test "other terms than events are refused, and the error names their kind", %{tree: tree} do
    for {event, kind} <- [
          {30, :type},
          {"age", :type},
          {{:json, ~c"text"}, :type},
          {{:json, :binary}, :type},
          {{:record, %{}}, :type},
          {{:other, []}, :type},
          {nil, :type},
          {[1, 2], :type},
          {[{:age, 1} | :tail], :type},
          {%{}, :missing_attribute},
          {[], :missing_attribute},
          {{:json, "{}"}, :missing_attribute},
          {{:record, [nil, nil, nil]}, :missing_attribute},
          {{:record, [1]}, :type},
          {{:record, [1, nil, nil, nil]}, :type},
          {%{age: "30"}, :type},
          {%{age: 30.0}, :type},
          {%{age: 0x8000_0000_0000_0000}, :out_of_bounds},
          {%{age: -0x8000_0000_0000_0001}, :out_of_bounds},
          {{:json, ~s({"age": 9223372036854775808})}, :out_of_bounds},
          {%{age: 1, country: 1}, :type},
          {{:json, ""}, :syntax},
          {{:json, "{"}, :syntax},
          {{:json, ~s({"age": 30,})}, :syntax},
          {{:json, ~s({"age": 30} x)}, :syntax},
          {{:json, ~s({"age": 30, "country": "\xFF"})}, :syntax},
          {{:json, "[]"}, :type}
        ] do
      assert {:error, %BeTree.Error{} = error} = BeTree.search(tree, event)
      assert {event, error.kind} == {event, kind}
      assert {:error, %BeTree.Error{kind: ^kind}} = BeTree.explain(tree, event, 1)
    end
  end

  test "an error has the attribute, and the column in JSON", %{tree: tree} do
    {:error, error} = BeTree.search(tree, %{age: "old"})
    assert {error.kind, error.attribute} == {:type, "age"}
    assert Exception.message(error) =~ "age"

    for answer <- [&BeTree.search(tree, &1), &BeTree.explain(tree, &1, 1)] do
      {:error, error} = answer.({:json, ~s({"age": oops})})
      assert {error.kind, error.column} == {:syntax, 9}
      assert Exception.message(error) == "expected a value (column 9)"
    end
  end
end

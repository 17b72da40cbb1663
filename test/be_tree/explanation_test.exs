defmodule BeTree.ExplanationTest do
  use ExUnit.Case, async: true

  alias BeTree.Explanation
  alias BeTree.Explanation.Node

  doctest Explanation

  setup_all do
    tree =
      BeTree.new!(
        age: :integer,
        country: {:string, optional: true},
        score: {:float, optional: true},
        tags: {:string_list, optional: true},
        sizes: {:integer_list, optional: true},
        adult: {:boolean, optional: true}
      )

    {:ok, tree: tree}
  end

  defp explain(tree, expression, event) do
    id = System.unique_integer([:positive])
    BeTree.insert!(tree, id, expression)
    BeTree.explain!(tree, event, id)
  end

  test "explain/3 returns a tree with the value of each part", %{tree: tree} do
    explanation =
      explain(tree, "age >= 21 and (country in ('CA', 'US') or not adult) and true", %{age: 30, adult: true})

    assert %Explanation{match: false, root: %Node{kind: :and, verdict: false}} = explanation

    assert to_string(explanation) == """
           no match
           └─ and: false
              ├─ age >= 21: true (age is 30)
              ├─ or: false
              │  ├─ country in ('CA', 'US'): false (country is undefined)
              │  └─ not: false
              │     └─ adult: true (adult is true)
              └─ true\
           """

    assert inspect(explanation) == "#BeTree.Explanation<#{explanation.id}: #{explanation}>"
  end

  test "to_string/1 shows values like Elixir", %{tree: tree} do
    event = %{age: 1, score: 1.5, tags: ["a", "été"], sizes: [65, 66], country: :CA}

    for {expression, line} <- [
          {"score > 1", "(score is 1.5)"},
          {"tags one of ('b')", ~S|(tags is ["a", "été"])|},
          {"sizes all of (65)", "(sizes is [65, 66])"},
          {"country = 'CA'", ~s[(country is "CA")]},
          {"adult", "(adult is undefined)"}
        ] do
      assert to_string(explain(tree, expression, event)) =~ line
    end
  end

  test "deciding/1 returns the deciding predicates", %{tree: tree} do
    deciding = fn expression, event ->
      for node <- Explanation.deciding(explain(tree, expression, event)), do: node.text
    end

    assert deciding.("age > 1 and age > 2 and age > 3", %{age: 2}) == ["age > 2", "age > 3"]
    assert deciding.("age > 1 and age > 2", %{age: 3}) == ["age > 1", "age > 2"]
    assert deciding.("age > 1 or age > 2 or age > 3", %{age: 2}) == ["age > 1"]
    assert deciding.("age > 1 or age > 2", %{age: 0}) == ["age > 1", "age > 2"]
    assert deciding.("not (age > 1 and (adult or age > 5))", %{age: 2}) == ["adult", "age > 5"]

    assert [%Node{kind: :constant, verdict: false}] =
             Explanation.deciding(explain(tree, "age > 1 and false", %{age: 2}))
  end

  test "explain/3 explains a match and refuses an unknown id", %{tree: tree} do
    assert %Explanation{match: true} = explain(tree, "age = 1", %{age: 1})
    assert {:error, %BeTree.Error{kind: :not_found}} = BeTree.explain(tree, %{age: 1}, 0)
    assert {:error, %BeTree.Error{kind: :out_of_bounds}} = BeTree.explain(tree, %{age: 1}, -1)
    assert {:error, %BeTree.Error{kind: :type}} = BeTree.explain(tree, %{age: 1}, "1")
  end

  test "a malformed reply is :bad_module" do
    leaf = {true, :constant, nil, []}

    for term <- [
          :leaf,
          {1, :constant, nil, []},
          {true, :maybe, nil, []},
          {true, :constant, nil, [leaf]},
          {true, :not, nil, []},
          {true, :not, nil, [leaf, leaf]},
          {true, :and, nil, []},
          {true, :and, nil, [leaf | leaf]},
          {true, :predicate, nil, []},
          {true, :predicate, {"a", :text, 1}, []}
        ] do
      assert {:error, %BeTree.Error{kind: :bad_module}} = Explanation.decode(:erlang.term_to_binary(term), 1)
    end

    for binary <- ["", "no term", :erlang.term_to_binary(leaf, compressed: 9) |> compressed()] do
      assert {:error, %BeTree.Error{kind: :bad_module}} = Explanation.decode(binary, 1)
    end
  end

  # The VM leaves short terms uncompressed. Compressed terms begin with this head.
  defp compressed(term), do: <<131, 80, byte_size(term)::32, :zlib.compress(term)::binary>>
end

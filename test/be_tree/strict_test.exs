defmodule BeTree.StrictTest do
  use ExUnit.Case, async: true

  alias BeTree.{Error, Event, Search, Server}

  @schema ["user.name": {:string, optional: true}, age: :integer, tags: {:string_list, optional: true}]

  defmodule User do
    defstruct [:age, :nick]
  end

  defp tree do
    tree = BeTree.new!(@schema)
    BeTree.insert!(tree, 1, "age >= 21")
    tree
  end

  test "refuses names outside the schema in every form with names" do
    tree = tree()

    for {event, attribute, mend} <- [
          {%{age: 30, aeg: 1}, "aeg", "did you mean `age`?"},
          {%{"age" => 30, "Age" => 1}, "Age", "did you mean `age`?"},
          {[age: 30, tag: ["x"]], "tag", "did you mean `tags`?"},
          {[{"age", 30}, {"user", [{"nmae", "x"}]}], "user.nmae", "did you mean `user.name`?"},
          {%{age: 30, user: %{name: "x", names: nil}}, "user.names", "did you mean `user.name`?"},
          {%User{age: 30}, "nick", "declare it there"},
          {{:json, ~s({"age": 30, "user": {"name": "x", "nam": 1}})}, "user.nam", "did you mean `user.name`?"},
          {{:json, ~s({"age": 30, "name": "x"})}, "name", "did you mean `user.name`?"}
        ] do
      assert BeTree.search(tree, event) == {:ok, [1]}

      for {:error, error} <- [
            BeTree.search(tree, event, strict: true),
            BeTree.search_many(tree, [%{age: 1}, event], strict: true),
            BeTree.search_many(tree, [event], strict: true),
            Search.start(tree, event, strict: true),
            Event.prepare(tree, event, strict: true),
            tree |> BeTree.stream([event], strict: true) |> Enum.at(0) |> elem(1),
            tree |> BeTree.stream([event], strict: true, fuel: 1_000_000) |> Enum.at(0) |> elem(1)
          ] do
        assert %Error{kind: :unknown_attribute, attribute: ^attribute, message: message} = error
        assert message =~ "the schema has no attribute"
        assert message =~ mend
      end

      assert {:error, %Error{position: 1}} = BeTree.search_many(tree, [%{age: 1}, event], strict: true)
    end
  end

  test "searches other events as without the option" do
    tree = tree()

    for event <- [
          %{age: 30},
          %{age: 30, user: nil},
          [age: 30, user: [name: "x"], tags: ["a"]],
          {:json, ~s({"user": {}, "age": 30})},
          {:record, [nil, 30, nil]},
          Event.prepare!(tree, %{age: 30, what: 1})
        ] do
      assert BeTree.search(tree, event, strict: true) == {:ok, [1]}
    end

    for event <- [%{}, %{age: "x"}, {:json, "{"}, %{age: 30, user: 3}] do
      {:error, error} = BeTree.search(tree, event)
      assert BeTree.search(tree, event, strict: true) == {:error, error}
    end
  end

  test "works on indexes, servers and clusters" do
    name = :"server_#{System.unique_integer([:positive])}"
    start_supervised!({Server, name: name, schema: @schema})
    Server.insert!(name, 1, "age >= 21")
    cluster = BeTree.Cluster.new([{name, node()}])

    for target <- [BeTree.publish!(tree()), name, cluster] do
      assert {:error, %Error{kind: :unknown_attribute}} = BeTree.search(target, %{age: 30, aeg: 1}, strict: true)
      assert BeTree.search(target, %{age: 30}, strict: true) == {:ok, [1]}
      results = target |> BeTree.stream([%{age: 30}, %{aeg: 1}, %{age: 1}], strict: true) |> Enum.map(&elem(&1, 1))
      assert [{:ok, [1]}, {:error, %Error{kind: :unknown_attribute}}, {:ok, []}] = results
    end
  end
end

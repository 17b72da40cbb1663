defmodule BeTree.TargetTest do
  # Every kind of target takes the calls of BeTree, and returns the same for the same subscriptions.
  use ExUnit.Case, async: true

  alias BeTree.{Cluster, Error, Server}
  alias BeTree.Test.Servers

  @schema [age: :integer]
  @ids 1..12
  @unused 13
  @ages 0..9

  defp targets do
    shards = for _ <- 1..2, do: {Servers.start(schema: @schema), node()}

    [
      tree: BeTree.new!(@schema),
      server: Servers.start(schema: @schema),
      server_of_terms: Servers.start(schema: @schema, ids: :term),
      cluster: Cluster.new(shards)
    ]
  end

  describe "changes" do
    test "return the same for a tree, servers and a cluster as for a map, in random sequences" do
      for seed <- 1..4, {kind, target} <- targets() do
        :rand.seed(:exsss, {seed, 0, 0})

        Enum.reduce(1..60, %{}, fn step, model ->
          change = random_change()
          {expected, changed} = expect(change, model)
          assert {kind, seed, step, outcome(change, target)} == {kind, seed, step, expected}
          assert_reads(target, changed)
          changed
        end)
      end
    end

    test "raise for a published index" do
      index = BeTree.publish!(BeTree.new!(@schema))

      for change <- [{:insert, 1, "age > 1"}, {:put, 1, "age > 1"}, {:delete, 1}, {:insert_all, [{1, "age > 1"}]}] do
        assert_raise ArgumentError, ~r/expected a tree to change/, fn -> call(change, index) end
      end
    end

    test "raise in BeTree.Server for a tree" do
      tree = BeTree.new!(@schema)
      assert_raise ArgumentError, ~r/a server's name is/, fn -> Server.insert(tree, 1, "age > 1") end
      assert_raise ArgumentError, ~r/a server's name is/, fn -> Server.put(tree, 1, "age > 1") end
      assert_raise ArgumentError, ~r/a server's name is/, fn -> Server.delete(tree, 1) end
      assert_raise ArgumentError, ~r/a server's name is/, fn -> Server.info(tree) end
    end
  end

  describe "a term that is no target" do
    test "raises in every function" do
      for term <- [nil, true, {:a, :b}, "name", 1, [], %{}, self()] do
        for change <- [{:insert, 1, "true"}, {:put, 1, "true"}, {:delete, 1}, {:insert_all, []}] do
          assert_raise ArgumentError, ~r/expected a tree to change/, fn -> call(change, term) end
        end

        for read <- [
              fn -> BeTree.search(term, %{age: 1}) end,
              fn -> BeTree.search_many(term, [%{age: 1}]) end,
              fn -> BeTree.stream(term, [%{age: 1}]) end,
              fn -> BeTree.explain(term, %{age: 1}, 1) end,
              fn -> BeTree.info(term) end,
              fn -> BeTree.Event.prepare(term, %{age: 1}) end,
              fn -> BeTree.Search.run(term, %{age: 1}) end
            ] do
          assert_raise ArgumentError, ~r/expected a tree, a published index/, read
        end
      end
    end
  end

  # The model maps an id to the least age that its expression matches.
  defp random_change do
    case :rand.uniform(6) do
      1 -> {:insert, random(@ids), "age >= #{random(@ages)}"}
      2 -> {:put, random(@ids), "age >= #{random(@ages)}"}
      3 -> {:delete, random(@ids)}
      4 -> {:insert_all, for(_ <- 1..random(1..3), do: {random(@ids), "age >= #{random(@ages)}"})}
      5 -> {:insert, @unused, "age >="}
      6 -> {:put, @unused, "size = 1"}
    end
  end

  defp random(range), do: Enum.random(range)

  defp expect({_insert_or_put, _id, "age >="}, model), do: {{:error, :syntax}, model}
  defp expect({_insert_or_put, _id, "size = 1"}, model), do: {{:error, :unknown_attribute}, model}
  defp expect({:insert, id, _text}, model) when is_map_key(model, id), do: {{:error, :duplicate_id}, model}
  defp expect({_insert_or_put, id, text}, model), do: {:ok, Map.put(model, id, age(text))}
  defp expect({:delete, id}, model) when is_map_key(model, id), do: {:ok, Map.delete(model, id)}
  defp expect({:delete, _id}, model), do: {{:error, :not_found}, model}

  defp expect({:insert_all, subscriptions}, model) do
    ids = for {id, _text} <- subscriptions, do: id

    if Enum.uniq(ids) != ids or Enum.any?(ids, &is_map_key(model, &1)),
      do: {{:error, :duplicate_id}, model},
      else:
        {{:ok, length(ids)}, Enum.reduce(subscriptions, model, fn {id, text}, all -> Map.put(all, id, age(text)) end)}
  end

  defp age("age >= " <> age), do: String.to_integer(age)

  defp outcome(change, target) do
    with {:error, %Error{kind: kind}} <- call(change, target), do: {:error, kind}
  end

  defp call({:insert, id, text}, target), do: BeTree.insert(target, id, text)
  defp call({:put, id, text}, target), do: BeTree.put(target, id, text)
  defp call({:delete, id}, target), do: BeTree.delete(target, id)
  defp call({:insert_all, subscriptions}, target), do: BeTree.insert_all(target, subscriptions)

  defp assert_reads(target, model) do
    events = for age <- @ages, do: %{age: age}
    expected = for age <- @ages, do: for({id, least} <- Enum.sort(model), age >= least, do: id)

    assert for(event <- events, do: BeTree.search!(target, event)) == expected
    assert BeTree.search_many(target, events) == {:ok, expected}
    assert target |> BeTree.stream(events) |> Enum.map(&elem(&1, 1)) == for(ids <- expected, do: {:ok, ids})
    assert {:done, ids, _stats} = BeTree.Search.run(target, BeTree.Event.prepare!(target, %{age: 9}))
    assert ids == List.last(expected)
    assert BeTree.info!(target).expressions == map_size(model)

    for {id, least} <- model, do: assert(BeTree.explain!(target, %{age: 5}, id).match == 5 >= least)
  end
end

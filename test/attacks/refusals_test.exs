defmodule BeTree.Attacks.RefusalsTest do
  @moduledoc false
  # Random expressions, large events and publications at every memory limit, page by page. Each call succeeds, or returns
  # :out_of_memory and changes nothing.
  #
  # Images show whether a read changed anything: they hold nothing but the subscriptions, so their bytes are compared. The
  # first read may enlarge memory and change the allocator's data, so the second of two reads counts. Rolling a batch back
  # permutes the free lists of slots and string ids and changes estimates. There the test compares counts and results, of
  # the tree and of its image.
  use ExUnit.Case, async: true

  alias BeTree.{Error, Image, Index}
  alias BeTree.Call.Instance
  alias BeTree.Test.{Attack, Language, Random}

  @page 65_536
  # Upper bound on an instance's memory outside its linear memory.
  @max_tables_bytes 4_096

  # Calls `each` with a tree of these subscriptions at every limit until it returns :ok. Returns the number of refusals.
  defp sweep(schema, subscriptions, each) do
    least = BeTree.info!(BeTree.new!(schema)).memory_bytes

    least
    |> Stream.iterate(&(&1 + @page))
    |> Stream.map(&tree(schema, subscriptions, &1))
    |> Stream.reject(&is_nil/1)
    |> Enum.reduce_while(0, fn tree, refusals ->
      case each.(tree) do
        :ok ->
          {:halt, refusals}

        {:error, error} ->
          assert %Error{kind: :out_of_memory} = error
          {:cont, refusals + 1}
      end
    end)
  end

  # No subscriptions if even these do not fit.
  defp tree(schema, subscriptions, limit) do
    with {:ok, tree} <- BeTree.new(schema, memory: limit),
         {:ok, _} <- BeTree.insert_all(tree, subscriptions) do
      tree
    else
      {:error, %Error{kind: :out_of_memory}} -> nil
    end
  end

  defp random(schema, ids),
    do: for(id <- ids, do: {id, Random.text(Random.expression(schema)), constants: Random.constants()})

  defp holds(tree, events) do
    # Nodes and entries are not compared: a list that a batch split may stay split after the rollback.
    {Enum.map(events, &BeTree.search(tree, &1)), Map.take(BeTree.info!(tree), [:expressions, :predicates, :strings])}
  end

  defp delete_all(tree, ids) do
    for id <- Enum.shuffle(ids), do: assert(:ok = BeTree.delete(tree, id))
    assert BeTree.info!(tree).expressions == 0
  end

  # Makes the call and checks that a refusal changed nothing. Returns the error, if any.
  defp refused(tree, events, call) do
    before = holds(tree, events)
    error = error(call.(tree))
    assert holds(tree, events) == before
    {:ok, index} = Image.read({:binary, Image.to_binary!(tree)})
    assert Enum.map(events, &BeTree.search(index, &1)) == elem(before, 0)
    error
  end

  # The same for a call that also changes nothing when it succeeds.
  defp refused_twice(tree, events, call) do
    error = refused(tree, events, call)
    image = Image.to_binary!(tree)
    again = refused(tree, events, call)
    assert {again && again.kind, Image.to_binary!(tree)} == {error && error.kind, image}
    error
  end

  # Each of many events may return an error.
  defp error({:ok, _}), do: nil
  defp error({:error, error}), do: error
  defp error(answers) when is_list(answers), do: Enum.find_value(answers, &error/1)

  test "insertions of random expressions succeed or change nothing" do
    Attack.each(Attack.size(4, 100), fn _number ->
      schema = Random.schema()
      more = random(schema, 100..Enum.random([150, 300, 600]))
      events = for _ <- 1..5, do: Random.event(schema)

      insert = fn tree ->
        with {:ok, _} <- BeTree.insert_all(tree, more) do
          for {id, _text, _constants} <- more, do: :ok = BeTree.delete(tree, id)
          {:ok, tree}
        end
      end

      sweep(schema, random(schema, 1..20), fn tree ->
        error = refused(tree, events, insert)
        delete_all(tree, 1..20)
        if error, do: {:error, error}, else: :ok
      end)
    end)
  end

  # Strings of a large event. A larger inbox would return to the allocator, and might move.
  @string_count 4_000

  # An event of some hundred KB, mostly strings with escapes.
  defp large(size) do
    strings = Enum.map_join(1..size, ", ", &~s("\\u0041 string \\n of the event #{&1}"))
    ~s({"s": "ab", "i": 7, "b": true, "sl": [#{strings}]})
  end

  defp language, do: {Language.schema(), Language.subscriptions()}
  defp small, do: %{s: "ab", i: 7, b: true}

  defp read(:search, target, event), do: BeTree.search(target, event)
  defp read(:search_among, target, event), do: BeTree.search(target, event, ids: Enum.to_list(0..50_000))
  defp read(:search_many, target, event), do: BeTree.search_many(target, List.duplicate(event, 5))
  defp read(:explain, target, event), do: BeTree.explain(target, event, 1)

  for name <- [:search, :search_among, :search_many, :explain] do
    test "#{name} with a large event succeeds or changes nothing" do
      {schema, subscriptions} = language()
      event = {:json, large(@string_count)}

      refusals =
        sweep(schema, subscriptions, fn tree ->
          error = refused_twice(tree, [small()], &read(unquote(name), &1, event))
          delete_all(tree, 0..(length(subscriptions) - 1))
          if error, do: {:error, error}, else: :ok
        end)

      assert refusals > 0
    end
  end

  test "publishing and searching succeed or change nothing" do
    {schema, subscriptions} = language()
    event = {:json, large(@string_count)}

    publish = fn tree ->
      with {:ok, index} <- BeTree.publish(tree, replicas: 2) do
        found = BeTree.search(index, event)
        assert BeTree.search(index, small()) == BeTree.search(tree, small())
        found
      end
    end

    refusals =
      sweep(schema, subscriptions, fn tree ->
        if error = refused_twice(tree, [small()], publish), do: {:error, error}, else: :ok
      end)

    assert refusals > 0
  end

  test "forgotten input frees its memory at any limit" do
    {schema, subscriptions} = language()

    sweep(schema, subscriptions, fn tree ->
      # An event that fits, and one that does not.
      refused = error(BeTree.search(tree, {:json, large(@string_count)}))
      %BeTree.Tree{runtime: runtime, guest: guest} = tree
      {:ok, snapshot} = runtime.snapshot(tree.instance)
      {:ok, instance} = Instance.instantiate(guest, runtime.snapshot_length(snapshot) + @max_tables_bytes, snapshot)
      assert :ok = Instance.forget(guest, instance)
      {:ok, snapshot} = runtime.snapshot(instance)

      {:ok, index} =
        Index.new(guest, tree.schema, snapshot, tree.fuel_per_reduction, memory: tree.memory, replicas: 1, queue: 1)

      assert BeTree.search(index, small()) == BeTree.search(tree, small())
      if refused, do: {:error, refused}, else: :ok
    end)
  end
end

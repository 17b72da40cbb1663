defmodule BeTree.Attacks.SequencesTest do
  @moduledoc false
  # Random operations on a tree of little memory, compared with the oracle. Each succeeds, or returns :out_of_memory and
  # changes nothing.
  # FUZZ_SECONDS extends the run, as `make fuzz` does.
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.{Attack, Naive, Random}

  @moduletag timeout: :infinity

  @page 65_536
  @constants Random.constants()
  @ids 1..60

  test "operations under a small memory limit equal the oracle's or change nothing" do
    case System.get_env("FUZZ_SECONDS") do
      nil -> Attack.each(Attack.size(12, 1_500), fn _number -> sequence(150) end)
      seconds -> until(System.monotonic_time(:second) + String.to_integer(seconds), Attack.seed())
    end
  end

  defp until(ends, seed) do
    :rand.seed(:exsss, {seed, 0, 0})

    try do
      sequence(150)
    rescue
      error -> reraise "BE_TREE_SEED=#{seed} repeats this: #{Exception.message(error)}", __STACKTRACE__
    end

    if System.monotonic_time(:second) < ends, do: until(ends, seed + 1)
  end

  defp sequence(operations) do
    schema = Random.schema()
    least = BeTree.info!(BeTree.new!(schema)).memory_bytes

    case BeTree.new(schema, memory: least + @page * Enum.random(0..24)) do
      {:ok, tree} -> sequence(tree, schema, operations)
      # Building this takes more than the limit.
      {:error, error} -> assert error.kind == :out_of_memory
    end
  end

  defp sequence(tree, schema, operations) do
    there =
      Enum.reduce(1..operations, %{}, fn number, there ->
        operation = Enum.random([:insert, :insert, :insert_all, :delete, :search, :search_many, :explain, :publish])
        there = run(operation, tree, schema, there)
        if rem(number, 10) == 0, do: search(tree, schema, there)
        there
      end)

    for id <- Enum.shuffle(Map.keys(there)), do: assert(BeTree.delete(tree, id) == :ok)
    assert %{expressions: 0, predicates: 0, strings: 0, entries: 0} = BeTree.info!(tree)
  end

  defp run(:insert, tree, schema, there) do
    {id, expression} = subscription(schema)

    case BeTree.insert(tree, id, text(expression), constants: @constants) do
      :ok -> Map.put_new(there, id, expression)
      {:error, error} -> refused(error, is_map_key(there, id), tree, schema, there)
    end
  end

  defp run(:insert_all, tree, schema, there) do
    many = for _ <- 1..Enum.random(1..30), do: subscription(schema)
    ids = for {id, _expression} <- many, do: id
    taken? = length(Enum.uniq(ids)) < length(ids) or Enum.any?(ids, &is_map_key(there, &1))

    case BeTree.insert_all(tree, for({id, expression} <- many, do: {id, text(expression), constants: @constants})) do
      {:ok, count} ->
        assert count == length(many) and not taken?
        Map.merge(there, Map.new(many))

      {:error, error} ->
        refused(error, taken?, tree, schema, there)
    end
  end

  defp run(:delete, tree, _schema, there) do
    id = Enum.random(@ids)

    case BeTree.delete(tree, id) do
      :ok -> assert is_map_key(there, id)
      {:error, error} -> assert {error.kind, is_map_key(there, id)} == {:not_found, false}
    end

    Map.delete(there, id)
  end

  defp run(:search, tree, schema, there) do
    search(tree, schema, there)
    there
  end

  defp run(:search_many, tree, schema, there) do
    events = for _ <- 1..Enum.random(1..20), do: Map.new(Random.event(schema))

    case BeTree.search_many(tree, events) do
      {:ok, found} -> assert found == Enum.map(events, &expected(there, &1))
      {:error, error} -> assert error.kind == :out_of_memory
    end

    there
  end

  defp run(:explain, tree, schema, there) do
    id = Enum.random(@ids)
    event = Map.new(Random.event(schema))

    case BeTree.explain(tree, event, id) do
      {:ok, why} -> assert why.match == Naive.eval(Map.fetch!(there, id), event, @constants)
      {:error, %Error{kind: :not_found}} -> refute is_map_key(there, id)
      {:error, error} -> assert error.kind == :out_of_memory
    end

    there
  end

  defp run(:publish, tree, schema, there) do
    case BeTree.publish(tree, replicas: 1) do
      {:ok, index} -> search(index, schema, there)
      {:error, error} -> assert error.kind == :out_of_memory
    end

    there
  end

  # A refusal has a reason and changes nothing.
  defp refused(error, taken?, tree, schema, there) do
    assert error.kind == :out_of_memory or (error.kind == :duplicate_id and taken?)
    search(tree, schema, there)
    there
  end

  # One event in ten is large and may not fit.
  defp search(target, schema, there) do
    event = Map.new(Random.event(schema))
    large = if :rand.uniform(10) == 1, do: %{"padding" => String.duplicate("x", Enum.random(5_000..500_000))}, else: %{}

    case BeTree.search(target, Map.merge(event, large)) do
      {:ok, found} -> assert found == expected(there, event)
      {:error, error} -> assert {error.kind, large != %{}} == {:out_of_memory, true}
    end
  end

  defp subscription(schema), do: {Enum.random(@ids), Random.expression(schema)}

  defp text(expression), do: Random.text(expression)

  defp expected(there, event),
    do: Enum.sort(for {id, expression} <- there, Naive.eval(expression, event, @constants), do: id)
end

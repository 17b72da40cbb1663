defmodule BeTree.Bench.Library do
  @moduledoc false
  # Measures the library from Elixir: building a tree, and searching it for single events and for batches. Its rows have the
  # form of the native program's.

  alias BeTree.Bench.{Cache, Native, Timing}

  # A memory limit for a million expressions.
  @memory 4_000_000_000

  # Subscriptions of one insertion. A tree keeps buffers for its largest call.
  @chunk 250

  # The number of events of one `search_many/3`.
  @batch 256

  @spec run(BeTree.Bench.Cases.t(), Path.t(), keyword) :: [map]
  def run(bench, folder, limits) do
    expected = Native.results(folder)
    {tree, build} = build(bench, folder)
    sizes = BeTree.info!(tree)

    rows =
      for format <- bench.formats do
        events = folder |> Cache.events(format) |> Enum.take(length(expected))
        counts = check!(bench, tree, events, expected)
        matches = expected |> Enum.map(&elem(&1, 0)) |> Enum.sum()

        common = %{
          case: bench.name,
          format: to_string(format),
          verified: length(events),
          event_bytes: bytes(events) / length(events),
          matches: matches,
          visited: counts |> Enum.map(& &1.visited) |> Enum.sum(),
          candidates: counts |> Enum.map(& &1.evaluated) |> Enum.sum()
        }

        one = [search: &BeTree.search(tree, &1), unsliced: &BeTree.search(tree, &1, slice: :infinity)]
        many = fn batch -> BeTree.search_many(tree, batch) end
        packed = fn batch -> BeTree.search_many(tree, batch, as: :bitmap) end
        check_many!(bench, tree, events, expected)
        batches = Enum.chunk_every(events, @batch)
        prepared = for batch <- batches, do: Enum.map(batch, &BeTree.Event.prepare!(tree, &1))

        times =
          Timing.in_turns(events, one, limits[:seconds]) ++
            [
              search_many: Timing.run(batches, many, limits[:seconds], &length/1),
              packed: Timing.run(prepared, packed, limits[:seconds], &length/1)
            ]

        for {engine, measured} <- times, do: common |> Map.put(:engine, to_string(engine)) |> Map.merge(measured)
      end

    built = %{case: bench.name, engine: "insert_all", format: "", build: build, memory_bytes: sizes.memory_bytes}
    [Map.put(built, :expressions, sizes.expressions) | List.flatten(rows)]
  end

  # Returns a tree of the expressions in the folder, and the microseconds of the insertions. A separate process builds it,
  # so its garbage is freed at the end.
  @spec build(BeTree.Bench.Cases.t(), Path.t()) :: {BeTree.t(), non_neg_integer}
  def build(bench, folder) do
    in_process(fn ->
      tree = BeTree.new!(bench.workload.schema(bench.parameters), memory: @memory)

      elapsed =
        folder
        |> Cache.expressions()
        |> Stream.with_index(1)
        |> Stream.map(fn {text, id} -> {id, text} end)
        |> Stream.chunk_every(@chunk)
        |> Enum.reduce(0, fn subscriptions, elapsed ->
          {microseconds, _count} = :timer.tc(fn -> BeTree.insert_all!(tree, subscriptions) end)
          elapsed + microseconds
        end)

      {tree, elapsed}
    end)
  end

  # Returns the number of bytes of the encoded events.
  defp bytes(events) do
    events
    |> Enum.map(fn event ->
      {:ok, _format, bytes} = BeTree.Event.encode(event)
      byte_size(bytes)
    end)
    |> Enum.sum()
  end

  # Checks the ids of each search, and returns the statistics. A candidate is an evaluated expression.
  defp check!(bench, tree, events, expected) do
    events
    |> Enum.zip(expected)
    |> Enum.with_index(fn {event, result}, number ->
      {ids, stats} = BeTree.search!(tree, event, stats: true)
      found = {length(ids), Enum.sum(ids)}

      if found != result do
        Mix.raise(
          "#{bench.name}, event #{number}: BeTree.search/2 finds #{inspect(found)}, expected #{inspect(result)}"
        )
      end

      stats
    end)
  end

  defp check_many!(bench, tree, events, expected) do
    found = for ids <- BeTree.search_many!(tree, events), do: {length(ids), Enum.sum(ids)}
    if found != expected, do: Mix.raise("#{bench.name}: BeTree.search_many/2 and BeTree.search/2 find different ids")
  end

  # Runs a function with much garbage in a separate process, and returns its result.
  @spec in_process((... -> term)) :: term
  def in_process(fun), do: fun |> Task.async() |> Task.await(:infinity)
end

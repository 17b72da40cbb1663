defmodule BeTree.Bench.Churn do
  @moduledoc false
  # Replaces all expressions: each round deletes a hundredth and inserts as many others. The churned tree must then find the
  # same ids as a new tree of the same expressions. Searches of both, in turns, show how much slower it became.

  alias BeTree.Bench.{Bars, Cache, Library, Timing}
  alias BeTree.Tune.Calibration.Random

  # Rounds after which each expression was replaced once.
  @rounds 100

  # Maximum percent by which the churned tree is slower.
  @slower 10

  @spec run(BeTree.Bench.Cases.t(), Path.t(), keyword) :: {String.t(), [map], [Bars.t()]}
  def run(bench, folder, limits) do
    {tree, _build} = Library.build(bench, folder)
    bytes = BeTree.info!(tree).memory_bytes
    {rebuilt, deletion, insertion} = Library.in_process(fn -> churn(bench, tree, folder) end)
    format = hd(bench.formats)
    events = Cache.events(folder, format)
    matches = compare!(bench, tree, rebuilt, events)
    common = %{case: bench.name, format: to_string(format), verified: length(events), matches: matches}

    searches = for {name, tree} <- [churned: tree, rebuilt: rebuilt], do: {name, &BeTree.search(tree, &1)}

    rows =
      for {engine, times} <- Timing.in_turns(events, searches, limits[:seconds]) do
        Map.merge(Map.put(common, :engine, to_string(engine)), times)
      end

    grown = BeTree.info!(tree).memory_bytes
    bars = bars(bench.name, rows, deletion, insertion, Bars.percent(grown, bytes))
    {"#{bench.name}: #{bench.parameters.expressions} expressions, each of them replaced once", rows, bars}
  end

  # Replaces every expression by itself under another id, in random order. Returns a new tree of the resulting expressions,
  # and the mean microseconds of a deletion and an insertion.
  defp churn(bench, tree, folder) do
    subscriptions = folder |> Cache.expressions() |> Enum.with_index(&{&2 + 1, &1})
    count = length(subscriptions)
    {shuffled, _random} = bench.parameters.seed |> Random.new(1, 1) |> Random.shuffle(subscriptions)

    {replaced, {deleting, inserting}} =
      shuffled
      |> Enum.chunk_every(div(count, @rounds))
      |> Enum.map_reduce({0, 0}, fn old, {deleting, inserting} ->
        new = for {id, text} <- old, do: {id + count, text}
        {deletion, _all} = :timer.tc(fn -> for {id, _text} <- old, do: BeTree.delete!(tree, id) end)
        {insertion, _count} = :timer.tc(fn -> BeTree.insert_all!(tree, new) end)
        {new, {deleting + deletion, inserting + insertion}}
      end)

    rebuilt = BeTree.new!(bench.workload.schema(bench.parameters))
    for subscriptions <- replaced, do: BeTree.insert_all!(rebuilt, subscriptions)
    {rebuilt, deleting / count, inserting / count}
  end

  # Checks that both trees find the same ids. Returns the number of matches.
  defp compare!(bench, tree, rebuilt, events) do
    for {event, number} <- Enum.with_index(events), reduce: 0 do
      matches ->
        ids = BeTree.search!(tree, event)
        expected = BeTree.search!(rebuilt, event)

        if ids != expected do
          {more, fewer} = {inspect(ids -- expected), inspect(expected -- ids)}
          Mix.raise("#{bench.name}, event #{number}: the churned tree also finds #{more}, and does not find #{fewer}")
        end

        matches + length(ids)
    end
  end

  defp bars(name, [churned, rebuilt], deletion, insertion, grown) do
    slower = Bars.percent(churned.total_p50, rebuilt.total_p50)

    [
      Bars.line(name, "churned beside rebuilt", "%", slower, Bars.below(@slower)),
      Bars.line(name, "memory grown by churn", "%", grown, nil),
      Bars.line(name, "delete", "us", deletion, nil),
      Bars.line(name, "insert_all, an expression", "us", insertion, nil)
    ]
  end
end

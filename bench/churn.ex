defmodule BeTree.Bench.Churn do
  @moduledoc false
  # Expressions come and go: round by round a hundredth of them is deleted and as many others are inserted, as they would
  # be in a second. Then the tree is compared with one that is built from what it now holds: it has to find the same ids,
  # and is searched in turns with it, to see how much slower it became.

  alias BeTree.Bench.{Bars, Cache, Library, Timing}
  alias BeTree.Fuel.Calibration.Random

  # Every expression is replaced once in so many rounds.
  @rounds 100

  # Percent by which the churned tree may be slower than the new one.
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

  # Replaces every expression by itself under another id, in an order of no meaning. Answers a new tree of what there is
  # then, and the mean microseconds of a deletion and of an insertion.
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

  # How many matches there are in all; both trees have to find the same.
  defp compare!(bench, tree, rebuilt, events) do
    for {event, number} <- Enum.with_index(events), reduce: 0 do
      matches ->
        ids = BeTree.search!(tree, event)
        expected = BeTree.search!(rebuilt, event)

        if ids != expected,
          do:
            Mix.raise(
              "#{bench.name}, event #{number}: a tree after churn finds #{inspect(ids -- expected)} more, #{inspect(expected -- ids)} less than a new one"
            )

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

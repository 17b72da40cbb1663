defmodule ErlBetree.Yielding do
  @moduledoc false
  # Searches that stop at a time threshold and continue from the same reference.
  #
  # Within a call BeTree's slices yield to other processes. The clock is read between slices; past the threshold the search
  # stays suspended. A suspended search holds its instance, so it restarts on a replica of the tree and loses its earlier
  # work. With a threshold of 0 candidates are returned instead, which hold nothing.

  alias BeTree.{Event, Fuel, Search}
  alias ErlBetree.{Candidates, Clock, Reference, Tree}

  # A slice takes at most this fraction of the threshold, at a cautious 5,000 fuel a microsecond (this index burns 10,000 to
  # 18,000 on our machine), but no less than the cost of starting it.
  @slices_per_threshold 4
  @fuel_per_microsecond 5_000
  @min_slice 20_000

  # The counters of a state: microseconds, and for a suspended search its fuel and its slices so far.
  @elapsed 1
  @fuel 2
  @slices 3

  @type outcome :: {{:ok, [BeTree.id()]} | {:continue, reference}, non_neg_integer}

  @doc "Starts a search and runs it for `threshold` microseconds, by the clock of the type `clock`."
  @spec start(Tree.t(), Event.t(), integer, integer) :: outcome
  def start(tree, event, clock, threshold) do
    {outcome, elapsed} = Clock.time(clock, fn -> begin(tree, event, threshold) end)

    case outcome do
      {:ok, ids} -> {{:ok, ids}, elapsed}
      {:continue, standing} -> {{:continue, suspend(standing, elapsed)}, elapsed}
    end
  end

  defp begin(tree, event, threshold) when threshold > 0 do
    slice =
      (threshold * @fuel_per_microsecond) |> div(@slices_per_threshold) |> max(@min_slice) |> min(Fuel.default_slice())

    target = Tree.target(tree)

    with {:continue, search} <- run(Search.start(target, event, slice: slice), deadline(threshold)) do
      if target.instance == tree.tree.instance, do: move(search, tree, event, slice), else: {:continue, search}
    end
  end

  defp begin(tree, event, _none) do
    {candidates, _visited} = Candidates.select(tree, event)
    if Candidates.count(candidates) == 0, do: {:ok, []}, else: {:continue, candidates}
  end

  # Without replicas the search runs to its end.
  defp move(search, tree, event, slice) do
    Search.cancel(search)

    case Tree.replicas(tree) do
      nil -> run(Search.start(tree.tree, event, slice: slice), :infinity)
      replicas -> run(Search.start(replicas, event, slice: slice), deadline(0))
    end
  end

  defp suspend(standing, elapsed) do
    counters = :atomics.new(3, [])
    :atomics.put(counters, @elapsed, elapsed)
    note(standing, counters)
    Reference.new(:state, {standing, counters})
  end

  defp note(%Search{} = search, counters) do
    {fuel, slices} = Search.used(search)
    :atomics.put(counters, @fuel, fuel)
    :atomics.put(counters, @slices, slices)
  end

  defp note(_candidates, _counters), do: :ok

  @doc """
  Continues a search for `threshold` microseconds. The time with the ids is the total of all its calls. Raises a badarg if
  the search has ended.
  """
  @spec continue(reference, integer, integer) :: outcome
  def continue(state, clock, threshold) do
    {standing, counters} = Reference.open(:state, state)
    {outcome, elapsed} = Clock.time(clock, fn -> go_on(standing, counters, threshold) end)

    case outcome do
      {:ok, ids} ->
        {{:ok, ids}, :atomics.add_get(counters, @elapsed, elapsed)}

      {:continue, standing} ->
        :atomics.add(counters, @elapsed, elapsed)
        note(standing, counters)
        {{:continue, state}, elapsed}
    end
  end

  defp go_on(%Search{} = search, counters, threshold) do
    deadline = deadline(threshold)
    search = Search.with_used(search, {:atomics.get(counters, @fuel), :atomics.get(counters, @slices)})
    run(Search.resume(search), deadline)
  end

  defp go_on(candidates, _counters, threshold) when threshold > 0, do: Candidates.all(candidates)

  defp go_on(candidates, _counters, _none) do
    with {:continue, _ids} <- Candidates.next(candidates), do: {:continue, candidates}
  end

  defp run({:yield, search}, deadline) do
    if :erlang.monotonic_time(:microsecond) < deadline,
      do: run(Search.resume(search), deadline),
      else: {:continue, search}
  end

  defp run({:done, ids, _stats}, _deadline), do: {:ok, ids}
  defp run({:error, error}, _deadline), do: Tree.fail(error)

  # The deadline is in real time for every clock type, because the scheduler's turns are.
  defp deadline(threshold), do: :erlang.monotonic_time(:microsecond) + threshold
end

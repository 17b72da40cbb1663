defmodule BeTree.Bench.Tenants.Turns do
  @moduledoc false
  # Runs ways of counting events in turns, and compares the medians of their processor time.
  #
  # A way is a map: `:name`, `:role` of its bar or nil, `:events` of a run, and `:run`, which gets the number of the run and counts all its
  # events. Run 0 loads code and does not count.

  import BeTree.Bench.Run

  alias BeTree.Bench.Tenants.Workload
  alias BeTree.Input.Describe

  @workers 2
  # Unique values below this have their error in parts of this.
  @few 50

  def way(name, role, events, run), do: %{name: name, role: role, events: events, run: run}

  @doc "Returns the ways with the medians of their times, microseconds an event: `:clock` and `:cpu`."
  def in_turns(ways, turns) do
    runs =
      for turn <- 0..turns, {way, place} <- Enum.with_index(ways) do
        # Each run shifts its devices by a number of its own.
        {clock, cpu} = timed(fn -> way.run.(number(ways, turn, place)) end)
        {turn, way.name, clock / way.events, cpu / way.events}
      end

    for way <- ways do
      measured = for {turn, name, clock, cpu} <- runs, turn > 0, name == way.name, do: {clock, cpu}
      Map.merge(way, %{clock: median(Enum.map(measured, &elem(&1, 0))), cpu: median(Enum.map(measured, &elem(&1, 1)))})
    end
  end

  defp number(ways, turn, place), do: turn * length(ways) + place

  @doc "Returns how often each way runs."
  def runs(turns), do: turns + 1

  @doc "Returns the median processor time of the way with this role."
  def cpu(results, role), do: Enum.find(results, &(&1.role == role)).cpu

  @doc "Prints the results beside those of the way with the role `:peer`."
  def compare(title, results) do
    base = Enum.find(results, &(&1.role == :peer))

    rows =
      for result <- results do
        [
          result.name,
          Describe.grouped(result.events),
          us(result.clock),
          us(result.cpu),
          Describe.grouped(round(1_000_000 / result.cpu)),
          if(base, do: times(base.cpu / result.cpu), else: "")
        ]
      end

    head = ["way", "events a run", "clock, us", "processor, us", "a second of processor time"]
    head = head ++ if base, do: ["times less than #{base.name}"], else: ["" | []]
    table(title, head, rows)
  end

  @doc "Gives each of two processes a half of the items."
  def share(items, work) do
    items
    |> Enum.chunk_every(div(length(items) + @workers - 1, @workers))
    |> Enum.map(&Task.async(fn -> work.(&1) end))
    |> Task.await_many(:infinity)

    :ok
  end

  ## Checks

  @doc "Raises unless all counts are exact, and the unique values of the `sampled` tenants are within the error of their sketch."
  def check!(way, figures, runs, ids, sampled, bounds) do
    counts = Workload.counts(runs, ids)

    for {tenant, expected} <- counts do
      found = for {id, {matches, _uniques}} <- figures.(tenant), matches > 0, into: %{}, do: {id, matches}
      equal!("#{way}: matches of tenant #{tenant}", found, expected)
    end

    errors =
      for tenant <- sampled,
          figures = figures.(tenant),
          {id, expected} <- Workload.uniques(runs, ids, tenant) do
        {_matches, found} = figures[id]
        if expected <= bounds.exact, do: equal!("#{way}: unique devices of #{tenant}, #{id}", round(found), expected)
        # Two of few values may share a register.
        (found - expected) / max(expected, @few)
      end

    worst = errors |> Enum.map(&abs/1) |> Enum.max(fn -> 0.0 end)
    squares = Enum.sum(for error <- errors, do: error * error) / max(length(errors), 1)

    unless worst <= bounds.worst and :math.sqrt(squares) <= bounds.rms,
      do: Mix.raise("#{way}: unique devices are wrong by #{worst} at most, #{:math.sqrt(squares)} in the mean square")

    matches = Enum.sum(for {_tenant, counts} <- counts, {_id, count} <- counts, do: count)

    say(
      "#{way}: #{Describe.grouped(matches)} matches are exact; #{Describe.grouped(length(errors))} counts of unique devices " <>
        "have an error of #{decimal(100 * :math.sqrt(squares), 2)} % (mean square), #{decimal(100 * worst, 2)} % at most"
    )
  end
end

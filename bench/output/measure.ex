defmodule BeTree.Bench.Output.Measure do
  @moduledoc false
  # Runs ways of sending in turns, and compares their medians.
  #
  # A way is a map: `:name`, `:form` of its messages, `:count` of a run, `:open` of a target, `:send` (a loop), `:drain`, `:check` of
  # what arrived, and `:close`. `:senders` processes send. A run is timed from the first message until `:drain` returns.

  import BeTree.Bench.Run

  alias BeTree.Bench.Output.Loops
  alias BeTree.Input.Describe

  @doc "Returns the medians of each way: microseconds a message by the clock and of processor time."
  def in_turns(ways, bytes, turns) do
    # The first turn loads code and does not count.
    for _turn <- 0..turns, way <- ways do
      {way.name, once(way, bytes)}
    end
    |> Enum.drop(length(ways))
    |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))
    |> then(fn results ->
      for way <- ways, do: Map.merge(medians(results[way.name]), Map.take(way, [:name, :count, :role]))
    end)
  end

  defp medians(runs),
    do: %{clock: median(for {clock, _cpu} <- runs, do: clock), cpu: median(for {_clock, cpu} <- runs, do: cpu)}

  defp once(way, bytes) do
    senders = Map.get(way, :senders, 1)
    rounds = max(round(way.count / (senders * Loops.distinct())), 1)
    count = rounds * senders * Loops.distinct()
    messages = Loops.messages(way.form, bytes)
    # The clock of processor time may tick in 10 ms, so short runs are repeated.
    repeats = Map.get(way, :repeats, 1)
    target = way.open.(repeats * count * bytes)

    {clock, cpu} =
      timed(fn ->
        for _repeat <- 1..repeats do
          concurrently(senders, fn -> way.send.(target, messages, rounds) end)
          way.drain.(target)
        end
      end)

    count = repeats * count
    way.check.(target, count, bytes)
    way.close.(target)
    {clock / count, cpu / count}
  end

  @doc "Prints a comparison as a table: times, and each way's processor time in the peer's."
  def compare(title, results, peer) do
    base = Enum.find(results, &(&1.name == peer))

    rows =
      for result <- results,
          do: [
            result.name,
            Describe.grouped(result.count),
            us(result.clock),
            us(result.cpu),
            times(base.cpu / max(result.cpu, 0.0001))
          ]

    table(title, ["way", "messages a run", "clock, us", "processor, us", "times less than #{peer}"], rows)
  end
end

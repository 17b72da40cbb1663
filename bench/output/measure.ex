defmodule BeTree.Bench.Output.Measure do
  @moduledoc false
  # Runs ways of sending in turns, and prints tables of the medians.
  #
  # A way is a map: `:name`, `:form` of its messages, `:count` of a run, `:open` of a target, `:send` (a loop), `:drain`, `:check` of
  # what arrived, and `:close`. `:senders` processes send. A run is timed from the first message until `:drain` returns.

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

  def median(numbers), do: numbers |> Enum.sort() |> Enum.at(div(length(numbers), 2))

  def percentile(numbers, share),
    do: numbers |> Enum.sort() |> Enum.at(min(trunc(share * length(numbers)), length(numbers) - 1))

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

  @doc "Returns the microseconds of a call by the clock and of processor time of the whole VM."
  def timed(run) do
    :erlang.garbage_collect()
    {before, _last} = :erlang.statistics(:runtime)
    {clock, _result} = :timer.tc(run)
    {later, _last} = :erlang.statistics(:runtime)
    {clock, 1_000 * (later - before)}
  end

  @doc "Runs a function in new processes, and returns their results."
  def concurrently(count, run) do
    1..count
    |> Enum.map(fn _number -> Task.async(run) end)
    |> Task.await_many(:infinity)
  end

  @doc "Raises unless the numbers are equal."
  def equal!(_what, same, same), do: :ok
  def equal!(what, found, expected), do: Mix.raise("#{what}: #{inspect(found)} instead of #{inspect(expected)}")

  ## Tables

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

  @doc "Prints a table in Markdown and appends it to the file of the run."
  def table(title, head, rows) do
    widths = for column <- Enum.zip_with([head | rows], & &1), do: column |> Enum.map(&String.length/1) |> Enum.max()
    line = fn cells -> "| " <> (cells |> Enum.zip_with(widths, &String.pad_trailing/2) |> Enum.join(" | ")) <> " |" end
    rule = "| " <> Enum.map_join(widths, " | ", &String.duplicate("-", &1)) <> " |"
    say("\n#{title}\n")
    Enum.each([line.(head), rule | Enum.map(rows, line)], &say/1)
  end

  def say(text) do
    IO.puts(:stderr, text)
    File.write!(report(), text <> "\n", [:append])
  end

  def folder, do: "_build/bench/output"
  def report, do: Path.join(folder(), "output.md")

  def us(number), do: decimal(number, 3)
  def times(number) when number >= 100, do: decimal(number, 0)
  def times(number), do: decimal(number, 1)
  def decimal(number, decimals), do: :erlang.float_to_binary(number / 1, decimals: decimals)
  def load, do: "/proc/loadavg" |> File.read!() |> String.split() |> hd()

  @doc "The resident memory of the VM, in bytes."
  def resident do
    [_all, kilobytes] = Regex.run(~r/VmRSS:\s+(\d+) kB/, File.read!("/proc/self/status"))
    1_024 * String.to_integer(kilobytes)
  end
end

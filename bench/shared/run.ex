defmodule BeTree.Bench.Run do
  @moduledoc false
  # A benchmark of several sections: processor times, medians, tables in Markdown, and bars.
  #
  # Tables go to standard error and to _build/bench/NAME/NAME.md. A section is a function of the options that returns its bars,
  # `{title, :at_least | :at_most, measured, limit, unit}`. It runs in a process of its own, so that it leaves no messages and links.

  @doc "Runs the sections that `options.only` selects, and prints their bars."
  @spec sections(String.t(), String.t(), keyword((map -> [tuple])), map) :: :ok
  def sections(name, unit, sections, options) do
    open(name)
    File.rm(report())
    say("#{Date.utc_today()}: #{machine()}; load #{load()}; medians of #{options.turns} turns; #{unit}")
    bars = for {name, run} <- sections, options.only in [nil, "#{name}"], bar <- section(name, run, options), do: bar
    unless bars == [], do: table("Bars", ["bar", "measured", "limit", ""], Enum.map(bars, &row/1))
    say("\nload at the end: #{load()}")
  end

  defp section(name, run, options) do
    {time, bars} = :timer.tc(fn -> fn -> run.(options) end |> Task.async() |> Task.await(:infinity) end)
    IO.puts(:stderr, "(#{name}: #{div(time, 1_000_000)} s)")
    bars
  end

  defp machine do
    machine = BeTree.Tune.Machine.describe()
    "#{machine.cpu}, #{machine.schedulers} schedulers; OTP #{machine.otp}, Elixir #{machine.elixir}"
  end

  defp row({title, kind, measured, limit, unit}) do
    holds? = if kind == :at_least, do: measured >= limit, else: measured <= limit
    sign = if kind == :at_least, do: "at least", else: "at most"

    [
      title,
      "#{decimal(measured, 2)} #{unit}",
      "#{sign} #{decimal(limit, 2)} #{unit}",
      if(holds?, do: "holds", else: "DOES NOT HOLD")
    ]
  end

  @doc "Makes the folder of the benchmark `name`, which `folder/0` and `report/0` return from then on."
  @spec open(String.t()) :: :ok
  def open(name) do
    :persistent_term.put(__MODULE__, name)
    File.mkdir_p!(folder())
  end

  def folder, do: "_build/bench/#{:persistent_term.get(__MODULE__)}"
  def report, do: Path.join(folder(), "#{:persistent_term.get(__MODULE__)}.md")

  ## Measuring

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

  def median(numbers), do: numbers |> Enum.sort() |> Enum.at(div(length(numbers), 2))

  def percentile(numbers, share),
    do: numbers |> Enum.sort() |> Enum.at(min(trunc(share * length(numbers)), length(numbers) - 1))

  @doc "The resident memory of the VM, in bytes."
  def resident do
    [_all, kilobytes] = Regex.run(~r/VmRSS:\s+(\d+) kB/, File.read!("/proc/self/status"))
    1_024 * String.to_integer(kilobytes)
  end

  def load, do: "/proc/loadavg" |> File.read!() |> String.split() |> hd()

  ## Tables

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

  def us(number), do: decimal(number, 3)
  def times(number) when number >= 100, do: decimal(number, 0)
  def times(number), do: decimal(number, 1)
  def decimal(number, decimals), do: :erlang.float_to_binary(number / 1, decimals: decimals)
end

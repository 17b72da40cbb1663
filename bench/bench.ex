defmodule BeTree.Bench do
  @moduledoc false
  # Runs the cases, prints the results, and writes them as JSON lines.

  alias BeTree.Bench.{
    Adversaries,
    Bars,
    Cache,
    Cases,
    Churn,
    Growth,
    Library,
    Machine,
    Native,
    Readme,
    Report,
    Structures,
    Tiny
  }

  alias BeTree.Input.Json

  @results "_build/bench/results.jsonl"

  # Seconds of measurement for each engine, and as many for its check. A peer over `build_seconds` is left out.
  @full [seconds: 1.25, build_seconds: 100.0]
  @quick [seconds: 0.25, build_seconds: 10.0]

  # Runs the workloads of these names.
  @spec run([String.t()], quick :: boolean) :: :ok
  def run(names, quick) do
    programs = Native.build()
    limits = if quick, do: @quick, else: @full
    machine = Machine.describe()
    say(Machine.line(machine))
    File.mkdir_p!(Path.dirname(@results))
    File.write!(@results, [Json.encode(Map.put(machine, :quick, quick)), ?\n])

    rows = for name <- names, rows <- measure(name, quick, programs, limits), row <- rows, do: row
    if not quick and Readme.write(machine, rows), do: say("\nThe table is in README.md")
    say("\nAlso in #{@results}")
  end

  # Measures the cases of a workload, and prints and returns the rows of each.
  defp measure(name, quick, programs, limits) do
    cases =
      for {title, rows, bars} <- results(name, quick, programs, limits) do
        tell("#{title}, microseconds an event\n#{Report.table(rows)}", bars, rows)
        rows
      end

    with {chart, bars} <- Growth.of(name, cases) do
      tell("#{name}: how its time grows, in a logarithmic scale\n#{chart}", bars, [])
    end

    cases
  end

  defp tell(text, bars, rows) do
    say(String.trim_trailing("\n#{text}#{Report.bars(bars)}"))
    File.write!(@results, for(line <- rows ++ Enum.map(bars, &flat/1), do: [Json.encode(line), ?\n]), [:append])
  end

  defp results("tiny", _quick, _programs, limits), do: [Tiny.run(limits)]
  defp results("structures", _quick, _programs, limits), do: [Structures.run(limits)]
  defp results("adversaries", _quick, _programs, limits), do: [Adversaries.run(limits)]

  defp results(name, quick, programs, limits) do
    name |> Cases.of(quick) |> Stream.map(&measure_case(&1, programs, limits))
  end

  defp measure_case(%{churn: true} = bench, _programs, limits), do: Churn.run(bench, Cache.folder(bench), limits)

  defp measure_case(bench, programs, limits) do
    folder = Cache.folder(bench)
    rows = Native.run(programs, bench, folder, limits) ++ Library.run(bench, folder, limits)
    {"#{bench.name}: #{counts(bench, rows)}", rows, Bars.of(bench, rows)}
  end

  defp counts(bench, rows) do
    %{verified: events, matches: matches} = Enum.find(rows, &(&1[:engine] == "search"))
    "#{bench.parameters.expressions} expressions, #{Float.round(matches / events, 1)} matches an event"
  end

  defp flat(%{limit: nil} = bar), do: bar
  defp flat(%{limit: {bound, limit}} = bar), do: bar |> Map.put(:bound, bound) |> Map.put(:limit, limit)

  defp say(text), do: Mix.shell().info(text)
end

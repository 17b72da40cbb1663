defmodule BeTree.Bench.Growth do
  @moduledoc false
  # Compares how an event's time grows with how its work grows: matches, candidates (evaluated expressions) and visited
  # entries.

  alias BeTree.Bench.{Bars, Report}

  @workload "W3"

  # The width of the longest bar, in characters.
  @max_bar_width 60

  # Returns a chart for the cases of a workload, smallest first, and the growth of the time relative to the work. Returns
  # nil for workloads of one size.
  @spec of(String.t(), [[map]]) :: {iodata, [Bars.t()]} | nil
  def of(@workload, [_, _ | _] = cases) do
    sizes = for rows <- cases, do: size(rows)
    {chart(sizes), [bar(hd(sizes), List.last(sizes))]}
  end

  def of(_workload, _cases), do: nil

  defp size(rows) do
    search = Enum.find(rows, &(&1[:engine] == "search"))
    %{expressions: expressions} = Enum.find(rows, &(&1[:engine] == "insert_all"))

    %{
      name: search.case,
      expressions: expressions,
      time: search.total_p50,
      visited: search.visited / search.verified,
      work: (search.matches + search.candidates) / search.verified
    }
  end

  defp bar(first, last) do
    faster = last.time / first.time / (last.work / first.work)
    Bars.line("#{first.name} to #{last.name}", "growth of time / of its work", "x", faster, Bars.below(1))
  end

  defp chart([first | _] = sizes) do
    most = :math.log(List.last(sizes).expressions / first.expressions)

    for size <- sizes,
        {what, key} <- [
          {"expressions", :expressions},
          {"visited entries", :visited},
          {"matches, candidates", :work},
          {"time", :time}
        ] do
      times = size[key] / first[key]
      width = round(@max_bar_width * max(:math.log(times), 0) / most)
      Report.chart_row(if(key == :expressions, do: size.name, else: ""), what, times, width)
    end
  end
end

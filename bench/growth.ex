defmodule BeTree.Bench.Growth do
  @moduledoc false
  # How the time of an event grows with the number of expressions, beside what it is spent on: the matches, and the
  # candidates, which are the expressions that are evaluated; and beside the entries that the search looks at for these.

  alias BeTree.Bench.{Bars, Report}

  @workload "W3"

  # The width of a bar that is so many times the first.
  @widest 60

  # What follows from the cases of a workload, the smallest first: a chart, and how much faster the time grew. Nothing for
  # workloads that have one size.
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
          {"entries looked at", :visited},
          {"matches, candidates", :work},
          {"time", :time}
        ] do
      times = size[key] / first[key]
      width = round(@widest * max(:math.log(times), 0) / most)
      Report.chart_row(if(key == :expressions, do: size.name, else: ""), what, times, width)
    end
  end
end

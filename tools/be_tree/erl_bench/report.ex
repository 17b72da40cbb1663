defmodule BeTree.ErlBench.Report do
  @moduledoc false
  # Formats comparisons as the tables of erl-be-tree's document.

  alias BeTree.ErlBench.{Comparison, Data, Way}
  alias BeTree.Files.Error

  @headers %{
    std: ["", "betree_search"],
    iterated_all: ["search_iterator/", "search_all"],
    iterated_next: ["search_iterator/", "search_next"],
    with_event: ["betree_make_event/", "betree_search"]
  }

  @typedoc "The number of parameters, and the comparison of each way with the first."
  @type row :: {pos_integer, [{Way.t(), Comparison.t()}]}

  # Returns both tables of the statistics in the folder for these numbers of parameters.
  @spec tables!(Path.t(), [pos_integer]) :: iodata
  def tables!(folder, parameters) do
    rows = for number <- parameters, columns = columns!(folder, number), columns != [], do: {number, columns}
    if rows == [], do: raise(%Error{path: folder, reason: "has no statistics of two ways to be compared"})
    [ratios(rows), times(rows)]
  end

  defp columns!(folder, parameters) do
    [{_first, base} | others] = for way <- Way.all(), do: {way, Data.stats(folder, parameters, way)}
    for {way, path} <- others, File.exists?(base), File.exists?(path), do: {way, Comparison.read!(base, path)}
  end

  # The document's table: the percentage by which each way differs from the first.
  @spec ratios([row, ...]) :: iodata
  def ratios([{_parameters, columns} | _] = rows) do
    header = [["", "Params"] | for({way, _comparison} <- columns, do: @headers[way])]

    # The number stands on the second of four lines.
    grid([
      header
      | for {parameters, columns} <- rows do
          [["", "#{parameters}", "", ""] | for({_way, comparison} <- columns, do: ratio(comparison))]
        end
    ])
  end

  # The time of an event in each way.
  @spec times([row, ...]) :: iodata
  def times([{_parameters, columns} | _] = rows) do
    header = [["", "Params"], @headers.std | for({way, _comparison} <- columns, do: @headers[way])]

    grid([
      header
      | for {parameters, [{_way, first} | _] = columns} <- rows do
          times = [first.base | for({_way, comparison} <- columns, do: comparison.target)]
          [["#{parameters}"] | for(time <- times, do: [microseconds(time) <> " us"])]
        end
    ])
  end

  # Formats one comparison as a cell.
  @spec comparison(Comparison.t()) :: iodata
  def comparison(%Comparison{} = comparison) do
    times = "  event: #{microseconds(comparison.base)} us, #{microseconds(comparison.target)} us"
    for line <- ratio(comparison) ++ [times], do: [line, ?\n]
  end

  # Formats nanoseconds as microseconds.
  @spec microseconds(number) :: String.t()
  def microseconds(nanoseconds), do: :erlang.float_to_binary(nanoseconds / 1_000, decimals: 1)

  # Percents are rounded up, to the disadvantage of the compared way.
  defp ratio(%Comparison{} = comparison) do
    [
      " range: (#{percent(comparison.min)}, #{percent(comparison.max)})",
      "median: #{percent(comparison.median)}",
      "  99th: #{percent(comparison.ninety_ninth)}",
      "better: #{floor(comparison.better)}%"
    ]
  end

  defp percent({percent, _nanoseconds}), do: "#{ceil(percent)}%"

  # Formats rows of cells, which have several lines.
  defp grid(rows) do
    widths = Enum.zip_with(rows, fn cells -> cells |> Enum.concat() |> Enum.map(&String.length/1) |> Enum.max() end)
    rows = rows |> Enum.map(&lines(&1, widths)) |> Enum.intersperse(rule(widths, "-"))
    [rule(widths, "="), rows, rule(widths, "=")]
  end

  defp lines(cells, [width | widths]) do
    for [first | others] <- Enum.zip(cells) |> Enum.map(&Tuple.to_list/1) do
      padded = Enum.zip_with(others, widths, &String.pad_trailing/2)
      [Enum.map([" " <> String.pad_leading(first, width) | padded], &["| ", &1, " "]), "|\n"]
    end
  end

  defp rule([width | widths], character) do
    [for(width <- [width + 1 | widths], do: ["+", String.duplicate(character, width + 2)]), "+\n"]
  end
end

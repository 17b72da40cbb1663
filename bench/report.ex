defmodule BeTree.Bench.Report do
  @moduledoc false
  # Formats results as tables and charts.

  import BeTree.Input.Describe, only: [grouped: 1]

  @columns ~w(decode_p50 search_p50 total_p50 total_p99 total_min)a
  @titles ["decode p50", "search p50", "total p50", "p99", "min"]

  # Returns a table of measurements, with times in microseconds an event.
  @spec table([map]) :: iodata
  def table(rows) do
    cells = for row <- rows, Enum.any?([:total_p50, :skipped], &is_map_key(row, &1)), do: cells(row)
    header = ["", "" | @titles] ++ ["searches", "fuel", "build"]
    widths = [header | cells] |> Enum.zip_with(fn column -> column |> Enum.map(&String.length/1) |> Enum.max() end)
    for row <- [header | cells], do: ["  ", justify(row, widths), "\n"]
  end

  defp cells(%{skipped: reason} = row) do
    [row.engine, row.format | List.duplicate("", length(@columns) + 2)] ++ ["left out: " <> reason]
  end

  defp cells(row) do
    [row.engine, row.format] ++
      for(column <- @columns, do: microseconds(row[column])) ++
      [grouped(row.searches), if(row[:fuel], do: grouped(row.fuel), else: ""), milliseconds(row[:build])]
  end

  # Names are aligned to the left, numbers to the right.
  defp justify([engine, format | numbers], [engine_width, format_width | widths]) do
    names = [String.pad_trailing(engine, engine_width), String.pad_trailing(format, format_width)]
    padded = for {number, width} <- Enum.zip(numbers, widths), do: String.pad_leading(number, width)
    (names ++ padded) |> Enum.join("  ") |> String.trim_trailing()
  end

  defp microseconds(nil), do: ""
  defp microseconds(nanoseconds), do: number(nanoseconds / 1_000)

  defp milliseconds(nil), do: ""
  defp milliseconds(microseconds), do: number(microseconds / 1_000) <> " ms"

  # Returns the lines of `BeTree.Bench.Bars`.
  @spec bars([BeTree.Bench.Bars.t()]) :: iodata
  def bars(bars), do: for(bar <- bars, do: ["  ", bar(bar), "\n"])

  defp bar(bar) do
    [String.pad_trailing(bar.text, 34), String.pad_leading("#{number(bar.value)} #{bar.unit}", 16), verdict(bar)]
  end

  # Returns one line of a chart: a factor, and a bar of `width` characters.
  @spec chart_row(String.t(), String.t(), number, non_neg_integer) :: iodata
  def chart_row(name, what, times, width) do
    [
      ["  ", String.pad_trailing(name, 10), String.pad_trailing(what, 20)],
      [String.pad_leading(number(times), 8), " x  |", String.duplicate("=", width), "\n"]
    ]
  end

  defp verdict(%{limit: nil}), do: ""
  defp verdict(%{limit: {:below, limit}} = bar), do: ["   bar: at most #{limit} #{bar.unit}, ", held(bar)]
  defp verdict(%{limit: {:above, limit}} = bar), do: ["   bar: at least #{limit} #{bar.unit}, ", held(bar)]

  defp held(%{holds: true}), do: "holds"
  defp held(%{holds: false}), do: "DOES NOT HOLD"

  defp number(number) when abs(number) >= 1_000, do: number |> round() |> grouped()
  defp number(number) when abs(number) >= 100, do: :erlang.float_to_binary(number / 1, decimals: 0)
  defp number(number) when abs(number) >= 10, do: :erlang.float_to_binary(number / 1, decimals: 1)
  defp number(number), do: :erlang.float_to_binary(number / 1, decimals: 2)
end

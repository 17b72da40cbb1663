defmodule BeTree.Bench.Readme do
  @moduledoc false
  # Writes the README's table of speed from the results of a full run. A test compares the shape of the README's table with
  # that of a new one.

  import BeTree.Input.Describe, only: [grouped: 1]

  @path "README.md"
  @from "<!-- written by make bench -->\n"
  @to "<!-- end of what make bench writes -->\n"

  @lines [
    {"W1@128", "5,000 dense boolean expressions over 128 attributes"},
    {"W3@10k", "10,000 ad-targeting expressions"},
    {"W3@100k", "100,000 ad-targeting expressions"},
    {"W3@1M", "1,000,000 ad-targeting expressions"},
    {"W4@100k", "100,000 alert rules"}
  ]
  @largest "W3@1M"

  # Replaces the README's table if the rows have all of its measurements. Returns whether they do.
  @spec write(map, [map]) :: boolean
  def write(machine, rows) do
    complete? = Enum.all?(@lines, fn {name, _text} -> Enum.any?(rows, &(&1[:case] == name)) end)
    if complete?, do: File.write!(@path, replace(File.read!(@path), text(machine, rows)))
    complete?
  end

  # Returns the text between the marks of a README.
  @spec present(String.t()) :: String.t()
  def present(readme) do
    [_before, rest] = String.split(readme, @from)
    [text, _behind] = String.split(rest, @to)
    text
  end

  # Returns the README with new text between its marks.
  @spec replace(String.t(), String.t()) :: String.t()
  def replace(readme, text) do
    [before, rest] = String.split(readme, @from)
    [_text, behind] = String.split(rest, @to)
    before <> @from <> text <> @to <> behind
  end

  @spec text(map, [map]) :: String.t()
  def text(machine, rows) do
    lines =
      for {name, text} <- @lines, of = Enum.filter(rows, &(&1[:case] == name)) do
        search = Enum.find(of, &(&1[:engine] == "search"))
        scan = Enum.find(of, &(&1[:engine] == "scan" and &1.format == search.format))
        matches = round(search.matches / search.verified)
        "| #{text} | #{grouped(matches)} | #{us(search.total_p50)} | #{us(scan.total_p50)} |\n"
      end

    built = Enum.find(rows, &(&1[:case] == @largest and &1[:engine] == "insert_all"))

    """
    Medians of `make bench` on one core (#{machine.cpu}). It also compares the matches of all engines.

    | one event against | matches | BeTree from Elixir | a plain loop in Rust |
    | --- | --- | --- | --- |
    #{lines}
    The million takes #{round(built.build / 1_000_000)} seconds to insert and \
    #{round(built.memory_bytes / built.expressions)} bytes an expression.
    """
  end

  defp us(nanoseconds) when nanoseconds < 10_000, do: "#{:erlang.float_to_binary(nanoseconds / 1_000, decimals: 1)} us"
  defp us(nanoseconds), do: "#{grouped(round(nanoseconds / 1_000))} us"
end

defmodule BeTree.Bench.Bars do
  @moduledoc false
  # Derives ratios, overheads and sizes from the measurements of a case, and compares each with its bar, if it has one.

  @typedoc "A line. `limit` is an upper (`:below`) or a lower bound. Without a bar `limit` and `holds` are nil."
  @type t :: %{
          case: String.t(),
          text: String.t(),
          value: float,
          unit: String.t(),
          limit: {:below | :above, number} | nil,
          holds: boolean | nil
        }

  # Maximum microseconds for one event, and for one event of a batch, with lists of ids.
  @one %{"W1@128" => 60, "W3@100k" => 40, "W3@1M" => 250, "W4@100k" => 5, "tiny" => 3}
       |> Map.merge(%{
         "W8@100k 10 % patterns" => 10,
         "W8@100k one start each" => 5,
         "W8@100k one end each" => 5,
         "W8@100k one part each" => 20,
         "W8@100k one like each" => 30,
         "W8@100k one network each" => 3,
         "W8@1k one regex each" => 50,
         "W8@1M no patterns" => 5,
         "W9@100k" => 15
       })
  @batch %{"W1@128" => 35, "W4@100k" => 2}

  # The same for prepared events and bitmaps.
  @packed %{"W1@128" => 15}

  # Minimum speedup of BeTree over a-tree.
  @a_tree %{"W1@128" => 1_000, "W2@100k sharing 0.4" => 20}

  # Maximum seconds for all insertions, and bytes of an expression.
  @build %{"W1@128" => 2, "W3@100k" => 2, "W3@1M" => 20, "W8@1M no patterns" => 6}
  @bytes %{"W1@128" => 1_400, "W3@100k" => 300, "W3@1M" => 300, "W8@1M no patterns" => 120}

  # Maximum percent by which the default slice slows a search: in the sandbox alone, and from Elixir.
  @slice %{"W1@128" => 3}

  @spec of(BeTree.Bench.Cases.t(), [map]) :: [t]
  def of(bench, rows) do
    main = rows |> Enum.find_value(&(&1[:engine] == "search" && &1.format))
    time = fn engine, format -> p50(rows, engine, format) end
    name = bench.name

    [
      line(name, "one event from Elixir", "us", us(time.("search", main)), below(@one[name])),
      line(name, "one event from Elixir, as a term", "us", us(other(time, "search", main)), nil),
      line(name, "one event of search_many", "us", us(time.("search_many", main)), below(@batch[name])),
      line(
        name,
        "one prepared event of search_many, as a bitmap",
        "us",
        us(time.("packed", main)),
        below(@packed[name])
      ),
      line(name, "one event in the sandbox", "us", us(time.("guest", main)), below(@one[name])),
      line(name, "sandbox with fuel / native", "x", ratio(time.("guest", main), time.("index", main)), below(1.7)),
      line(name, "fuel metering", "%", percent(time.("guest", main), time.("guest-no-fuel", main)), below(8)),
      line(
        name,
        "default slice",
        "%",
        percent(time.("guest-sliced", main), time.("guest-fiber", main)),
        below(@slice[name])
      ),
      line(
        name,
        "default slice, from Elixir",
        "%",
        percent(time.("search", main), time.("unsliced", main)),
        below(@slice[name])
      ),
      line(name, "JSON decoded natively", "MB/s", megabytes(rows), above(300)),
      line(name, "plain loop / native", "x", ratio(time.("scan", main), time.("index", main)), nil),
      line(name, "plain loop / sandbox", "x", ratio(time.("scan", main), time.("guest", main)), nil),
      line(name, "64 events a word / sandbox", "x", ratio(time.("bits", main), time.("guest", main)), nil),
      line(name, "a-tree / sandbox", "x", ratio(time.("a-tree", main), time.("guest", main)), above(@a_tree[name])),
      line(name, "a-tree / Elixir", "x", ratio(time.("a-tree", main), time.("search", main)), above(@a_tree[name])),
      line(name, "quamina / sandbox", "x", ratio(time.("quamina", main), time.("guest", main)), nil),
      line(name, "quamina / Elixir", "x", ratio(time.("quamina", main), time.("search", main)), nil)
      | sizes(name, Enum.find(rows, &(&1[:engine] == "insert_all")))
    ]
    |> Enum.reject(&is_nil/1)
  end

  defp sizes(_name, nil), do: []

  defp sizes(name, built) do
    [
      line(name, "insert_all", "s", built.build / 1_000_000, below(@build[name])),
      line(name, "memory an expression", "bytes", built.memory_bytes / built.expressions, below(@bytes[name]))
    ]
  end

  # Returns a line, or nil if a measurement for it is missing.
  @spec line(String.t(), String.t(), String.t(), number | nil, {:below | :above, number} | nil) :: t | nil
  def line(_name, _text, _unit, nil, _limit), do: nil

  def line(name, text, unit, value, limit) do
    %{case: name, text: text, unit: unit, value: value, limit: limit, holds: holds(value, limit)}
  end

  defp holds(_value, nil), do: nil
  defp holds(value, {:below, limit}), do: value <= limit
  defp holds(value, {:above, limit}), do: value >= limit

  # Returns an upper bound, or nil without a limit.
  @spec below(number | nil) :: {:below, number} | nil
  def below(limit), do: limit && {:below, limit}
  defp above(limit), do: limit && {:above, limit}

  defp p50(rows, engine, format) do
    Enum.find_value(rows, fn row ->
      if row[:engine] == engine and row.format == format, do: row[:total_p50]
    end)
  end

  # Bytes a nanosecond are gigabytes a second.
  defp megabytes(rows) do
    bytes = Enum.find_value(rows, fn row -> row.format == "json" && row[:event_bytes] end)
    nanoseconds = p50(rows, "decode", "json")
    bytes && nanoseconds && bytes / nanoseconds * 1_000
  end

  defp other(_time, _engine, "term"), do: nil
  defp other(time, engine, _main), do: time.(engine, "term")

  defp us(nil), do: nil
  defp us(nanoseconds), do: nanoseconds / 1_000

  defp ratio(a, b) when a == nil or b == nil, do: nil
  defp ratio(a, b), do: a / max(b, 1)

  # Returns by how many percent `a` exceeds `b`.
  @spec percent(number | nil, number | nil) :: float | nil
  def percent(a, b) when a == nil or b == nil, do: nil
  def percent(a, b), do: (a / max(b, 1) - 1) * 100
end

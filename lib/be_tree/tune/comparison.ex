defmodule BeTree.Tune.Comparison do
  @moduledoc false
  # Compares the JSON of two runs. Fuel is exact, so runs of different machines compare, and any difference is a change.
  # Times are compared by bootstrapped intervals, if both runs are of one machine and quiet enough for a verdict.

  alias BeTree.Input.Describe
  alias BeTree.Tune.{Machine, Statistics}

  @max_shown_events 10

  @typedoc "One compared figure: its ratio with an interval, and whether it is worse by more than the threshold."
  @type line :: %{
          name: String.t(),
          unit: String.t(),
          old: number,
          new: number,
          ratio: float,
          low: float,
          high: float,
          worse: boolean
        }

  @type t :: %{
          threshold: float,
          changes: [String.t()],
          lines: [line],
          not_compared: [String.t()],
          events: [%{position: non_neg_integer, old: pos_integer, new: pos_integer}],
          worse: boolean
        }

  @doc """
  Compares the new run with the old one. A figure is worse if its whole interval exceeds `threshold`, a share such as 0.05.
  """
  @spec compare(map, map, float) :: t
  def compare(old, new, threshold) do
    same_events = old["input"]["events"]["sha256"] == new["input"]["events"]["sha256"]
    lines = fuel_lines(old, new, same_events, threshold) ++ time_lines(old, new, threshold)

    %{
      threshold: threshold,
      changes: changes(old, new),
      lines: lines,
      not_compared: not_compared(old, new),
      events: if(same_events, do: worse_events(old["fuel"], new["fuel"]), else: []),
      worse: Enum.any?(lines, & &1.worse)
    }
  end

  defp changes(old, new) do
    for {name, path} <- [
          {"expressions", ["input", "expressions", "sha256"]},
          {"number of expressions", ["input", "expressions", "count"]},
          {"events", ["input", "events", "sha256"]},
          {"version of BeTree", ["machine", "be_tree"]},
          {"index module", ["input", "module", "sha256"]},
          {"Elixir", ["machine", "elixir"]},
          {"OTP", ["machine", "otp"]},
          {"runtime", ["machine", "runtime"]},
          {"processor", ["machine", "cpu"]},
          {"schedulers", ["machine", "schedulers"]}
        ],
        before = get_in(old, path),
        now = get_in(new, path),
        before != now,
        do: "#{name}: #{short(before)} became #{short(now)}"
  end

  # Twelve digits are enough to tell digests apart.
  defp short(text) when is_binary(text) and byte_size(text) == 64, do: binary_part(text, 0, 12)
  defp short(number) when is_integer(number), do: Describe.grouped(number)
  defp short(other), do: to_string(other)

  # Equal events are compared one by one, without chance. Different events are samples.
  defp fuel_lines(old, new, true, threshold) do
    for {name, reduce} <- [
          {"fuel of all events", &Enum.sum/1},
          {"median fuel of an event", &Statistics.median/1},
          {"fuel of the most expensive event", &Enum.max/1}
        ] do
      {before, now} = {reduce.(old["fuel"]), reduce.(new["fuel"])}
      ratio = now / max(before, 1)
      line(name, "fuel", before, now, %{value: ratio, low: ratio, high: ratio}, ratio > 1 + threshold)
    end
  end

  defp fuel_lines(old, new, false, threshold) do
    ratio = Statistics.of_ratio_apart(new["fuel"], old["fuel"])
    {before, now} = {Statistics.median(old["fuel"]), Statistics.median(new["fuel"])}
    [line("median fuel of an event, other events", "fuel", before, now, ratio, ratio.low > 1 + threshold)]
  end

  @timed_figures [
    {"searches a second", "1/s", ["default", "rate"], :more},
    {"p50 of a call", "us", ["default", "latency_p50_us"], :less},
    {"p99 of a call", "us", ["default", "latency_p99_us"], :less},
    {"p99 of the sleeper's lateness, most processes", "us", ["default_crowd", "late_p99_us"], :less}
  ]

  defp time_lines(old, new, threshold) do
    if not_compared(old, new) == [], do: Enum.map(@timed_figures, &time_line(&1, old, new, threshold)), else: []
  end

  defp time_line({name, unit, path, better}, old, new, threshold) do
    {before, now} = {get_in(old, ["turns" | path]), get_in(new, ["turns" | path])}
    ratio = Statistics.of_ratio_apart(now, before)

    worse =
      case better do
        :more -> ratio.high < 1 / (1 + threshold)
        :less -> ratio.low > 1 + threshold
      end

    line(name, unit, Statistics.median(before), Statistics.median(now), ratio, worse)
  end

  defp line(name, unit, old, new, ratio, worse) do
    %{name: name, unit: unit, old: old, new: new, ratio: ratio.value, low: ratio.low, high: ratio.high, worse: worse}
  end

  defp not_compared(%{"turns" => old_turns}, %{"turns" => new_turns}) when old_turns == nil or new_turns == nil,
    do: ["One run measured fuel only, so times are not compared."]

  defp not_compared(old, new) do
    Enum.reject(
      [
        not Machine.same?(old["machine"], new["machine"]) and
          "The runs are of different machines, so times are not compared. Fuel is the same on every machine.",
        old["default"] != new["default"] and "The defaults differ, so times are not compared.",
        noisy?(old) and "The machine was too noisy in the old run, so times are not compared.",
        noisy?(new) and "The machine was too noisy in the new run, so times are not compared."
      ],
      &(&1 == false)
    )
  end

  defp noisy?(run), do: get_in(run, ["verdict", "state"]) == "too_noisy"

  defp worse_events(old, new) do
    Enum.zip([0..(length(old) - 1), old, new])
    |> Enum.filter(fn {_position, before, now} -> now > before end)
    |> Enum.sort_by(fn {position, before, now} -> {-now / before, position} end)
    |> Enum.take(@max_shown_events)
    |> Enum.map(fn {position, before, now} -> %{position: position, old: before, new: now} end)
  end
end

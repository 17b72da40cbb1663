defmodule Mix.BeTree.TuneText do
  @moduledoc false
  # Prints a run of `mix be_tree.tune`.

  alias BeTree.Input.Describe

  @advice 3
  @shown_events 3

  @spec of(BeTree.Tune.t()) :: String.t()
  def of(run) do
    [fuel(run), profile(run.profile), budget(run), times(run), verdict(run.verdict), comparison(run)]
    |> Enum.reject(&(&1 == []))
    |> Enum.intersperse("\n")
    |> IO.iodata_to_binary()
    |> String.trim_trailing()
  end

  defp fuel(%{input: input, budget: budget}) do
    quantiles =
      for name <- ["p50", "p90", "p99", "p99.9", "max"], do: "#{name} #{Describe.grouped(budget.quantiles[name])}"

    "#{Describe.grouped(input.expressions.count)} expressions, #{Describe.grouped(input.events.count)} events. " <>
      "Fuel of an event: #{Enum.join(quantiles, ", ")}\n"
  end

  defp profile(profile) do
    shares =
      for {phase, fuel} <- Enum.sort_by(profile.phases, &(-elem(&1, 1))),
          do: "#{phase} #{percent(fuel / max(profile.fuel, 1))}"

    advice = profile |> BeTree.Profile.advice() |> Enum.take(@advice)
    ["Fuel by phase: ", Enum.join(shares, ", "), "\n", for(sentence <- advice, do: ["  ", sentence, "\n"])]
  end

  defp budget(%{budget: budget} = run) do
    rows =
      for stop <- budget.stops, stop.ended in [0, 1, 10, 100] or stop.share in [0.01, 0.1, 0.5] do
        [
          Describe.grouped(stop.budget),
          percent(stop.share),
          Describe.grouped(stop.ended),
          count(stop.lost),
          count(stop.subscriptions)
        ]
      end

    events =
      for cost <- Enum.take(budget.events, @shown_events),
          do:
            "#{name(cost.position, run.input.lines)} (#{Describe.grouped(cost.fuel)} fuel, #{Describe.grouped(cost.matches)} matches)"

    [
      "What a total budget (`fuel:`) would end:\n",
      table(["fuel", "of the searches", "searches", "matches lost", "expressions affected"], rows),
      "The most expensive events: ",
      Enum.join(events, ", "),
      "\n",
      losers(budget.stops),
      "With #{Describe.grouped(budget.budget)} fuel 99.9 % of the searches end by themselves. With some room: fuel: ",
      underscored(BeTree.Tune.round_up(budget.budget)),
      "\n"
    ]
  end

  # Returns the expressions with the most lost matches, at the largest budget that ends one search of a hundred.
  defp losers(stops) do
    case Enum.find(stops, &(&1.share >= 0.01)) do
      %{most: [_ | _] = most, budget: budget} ->
        named = for one <- Enum.take(most, @shown_events), do: "#{one.id} (#{Describe.grouped(one.times)})"

        [
          "The expressions that lose the most matches with #{Describe.grouped(budget)} fuel: ",
          Enum.join(named, ", "),
          "\n"
        ]

      _none_or_not_counted ->
        []
    end
  end

  defp name(position, lines) when position < tuple_size(lines), do: "line #{elem(lines, position)}"
  defp name(position, _lines), do: "event #{position}"

  defp count(nil), do: "not counted"
  defp count(number), do: Describe.grouped(number)

  defp times(%{sweep: nil}), do: []

  defp times(%{sweep: sweep}) do
    rows =
      for load <- Enum.sort_by(sweep.front, &(-sweep.figures[&1].rate.value)),
          {:search, setting} = load,
          figures = sweep.figures[load] do
        [
          slice(setting.slice),
          Describe.grouped(setting.fuel_per_reduction),
          Describe.grouped(setting.batch),
          Describe.grouped(setting.replicas),
          Describe.grouped(setting.max_concurrency),
          "#{Describe.grouped(round(figures.rate.value))} (#{Describe.grouped(round(figures.rate.low))} to #{Describe.grouped(round(figures.rate.high))})",
          decimal(figures.latency[:p50].value),
          decimal(figures.latency[:p99].value),
          decimal(figures.late[:p99].value)
        ]
      end

    [
      "#{map_size(sweep.figures)} configurations, #{sweep.rounds.rounds} rounds of #{sweep.rounds.milliseconds} ms each. ",
      "Those that no other one surpasses in everything (times in microseconds):\n",
      table(
        [
          "slice",
          "fuel/reduction",
          "batch",
          "replicas",
          "processes",
          "searches a second",
          "call p50",
          "call p99",
          "sleeper late p99"
        ],
        rows
      )
    ]
  end

  defp slice(:infinity), do: "unlimited"
  defp slice(slice), do: Describe.grouped(slice)

  defp verdict(nil), do: []

  defp verdict(%{state: :too_noisy} = verdict) do
    [
      "TOO NOISY: this machine allows no recommendation now.\n",
      for(reason <- verdict.noise, do: ["  ", reason, "\n"]),
      "  Run it again when nothing else runs, or with more --seconds. What is said of fuel is exact all the same.\n"
    ]
  end

  defp verdict(verdict) do
    promise = verdict.promise

    [
      if(verdict.is_default, do: "RECOMMENDED: the defaults\n", else: "RECOMMENDED\n"),
      for(reason <- verdict.reasons, do: ["  ", reason, "\n"]),
      "It ran #{range(promise.rate, &Describe.grouped(round(&1)))} searches a second; a call took #{range(promise.latency_p50_us, &decimal/1)} us at p50 ",
      "and #{range(promise.latency_p99_us, &decimal/1)} us at p99; beside the most processes the sleeper woke ",
      "#{range(promise.late_p99_us, &decimal/1)} us late at p99, #{range(promise.late_of_plain, &decimal/1)} times as late as beside plain Elixir.\n\n",
      for(line <- String.split(verdict.paste, "\n"), do: ["    ", line, "\n"])
    ]
  end

  defp range(%{value: value, low: low, high: high}, text), do: "#{text.(value)} (#{text.(low)} to #{text.(high)})"

  defp comparison(%{comparison: nil}), do: []

  defp comparison(%{comparison: comparison, input: input}) do
    events =
      for event <- Enum.take(comparison.events, @shown_events),
          do: "#{name(event.position, input.lines)} #{signed(event.new / max(event.old, 1))}"

    rows =
      for line <- comparison.lines do
        [
          line.name,
          "#{number(line.old)} #{line.unit}",
          "#{number(line.new)} #{line.unit}",
          change(line),
          if(line.worse, do: "WORSE", else: "")
        ]
      end

    [
      "Compared with the earlier run (threshold #{decimal(100 * comparison.threshold)} %):\n",
      if(comparison.changes == [],
        do: "  nothing that is measured changed: the same expressions, events and versions\n",
        else: for(change <- comparison.changes, do: ["  ", change, "\n"])
      ),
      table(["", "before", "now", "change", ""], rows),
      if(events == [], do: [], else: ["  The events whose fuel grew the most: ", Enum.join(events, ", "), "\n"]),
      for(reason <- comparison.not_compared, do: ["  ", reason, "\n"])
    ]
  end

  defp change(%{ratio: ratio, low: low, high: high}) when low == high, do: signed(ratio)
  defp change(%{ratio: ratio, low: low, high: high}), do: "#{signed(ratio)} (#{signed(low)} to #{signed(high)})"

  defp signed(ratio) do
    percent = 100 * (ratio - 1)
    "#{if percent >= 0, do: "+"}#{decimal(percent)} %"
  end

  @doc "Returns the final message of a comparison with a worse figure."
  @spec worse(map) :: String.t()
  def worse(comparison) do
    names = for line <- comparison.lines, line.worse, do: "#{line.name} #{change(line)}"
    "worse than before by more than #{decimal(100 * comparison.threshold)} %: #{Enum.join(names, "; ")}"
  end

  # Columns are right-aligned; a first column of words is left-aligned.
  defp table(_header, []), do: []

  defp table(header, rows) do
    widths = [header | rows] |> Enum.zip_with(fn column -> column |> Enum.map(&String.length/1) |> Enum.max() end)

    for [first | cells] <- [header | rows] do
      [width | others] = widths
      first = if hd(header) == "", do: String.pad_trailing(first, width), else: String.pad_leading(first, width)
      line = [first | for({cell, width} <- Enum.zip(cells, others), do: String.pad_leading(cell, width))]
      ["  ", line |> Enum.join("  ") |> String.trim_trailing(), "\n"]
    end
  end

  defp number(number) when number >= 1_000, do: Describe.grouped(round(number))
  defp number(number) when is_integer(number), do: Integer.to_string(number)
  defp number(number), do: decimal(number)

  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: if(abs(number) < 10, do: 2, else: 1))
  defp percent(share), do: "#{:erlang.float_to_binary(100 * share / 1, decimals: 1)} %"

  # Writes a number as Elixir's formatter does.
  defp underscored(integer) when integer < 100_000, do: Integer.to_string(integer)
  defp underscored(integer), do: integer |> Describe.grouped() |> String.replace(",", "_")
end

defmodule BeTree.Tune.Choice do
  @moduledoc false
  # Chooses one configuration from a sweep, with reasons. After the confirmation it decides whether the machine was quiet
  # enough for a verdict.

  import BeTree.Input.Describe, only: [grouped: 1]

  alias BeTree.Fuel
  alias BeTree.Tune.{Histogram, Rounds, Statistics, Sweep, Turn}

  # The sleeper's lateness may be at most this many times its lateness beside plain Elixir.
  @max_lateness_ratio 1.2

  # Rates within this share of the best count as equal; then the smaller setting wins.
  @rate_tolerance 0.03
  @setting_tolerance 0.05

  # No verdict if two measurements of one configuration differ by more, are less certain, or other programs took a larger
  # share.
  @max_difference 0.05
  @max_spread 0.1
  @max_others_share 0.25

  @type candidate :: %{setting: Turn.setting(), reasons: [String.t()]}

  @doc "Returns the configuration to measure again, with a reason for each of its settings."
  @spec candidate([{atom, [Turn.load()]}], %{Turn.load() => map}) :: candidate
  def candidate(charts, figures) do
    default = Sweep.default()
    crowd = List.last(Sweep.crowds())
    {yields, yields_reason} = yields(charts[:grid], figures, default, figures[{:plain, crowd}], crowd)
    {concurrency, concurrency_reason} = least(charts[:concurrency], figures, :max_concurrency, "processes search")
    {batch, batch_reason} = least(charts[:batch], figures, :batch, "events a call")
    {replicas, replicas_reason} = least(charts[:replicas], figures, :replicas, "replicas")

    %{
      setting: %{
        slice: yields.slice,
        fuel_per_reduction: yields.fuel_per_reduction,
        max_concurrency: concurrency,
        batch: batch,
        # With fewer replicas the searching processes would wait for each other.
        replicas: max(replicas, concurrency)
      },
      reasons: [yields_reason, concurrency_reason, batch_reason, replicas_reason]
    }
  end

  # Returns the fastest setting with which the sleeper stays punctual, or the default if it is as fast.
  defp yields(grid, figures, default, plain, crowd) do
    bound = @max_lateness_ratio * late(plain)
    {punctual, others} = Enum.split_with(grid, &(late(figures[&1]) <= bound))
    among = if punctual == [], do: [Enum.min_by(others, &late(figures[&1]))], else: punctual
    best = among |> Enum.map(&rate(figures[&1])) |> Enum.max()
    equal = Enum.filter(among, &(rate(figures[&1]) >= (1 - @rate_tolerance) * best))
    is_default = fn {:search, setting} -> Map.take(setting, yield_keys()) == Map.take(default, yield_keys()) end
    {:search, setting} = load = Enum.find(equal, &is_default.(&1)) || Enum.min_by(equal, &late(figures[&1]))

    times = decimal(late(figures[load]) / late(plain))

    reason =
      if punctual == [] do
        "Beside #{crowd} searching processes a 1 ms sleeper wakes at p99 #{times} times as late as beside plain Elixir with " <>
          "#{yields(setting)}. No measured configuration keeps within #{@max_lateness_ratio} times; this one is the nearest."
      else
        "Beside #{crowd} searching processes a 1 ms sleeper wakes at p99 #{times} times as late as beside plain Elixir with " <>
          "#{yields(setting)}. Of the #{length(punctual)} of #{length(grid)} measured combinations within #{@max_lateness_ratio} times, " <>
          "#{if is_default.(load), do: "none is faster than this default by more than #{percent(@rate_tolerance)}", else: "this one is among the fastest, and the most punctual of those"}."
      end

    {setting, reason}
  end

  defp yield_keys, do: [:slice, :fuel_per_reduction]

  defp yields(setting), do: "slices of #{fuel(setting.slice)} and #{setting.fuel_per_reduction} fuel a reduction"

  defp fuel(:infinity), do: "unlimited fuel"
  defp fuel(slice), do: "#{grouped(slice)} fuel"

  # Chooses the smallest value whose rate is close to the best.
  defp least(loads, figures, key, what) do
    values = for {:search, setting} = load <- loads, do: {Map.fetch!(setting, key), rate(figures[load])}
    {best, most} = Enum.max_by(values, &elem(&1, 1))
    {value, rate} = values |> Enum.sort() |> Enum.find(fn {_value, rate} -> rate >= (1 - @setting_tolerance) * most end)
    {first, least} = values |> Enum.sort() |> hd()

    reason =
      cond do
        value == first ->
          "#{value} #{what}: more brought at most #{percent(most / rate - 1)} more searches a second."

        value == best ->
          "#{value} #{what}: #{percent(rate / least - 1)} more searches a second than with #{first}, the most measured."

        true ->
          "#{value} #{what}: #{percent(rate / least - 1)} more searches a second than with #{first}, within " <>
            "#{percent(@setting_tolerance)} of the best."
      end

    {value, reason}
  end

  defp rate(figures), do: figures.rate.value
  defp late(figures), do: figures.late[:p99].value

  @doc """
  Returns the loads of the confirmation. The defaults run twice, which shows the noise. The candidate, the defaults and
  plain Elixir also run with the largest number of processes.
  """
  @spec confirmation(Turn.setting()) :: Rounds.loads()
  def confirmation(setting) do
    crowd = List.last(Sweep.crowds())
    default = Sweep.default()

    [
      default: {:search, default},
      control: {:search, default},
      default_crowd: {:search, %{default | max_concurrency: crowd}},
      plain_crowd: {:plain, crowd}
    ] ++
      if setting == default,
        do: [],
        else: [recommended: {:search, setting}, recommended_crowd: {:search, %{setting | max_concurrency: crowd}}]
  end

  @typedoc "The conclusion of a run: the configuration, its reasons and its promise, or the noise that prevented one."
  @type verdict :: %{
          state: :clear | :too_noisy,
          noise: [String.t()],
          others: float | nil,
          control: Statistics.estimate(),
          setting: Turn.setting() | nil,
          is_default: boolean | nil,
          reasons: [String.t()],
          promise: map | nil,
          paste: String.t() | nil
        }

  @doc "Decides after the confirmation: the candidate, the defaults, or no verdict."
  @spec decide(candidate, Rounds.t(), BeTree.Tune.Costs.budget()) :: verdict
  def decide(candidate, rounds, budget) do
    turns = rounds.turns
    control = Statistics.of_ratio(rates(turns.control), rates(turns.default))
    noise = noise(control, turns, rounds)
    verdict = %{control: control, others: rounds.others, noise: noise}

    if noise == [],
      do: Map.merge(verdict, conclude(candidate, turns, budget)),
      else:
        Map.merge(verdict, %{
          state: :too_noisy,
          setting: nil,
          is_default: nil,
          reasons: [],
          promise: nil,
          paste: nil
        })
  end

  defp noise(control, turns, rounds) do
    promised = turns |> Map.get(:recommended, turns.default) |> rates() |> Statistics.of_median()

    Enum.reject(
      [
        abs(control.value - 1) > @max_difference and
          "Two measurements of the same configuration differ by #{percent(abs(control.value - 1))}; at most #{percent(@max_difference)} allow a verdict.",
        Statistics.spread(control) > @max_spread and
          "The ratio of two measurements of the same configuration is certain to #{percent(Statistics.spread(control))} only; #{percent(@max_spread)} allow a verdict.",
        Statistics.spread(promised) > @max_spread and
          "The searches a second of the candidate are certain to #{percent(Statistics.spread(promised))} only; #{percent(@max_spread)} allow a verdict.",
        rounds.others != nil and rounds.others > @max_others_share and
          "Other programs took #{percent(rounds.others)} of the processors' time; at most #{percent(@max_others_share)} allow a verdict."
      ],
      &(&1 == false)
    )
  end

  defp conclude(candidate, %{recommended: recommended} = turns, budget) do
    faster = Statistics.of_ratio(rates(recommended), rates(turns.default))
    later = Statistics.of_ratio(lates(turns.recommended_crowd), lates(turns.default_crowd))

    cond do
      faster.low > 1 ->
        reason = "Measured again beside the defaults, it runs #{ratio(faster)} times as many searches a second."
        conclusion(candidate.setting, false, [reason | candidate.reasons], turns, budget)

      later.high < 1 and faster.high >= 1 ->
        reason =
          "Measured again beside the defaults, a sleeper wakes #{ratio(later)} times as late at p99, at the same speed."

        conclusion(candidate.setting, false, [reason | candidate.reasons], turns, budget)

      true ->
        reason =
          "The defaults: measured again, the best of the sweep runs #{ratio(faster)} times as many searches a second, and a " <>
            "sleeper wakes #{ratio(later)} times as late at p99. That is no certain gain."

        conclusion(Sweep.default(), true, [reason], Map.drop(turns, [:recommended, :recommended_crowd]), budget)
    end
  end

  defp conclude(candidate, turns, budget),
    do:
      conclusion(
        candidate.setting,
        true,
        ["The defaults: " <> hd(candidate.reasons) | tl(candidate.reasons)],
        turns,
        budget
      )

  defp conclusion(setting, is_default, reasons, turns, budget) do
    chosen = turns[:recommended] || turns.default
    crowd = turns[:recommended_crowd] || turns.default_crowd

    %{
      state: :clear,
      setting: setting,
      is_default: is_default,
      reasons: reasons,
      promise: promise(chosen, crowd, turns.plain_crowd),
      paste: paste(setting, budget)
    }
  end

  # Another run's figure is the median of its turns. It should lie between the 5th and the 95th percentile of these turns.
  defp promise(chosen, crowd, plain) do
    latency = fn share ->
      promised(for turn <- chosen, time = Histogram.quantile(turn.latency, share), do: Float.round(time / 1_000, 2))
    end

    %{
      rate: promised(rates(chosen)),
      latency_p50_us: latency.(0.5),
      latency_p99_us: latency.(0.99),
      "latency_p99.9_us": latency.(0.999),
      late_p99_us: crowd |> lates() |> Enum.map(&(&1 / 1_000)) |> promised(),
      late_of_plain: Enum.zip_with(lates(crowd), lates(plain), &(&1 / &2)) |> promised()
    }
  end

  defp promised(turns) do
    %{
      value: Statistics.median(turns) / 1,
      low: Statistics.quantile(turns, 0.05) / 1,
      high: Statistics.quantile(turns, 0.95) / 1
    }
  end

  @doc "Returns the configuration as Elixir code."
  @spec paste(Turn.setting(), BeTree.Tune.Costs.budget()) :: String.t()
  def paste(setting, budget) do
    budget = up(budget.budget)

    """
    # config/config.exs
    config :be_tree, fuel_per_reduction: #{number(setting.fuel_per_reduction)}

    # where the index is published; a server takes the same option
    {:ok, index} = BeTree.publish(tree, replicas: #{setting.replicas})

    # one event
    BeTree.search(index, event, slice: #{number(setting.slice)}, fuel: #{number(budget)})

    # many events, #{setting.batch} a call
    BeTree.search_many(index, events, slice: #{number(setting.slice)}, fuel: #{number(setting.batch * budget)})

    # a stream of events
    BeTree.stream(index, events, slice: #{number(setting.slice)}, max_concurrency: #{setting.max_concurrency})
    """
  end

  @doc "Rounds fuel up to two significant digits, so a budget has headroom."
  @spec up(Fuel.t()) :: Fuel.t()
  def up(fuel) when fuel < 100, do: 100

  def up(fuel) do
    unit = Integer.pow(10, length(Integer.digits(fuel)) - 2)
    div(fuel + unit - 1, unit) * unit
  end

  defp rates(turns), do: Enum.map(turns, & &1.rate)
  defp lates(turns), do: Enum.map(turns, &Histogram.quantile(&1.late, 0.99))

  defp ratio(%{value: value, low: low, high: high}), do: "#{decimal(value)} (#{decimal(low)} to #{decimal(high)})"
  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: 2)
  defp percent(share), do: "#{:erlang.float_to_binary(100 * max(share, 0.0) / 1, decimals: 1)} %"

  defp number(:infinity), do: ":infinity"
  defp number(integer) when integer < 10_000, do: Integer.to_string(integer)
  defp number(integer), do: integer |> grouped() |> String.replace(",", "_")
end

defmodule BeTree.Tune.ChoiceTest do
  use ExUnit.Case, async: true

  alias BeTree.Tune.{Choice, Histogram, Sweep}

  @budget %{budget: 123_456}
  @crowd 4 * System.schedulers_online()

  defp figures(rate, late) do
    estimate = &%{value: &1 / 1, low: &1 * 0.99, high: &1 * 1.01}
    %{rate: estimate.(rate), latency: %{p99: estimate.(100)}, late: %{p99: estimate.(late)}}
  end

  # Figures of a sweep, with `rate` and `late` by setting.
  defp sweep(rate, late) do
    charts = Sweep.charts(2_000_000)

    figures =
      for {_chart, loads} <- charts, load <- loads, into: %{} do
        case load do
          {:search, setting} -> {load, figures(rate.(setting), late.(setting))}
          _other -> {load, figures(0, 1_000)}
        end
      end

    Choice.candidate(charts, figures)
  end

  # Rounds with these rates and lateness, and a relative spread.
  defp rounds(turns, spread \\ 0.01, others \\ 0.0) do
    count = 20

    %{
      turns:
        Map.new(turns, fn {name, {rate, late}} ->
          {name,
           for number <- 1..count do
             # Each name has its own random order.
             factor = 1 + spread * :math.sin(number * (:erlang.phash2(name, 7) + 1))
             counters = Histogram.new()
             Histogram.add(counters, round(late * 1_000), 100)
             %{rate: rate * factor, latency: Histogram.read([counters]), late: Histogram.read([counters])}
           end}
        end),
      rounds: count,
      milliseconds: 200,
      settled: true,
      others: others
    }
  end

  defp turns(default, recommended),
    do: %{
      default: default,
      control: default,
      default_crowd: default,
      plain_crowd: {0, 1_000},
      recommended: recommended,
      recommended_crowd: recommended
    }

  test "chooses default yields without a faster one, and the least of other settings" do
    candidate = sweep(fn _ -> 1_000 end, fn _ -> 1_100 end)
    assert candidate.setting == %{Sweep.default() | max_concurrency: 1, replicas: 1}
    assert Enum.any?(candidate.reasons, &(&1 =~ "1.10 times as late as beside plain Elixir"))
    assert Enum.any?(candidate.reasons, &(&1 =~ "1 events a call: more brought at most 0.0 %"))
  end

  test "chooses the fastest punctual yields, and larger settings that pay" do
    rate = fn setting ->
      1_000 + if(setting.slice == 1_000_000, do: 500, else: 0) + if(setting.slice == :infinity, do: 900, else: 0) +
        min(setting.batch, 64) * 10 + setting.max_concurrency * 200 + min(setting.replicas, 2) * 100
    end

    late = fn setting -> if(setting.slice == :infinity, do: 9_000, else: 1_050 + setting.fuel_per_reduction) end
    %{setting: setting} = sweep(rate, late)
    assert setting.slice == 1_000_000
    # Of the equally fast, 25 is the most punctual.
    assert setting.fuel_per_reduction == 25
    assert setting.batch == 64
    assert setting.max_concurrency == @crowd
    assert setting.replicas == @crowd
  end

  test "reports that no combination is punctual" do
    %{reasons: [reason | _]} = sweep(fn _ -> 1_000 end, fn setting -> 3_000 + setting.fuel_per_reduction end)
    assert reason =~ "No measured configuration keeps within 1.2 times; this one is the nearest."
  end

  test "recommends a certainly faster setting with supported figures" do
    candidate = %{setting: %{Sweep.default() | batch: 64}, reasons: ["64 events a call: why."]}
    verdict = Choice.decide(candidate, rounds(turns({1_000, 1_050}, {1_300, 1_060})), @budget)
    assert verdict.state == :clear
    refute verdict.is_default
    assert verdict.setting.batch == 64
    assert ["Measured again beside the defaults, it runs 1.3" <> _, "64 events a call: why."] = verdict.reasons
    assert %{value: value, low: low, high: high} = verdict.promise.rate
    assert low < value and value < high and low > 1_280 and high < 1_320
    assert_in_delta verdict.promise.late_of_plain.value, 1.06, 0.01
  end

  # Turns with independent noise of a tenth.
  defp noisy(seed) do
    :rand.seed(:exsss, seed)
    rounds = rounds(turns({1_000, 1_050}, {1_300, 1_060}))

    turns =
      Map.new(rounds.turns, fn {name, own} ->
        {name, for(turn <- own, do: %{turn | rate: turn.rate * (1 + 0.1 * (:rand.uniform() - 0.5))})}
      end)

    %{rounds | turns: turns}
  end

  test "promises a range that holds a second run" do
    candidate = %{setting: %{Sweep.default() | batch: 64}, reasons: []}
    promises = for seed <- 1..50, do: Choice.decide(candidate, noisy(seed), @budget).promise.rate

    for {first, second} <- Enum.zip(promises, Enum.drop(promises, 1)) do
      assert first.low <= second.value and second.value <= first.high
      # The range is narrow enough to be useful.
      assert first.high / first.low < 1.12
    end
  end

  test "recommends the defaults without a certain gain" do
    candidate = %{setting: %{Sweep.default() | batch: 8}, reasons: ["8 events a call: why."]}
    verdict = Choice.decide(candidate, rounds(turns({1_000, 1_050}, {1_000, 1_050}), 0.03), @budget)
    assert verdict.is_default and verdict.setting == Sweep.default()
    assert hd(verdict.reasons) =~ "That is no certain gain."
    # Without a candidate too.
    own = %{setting: Sweep.default(), reasons: ["It is as fast."]}
    turns = Map.drop(turns({1_000, 1_050}, {1_000, 1_050}), [:recommended, :recommended_crowd])
    assert Choice.decide(own, rounds(turns), @budget).is_default
  end

  test "prefers a punctual setting of the same speed" do
    candidate = %{setting: %{Sweep.default() | slice: 50_000}, reasons: []}
    verdict = Choice.decide(candidate, rounds(turns({1_000, 2_000}, {1_000, 1_100}), 0.02), @budget)
    assert verdict.setting.slice == 50_000
    assert hd(verdict.reasons) =~ "a sleeper wakes 0.5"
  end

  test "reports a noisy machine without a verdict" do
    candidate = %{setting: %{Sweep.default() | batch: 64}, reasons: []}
    turns = turns({1_000, 1_050}, {2_000, 1_050})

    for {rounds, pattern} <- [
          {rounds(turns, 0.01, 0.6), ~r/Other programs took 60.0 %/},
          {rounds(turns, 0.9), ~r/is certain to|are certain to/},
          {rounds(%{turns | control: {1_100, 1_050}}), ~r/differ by (9|10|11)\.\d %/}
        ] do
      verdict = Choice.decide(candidate, rounds, @budget)
      assert %{state: :too_noisy, setting: nil, paste: nil, promise: nil, reasons: []} = verdict
      assert Enum.any?(verdict.noise, &(&1 =~ pattern))
    end
  end

  test "pastes code that runs" do
    tree = BeTree.new!(age: :integer)
    BeTree.insert!(tree, 1, "age > 3")
    text = Choice.paste(%{Sweep.default() | slice: :infinity, batch: 8}, %{budget: 1_234_567})
    assert text =~ "slice: :infinity, fuel: 1_300_000"
    assert text =~ "slice: :infinity, fuel: 10_400_000"
    assert text =~ "config :be_tree, fuel_per_reduction: 75"
    # Every other line is code of a program.
    code = text |> String.split("\n") |> Enum.reject(&(&1 =~ ~r/^config /)) |> Enum.join("\n")
    bindings = [tree: tree, event: %{age: 5}, events: [%{age: 5}]]
    {_stream, bindings} = Code.eval_string(code, bindings)
    assert %BeTree.Index{} = bindings[:index]
  end

  test "rounds a budget up to two digits" do
    assert for(fuel <- [0, 99, 100, 101, 1_000, 123_456, 990_001], do: Choice.up(fuel)) ==
             [100, 100, 100, 110, 1_000, 130_000, 1_000_000]
  end

  test "front/1 returns the loads that no other surpasses" do
    a = {:search, %{Sweep.default() | batch: 1}}
    b = {:search, %{Sweep.default() | batch: 8}}
    c = {:search, %{Sweep.default() | batch: 64}}
    figures = %{a => figures(100, 10), b => figures(200, 20), c => figures(150, 20), {:plain, 1} => figures(900, 1)}
    assert Enum.sort(Sweep.front(figures)) == Enum.sort([a, b])
  end

  test "charts/1 measures slices beyond the longest search once" do
    slices = fn most -> for {:search, setting} <- Sweep.charts(most)[:grid], uniq: true, do: setting.slice end
    assert Enum.sort(slices.(60_000)) == [50_000, 100_000, 300_000]
    assert Enum.sort(slices.(2_000_000)) == [50_000, 100_000, 300_000, 1_000_000, :infinity]
    assert Enum.sort(slices.(400)) == [50_000, 300_000]
  end
end

defmodule BeTree.Tune.StatisticsTest do
  use ExUnit.Case, async: true

  alias BeTree.Tune.{Histogram, Statistics}

  defp histogram(durations) do
    counters = Histogram.new()
    for duration <- durations, do: Histogram.add(counters, duration)
    Histogram.read([counters])
  end

  # Exponentially distributed numbers around a mean, the same each time.
  defp sample(count, mean, seed) do
    state = :rand.seed_s(:exsss, seed)

    {numbers, _state} =
      Enum.map_reduce(1..count, state, fn _, state ->
        {uniform, state} = :rand.uniform_s(state)
        {-mean * :math.log(1 - uniform), state}
      end)

    numbers
  end

  test "a quantile lies between the nearest ranks" do
    assert Statistics.median([3, 1, 2]) == 2
    assert Statistics.median([4, 1, 2, 3]) == 2.5
    assert Statistics.quantile([10, 20], 0.25) == 12.5
    assert Statistics.quantile([7], 0.99) == 7
  end

  test "histogram buckets are exact to 0.8 %, from 1 ns to 1,000 s" do
    for duration <- [1, 2, 3, 63, 64, 65, 999, 1_000_000, 123_456_789, 1_000_000_000_000] do
      [{bucket, 1}] = histogram([duration])
      assert_in_delta Histogram.value(bucket) / duration, 1, 0.008
    end

    # Durations out of range count in the first and last bucket.
    assert histogram([0, -5]) == histogram([1, 1])
    assert histogram([5_000_000_000_000]) == histogram([1_000_000_000_000])
  end

  test "a histogram has the quantiles of its durations" do
    durations = sample(20_000, 50_000, 1) |> Enum.map(&round/1)
    turns = durations |> Enum.chunk_every(1_000) |> Enum.map(&histogram/1)

    for {estimate, share} <- Enum.zip(Statistics.of_quantiles(turns, [0.5, 0.9, 0.99]), [0.5, 0.9, 0.99]) do
      exact = Statistics.quantile(durations, share)
      assert_in_delta estimate.value / exact, 1, 0.01
      assert estimate.low < estimate.value and estimate.value < estimate.high
      assert estimate.low < exact and exact < estimate.high
    end

    assert Statistics.of_quantiles([[], []], [0.5]) == [nil]
  end

  # A 95 % interval misses one time in twenty, so of 100 some miss, but few.
  test "an interval holds the true median about 95 times of 100" do
    held =
      for seed <- 1..100 do
        %{low: low, high: high} = 20 |> sample(100.0, seed) |> Statistics.of_median()
        low <= 100 * :math.log(2) and 100 * :math.log(2) <= high
      end

    assert Enum.count(held, & &1) in 86..99
  end

  test "a ratio of equals includes 1, of others does not" do
    base = sample(30, 10.0, 1) |> Enum.map(&(100 + &1))
    other = sample(30, 10.0, 2) |> Enum.map(&(100 + &1))
    %{low: low, high: high} = Statistics.of_ratio(other, base)
    assert low < 1 and 1 < high

    # Turns of one round share their noise, so their ratio is free of it.
    noisy = Enum.map(1..30, &(100 * &1))
    paired = Statistics.of_ratio(Enum.map(noisy, &(1.1 * &1)), noisy)
    assert_in_delta paired.low, 1.1, 0.001
    assert_in_delta paired.high, 1.1, 0.001
    apart = Statistics.of_ratio_apart(Enum.map(noisy, &(1.1 * &1)), noisy)
    assert apart.low < 1 and apart.high > 1.2
  end

  test "the same numbers have the same interval" do
    numbers = sample(10, 5.0, 3)
    assert Statistics.of_median(numbers) == Statistics.of_median(numbers)
    assert Statistics.spread(%{value: 100, low: 95, high: 105}) == 0.05
  end
end

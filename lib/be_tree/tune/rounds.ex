defmodule BeTree.Tune.Rounds do
  @moduledoc false
  # Runs rounds: each round runs every load for one turn, in random order. So other work of the machine, periodic work too,
  # affects all loads alike.

  alias BeTree.Error.Attempt
  alias BeTree.Tune.{Histogram, Machine, Statistics, Turn}

  # Fewer rounds give no confidence interval.
  @min_rounds 5

  # The spreads (half of a 95 % interval) at which the rounds end.
  @max_rate_spread 0.03
  @max_late_spread 0.1

  @typedoc "The loads of a round by name. Two names may have the same load."
  @type loads :: [{name :: term, Turn.load()}]

  @typedoc """
  The turns of each name in the order of the rounds, the number of rounds, whether the spreads fell below their bounds, and
  the share of the processor time that other programs took.
  """
  @type t :: %{
          turns: %{term => [Turn.t()]},
          rounds: pos_integer,
          milliseconds: pos_integer,
          settled: boolean,
          others: float | nil
        }

  @type limits :: %{milliseconds: pos_integer, seconds: number, progress: (float -> term)}

  @doc """
  Runs rounds with turns of `milliseconds`. They end when the spread of every rate is at most 3 % and that of the sleeper's
  p99 at most 10 %, or when `seconds` have passed, but not before the fifth round.
  """
  @spec run(loads, Turn.stage(), limits) :: {:ok, t} | {:error, BeTree.Error.t()}
  def run(loads, stage, limits) do
    state = %{
      loads: loads,
      stage: stage,
      limits: limits,
      started: System.monotonic_time(:millisecond),
      ticks: Machine.ticks()
    }

    rounds(state, 0, Map.new(loads, fn {name, _load} -> {name, []} end))
  end

  defp rounds(state, count, turns) do
    with {:ok, round} <- one_round(state) do
      turns = Map.new(turns, fn {name, earlier} -> {name, [round[name] | earlier]} end)
      passed = (System.monotonic_time(:millisecond) - state.started) / 1_000
      state.limits.progress.(min(passed / state.limits.seconds, 1.0))
      settled = count + 1 >= @min_rounds and settled?(turns)
      # Stop if the next round would exceed the time.
      late = count + 1 >= @min_rounds and passed * (count + 2) / (count + 1) > state.limits.seconds

      if settled or late,
        do: {:ok, result(state, count + 1, turns, settled)},
        else: rounds(state, count + 1, turns)
    end
  end

  defp one_round(state) do
    state.loads
    |> Enum.shuffle()
    |> Attempt.reduce(%{}, fn {name, load}, round ->
      with {:ok, turn} <- Turn.run(load, state.stage, state.limits.milliseconds), do: {:ok, Map.put(round, name, turn)}
    end)
  end

  defp settled?(turns), do: Enum.all?(turns, fn {_name, list} -> rate_settled?(list) and late_settled?(list) end)

  defp rate_settled?(turns), do: turns |> Enum.map(& &1.rate) |> Statistics.of_median() |> narrow?(@max_rate_spread)

  defp late_settled?(turns) do
    turns |> Enum.map(&Histogram.quantile(&1.late, 0.99)) |> Statistics.of_median() |> narrow?(@max_late_spread)
  end

  defp narrow?(estimate, spread), do: Statistics.spread(estimate) <= spread

  defp result(state, count, turns, settled) do
    %{
      turns: Map.new(turns, fn {name, newest_first} -> {name, Enum.reverse(newest_first)} end),
      rounds: count,
      milliseconds: state.limits.milliseconds,
      settled: settled,
      others: Machine.others(state.ticks, Machine.ticks())
    }
  end
end

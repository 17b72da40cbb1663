defmodule BeTree.Tune.Rounds do
  @moduledoc false
  # Repeats turns of several loads, in rounds: each round runs every load once, in a random order. Other work of the machine,
  # and work that it does periodically, then affects all loads alike.

  alias BeTree.Tune.{Histogram, Machine, Statistics, Turn}

  # The rounds that any interval needs.
  @least 5

  # The spreads, half of a 95 % interval, at which the rounds end.
  @rate_spread 0.03
  @late_spread 0.1

  @typedoc "What the rounds run, by name. Two names may have the same load."
  @type loads :: [{name :: term, Turn.load()}]

  @typedoc """
  The turns of each name in the order of the rounds, the number of rounds, whether the spreads allowed them to end, and the
  share of the processors' time that other programs took.
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
  Runs rounds with turns of `milliseconds`, until the spread of every rate is at most 3 % and that of the sleeper's p99 at
  most 10 %, or `seconds` have passed. At least five rounds are run.
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
      turns = Map.new(turns, fn {name, own} -> {name, [round[name] | own]} end)
      passed = (System.monotonic_time(:millisecond) - state.started) / 1_000
      state.limits.progress.(min(passed / state.limits.seconds, 1.0))
      settled = count + 1 >= @least and settled?(turns)
      # Another round must fit.
      late = count + 1 >= @least and passed * (count + 2) / (count + 1) > state.limits.seconds

      if settled or late,
        do: {:ok, result(state, count + 1, turns, settled)},
        else: rounds(state, count + 1, turns)
    end
  end

  defp one_round(state) do
    state.loads
    |> Enum.shuffle()
    |> Enum.reduce_while({:ok, %{}}, fn {name, load}, {:ok, round} ->
      case Turn.run(load, state.stage, state.limits.milliseconds) do
        {:ok, turn} -> {:cont, {:ok, Map.put(round, name, turn)}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end

  defp settled?(turns), do: Enum.all?(turns, fn {_name, own} -> rate_settled?(own) and late_settled?(own) end)

  defp rate_settled?(turns), do: turns |> Enum.map(& &1.rate) |> Statistics.of_median() |> narrow?(@rate_spread)

  defp late_settled?(turns) do
    turns |> Enum.map(&Histogram.quantile(&1.late, 0.99)) |> Statistics.of_median() |> narrow?(@late_spread)
  end

  defp narrow?(estimate, spread), do: Statistics.spread(estimate) <= spread

  defp result(state, count, turns, settled) do
    %{
      turns: Map.new(turns, fn {name, own} -> {name, Enum.reverse(own)} end),
      rounds: count,
      milliseconds: state.limits.milliseconds,
      settled: settled,
      others: Machine.others(state.ticks, Machine.ticks())
    }
  end
end

defmodule BeTree.ErlBench.Comparison do
  @moduledoc false
  # Compares two series of sums, thousand by thousand.

  alias BeTree.ErlBench.Stats
  alias BeTree.Files.Error

  @enforce_keys [:min, :max, :average, :median, :ninety_ninth, :better, :base, :target]
  defstruct @enforce_keys

  @typedoc "A difference in percent of the base, and in nanoseconds an event."
  @type difference :: {float, float}

  @typedoc """
  The differences; the percentage of sums below the base's; and the median nanoseconds of an event in both.
  """
  @type t :: %__MODULE__{
          min: difference,
          max: difference,
          average: difference,
          median: difference,
          ninety_ninth: difference,
          better: float,
          base: float,
          target: float
        }

  @spec read!(Path.t(), Path.t()) :: t
  def read!(base_path, target_path) do
    {base, base_size} = Stats.read!(base_path)
    {target, target_size} = Stats.read!(target_path)

    if {length(base), base_size} != {length(target), target_size} do
      reason =
        "has #{length(target)} sums of #{target_size} events, #{base_path} has #{length(base)} of #{base_size}; " <>
          "only runs of the same events can be compared"

      raise %Error{path: target_path, reason: reason}
    end

    new(base, target, base_size)
  end

  # Compares sums in nanoseconds, each of `size` events. Percents and nanoseconds are sorted separately, as in erl-be-tree.
  @spec new([pos_integer, ...], [pos_integer, ...], pos_integer) :: t
  def new(base, target, size) do
    percents = base |> Enum.zip_with(target, &((&2 - &1) * 100 / &1)) |> Enum.sort()
    nanoseconds = base |> Enum.zip_with(target, &((&2 - &1) / size)) |> Enum.sort()
    count = length(percents)
    at = fn rank -> {Enum.at(percents, rank - 1), Enum.at(nanoseconds, rank - 1)} end

    %__MODULE__{
      min: at.(1),
      max: at.(count),
      average: {Enum.sum(percents) / count, Enum.sum(nanoseconds) / count},
      median: at.(rank(count, 50)),
      ninety_ninth: at.(rank(count, 99)),
      better: Enum.count(nanoseconds, &(&1 < 0)) * 100 / count,
      base: median(base) / size,
      target: median(target) / size
    }
  end

  defp median(sums), do: sums |> Enum.sort() |> Enum.at(rank(length(sums), 50) - 1)

  defp rank(count, percent), do: ceil(count * percent / 100)
end

defmodule BeTree.Files.Latencies do
  @moduledoc false
  # Latencies as counts of rounded durations, so memory is bounded. Durations are rounded to three significant digits, so a
  # percentile is exact to half a percent.

  defstruct count: 0, counts: %{}

  @type t :: %__MODULE__{count: non_neg_integer, counts: %{non_neg_integer => pos_integer}}

  @spec add(t, non_neg_integer) :: t
  def add(%__MODULE__{count: count, counts: counts}, nanoseconds) do
    %__MODULE__{count: count + 1, counts: Map.update(counts, round_digits(nanoseconds, 1), 1, &(&1 + 1))}
  end

  # Returns the quantile `share` in nanoseconds, or 0 without durations.
  @spec percentile(t, float) :: non_neg_integer
  def percentile(%__MODULE__{count: count, counts: counts}, share) do
    rank = max(ceil(share * count), 1)

    counts
    |> Enum.sort()
    |> Enum.reduce_while(0, fn {duration, times}, below ->
      if below + times >= rank, do: {:halt, {:found, duration}}, else: {:cont, below + times}
    end)
    |> case do
      {:found, duration} -> duration
      0 -> 0
    end
  end

  defp round_digits(duration, scale) when duration < 1_000, do: duration * scale
  defp round_digits(duration, scale), do: round_digits(div(duration + 5, 10), scale * 10)
end

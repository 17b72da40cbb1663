defmodule BeTree.Tune.Histogram do
  @moduledoc false
  # Durations, counted in buckets whose width is 1/64 of their value. A process counts its own in about 100 ns, without
  # garbage, so a measurement takes the same memory for any number of durations. A quantile is exact to 0.8 %.

  # The bits of a float behind its sign: 11 of the exponent, and the first 6 of the fraction. A bucket holds all durations with
  # the same. These are the first and the last one, of 1 ns and of 1,000 s.
  @bits 17
  @first 65_472
  @last 68_020
  @buckets @last - @first + 1

  @typedoc "A counter of each bucket, which one process writes."
  @type counters :: :counters.counters_ref()

  @typedoc "The buckets with a duration, in ascending order, and their counts."
  @type t :: [{bucket :: non_neg_integer, count :: pos_integer}]

  @spec new() :: counters
  def new, do: :counters.new(@buckets, [])

  @doc "Counts a duration in nanoseconds, from 1 ns to 1,000 s."
  @spec add(counters, integer, pos_integer) :: :ok
  def add(counters, nanoseconds, times \\ 1) do
    <<0::1, bits::@bits, _::46>> = <<max(nanoseconds, 1)::float>>
    :counters.add(counters, min(bits - @first, @buckets - 1) + 1, times)
  end

  @doc "Returns the counts of several processes together."
  @spec read([counters]) :: t
  def read(all) do
    for bucket <- 0..(@buckets - 1),
        count = all |> Enum.map(&:counters.get(&1, bucket + 1)) |> Enum.sum(),
        count > 0,
        do: {bucket, count}
  end

  @spec count(t) :: non_neg_integer
  def count(histogram), do: histogram |> Enum.map(&elem(&1, 1)) |> Enum.sum()

  @doc "Returns the nanoseconds that this share of the durations does not exceed, or `nil` without durations."
  @spec quantile(t, float) :: float | nil
  def quantile(histogram, share) do
    rank = max(ceil(share * count(histogram)), 1)

    Enum.reduce_while(histogram, 0, fn {bucket, count}, below ->
      if below + count >= rank, do: {:halt, value(bucket)}, else: {:cont, below + count}
    end)
    |> then(fn found -> if is_float(found), do: found end)
  end

  @doc "Returns the nanoseconds in the middle of a bucket."
  @spec value(non_neg_integer) :: float
  def value(bucket) do
    <<low::float>> = <<0::1, bucket + @first::@bits, 0::46>>
    <<high::float>> = <<0::1, bucket + 1 + @first::@bits, 0::46>>
    (low + high) / 2
  end
end

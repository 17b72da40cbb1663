defmodule BeTree.Tune.Histogram do
  @moduledoc false
  # Durations, counted in buckets whose width is 1/64 of their value. Adding one takes about 100 ns and allocates nothing,
  # so the memory does not depend on the number of durations. A quantile is exact to 0.8 %.

  # A bucket is the top of a float behind its sign: 11 bits of the exponent and the first 6 of the fraction. The bounds are
  # the buckets of 1 ns and of 1,000 s.
  @bucket_bits 17
  @first_bucket 65_472
  @last_bucket 68_020
  @bucket_count @last_bucket - @first_bucket + 1

  @typedoc "A counter for each bucket, written by one process."
  @type counters :: :counters.counters_ref()

  @typedoc "The buckets that hold durations, in ascending order, with their counts."
  @type t :: [{bucket :: non_neg_integer, count :: pos_integer}]

  @spec new() :: counters
  def new, do: :counters.new(@bucket_count, [])

  @doc "Counts a duration in nanoseconds, from 1 ns to 1,000 s."
  @spec add(counters, integer, pos_integer) :: :ok
  def add(counters, nanoseconds, times \\ 1) do
    <<0::1, bits::@bucket_bits, _::46>> = <<max(nanoseconds, 1)::float>>
    :counters.add(counters, min(bits - @first_bucket, @bucket_count - 1) + 1, times)
  end

  @doc "Returns the summed counts of several processes."
  @spec read([counters]) :: t
  def read(all) do
    for bucket <- 0..(@bucket_count - 1),
        count = all |> Enum.map(&:counters.get(&1, bucket + 1)) |> Enum.sum(),
        count > 0,
        do: {bucket, count}
  end

  @spec count(t) :: non_neg_integer
  def count(histogram), do: histogram |> Enum.map(&elem(&1, 1)) |> Enum.sum()

  @doc "Returns the quantile `share` in nanoseconds, or `nil` without durations."
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
    <<low::float>> = <<0::1, bucket + @first_bucket::@bucket_bits, 0::46>>
    <<high::float>> = <<0::1, bucket + 1 + @first_bucket::@bucket_bits, 0::46>>
    (low + high) / 2
  end
end

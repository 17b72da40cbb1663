defmodule BeTree.Tune.Statistics do
  @moduledoc false
  # Medians, quantiles and bootstrapped intervals.
  #
  # The bootstrap draws whole turns with replacement and computes the figure of each draw. Searches of one turn are not
  # independent, because other work of the machine affects them alike. An interval has 95 % of the drawn figures. The draws
  # use a fixed seed, so results are repeatable.

  alias BeTree.Tune.Histogram

  @bootstrap_draws 400
  @confidence 0.95

  @typedoc "An estimate and its interval of 95 % confidence."
  @type estimate :: %{value: float, low: float, high: float}

  @spec median([number, ...]) :: float
  def median(numbers), do: quantile(numbers, 0.5)

  @doc "Returns the quantile of `numbers`, interpolated between the two nearest ranks."
  @spec quantile([number, ...], float) :: float
  def quantile(numbers, share) do
    sorted = numbers |> Enum.sort() |> List.to_tuple()
    rank = share * (tuple_size(sorted) - 1)
    below = trunc(rank)
    low = elem(sorted, below)
    high = elem(sorted, min(below + 1, tuple_size(sorted) - 1))
    low + (high - low) * (rank - below)
  end

  @doc "Returns the median of `numbers`, which has one number for each turn."
  @spec of_median([number, ...]) :: estimate
  def of_median(turns) do
    tuple = List.to_tuple(turns)
    medians = for draw <- draws(tuple_size(tuple)), do: draw |> Enum.map(&elem(tuple, &1)) |> median()
    interval(median(turns), medians)
  end

  @doc """
  Returns the ratio of the medians of two lists, each with one number for each turn. Turns of one round belong together, so
  the bootstrap draws the same rounds from both lists.
  """
  @spec of_ratio([number, ...], [number, ...]) :: estimate
  def of_ratio(turns, base) when length(turns) == length(base) do
    {turns_tuple, base_tuple} = {List.to_tuple(turns), List.to_tuple(base)}
    at = fn draw, tuple -> draw |> Enum.map(&elem(tuple, &1)) |> median() end
    ratios = for draw <- draws(tuple_size(base_tuple)), do: ratio(at.(draw, turns_tuple), at.(draw, base_tuple))
    interval(ratio(median(turns), median(base)), ratios)
  end

  @doc "Returns the ratio of the medians of two lists from different runs, drawn independently."
  @spec of_ratio_apart([number, ...], [number, ...]) :: estimate
  def of_ratio_apart(turns, base) do
    medians = fn list, seed ->
      tuple = List.to_tuple(list)
      for draw <- draws(tuple_size(tuple), seed), do: draw |> Enum.map(&elem(tuple, &1)) |> median()
    end

    ratios = Enum.zip_with(medians.(turns, 1), medians.(base, 2), &ratio/2)
    interval(ratio(median(turns), median(base)), ratios)
  end

  @doc """
  Returns quantiles of the durations in `turns`, a histogram for each turn, each with its interval.
  """
  @spec of_quantiles([Histogram.t()], [float]) :: [estimate | nil]
  def of_quantiles(turns, shares) do
    flat =
      for({turn, index} <- Enum.with_index(turns), {bucket, count} <- turn, do: {bucket, index, count}) |> Enum.sort()

    counts = turns |> Enum.map(&Histogram.count/1) |> List.to_tuple()
    size = tuple_size(counts)

    if flat == [] do
      Enum.map(shares, fn _share -> nil end)
    else
      all = walk(flat, Tuple.duplicate(1, size), counts, shares)
      drawn = for draw <- draws(size), weights = weights(draw, size), do: walk(flat, weights, counts, shares)
      columns = Enum.zip_with(drawn, & &1)
      Enum.zip_with(all, columns, &interval/2)
    end
  end

  defp weights(draw, size) do
    counts = Enum.frequencies(draw)
    for(index <- 0..(size - 1), do: Map.get(counts, index, 0)) |> List.to_tuple()
  end

  # Returns the quantiles of the buckets in `flat`, weighted by how often their turn was drawn.
  defp walk(flat, weights, counts, shares) do
    total = Enum.reduce(0..(tuple_size(counts) - 1), 0, &(&2 + elem(weights, &1) * elem(counts, &1)))
    ranks = for share <- shares, do: max(ceil(share * total), 1)
    walk(flat, weights, ranks, 0, 0, [])
  end

  defp walk(_flat, _weights, [], _below, _last, found), do: Enum.reverse(found)
  defp walk([], _weights, [_ | ranks], below, last, found), do: walk([], nil, ranks, below, last, [last | found])

  defp walk([{bucket, turn, count} | rest] = flat, weights, [rank | ranks], below, last, found) do
    upto = below + elem(weights, turn) * count

    if upto >= rank do
      value = Histogram.value(bucket)
      walk(flat, weights, ranks, below, value, [value | found])
    else
      walk(rest, weights, [rank | ranks], upto, last, found)
    end
  end

  defp interval(value, drawn) do
    tail = (1 - @confidence) / 2
    %{value: value / 1, low: quantile(drawn, tail) / 1, high: quantile(drawn, 1 - tail) / 1}
  end

  defp ratio(_value, base) when base == 0, do: 1.0
  defp ratio(value, base), do: value / base

  # Returns lists of `size` random indices from 0 to `size` - 1.
  defp draws(size, seed \\ 1) do
    state = :rand.seed_s(:exsss, seed)

    {draws, _state} =
      Enum.map_reduce(1..@bootstrap_draws, state, fn _draw, state ->
        Enum.map_reduce(1..size, state, fn _index, state ->
          {number, state} = :rand.uniform_s(size, state)
          {number - 1, state}
        end)
      end)

    draws
  end

  @doc "Returns half the width of an interval, relative to its estimate."
  @spec spread(estimate) :: float
  def spread(%{value: value}) when value == 0, do: 0.0
  def spread(%{value: value, low: low, high: high}), do: (high - low) / 2 / value
end

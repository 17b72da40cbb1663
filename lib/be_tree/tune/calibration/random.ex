defmodule BeTree.Tune.Calibration.Random do
  @moduledoc false
  # Random draws from an explicit state, so each draw depends on the seed alone.

  @opaque t :: :rand.state()

  @typedoc "A table for `zipf/2`."
  @type zipf :: tuple

  # Returns the state for item `index` of `sequence`. Items are independent of each other.
  @spec new(non_neg_integer, non_neg_integer, non_neg_integer) :: t
  def new(seed, sequence, index), do: :rand.seed_s(:exsss, {index, sequence, seed})

  # Returns an integer from 0 to `count` - 1.
  @spec below(t, pos_integer) :: {non_neg_integer, t}
  def below(random, count) do
    {integer, random} = :rand.uniform_s(count, random)
    {integer - 1, random}
  end

  # Returns an integer from `min` to `max`.
  @spec between(t, integer, integer) :: {integer, t}
  def between(random, min, max) do
    {integer, random} = below(random, max - min + 1)
    {min + integer, random}
  end

  # Returns `true` with this probability.
  @spec chance(t, float) :: {boolean, t}
  def chance(random, probability) do
    {float, random} = :rand.uniform_s(random)
    {float < probability, random}
  end

  # Returns an element of a tuple.
  @spec pick(t, tuple) :: {term, t}
  def pick(random, choices) do
    {index, random} = below(random, tuple_size(choices))
    {elem(choices, index), random}
  end

  # Returns the number of failures before the first success of this probability, at most `max`.
  @spec geometric(t, float, non_neg_integer) :: {non_neg_integer, t}
  def geometric(random, probability, max) do
    {float, random} = :rand.uniform_s(random)
    {min(trunc(:math.log(1.0 - float) / :math.log(1.0 - probability)), max), random}
  end

  # Returns `count` distinct results of `draw` in ascending order. `draw` must have that many results.
  @spec distinct(t, non_neg_integer, (t -> {term, t})) :: {[term], t}
  def distinct(random, count, draw), do: distinct(random, count, draw, %{})

  defp distinct(random, count, _draw, drawn) when map_size(drawn) == count do
    {drawn |> Map.keys() |> :lists.sort(), random}
  end

  defp distinct(random, count, draw, drawn) do
    {value, random} = draw.(random)
    distinct(random, count, draw, Map.put(drawn, value, []))
  end

  # Returns the elements of `list` in random order.
  @spec shuffle(t, list) :: {list, t}
  def shuffle(random, list) do
    {keyed, random} =
      Enum.map_reduce(list, random, fn element, random ->
        {key, random} = :rand.uniform_s(random)
        {{key, element}, random}
      end)

    {keyed |> :lists.sort() |> Enum.map(&elem(&1, 1)), random}
  end

  # Returns a table for `zipf/2`. The probability of rank r, from 0, falls with (r + 1) to the power of `exponent`.
  @spec zipf_table(pos_integer, float) :: zipf
  def zipf_table(count, exponent) do
    weights = for rank <- 1..count, do: :math.pow(rank, -exponent)
    total = Enum.sum(weights)
    weights |> Enum.scan(&+/2) |> Enum.map(&(&1 / total)) |> List.to_tuple()
  end

  # Returns a rank from 0: the first with a cumulated probability above a uniform draw.
  @spec zipf(t, zipf) :: {non_neg_integer, t}
  def zipf(random, table) do
    {float, random} = :rand.uniform_s(random)
    {first_above(table, float, 0, tuple_size(table) - 1), random}
  end

  defp first_above(_table, _float, rank, rank), do: rank

  defp first_above(table, float, low, high) do
    middle = div(low + high, 2)

    if elem(table, middle) > float,
      do: first_above(table, float, low, middle),
      else: first_above(table, float, middle + 1, high)
  end
end

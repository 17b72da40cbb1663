defmodule BeTree.Tune.Calibration.Dense do
  @moduledoc false
  # Dense boolean trees: random binary trees over a random permutation of all attributes. `and` and `or` are equally likely,
  # and each node and leaf is negated with probability 0.12. A node of n leaves has 1 to n - 1 of them on its left, with
  # equal probability. An event is a list of fair bits.

  alias BeTree.Domain
  alias BeTree.Tune.Calibration.Random

  @negation_probability 0.12

  # Event bits of one draw.
  @bits_per_draw 32

  def defaults, do: %{seed: 1, expressions: 5_000, events: 1_000, attributes: 128}

  def schema(%{attributes: count}), do: for(name <- names(count), do: %Domain{name: name, type: :boolean})

  def expressions(%{expressions: 0}), do: []

  def expressions(%{expressions: count, attributes: attributes, seed: seed}) do
    names = names(attributes)
    Stream.map(1..count, &(seed |> Random.new(1, &1) |> expression(names)))
  end

  def events(%{events: 0}), do: []

  def events(%{events: count, attributes: attributes, seed: seed}) do
    Stream.map(1..count, &event(Random.new(seed, 2, &1), attributes))
  end

  defp names(count), do: for(number <- 1..count, do: "par#{number}")

  defp expression(random, names) do
    {leaves, random} = Random.shuffle(random, names)
    {text, _kind, [], _random} = node(leaves, length(leaves), random)
    IO.iodata_to_binary(text)
  end

  # Returns the text of a node over the first `count` leaves, its kind, and the remaining leaves.
  defp node(leaves, count, random) do
    {negated, random} = Random.chance(random, @negation_probability)
    {text, kind, leaves, random} = positive(leaves, count, random)
    if negated, do: {["not ", operand(text, kind)], :compound, leaves, random}, else: {text, kind, leaves, random}
  end

  defp positive([name | leaves], 1, random), do: {name, :name, leaves, random}

  defp positive(leaves, count, random) do
    {left_count, random} = Random.between(random, 1, count - 1)
    {left, left_kind, leaves, random} = node(leaves, left_count, random)
    {operator, random} = Random.pick(random, {" and ", " or "})
    {right, right_kind, leaves, random} = node(leaves, count - left_count, random)
    {[operand(left, left_kind), operator, operand(right, right_kind)], :compound, leaves, random}
  end

  defp operand(name, :name), do: name
  defp operand(text, :compound), do: ["(", text, ")"]

  defp event(random, count) do
    {bits, _random} = bits(random, count)
    {:record, bits}
  end

  defp bits(random, count) when count > @bits_per_draw do
    {word, random} = bits(random, @bits_per_draw)
    {rest, random} = bits(random, count - @bits_per_draw)
    {word ++ rest, random}
  end

  defp bits(random, count) do
    {word, random} = Random.below(random, Integer.pow(2, count))
    {for(<<(bit::1 <- <<word::size(count)>>)>>, do: bit), random}
  end
end

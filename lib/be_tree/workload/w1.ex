defmodule BeTree.Workload.W1 do
  @moduledoc """
  Dense boolean trees: erl-be-tree's own benchmark.

  Each expression is one random binary tree over a random permutation of all attributes, each used once. `and` and
  `or` are equally likely, and each node and leaf is negated with probability 0.12. Trees are as likely as where two
  random ones of the attributes are joined until one tree is left: a node of n leaves has from 1 to n - 1 of them, each
  as likely, to its left.

  An event is a list of fair bits. By symmetry half of the expressions match, at any number of attributes; where no
  parameters are given, 2,476 of 5,000 do on average.

  ## Parameters

    * `:attributes` - 64, 96 or 128, called `par1`, `par2` and so on; 128 by default;
    * `:expressions` - 5,000 by default;
    * `:events` - 1,000 by default;
    * `:seed` - 1 by default.

  In Erlang terms: `expressions.txt` and `events.txt`. Generating takes about
  100 microseconds an expression.
  """

  @behaviour BeTree.Workload

  alias BeTree.Domain
  alias BeTree.Workload.Random

  @negated 0.12

  # How many bits of an event are drawn at once.
  @word 32

  @impl true
  def defaults, do: %{seed: 1, expressions: 5_000, events: 1_000, attributes: 128}

  @impl true
  def domains(%{attributes: count}), do: for(name <- names(count), do: %Domain{name: name, type: :boolean})

  @impl true
  def expressions(%{expressions: 0}), do: []

  def expressions(%{expressions: count, attributes: attributes, seed: seed}) do
    names = names(attributes)
    Stream.map(1..count, &(seed |> Random.new(1, &1) |> expression(names)))
  end

  @impl true
  def events(%{events: 0}), do: []

  def events(%{events: count, attributes: attributes, seed: seed}) do
    Stream.map(1..count, &event(Random.new(seed, 2, &1), attributes))
  end

  @impl true
  def files(parameters) do
    domains = parameters |> domains() |> Enum.map_intersperse(",\n ", &"{#{&1.name},bool,disallow_undefined}")
    expressions = parameters |> expressions() |> Stream.map(&["<<\"", &1, "\">>.\n"])

    events =
      parameters
      |> events()
      |> Stream.map(fn {:record, bits} -> [?[, Enum.map_intersperse(bits, ?,, &(?0 + &1)), "].\n"] end)

    [
      {:expressions, "expressions.txt", Stream.concat([["[", domains, "].\n"]], expressions)},
      {:events, "events.txt", events}
    ]
  end

  defp names(count), do: for(number <- 1..count, do: "par#{number}")

  defp expression(random, names) do
    {leaves, random} = Random.shuffle(random, names)
    {text, _kind, [], _random} = node(leaves, length(leaves), random)
    IO.iodata_to_binary(text)
  end

  # The text of a node over the first `count` leaves, its kind, and the leaves behind them.
  defp node(leaves, count, random) do
    {negated, random} = Random.chance(random, @negated)
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

  defp bits(random, count) when count > @word do
    {word, random} = bits(random, @word)
    {rest, random} = bits(random, count - @word)
    {word ++ rest, random}
  end

  defp bits(random, count) do
    {word, random} = Random.below(random, Integer.pow(2, count))
    {for(<<(bit::1 <- <<word::size(count)>>)>>, do: bit), random}
  end
end

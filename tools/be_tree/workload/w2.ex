defmodule BeTree.Workload.W2 do
  @moduledoc """
  This workload has arbitrary expressions with shared parts, as in the A-Tree paper (SIGMOD 2021).

  There are 1,000 optional integer attributes with 100 values each. An expression is from 1 to 6 deep, each depth equally
  likely. An expression of depth 1 is a predicate. A deeper one is an `and` or `or` of 2 to 4 operands, each with
  probability 0.45, or the `not` of one operand, with 0.1. One operand has all of the remaining depth, and the others have
  any part of it.

  Operands are shared. Each depth has a pool of 100,000 expressions, from which Zipf's law draws them. The exponent
  decides how much is shared: with 0 all are equally likely, and with 0.8 a hundredth of the pool makes up more than a
  third of all operands.

  Half of the predicates are equalities, and the others comparisons. An event names 20 attributes, each equally likely.
  Nearly all attributes are undefined, and `not` turns a false predicate on an undefined attribute into true. So mostly
  expressions with a `not` match: of 100,000 expressions about 18,000.

  ## Parameters

    * `:sharing` - the exponent, a float. Defaults to 0.4;
    * `:expressions` - defaults to 100,000;
    * `:events` - defaults to 1,000;
    * `:seed` - defaults to 1.

  The files are in be-tree's lines: `betree_defs`, `betree_exprs` and `betree_events`. Generating takes about 35
  microseconds an expression.
  """

  @behaviour BeTree.Workload

  alias BeTree.Domain
  alias BeTree.Tune.Calibration.Random
  alias BeTree.Workload.Lines

  @attributes 1_000
  @values 100
  @attributes_an_event 20
  @max_depth 6
  @pool 100_000

  @impl true
  def defaults, do: %{seed: 1, expressions: 100_000, events: 1_000, sharing: 0.4}

  @impl true
  def schema(_parameters) do
    for number <- 1..@attributes,
        do: %Domain{name: name(number), type: :integer, optional: true, min: 0, max: @values - 1}
  end

  defp name(number), do: "a#{number}"

  @impl true
  def expressions(%{expressions: 0}), do: []

  def expressions(%{expressions: count, seed: seed, sharing: sharing}) do
    ranks = Random.zipf_table(@pool, sharing)

    Stream.map(1..count, fn number ->
      {depth, random} = seed |> Random.new(5, number) |> Random.between(1, @max_depth)
      {text, _kind} = node(random, depth, seed, ranks)
      IO.iodata_to_binary(text)
    end)
  end

  # Returns the text of an expression of this depth, and whether it needs parentheses as an operand.
  defp node(random, 1, _seed, _ranks), do: {predicate(random), :plain}

  defp node(random, depth, seed, ranks) do
    {form, random} = Random.below(random, 100)

    if form < 10 do
      {operand, _random} = operand(random, depth - 1, seed, ranks)
      {["not ", operand], :compound}
    else
      {others, random} = Random.between(random, 1, 3)
      depths = [fn random -> {depth - 1, random} end | List.duplicate(&Random.between(&1, 1, depth - 1), others)]

      {operands, _random} =
        Enum.map_reduce(depths, random, fn depth, random ->
          {depth, random} = depth.(random)
          operand(random, depth, seed, ranks)
        end)

      {Enum.intersperse(operands, if(rem(form, 2) == 0, do: " and ", else: " or ")), :compound}
    end
  end

  # Returns one expression of the pool of this depth. It depends on its rank alone.
  defp operand(random, depth, seed, ranks) do
    {rank, random} = Random.zipf(random, ranks)

    case node(Random.new(seed, 20 + depth, rank), depth, seed, ranks) do
      {text, :plain} -> {text, random}
      {text, :compound} -> {["(", text, ")"], random}
    end
  end

  defp predicate(random) do
    {number, random} = Random.between(random, 1, @attributes)
    {relation, random} = Random.pick(random, {" = ", " = ", " = ", " = ", " < ", " <= ", " > ", " >= "})
    {value, _random} = Random.below(random, @values)
    [name(number), relation, Integer.to_string(value)]
  end

  @impl true
  def events(%{events: 0}), do: []
  def events(%{events: count, seed: seed}), do: Stream.map(1..count, &{:json, event(Random.new(seed, 6, &1))})

  defp event(random) do
    {numbers, random} = Random.distinct(random, @attributes_an_event, &Random.between(&1, 1, @attributes))

    {fields, _random} =
      Enum.map_reduce(numbers, random, fn number, random ->
        {value, random} = Random.below(random, @values)
        {~s("#{name(number)}": #{value}), random}
      end)

    "{#{Enum.join(fields, ", ")}}"
  end

  @impl true
  def files(parameters), do: Lines.files(__MODULE__, parameters)
end

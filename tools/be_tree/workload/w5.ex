defmodule BeTree.Workload.W5 do
  @moduledoc """
  This workload is conjunctive publish/subscribe: conjunctions of 5 to 30 predicates over many dimensions.

  The dimensions are optional integer attributes, each with 3 to 1,000 values. The matches are planned by profiles. Their
  number is the inverse of the probability of a match: 100 for 1 %. A profile gives 60 dimensions a value, both drawn by
  Zipf's law. An expression belongs to one profile. Each of its predicates, over a dimension of that profile, is an
  equality with its value, or a range of up to a fifth of the dimension's values that includes it. An event is a profile.
  So an event matches the expressions of its profile, and few others.

  ## Parameters

    * `:dimensions` - the number of dimensions. Defaults to 100 (dense); 30,000 are sparse;
    * `:skew` - the exponent of Zipf's law, a float. Defaults to 1.0;
    * `:equality` - the share of equalities among the predicates. Defaults to 0.4;
    * `:matching` - the probability of a match, from 0.001 to 1.0. Defaults to 0.01;
    * `:expressions` - defaults to 100,000;
    * `:events` - defaults to 1,000;
    * `:seed` - defaults to 1.

  The files are in be-tree's lines: `betree_defs`, `betree_exprs` and `betree_events`. Generating takes about 15
  microseconds an expression.
  """

  @behaviour BeTree.Workload

  alias BeTree.Domain
  alias BeTree.Tune.Calibration.Random
  alias BeTree.Workload.Lines

  @dimensions_an_event 60
  @sizes {3, 10, 30, 100, 300, 1_000}

  @impl true
  def defaults do
    %{seed: 1, expressions: 100_000, events: 1_000, dimensions: 100, skew: 1.0, equality: 0.4, matching: 0.01}
  end

  @impl true
  def schema(%{dimensions: dimensions}) do
    for number <- 0..(dimensions - 1),
        do: %Domain{name: name(number), type: :integer, optional: true, min: 0, max: size(number) - 1}
  end

  defp name(number), do: "d#{number}"
  defp size(number), do: elem(@sizes, rem(number, tuple_size(@sizes)))

  @impl true
  def expressions(%{expressions: 0}), do: []

  def expressions(%{expressions: count, seed: seed, equality: equality} = parameters) do
    profiles = profiles(parameters)
    Stream.map(1..count, &(seed |> Random.new(8, &1) |> expression(profiles, equality)))
  end

  @impl true
  def events(%{events: 0}), do: []

  def events(%{events: count, seed: seed} = parameters) do
    jsons = parameters |> profiles() |> Tuple.to_list() |> Enum.map(&json/1) |> List.to_tuple()

    Stream.map(1..count, fn number ->
      {json, _random} = seed |> Random.new(9, number) |> Random.pick(jsons)
      {:json, json}
    end)
  end

  # Returns each profile as a tuple of `{dimension, value}`.
  defp profiles(%{seed: seed, skew: skew, dimensions: dimensions, matching: matching}) do
    ranks = Random.zipf_table(dimensions, skew)
    values = for size <- Tuple.to_list(@sizes), into: %{}, do: {size, Random.zipf_table(size, skew)}

    for number <- 1..round(1 / matching), into: [] do
      random = Random.new(seed, 10, number)
      {chosen, random} = Random.distinct(random, min(@dimensions_an_event, dimensions), &Random.zipf(&1, ranks))

      {pairs, _random} =
        Enum.map_reduce(chosen, random, fn dimension, random ->
          {value, random} = Random.zipf(random, values[size(dimension)])
          {{dimension, value}, random}
        end)

      List.to_tuple(pairs)
    end
    |> List.to_tuple()
  end

  defp expression(random, profiles, equality) do
    {profile, random} = Random.pick(random, profiles)
    {count, random} = Random.between(random, 5, 30)
    {pairs, random} = Random.distinct(random, min(count, tuple_size(profile)), &Random.pick(&1, profile))
    {predicates, _random} = Enum.map_reduce(pairs, random, &predicate(&1, &2, equality))
    predicates |> Enum.intersperse(" and ") |> IO.iodata_to_binary()
  end

  defp predicate({dimension, value}, random, equality) do
    {equal, random} = Random.chance(random, equality)
    if equal, do: {"#{name(dimension)} = #{value}", random}, else: range(random, dimension, value)
  end

  defp range(random, dimension, value) do
    {width, random} = Random.below(random, div(size(dimension), 5) + 1)
    {below, random} = Random.below(random, width + 1)
    from = max(value - below, 0)
    to = min(value - below + width, size(dimension) - 1)
    name = name(dimension)
    {"#{name} >= #{from} and #{name} <= #{to}", random}
  end

  defp json(profile) do
    fields = for {dimension, value} <- Tuple.to_list(profile), do: ~s("#{name(dimension)}": #{value})
    "{#{Enum.join(fields, ", ")}}"
  end

  @impl true
  def files(parameters), do: Lines.files(__MODULE__, parameters)
end

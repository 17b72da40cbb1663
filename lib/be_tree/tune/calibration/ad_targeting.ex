defmodule BeTree.Tune.Calibration.AdTargeting do
  @moduledoc false
  # Ad targeting with 122 optional attributes of all plain types, drawn by Zipf's law with exponent 1, each at most once an
  # expression. An expression has 1 to 56 predicates, 8 on average, in a tree of `and` and `or` up to 9 deep. An event names
  # 20 attributes, 10 to 30 % of them `null`.

  alias BeTree.Domain
  alias BeTree.Tune.Calibration.Random

  # The most popular attributes, with the number of distinct values of each.
  @popular_attributes [
    {"country", :string, 200},
    {"device", :string, 6},
    {"site", :string, 4_000},
    {"age", :integer, 100},
    {"categories", :string_list, 300},
    {"language", :string, 40},
    {"region", :string, 1_000},
    {"audience", :integer_list, 2_000},
    {"os", :string, 12},
    {"hour", :integer, 24},
    {"exchange", :string, 16},
    {"viewability", :float, 1_000},
    {"mobile", :boolean, 2},
    {"width", :integer, 2_000},
    {"city", :string, 5_000},
    {"ad_format", :string, 30},
    {"browser", :string, 20},
    {"bid_floor", :float, 1_000},
    {"secure", :boolean, 2},
    {"keywords", :string_list, 2_000},
    {"app", :string, 3_000},
    {"postal_code", :integer, 100_000}
  ]

  @rare_types {:string, :integer, :boolean, :float, :string, :integer, :string_list, :integer, :integer_list, :string}
  @rare_sizes {50, 1_000, 200, 5_000, 20}

  @rare_attributes (for rank <- length(@popular_attributes)..121 do
                      type = elem(@rare_types, rem(rank, tuple_size(@rare_types)))
                      size = elem(@rare_sizes, rem(div(rank, 2), tuple_size(@rare_sizes)))
                      {"#{type}_#{rank + 1}", type, if(type == :boolean, do: 2, else: size)}
                    end)

  @attributes List.to_tuple(@popular_attributes ++ @rare_attributes)
  @popularity Random.zipf_table(tuple_size(@attributes), 1.0)

  @max_predicates 56
  @max_depth 9
  @max_list_length 180
  @attributes_per_event 20

  def defaults, do: %{seed: 1, expressions: 100_000, events: 1_000}

  def schema(_parameters), do: for(attribute <- Tuple.to_list(@attributes), do: domain(attribute))

  defp domain({name, type, _size}) when type == :boolean, do: %Domain{name: name, type: type, optional: true}
  defp domain({name, :float, _size}), do: %Domain{name: name, type: :float, optional: true, min: 0.0, max: 1.0}

  defp domain({name, type, size}) when type in [:integer, :integer_list],
    do: %Domain{name: name, type: type, optional: true, min: 0, max: size - 1}

  defp domain({name, type, size}), do: %Domain{name: name, type: type, optional: true, count: size}

  def expressions(%{expressions: 0}), do: []

  def expressions(%{expressions: count, seed: seed}) do
    Stream.map(1..count, &(seed |> Random.new(3, &1) |> expression() |> IO.iodata_to_binary()))
  end

  def events(%{events: 0}), do: []

  def events(%{events: count, seed: seed}) do
    Stream.map(1..count, &{:json, seed |> Random.new(4, &1) |> event() |> IO.iodata_to_binary()})
  end

  # The sum of three geometric draws, seven on average. Single predicates match most events, so they are made rare.
  defp expression(random) do
    {draws, random} =
      Enum.map_reduce(1..3, random, fn _draw, random -> Random.geometric(random, 0.3, @max_predicates) end)

    {conjunction, random} = Random.chance(random, 0.995)
    {leaves, random} = leaves(random, min(1 + Enum.sum(draws), @max_predicates), %{}, [])
    {text, _kind, _random} = tree(random, leaves, operator(conjunction), 1)
    text
  end

  defp operator(_conjunction = true), do: :and
  defp operator(_conjunction = false), do: :or

  # Returns `count` predicates over distinct attributes. A numeric range counts as two predicates.
  defp leaves(random, 0, _drawn, leaves), do: {leaves, random}

  defp leaves(random, count, drawn, leaves) do
    {rank, random} = Random.zipf(random, @popularity)
    {_name, type, _size} = attribute = elem(@attributes, rank)
    {ranged, random} = Random.chance(random, 0.3)

    cond do
      is_map_key(drawn, rank) ->
        leaves(random, count, drawn, leaves)

      ranged and type in [:integer, :float] and count >= 2 ->
        leaves(random, count - 2, Map.put(drawn, rank, []), [{:range, attribute} | leaves])

      true ->
        leaves(random, count - 1, Map.put(drawn, rank, []), [{:predicate, attribute} | leaves])
    end
  end

  # Returns the text of a tree with its root at this depth, and whether it needs parentheses as an operand. `and` and `or`
  # alternate by level.
  defp tree(random, [{:predicate, attribute}], _operator, _depth), do: predicate(random, attribute)
  defp tree(random, [{:range, attribute}], _operator, _depth), do: range(random, attribute)

  defp tree(random, leaves, operator, depth) do
    {negated, random} = Random.chance(random, if(depth in 2..(@max_depth - 2), do: 0.015, else: 0.0))
    depth = if negated, do: depth + 1, else: depth
    {parts, random} = parts(random, leaves, depth)

    {operands, random} =
      Enum.map_reduce(parts, random, fn part, random ->
        {text, kind, random} = tree(random, part, operator(operator == :or), depth + 1)
        {if(kind == :compound, do: ["(", text, ")"], else: text), random}
      end)

    text = Enum.intersperse(operands, if(operator == :and, do: " and ", else: " or "))
    if negated, do: {["not (", text, ")"], :compound, random}, else: {text, :compound, random}
  end

  # Divides the leaves among the operands. Most operands get one, the others any number but not all; at the bottom each gets
  # one.
  defp parts(random, [], _depth), do: {[], random}

  defp parts(random, [leaf | rest], depth) when rest == [] or depth == @max_depth - 1 do
    {parts, random} = parts(random, rest, depth)
    {[[leaf] | parts], random}
  end

  defp parts(random, leaves, depth) do
    count = length(leaves)
    {single, random} = Random.chance(random, 0.7)
    {size, random} = Random.between(random, 2, max(count - 1, 2))
    {part, rest} = Enum.split(leaves, if(single or count == 2, do: 1, else: size))
    {parts, random} = parts(random, rest, depth)
    {[part | parts], random}
  end

  defp predicate(random, {name, type, size}) do
    {form, random} = Random.below(random, 100)
    predicate(type, form, name, size, random)
  end

  defp predicate(_type, form, name, _size, random) when form < 1, do: {[name, " is not null"], :plain, random}

  defp predicate(:boolean, form, name, _size, random) do
    if form < 12, do: {["not ", name], :plain, random}, else: {name, :plain, random}
  end

  defp predicate(:integer, form, name, size, random) when form < 45 do
    {value, random} = Random.below(random, size)
    {[name, " = ", Integer.to_string(value)], :plain, random}
  end

  defp predicate(:integer, form, name, size, random) when form < 70, do: member(name, " in ", :integer, size, random)

  defp predicate(type, form, name, size, random) when type in [:integer, :float],
    do: bound(type, form, name, size, random)

  defp predicate(:string, form, name, size, random) when form < 50 do
    {value, random} = Random.below(random, size)
    {[name, " = ", string(name, value)], :plain, random}
  end

  defp predicate(:string, form, name, size, random) when form < 90, do: member(name, " in ", :string, size, random)
  defp predicate(:string, _form, name, size, random), do: member(name, " not in ", :string, size, random)

  defp predicate(type, form, name, size, random) when form < 30 do
    {value, random} = Random.below(random, size)
    {[constant(type, name, value), " in ", name], :plain, random}
  end

  defp predicate(type, form, name, size, random) when form < 75, do: member(name, " one of ", type, size, random)
  defp predicate(type, form, name, size, random) when form < 88, do: member(name, " none of ", type, size, random)

  defp predicate(type, _form, name, size, random) do
    {values, random} = Random.distinct(random, 2, &Random.below(&1, size))
    {[name, " all of ", constants(type, name, values)], :plain, random}
  end

  # Most lists are short; one in twenty has up to 180 values. No list has more than a third of the attribute's values.
  defp member(name, operator, type, size, random) do
    {long, random} = Random.chance(random, 0.05)

    {length, random} =
      if long, do: Random.between(random, 20, @max_list_length), else: Random.geometric(random, 0.2, @max_list_length)

    length = max(min(length, div(size, 3)), 1)
    {values, random} = Random.distinct(random, length, &Random.below(&1, size))
    {[name, operator, constants(type, name, values)], :plain, random}
  end

  defp bound(type, form, name, size, random) do
    {value, random} = Random.below(random, size)
    operator = elem({" < ", " <= ", " > ", " >= "}, rem(form, 4))
    {[name, operator, constant(type, name, value)], :plain, random}
  end

  # Both bounds of a numeric attribute, at most a fifth of its values apart.
  defp range(random, {name, type, size}) do
    {from, random} = Random.below(random, size)
    {width, random} = Random.below(random, div(size, 5) + 1)
    to = min(from + width, size - 1)
    {[name, " >= ", constant(type, name, from), " and ", name, " <= ", constant(type, name, to)], :compound, random}
  end

  defp constants(type, name, values) do
    ["(", Enum.map_intersperse(values, ", ", &constant(type, name, &1)), ")"]
  end

  defp constant(type, _name, value) when type in [:integer, :integer_list], do: Integer.to_string(value)
  defp constant(:float, _name, value), do: float(value)
  defp constant(type, name, value) when type in [:string, :string_list], do: string(name, value)

  defp string(name, value), do: [?", name, ?_, Integer.to_string(value), ?"]

  # Floats are thousandths from 0 to 1, formatted from integers.
  defp float(thousandths), do: ["0.", thousandths |> Integer.to_string() |> String.pad_leading(3, "0")]

  defp event(random) do
    {ranks, random} = Random.distinct(random, @attributes_per_event, &Random.zipf(&1, @popularity))

    {undefined_count, random} =
      Random.between(random, div(@attributes_per_event, 10), div(3 * @attributes_per_event, 10))

    {shuffled, random} = Random.shuffle(random, ranks)
    undefined = shuffled |> Enum.take(undefined_count) |> MapSet.new()

    {fields, _random} =
      Enum.map_reduce(ranks, random, fn rank, random ->
        {name, type, size} = elem(@attributes, rank)
        {value, random} = if rank in undefined, do: {"null", random}, else: value(type, name, size, random)
        {[?", name, "\": ", value], random}
      end)

    ["{", Enum.intersperse(fields, ", "), "}"]
  end

  defp value(:boolean, _name, _size, random), do: Random.pick(random, {"true", "false"})

  defp value(type, name, size, random) when type in [:integer_list, :string_list] do
    {count, random} = Random.between(random, 0, 8)
    {values, random} = Random.distinct(random, count, &Random.below(&1, size))
    {["[", Enum.map_intersperse(values, ", ", &constant(type, name, &1)), "]"], random}
  end

  defp value(type, name, size, random) do
    {value, random} = Random.below(random, size)
    {constant(type, name, value), random}
  end
end

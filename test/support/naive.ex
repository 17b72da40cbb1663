defmodule BeTree.Test.Naive do
  @moduledoc """
  A naive evaluator of the expression language, the oracle for the index.

  Expressions are terms:

      {:and, a, b}  {:or, a, b}  {:not, a}  {:constant, boolean}
      {:variable, name}                          a boolean attribute
      {:compare, :< | :<= | :> | :>=, name, number}
      {:equal, :== | :!=, name, number or string}
      {:member, :in | :not_in, name, constants}  a scalar attribute among constants
      {:has, :in | :not_in, name, constant}      a constant in a list attribute
      {:list, :one_of | :none_of | :all_of, name, constants}
      {:is, :null | :not_null | :empty, name}
      {:between, :between | :not_between, name, low, high}
      {:computed, relation, left, right}         numbers, names, {:size | :length, name}, {operator, left, right}
      {:like, :like | :not_like, name, pattern}  a list of :any, :one and strings
      {:network, :in | :not_in, name, networks}  each {address, bits}, the address a tuple as of :inet
      {:text, :contains | :starts_with | :ends_with, name, string}
      {:geo, latitude, longitude, kilometres}
      {:segment, :within | :before, name, id, seconds}
      {:cap, type, namespace, value, seconds}
      {:objects, :any | :all | :none, name, expression}

  In place of the name of a string, `{:lower, name}` stands for its lower case.

  An event is a map from names to values. A missing name is undefined. Constants are a map from names to integers.
  """

  @earth_radius 6372.8
  @epsilon 2.220446049250313e-16

  def eval({:and, a, b}, event, constants), do: eval(a, event, constants) and eval(b, event, constants)
  def eval({:or, a, b}, event, constants), do: eval(a, event, constants) or eval(b, event, constants)
  def eval({:not, a}, event, constants), do: not eval(a, event, constants)
  def eval({:constant, constant}, _event, _constants), do: constant

  def eval({:objects, quantifier, name, condition}, event, constants) do
    case event do
      %{^name => objects} ->
        met = Enum.map(objects, &eval(condition, Map.new(&1), constants))
        if quantifier == :all, do: Enum.all?(met), else: Enum.any?(met) == (quantifier == :any)

      _undefined ->
        false
    end
  end

  def eval({:is, :null, name}, event, _constants), do: not is_map_key(event, name)

  def eval({:computed, relation, left, right} = predicate, event, _constants) do
    defined = Enum.all?(attributes(predicate), &is_map_key(event, &1))

    with true <- defined, {:ok, left} <- compute(left, event), {:ok, right} <- compute(right, event) do
      compare(relation, left, right)
    else
      _undefined -> false
    end
  end

  def eval(predicate, event, constants) do
    case read(attributes(predicate), event) do
      {:ok, values} -> test(predicate, values, constants)
      :undefined -> false
    end
  end

  defp attributes({:variable, name}), do: [name]
  defp attributes({:geo, _, _, _}), do: ["latitude", "longitude"]
  defp attributes({:segment, _, name, _, _}), do: [name, "now"]
  defp attributes({:cap, _, _, _, _}), do: ["frequency_caps", "now"]
  defp attributes({:computed, _, left, right}), do: names(left) ++ names(right)
  defp attributes(predicate), do: [elem(predicate, 2)]

  defp names({counted, name}) when counted in [:size, :length], do: [name]
  defp names({_operator, left, right}), do: names(left) ++ names(right)
  defp names(name) when is_binary(name), do: [name]
  defp names(_number), do: []

  defp fetch({:lower, name}, event) do
    with {:ok, value} <- Map.fetch(event, name), do: {:ok, lower(value)}
  end

  defp fetch(name, event), do: Map.fetch(event, name)

  # Maps each character alone, because `String.downcase/1` of a string considers neighbors.
  defp lower(value), do: value |> String.codepoints() |> Enum.map_join(&String.downcase/1)

  defp read(names, event) do
    values = for name <- names, {:ok, value} <- [fetch(name, event)], do: value
    if length(values) == length(names), do: {:ok, values}, else: :undefined
  end

  defp test({:variable, _}, [value], _), do: value
  defp test({:compare, :<, _, constant}, [value], _), do: value < constant
  defp test({:compare, :<=, _, constant}, [value], _), do: value <= constant
  defp test({:compare, :>, _, constant}, [value], _), do: value > constant
  defp test({:compare, :>=, _, constant}, [value], _), do: value >= constant
  defp test({:equal, :==, _, constant}, [value], _), do: equal?(value, constant)
  defp test({:equal, :!=, _, constant}, [value], _), do: not equal?(value, constant)
  defp test({:member, :in, _, constants}, [value], _), do: value in constants
  defp test({:member, :not_in, _, constants}, [value], _), do: value not in constants
  defp test({:has, :in, _, constant}, [list], _), do: constant in list
  defp test({:has, :not_in, _, constant}, [list], _), do: constant not in list
  defp test({:list, :one_of, _, constants}, [list], _), do: Enum.any?(constants, &(&1 in list))
  defp test({:list, :none_of, _, constants}, [list], _), do: not Enum.any?(constants, &(&1 in list))
  defp test({:list, :all_of, _, constants}, [list], _), do: Enum.all?(constants, &(&1 in list))
  defp test({:is, :not_null, _}, [_], _), do: true
  defp test({:is, :empty, _}, [list], _), do: list == []
  defp test({:text, :contains, _, part}, [value], _), do: String.contains?(value, part)
  defp test({:text, :starts_with, _, part}, [value], _), do: String.starts_with?(value, part)
  defp test({:text, :ends_with, _, part}, [value], _), do: String.ends_with?(value, part)

  defp test({:between, :between, _, low, high}, [value], _), do: low <= value and value <= high
  defp test({:between, :not_between, _, low, high}, [value], _), do: value < low or value > high
  defp test({:like, :like, _, pattern}, [value], _), do: like?(pattern, String.codepoints(value))
  defp test({:like, :not_like, _, pattern}, [value], _), do: not like?(pattern, String.codepoints(value))
  defp test({:network, :in, _, networks}, [value], _), do: Enum.any?(networks, &in?(value, &1))
  defp test({:network, :not_in, _, networks}, [value], _), do: not Enum.any?(networks, &in?(value, &1))

  defp test({:geo, latitude, longitude, radius}, [here, there], _) do
    haversine({latitude, longitude}, {here, there}) <= radius
  end

  defp test({:segment, kind, _, id, seconds}, [segments, now], _) do
    case List.keyfind(segments, id, 0) do
      nil -> false
      {_, micros} when kind == :within -> (now - seconds) * 1_000_000 <= micros
      {_, micros} when kind == :before -> (now - seconds) * 1_000_000 > micros
    end
  end

  defp test({:cap, type, namespace, limit, seconds}, [caps, now], constants) do
    [entity | _ip] = String.split(type, ":")
    key = {type, Map.fetch!(constants, entity <> "_id"), namespace}

    case List.keyfind(caps, key, 0) do
      nil -> true
      {_, value, _} when seconds <= 0 -> limit > value
      {_, _, nil} -> true
      {_, value, micros} -> (now - seconds) * 1_000_000 > micros or limit > value
    end
  end

  defp compute(number, _event) when is_number(number), do: {:ok, number}
  defp compute(name, event) when is_binary(name), do: {:ok, Map.fetch!(event, name)}
  defp compute({:length, name}, event), do: {:ok, event |> Map.fetch!(name) |> String.codepoints() |> length()}

  # A list of integers is a set.
  defp compute({:size, name}, event) do
    list = Map.fetch!(event, name)
    {:ok, length(if(Enum.all?(list, &is_integer/1), do: Enum.uniq(list), else: list))}
  end

  defp compute({operator, left, right}, event) do
    with {:ok, left} <- compute(left, event), {:ok, right} <- compute(right, event), do: apply_to(operator, left, right)
  end

  defp apply_to(operator, left, right) do
    result =
      case operator do
        :+ -> left + right
        :- -> left - right
        :* -> left * right
        :/ -> left / right
      end

    if is_float(result) or result in -0x8000_0000_0000_0000..0x7FFF_FFFF_FFFF_FFFF, do: {:ok, result}, else: :undefined
  rescue
    ArithmeticError -> :undefined
  end

  defp compare(relation, left, right) when is_integer(left) and is_integer(right),
    do: apply(Kernel, if(relation == :=, do: :==, else: if(relation == :<>, do: :!=, else: relation)), [left, right])

  defp compare(:=, left, right), do: abs(left - right) < @epsilon
  defp compare(:<>, left, right), do: abs(left - right) >= @epsilon
  defp compare(relation, left, right), do: apply(Kernel, relation, [left * 1.0, right * 1.0])

  defp like?([], value), do: value == []
  defp like?([:any | rest], value), do: like?(rest, value) or (value != [] and like?([:any | rest], tl(value)))
  defp like?([:one | rest], value), do: value != [] and like?(rest, tl(value))

  defp like?([text | rest], value) do
    text = String.codepoints(text)
    List.starts_with?(value, text) and like?(rest, Enum.drop(value, length(text)))
  end

  # In an expression for another schema, the attribute may be a string here.
  defp in?(string, _network) when is_binary(string), do: false

  defp in?(address, {first, bits}) do
    tuple_size(address) == tuple_size(first) and first_bits(address, bits) == first_bits(first, bits)
  end

  defp first_bits(address, bits), do: Enum.take(for(<<bit::1 <- to_bits(address)>>, do: bit), bits)

  defp to_bits(address) do
    width = if tuple_size(address) == 4, do: 8, else: 16
    for part <- Tuple.to_list(address), into: <<>>, do: <<part::size(width)>>
  end

  defp equal?(value, constant) when is_float(value), do: abs(value - constant) < @epsilon
  defp equal?(value, constant), do: value === constant

  defp haversine({latitude1, longitude1}, {latitude2, longitude2}) do
    latitude = :math.sin(radians(latitude2 - latitude1) / 2)
    longitude = :math.sin(radians(longitude2 - longitude1) / 2)

    a =
      latitude * latitude +
        :math.cos(radians(latitude1)) * :math.cos(radians(latitude2)) * longitude * longitude

    2 * @earth_radius * :math.asin(:math.sqrt(min(a, 1.0)))
  end

  defp radians(degrees), do: degrees * :math.pi() / 180
end

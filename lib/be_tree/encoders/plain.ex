defmodule BeTree.Encoders.Plain do
  @moduledoc false
  # Converts structs of the library to maps that any encoder of JSON takes.

  alias BeTree.{Error, Explanation}
  alias BeTree.Explanation.Node
  alias BeTree.Input.Describe
  alias BeTree.Rules.Notice

  @doc "Returns the map for a struct. Fields that are `nil` are left out, except the name of a notice and its values."
  @spec map(Error.t() | Explanation.t() | Node.t() | Notice.t()) :: map
  def map(%Notice{rule: rule, name: name, values: values} = notice) do
    numbers = notice |> Map.take([:number, :partition]) |> present()
    Map.merge(numbers, %{rule: rule, name: name, values: values(values)})
  end

  def map(%Explanation{id: id, match: match, root: root}), do: %{id: value(id), match: match, root: map(root)}

  # Undefined and long values have fields of their own: a value of the event may be a string of the same text.
  def map(%Node{kind: :predicate} = node) do
    fields = %{kind: :predicate, verdict: node.verdict, attribute: node.attribute, text: node.text}

    case node.actual do
      :undefined -> Map.put(fields, :actual, nil)
      {:omitted, count} -> Map.put(fields, :actual_omitted, count)
      actual -> Map.put(fields, :actual, value(actual))
    end
  end

  def map(%Node{children: []} = node), do: node |> Map.take([:kind, :verdict, :omitted]) |> present()

  def map(%Node{kind: kind, verdict: verdict, children: children}),
    do: %{kind: kind, verdict: verdict, children: Enum.map(children, &map/1)}

  def map(%Error{} = error) do
    error
    |> Map.from_struct()
    |> Map.delete(:__exception__)
    |> present()
    |> Map.new(fn {key, field} -> {key, value(field)} end)
  end

  defp present(fields), do: for({key, field} <- fields, field != nil, into: %{}, do: {key, field})

  defp values(values), do: Map.new(values, fn {name, value} -> {name, value(value)} end)

  defp value(list) when is_list(list),
    do: if(List.improper?(list), do: Describe.value(list), else: Enum.map(list, &value/1))

  defp value(map) when is_map(map) and not is_struct(map),
    do: Map.new(map, fn {key, value} -> {key(key), value(value)} end)

  # JSON has no bytes that are not UTF-8.
  defp value(binary) when is_binary(binary), do: if(String.valid?(binary), do: binary, else: Describe.kind(binary))
  defp value(scalar) when is_number(scalar) or is_atom(scalar), do: scalar

  # Frequency caps are tuples.
  defp value(tuple) when is_tuple(tuple), do: tuple |> Tuple.to_list() |> value()
  defp value(other), do: Describe.value(other)

  defp key(key) when is_binary(key) or is_atom(key), do: key
  defp key(key), do: Describe.value(key)
end

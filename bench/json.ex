defmodule BeTree.Bench.Json do
  @moduledoc false
  # Writes and reads the JSON of workloads and results. Elixir 1.14 has no JSON library.

  # Returns the JSON of maps, lists, strings, atoms and numbers.
  @spec encode(term) :: String.t()
  def encode(term), do: term |> value() |> IO.iodata_to_binary()

  defp value(nil), do: "null"
  defp value(boolean) when is_boolean(boolean), do: Atom.to_string(boolean)
  defp value(integer) when is_integer(integer), do: Integer.to_string(integer)
  defp value(float) when is_float(float), do: Float.to_string(float)
  defp value(atom) when is_atom(atom), do: string(Atom.to_string(atom))
  defp value(string) when is_binary(string), do: string(string)
  defp value(list) when is_list(list), do: [?[, Enum.map_intersperse(list, ?,, &value/1), ?]]

  defp value(map) when is_map(map) do
    pair = fn {key, value} -> [string(to_string(key)), ?:, value(value)] end
    [?{, map |> Enum.sort() |> Enum.map_intersperse(?,, pair), ?}]
  end

  defp string(string), do: [?", String.replace(string, ["\\", "\""], &"\\#{&1}"), ?"]

  # What a text of a workload says; its strings have no escapes.
  @spec decode(String.t()) :: term
  def decode(text) do
    {term, ""} = parse(text)
    term
  end

  defp parse(<<space, rest::binary>>) when space in ~c" \n", do: parse(rest)
  defp parse("null" <> rest), do: {nil, rest}
  defp parse("true" <> rest), do: {true, rest}
  defp parse("false" <> rest), do: {false, rest}

  defp parse("{" <> rest),
    do: rest |> elements("}", &pair/1, []) |> then(fn {pairs, rest} -> {Map.new(pairs), rest} end)

  defp parse("[" <> rest), do: elements(rest, "]", &parse/1, [])

  defp parse("\"" <> rest) do
    [string, rest] = :binary.split(rest, "\"")
    {string, rest}
  end

  defp parse(number) do
    {integer, rest} = Integer.parse(number)
    if match?(<<digit, _::binary>> when digit in ~c".eE", rest), do: Float.parse(number), else: {integer, rest}
  end

  defp elements(text, close, element, found) do
    case String.trim_leading(text) do
      <<^close::binary-size(1), rest::binary>> -> {Enum.reverse(found), rest}
      "," <> rest -> elements(rest, close, element, found)
      text -> text |> element.() |> then(fn {term, rest} -> elements(rest, close, element, [term | found]) end)
    end
  end

  defp pair(text) do
    {name, rest} = parse(text)
    ":" <> rest = String.trim_leading(rest)
    {value, rest} = parse(rest)
    {{name, value}, rest}
  end
end

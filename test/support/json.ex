defmodule BeTree.Test.Json do
  @moduledoc "Writes events as JSON, with random white space, escapes and forms of numbers."

  @doc "Returns the JSON object of a map or a list of `{name, value}`. Values are those of `BeTree.Event`."
  def encode(pairs) do
    IO.iodata_to_binary([space(), "{", join(pairs, &pair/1), "}", space()])
  end

  defp pair({name, value}), do: [space(), string(to_string(name)), space(), ":", space(), value(value), space()]

  defp value(nil), do: "null"
  defp value(:undefined), do: "null"
  defp value(boolean) when is_boolean(boolean), do: Atom.to_string(boolean)
  defp value(integer) when is_integer(integer), do: Integer.to_string(integer)
  defp value(float) when is_float(float), do: Float.to_string(float)
  defp value(atom) when is_atom(atom), do: string(Atom.to_string(atom))
  defp value(string) when is_binary(string), do: string(string)
  defp value(tuple) when is_tuple(tuple), do: value(Tuple.to_list(tuple))
  defp value(%module{} = time) when module in [DateTime, NaiveDateTime], do: time |> module.to_iso8601() |> value()
  defp value(map) when is_map(map), do: encode(map)
  defp value([{name, _value} | _] = pairs) when is_binary(name), do: encode(pairs)
  defp value(list) when is_list(list), do: ["[", join(list, &element/1), "]"]

  # Only a list of objects may have empty objects as elements; no list has empty lists.
  defp element([]), do: encode([])
  defp element(element), do: value(element)

  defp string(string), do: [?", for(<<character::utf8 <- string>>, do: character(character)), ?"]

  defp character(?"), do: ~S(\")
  defp character(?\\), do: ~S(\\)
  defp character(control) when control < 32, do: escape(control)

  defp character(other) do
    if :rand.uniform(4) == 1, do: escape(other), else: <<other::utf8>>
  end

  defp escape(character) do
    for <<unit::16 <- :unicode.characters_to_binary([character], :utf8, :utf16)>> do
      ["\\u", unit |> Integer.to_string(16) |> String.pad_leading(4, "0")]
    end
  end

  defp join(list, encode), do: list |> Enum.map(encode) |> Enum.intersperse(",")
  defp space, do: Enum.random(["", "", "", " ", "\n", " \t\r\n"])
end

defmodule BeTree.Input.Json do
  @moduledoc false
  # Writes and reads JSON, for the files of `BeTree.Tune` and for patterns. Elixir 1.14 and OTP 25 have no JSON module, and a library
  # would be the only run-time dependency of every user; libraries also drop one of two duplicate keys silently.

  # Conversion of a longer integer is slow, and no attribute can hold it.
  @max_number_characters 400

  @doc "Returns the JSON of maps, lists, strings, atoms and numbers. The keys of a map are sorted."
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

  # A text that is not UTF-8, such as a string of an event, has its wrong bytes replaced.
  defp string(string) do
    text = if String.valid?(string), do: string, else: for(<<byte <- string>>, into: "", do: <<byte::utf8>>)
    [?", escape(text, text, 0, 0), ?"]
  end

  defp escape(<<byte, rest::binary>>, text, from, length) when byte >= 32 and byte not in [?", ?\\],
    do: escape(rest, text, from, length + 1)

  defp escape(<<byte, rest::binary>>, text, from, length),
    do: [binary_part(text, from, length), escaped(byte) | escape(rest, text, from + length + 1, 0)]

  defp escape("", text, from, length), do: [binary_part(text, from, length)]

  defp escaped(?"), do: ~S(\")
  defp escaped(?\\), do: ~S(\\)
  defp escaped(?\n), do: ~S(\n)
  defp escaped(control), do: ["\\u", control |> Integer.to_string(16) |> String.pad_leading(4, "0")]

  @doc """
  Returns the term of a JSON text, with strings as keys, or the offset in bytes of the first fault. A duplicate key of an object is
  a fault with that key, because either value may be meant. Numbers of more than #{@max_number_characters} characters, and numbers
  outside the range of floats, are faults.
  """
  @spec decode(binary) ::
          {:ok, term} | {:error, offset :: non_neg_integer} | {:error, {:twice, String.t(), offset :: non_neg_integer}}
  def decode(text) when is_binary(text) do
    {term, rest} = text |> skip() |> parse()
    if skip(rest) == "", do: {:ok, term}, else: {:error, byte_size(text) - byte_size(skip(rest))}
  catch
    {:fault, rest} -> {:error, byte_size(text) - byte_size(rest)}
    {:twice, name, rest} -> {:error, {:twice, name, byte_size(text) - byte_size(rest)}}
  end

  @doc "Like `decode/1`, but returns the term and raises an `ArgumentError` for a fault."
  @spec decode!(binary) :: term
  def decode!(text) do
    case decode(text) do
      {:ok, term} -> term
      {:error, {:twice, name, offset}} -> raise ArgumentError, "the name #{inspect(name)} again at byte #{offset}"
      {:error, offset} -> raise ArgumentError, "no JSON at byte #{offset}"
    end
  end

  defp skip(<<space, rest::binary>>) when space in ~c" \n\r\t", do: skip(rest)
  defp skip(text), do: text

  defp parse("null" <> rest), do: {nil, rest}
  defp parse("true" <> rest), do: {true, rest}
  defp parse("false" <> rest), do: {false, rest}
  defp parse("\"" <> rest), do: text(rest, rest, 0, [])

  defp parse("{" <> rest) do
    {pairs, rest} = rest |> skip() |> elements("}", &pair/1, [])
    {Enum.reduce(pairs, %{}, &put_once/2), rest}
  end

  defp parse("[" <> rest), do: rest |> skip() |> elements("]", &parse/1, [])

  defp parse(text) do
    with [number | fraction] when byte_size(number) <= @max_number_characters <-
           Regex.run(~r/\A-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/, text),
         {:ok, value} <- number(number, fraction) do
      {value, binary_part(text, byte_size(number), byte_size(text) - byte_size(number))}
    else
      _no_number -> throw({:fault, text})
    end
  end

  defp put_once({name, _value, rest}, map) when is_map_key(map, name), do: throw({:twice, name, rest})
  defp put_once({name, value, _rest}, map), do: Map.put(map, name, value)

  defp number(integer, []), do: {:ok, String.to_integer(integer)}

  # A float that is too large is an error, or an exception with newer versions of Elixir.
  defp number(float, _fraction) do
    with {value, ""} <- Float.parse(float), do: {:ok, value}
  rescue
    ArgumentError -> :error
  end

  defp elements(<<close, rest::binary>>, <<close>>, _element, []), do: {[], rest}

  defp elements(text, <<close>> = closing, element, found) do
    {term, rest} = element.(text)

    case skip(rest) do
      <<^close, rest::binary>> -> {Enum.reverse([term | found]), rest}
      "," <> rest -> rest |> skip() |> elements(closing, element, [term | found])
      other -> throw({:fault, other})
    end
  end

  # Returns a name and its value, with the text from the name on.
  defp pair("\"" <> rest = all) do
    {name, rest} = text(rest, rest, 0, [])

    case skip(rest) do
      ":" <> rest -> rest |> skip() |> parse() |> then(fn {value, rest} -> {{name, value, all}, rest} end)
      other -> throw({:fault, other})
    end
  end

  defp pair(other), do: throw({:fault, other})

  # Copies the characters up to the next escape at once.
  defp text("\"" <> rest, from, length, found),
    do: {IO.iodata_to_binary(Enum.reverse([binary_part(from, 0, length) | found])), rest}

  defp text(<<"\\u", digits::binary-size(4), rest::binary>> = all, from, length, found) do
    {character, rest} = unicode(digits, rest, all)
    text(rest, rest, 0, [character, binary_part(from, 0, length) | found])
  end

  defp text(<<"\\", escape, rest::binary>> = all, from, length, found) do
    character =
      %{?" => "\"", ?\\ => "\\", ?/ => "/", ?b => "\b", ?f => "\f", ?n => "\n", ?r => "\r", ?t => "\t"}[escape]

    text(rest, rest, 0, [character || throw({:fault, all}), binary_part(from, 0, length) | found])
  end

  defp text(<<character::utf8, rest::binary>>, from, length, found) when character >= 32,
    do: text(rest, from, length + byte_size(<<character::utf8>>), found)

  defp text("", from, _length, _found), do: throw({:fault, from})
  defp text(other, _from, _length, _found), do: throw({:fault, other})

  # A character outside the basic plane is two escapes.
  defp unicode(digits, rest, all) do
    with {unit, ""} <- Integer.parse(digits, 16),
         {character, rest} when is_binary(character) <- character(unit, rest) do
      {character, rest}
    else
      _wrong -> throw({:fault, all})
    end
  end

  defp character(high, <<"\\u", digits::binary-size(4), rest::binary>>) when high in 0xD800..0xDBFF do
    with {low, ""} when low in 0xDC00..0xDFFF <- Integer.parse(digits, 16),
         do: {<<0x10000 + (high - 0xD800) * 0x400 + (low - 0xDC00)::utf8>>, rest}
  end

  defp character(unit, _rest) when unit in 0xD800..0xDFFF, do: nil
  defp character(unit, rest), do: {<<unit::utf8>>, rest}
end

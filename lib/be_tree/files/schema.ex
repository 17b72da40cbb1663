defmodule BeTree.Files.Schema do
  @moduledoc false
  # Reads the schema in each format: JSON (`BeTree.Domain.Json`), Erlang terms, `{age, int, allow_undefined, 0, 99}`, or be-tree's lines,
  # `age|integer|true|0|99`. Ordered types may have two bounds, the other bounded types a count of distinct values.

  alias BeTree.Domain
  alias BeTree.Input.{Describe, Json}
  alias BeTree.Files.{Error, Reader, Terms}

  @term_types %{
    "bool" => :boolean,
    "int" => :integer,
    "int64" => :integer,
    "int_enum" => :integer_enum,
    "float" => :float,
    "bin" => :string,
    "int_list" => :integer_list,
    "bin_list" => :string_list,
    "segments" => :segments,
    "frequency_caps" => :frequency_caps
  }

  # be-tree's reader accepts "frequency"; its documentation says "frequency caps".
  @line_types %{
    "boolean" => :boolean,
    "integer" => :integer,
    "integer enum" => :integer_enum,
    "float" => :float,
    "string" => :string,
    "integer list" => :integer_list,
    "string list" => :string_list,
    "segments" => :segments,
    "frequency caps" => :frequency_caps,
    "frequency" => :frequency_caps
  }

  @types_with_bounds [:integer, :float, :integer_list]
  @types_with_count [:string, :integer_enum, :string_list]

  # Returns the domains in the first term or the lines of a file.
  @spec read(Reader.cursor()) :: [Domain.t()]
  def read({_rest, %{format: :terms, path: path}} = cursor) do
    case Terms.take(cursor) do
      {located, _cursor} -> from_term(located, path)
      nil -> raise %Error{path: path, reason: "expected a list of attributes, but the file is empty"}
    end
  end

  def read({first, %{format: :objects} = reader}), do: read_json([first | following(reader)], reader)
  def read({_rest, %{path: path}} = cursor), do: cursor |> Stream.unfold(&Reader.take/1) |> read_lines(path)

  # Returns the lines behind the reader's line, the blank ones too.
  defp following(reader) do
    case Reader.next_line(reader) do
      {:ok, reader} -> [reader.text | following(reader)]
      :eof -> []
    end
  end

  defp read_json(lines, reader) do
    text = Enum.join(lines, "\n")

    case BeTree.Domain.Json.parse(text) do
      {:ok, schema} -> schema
      {:error, error} -> raise json_error(error, name_offset(text, error.attribute), lines, reader)
      {:error, error, offset} -> raise json_error(error, offset, lines, reader)
    end
  end

  # Returns the byte at which the text has the attribute's name, if it has that name once.
  defp name_offset(_text, nil), do: nil

  defp name_offset(text, attribute) do
    with {:ok, fields} <- BeTree.Domain.Path.fields(attribute),
         [{offset, _length}] <- :binary.matches(text, Json.encode(List.last(fields))) do
      offset
    else
      _none_or_several -> nil
    end
  end

  defp json_error(error, nil, _lines, reader), do: %Error{path: reader.path, reason: error.message}

  defp json_error(error, offset, lines, reader) do
    before = lines |> Enum.join("\n") |> binary_part(0, offset) |> String.split("\n")
    index = length(before) - 1
    Reader.error(reader.path, Enum.at(lines, index), reader.number + index, byte_size(List.last(before)), error.message)
  end

  # Returns the domains in a term, which must be a list of tuples.
  @spec from_term(Terms.located(), Path.t()) :: [Domain.t()]
  def from_term({schema, text, number, offset}, path) do
    fail = fn reason -> raise Reader.error(path, text, number, offset, reason) end
    unless is_list(schema), do: fail.("expected a list of attributes, {Name, Type, allow_undefined} each")

    for domain <- schema do
      with {:ok, name, type, optional, bounds} <- split_tuple(domain),
           {:ok, domain} <- declare(name, @term_types[type], optional, bounds) do
        domain
      else
        {:error, reason} -> fail.("in #{Describe.value(domain)}: #{reason}")
      end
    end
  end

  defp read_lines(lines, path) do
    for {text, number} <- lines do
      with {:ok, name, type, optional, bounds} <- split_line(text),
           {:ok, domain} <- declare(name, @line_types[type], optional, bounds) do
        domain
      else
        {:error, reason} -> raise Reader.error(path, text, number, 0, reason)
        {:error, reason, offset} -> raise Reader.error(path, text, number, offset, reason)
      end
    end
  end

  defp split_tuple(domain) when is_tuple(domain) and tuple_size(domain) in 3..5 do
    [name, type, undefined | bounds] = Tuple.to_list(domain)

    cond do
      not is_binary(name) ->
        {:error, "a name is an atom"}

      not is_map_key(@term_types, type) ->
        {:error, "a type is one of #{names(@term_types)}"}

      undefined not in ["allow_undefined", "disallow_undefined"] ->
        {:error, "after the type comes allow_undefined or disallow_undefined"}

      not Enum.all?(bounds, &is_number/1) ->
        {:error, "bounds are numbers"}

      true ->
        {:ok, name, type, undefined == "allow_undefined", bounds}
    end
  end

  defp split_tuple(_domain) do
    {:error, "an attribute is {Name, Type, allow_undefined}, followed by its bounds if it has any"}
  end

  defp split_line(text) do
    case text |> String.split("|") |> Enum.map(&String.trim/1) do
      [name, type, undefined | bounds] when length(bounds) <= 2 ->
        split_fields(text, name, type, undefined, bounds)

      _other ->
        {:error, "an attribute is name|type|allow undefined, followed by |min|max or |count if it has bounds"}
    end
  end

  defp split_fields(text, name, type, undefined, bounds) do
    bounds = bounds |> Enum.reverse() |> Enum.drop_while(&(&1 == "")) |> Enum.reverse() |> Enum.map(&parse_bound/1)

    cond do
      not is_map_key(@line_types, type) ->
        {:error, "a type is one of #{names(@line_types)}", field_offset(text, 1)}

      undefined not in ["true", "false"] ->
        {:error, "whether undefined is allowed is true or false", field_offset(text, 2)}

      index = Enum.find_index(bounds, &(&1 == :error)) ->
        {:error, "a bound is a number", field_offset(text, 3 + index)}

      true ->
        {:ok, name, type, undefined == "true", bounds}
    end
  end

  defp field_offset(text, index) do
    text |> String.split("|") |> Enum.take(index) |> Enum.reduce(0, &(byte_size(&1) + 1 + &2))
  end

  defp parse_bound(""), do: nil

  defp parse_bound(text) do
    case Integer.parse(text) do
      {integer, ""} -> integer
      _other -> parse_float(text)
    end
  end

  defp parse_float(text) do
    case Float.parse(text) do
      {float, ""} -> float
      _other -> :error
    end
  end

  defp declare(name, type, optional, bounds) do
    with {:ok, bounds} <- name_bounds(type, bounds) do
      options = for {key, bound} <- [{:optional, optional} | bounds], bound != nil, do: {key, bound}

      case Domain.parse([{name, {type, options}}]) do
        {:ok, [domain]} -> {:ok, domain}
        {:error, error} -> {:error, error.message}
      end
    end
  end

  defp name_bounds(_type, []), do: {:ok, []}
  defp name_bounds(type, [min]) when type in @types_with_bounds, do: {:ok, [min: min]}
  defp name_bounds(type, [min, max]) when type in @types_with_bounds, do: {:ok, [min: min, max: max]}
  defp name_bounds(type, [count]) when type in @types_with_count, do: {:ok, [count: count]}
  defp name_bounds(type, _bounds) when type in @types_with_count, do: {:error, "this type has one bound, a count"}
  defp name_bounds(_type, _bounds), do: {:error, "this type has no bounds"}

  defp names(types), do: types |> Map.keys() |> Enum.sort() |> Enum.join(", ")
end

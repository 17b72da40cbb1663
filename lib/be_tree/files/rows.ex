defmodule BeTree.Files.Rows do
  @moduledoc false
  # Reads files in which each expression has its id beside it: JSON objects, one a line, and CSV with a header.

  alias BeTree.Files.{Constants, Csv, Error, Reader}
  alias BeTree.Input.{Json, Limits}

  require Limits

  @enforce_keys [:id, :expression, :constants, :text, :line, :place]
  defstruct @enforce_keys

  @typedoc """
  The place of an expression's text: a field of CSV, or the line of JSON with the byte behind the opening quote. `nil` for the byte if the
  field's name is written with escapes.
  """
  @type place :: {:csv, Csv.field()} | {:json, String.t(), non_neg_integer | nil}

  @typedoc "An expression; `text` and `line` are those of the line in which it begins."
  @type t :: %__MODULE__{
          id: integer | String.t(),
          expression: String.t(),
          constants: keyword(integer),
          text: String.t(),
          line: pos_integer,
          place: place
        }

  @columns ["id", "expression"]
  @constants Map.new(Constants.names(), &{Atom.to_string(&1), &1})
  @example ~S({"id": "a7", "expression": "age > 20"})

  # Returns the format of a file of expressions, or nil if it is none of the two.
  @spec format(Reader.cursor()) :: :csv | :json | nil
  def format({text, %{format: :objects}}), do: if(expression?(text), do: :json)

  def format({text, %{path: path}}) do
    if text =~ ~r/\A\s*"?(?:id|expression)"?\s*(?:,|\z)/ or String.downcase(Path.extname(path)) == ".csv", do: :csv
  end

  # In a pattern the value of each field is an array or an object.
  defp expression?(text) do
    case Json.decode(text) do
      {:ok, fields} when is_map(fields) ->
        Enum.any?(fields, fn {_name, value} -> not (is_list(value) or is_map(value)) end)

      _other ->
        text =~ ~r/\A\s*\{\s*"(?:id|expression)"\s*:\s*["\d]/
    end
  end

  # Returns the rows. If all ids of CSV are unsigned 64-bit integers they are integers, otherwise strings.
  @spec read!(Reader.cursor(), :csv | :json) :: [t]
  def read!({_text, reader} = cursor, :json) do
    cursor |> Stream.unfold(&Reader.take/1) |> Enum.map(&object(&1, reader.path))
  end

  def read!({_text, reader} = cursor, :csv) do
    # A file with nothing but the header has no expressions. A file without a header may come from an export that failed.
    {{header, text, number}, cursor} =
      Csv.take(cursor) || raise %Error{path: reader.path, reason: "is empty; it begins with the header id,expression"}

    columns =
      for {name, _line, column, _quoted} <- header, do: column(name, &error(reader.path, text, number, column, &1))

    for name <- @columns, name not in columns do
      raise error(reader.path, text, number, 1, "the header has no column #{name}; it is id,expression")
    end

    if name = List.first(columns -- Enum.uniq(columns)) do
      raise error(reader.path, text, number, 1, "the header has the column #{name} twice; remove one")
    end

    rows = cursor |> Stream.unfold(&Csv.take/1) |> Enum.map(&row(&1, columns, reader.path))
    if Enum.all?(rows, &number?(&1.id)), do: Enum.map(rows, &%{&1 | id: String.to_integer(&1.id)}), else: rows
  end

  defp column(name, error) do
    name = String.trim(name)

    cond do
      name in @columns -> name
      is_map_key(@constants, name) -> @constants[name]
      true -> raise error.("the header names the columns id and expression, and constants: #{names(@constants)}")
    end
  end

  defp number?(id), do: id =~ ~r/\A(?:0|[1-9]\d{0,19})\z/ and Limits.is_u64(String.to_integer(id))

  defp row({fields, text, number}, columns, path) do
    if length(fields) != length(columns) do
      reason =
        "has #{length(fields)} fields for the #{length(columns)} columns of the header; a field with a comma is in quotes: \"a in (1, 2)\""

      raise error(path, text, number, 1, reason)
    end

    row = columns |> Enum.zip(fields) |> Map.new()
    {id, id_line, id_column, _quoted} = row["id"]
    check_id!(id, &error(path, text, id_line, id_column, &1))

    constants =
      for {name, {value, line, column, _quoted}} <- row, is_atom(name), String.trim(value) != "" do
        case value |> String.trim() |> Integer.parse() do
          {integer, ""} -> {name, integer}
          _other -> raise error(path, text, line, column, "the constant #{name} is an integer, or empty")
        end
      end

    {expression, line, _column, _quoted} = row["expression"]

    %__MODULE__{
      id: id,
      expression: expression,
      constants: constants,
      text: text,
      line: line,
      place: {:csv, row["expression"]}
    }
  end

  defp object({text, number}, path) do
    error = &Reader.error(path, text, number, &1, &2)

    fields =
      case Json.decode(text) do
        {:ok, fields} when is_map(fields) ->
          fields

        {:ok, _other} ->
          raise error.(0, "a line is a JSON object: #{@example}")

        {:error, {:twice, name, offset}} ->
          raise error.(offset, "the name #{Json.encode(name)} is there twice; remove one")

        {:error, offset} ->
          raise error.(offset, "this is no JSON; a line is an object: #{@example}")
      end

    for name <- Map.keys(fields), name not in ["constants" | @columns] do
      raise error.(
              key(text, name),
              "there is no #{Json.encode(name)} in an expression's line, only id, expression and constants"
            )
    end

    for name <- @columns, not is_map_key(fields, name), do: raise(error.(0, "the line has no #{name}: #{@example}"))

    %{"id" => id, "expression" => expression} = fields
    check_id!(id, &error.(key(text, "id"), &1))
    unless is_binary(expression), do: raise(error.(key(text, "expression"), "an expression is a string: #{@example}"))

    %__MODULE__{
      id: id,
      expression: expression,
      constants: fields |> Map.get("constants", %{}) |> constants(&error.(key(text, "constants"), &1)),
      text: text,
      line: number,
      place: {:json, text, value(text, "expression")}
    }
  end

  defp constants(constants, error) do
    unless is_map(constants) and Enum.all?(constants, &constant?/1),
      do: raise(error.("constants are an object of integers: #{names(@constants)}"))

    for {name, value} <- constants, do: {@constants[name], value}
  end

  defp constant?({name, value}), do: is_map_key(@constants, name) and is_integer(value)

  defp check_id!(id, _error) when is_integer(id), do: :ok

  defp check_id!(id, error) do
    unless is_binary(id) and id != "" and String.valid?(id),
      do: raise(error.("an id is an integer or a string that is not empty"))
  end

  # Returns the byte at which the name of a field begins. Quotes in a string have a backslash before them.
  defp key(text, name) do
    case Regex.run(~r/[{,]\s*(#{Regex.escape(Json.encode(name))})\s*:/, text, return: :index) do
      [_all, {offset, _length}] -> offset
      nil -> 0
    end
  end

  # Returns the byte behind the opening quote of a field's string.
  defp value(text, name) do
    case Regex.run(~r/[{,]\s*#{Regex.escape(Json.encode(name))}\s*:\s*"()/, text, return: :index) do
      [_all, {offset, _length}] -> offset
      nil -> nil
    end
  end

  # Returns the line and, if it is known, the column in the file of the character `column` of an expression.
  @spec position(place, line :: pos_integer, column :: pos_integer) :: {pos_integer, pos_integer | nil}
  def position({:csv, field}, _line, column), do: Csv.position(field, column)
  def position({:json, _text, nil}, line, _column), do: {line, nil}

  def position({:json, text, offset}, line, column) do
    {before, literal} = :erlang.split_binary(text, offset)
    {line, length(String.codepoints(before)) + 1 + escaped_length(literal, column - 1)}
  end

  @surrogate ~r/\A\\u[dD][89abAB][0-9a-fA-F]{2}\\u/

  defp escaped_length(_literal, 0), do: 0

  defp escaped_length("\\u" <> _digits = literal, count) do
    length = if literal =~ @surrogate, do: 12, else: 6
    length + escaped_length(binary_part(literal, length, byte_size(literal) - length), count - 1)
  end

  defp escaped_length(<<?\\, _escape, rest::binary>>, count), do: 2 + escaped_length(rest, count - 1)
  defp escaped_length(<<?", _rest::binary>>, _count), do: 0
  defp escaped_length(<<_character::utf8, rest::binary>>, count), do: 1 + escaped_length(rest, count - 1)

  defp error(path, text, line, column, reason),
    do: %Error{path: path, line: line, column: column, reason: reason, text: text, caret: column}

  defp names(map), do: map |> Map.keys() |> Enum.sort() |> Enum.join(", ")
end

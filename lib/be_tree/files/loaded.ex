defmodule BeTree.Files.Loaded do
  @moduledoc false
  # A file of expressions with its files of attributes and constants, each read once, and the place of each expression.

  alias BeTree.Files.{Constants, Error, Patterns, Reader, Schema, Terms}

  @enforce_keys [:path, :schema_path, :constants_path, :schema, :subscriptions, :places, :constants]
  defstruct @enforce_keys

  @typedoc """
  The place of an expression: the text that an error shows, its line, and its offset in that line. The offset is `nil` if
  the expression is the whole line, and `:pattern` if it was translated from a pattern.
  """
  @type place :: {text :: binary, line :: pos_integer, nil | :pattern | {file_line :: binary, non_neg_integer}}

  @type t :: %__MODULE__{
          path: Path.t(),
          schema_path: Path.t() | nil,
          constants_path: Path.t() | nil,
          schema: [BeTree.Domain.t()],
          subscriptions: [BeTree.Files.subscription()],
          places: [place],
          constants: [Reader.line()]
        }

  # Takes the options of `BeTree.Files.load/2`. Raises a `BeTree.Files.Error`.
  @spec read!(Path.t(), keyword(Path.t() | nil)) :: t
  def read!(path, options) do
    schema_path = options[:schema]
    {schema, texts, places} = Reader.with_open!(path, &expressions(&1, schema_path))

    {lines, constants} =
      if(options[:constants], do: options[:constants] |> Constants.read() |> Enum.unzip(), else: {[], nil})

    %__MODULE__{
      path: path,
      schema_path: schema_path,
      constants_path: options[:constants],
      schema: schema,
      subscriptions: subscriptions(texts, constants, options[:constants], path),
      places: places,
      constants: lines
    }
  end

  # Returns the place of an error of `BeTree.new/2` or `BeTree.insert_all/3`. Errors without a position concern the
  # attributes.
  @spec locate(t, BeTree.Error.t()) :: Error.t()
  def locate(%__MODULE__{} = loaded, %BeTree.Error{position: nil} = error),
    do: %Error{path: loaded.schema_path || loaded.path, reason: error.message}

  def locate(%__MODULE__{constants: [_ | _]} = loaded, %BeTree.Error{kind: :duplicate_id} = error) do
    {text, number} = Enum.at(loaded.constants, error.position)
    Reader.error(loaded.constants_path, text, number, 0, error.message)
  end

  def locate(%__MODULE__{} = loaded, %BeTree.Error{} = error) do
    {text, number, offset} = Enum.at(loaded.places, error.position)

    %Error{
      path: loaded.path,
      line: number,
      column: error.column && column(offset, error.column),
      reason: error.message,
      text: text,
      # The column of an error about a pattern refers to the translated expression.
      caret: if(offset == :pattern, do: nil, else: error.column)
    }
  end

  defp column(nil, column), do: column
  defp column(:pattern, _column), do: nil
  defp column({line, offset}, column), do: column_in_file(line, offset, column)

  ## Reading

  # Returns the attributes, the texts of the expressions, and their places.
  defp expressions({_rest, %{format: :terms, path: path}} = cursor, schema_path) do
    {schema, terms} = cursor |> Stream.unfold(&Terms.take/1) |> Enum.to_list() |> with_schema(schema_path, path)

    expressions =
      for {expression, text, number, offset} <- terms do
        unless is_binary(expression),
          do: raise(Reader.error(path, text, number, offset, ~s(an expression is a binary, <<"a and b">>)))

        {expression, {expression, number, {text, offset}}}
      end

    {texts, places} = Enum.unzip(expressions)
    {schema, texts, places}
  end

  defp expressions({_rest, %{format: :objects, path: path}} = cursor, schema_path) do
    lines = lines(cursor)
    {schema, texts} = Patterns.read(lines, path, if(schema_path, do: read_schema(schema_path)))
    {schema, texts, for({pattern, number} <- lines, do: {pattern, number, :pattern})}
  end

  defp expressions({_rest, %{path: path}}, nil),
    do: raise(%Error{path: path, reason: "has no attributes; name their file with the option schema"})

  defp expressions(cursor, schema_path) do
    schema = read_schema(schema_path)
    lines = lines(cursor)
    {schema, for({text, _number} <- lines, do: text), for({text, number} <- lines, do: {text, number, nil})}
  end

  defp lines(cursor), do: cursor |> Stream.unfold(&Reader.take/1) |> Enum.to_list()

  defp with_schema([{first, _, _, _} = located | rest], nil, path) when is_list(first),
    do: {Schema.from_term(located, path), rest}

  defp with_schema([{first, text, number, offset} | _rest], _schema_path, path) when is_list(first),
    do: raise(Reader.error(path, text, number, offset, "the attributes begin here; remove the option schema"))

  defp with_schema(_terms, nil, path),
    do: raise(%Error{path: path, reason: "does not begin with its attributes; name their file with the option schema"})

  defp with_schema(terms, schema_path, _path), do: {read_schema(schema_path), terms}

  defp read_schema(path), do: Reader.with_open!(path, &Schema.read/1)

  defp subscriptions(texts, nil, _constants_path, _path), do: Enum.zip(Stream.iterate(1, &(&1 + 1)), texts)

  defp subscriptions(texts, constants, constants_path, path) do
    if length(constants) != length(texts) do
      reason =
        "has #{length(constants)} lines for the #{length(texts)} expressions of #{path}; there must be one for each"

      raise %Error{path: constants_path, reason: reason}
    end

    Enum.zip_with(constants, texts, fn {id, constants}, text -> {id, text, constants: constants} end)
  end

  # An expression begins after `<<"`, and its escapes with a backslash shift the column.
  defp column_in_file(text, offset, column) do
    {before, literal} = :erlang.split_binary(text, offset)
    length(String.codepoints(before)) + column_in_literal(literal, column)
  end

  defp column_in_literal("<<\"" <> characters, column), do: 4 + escaped_length(characters, column - 1)
  defp column_in_literal(_bytes, _column), do: 1

  defp escaped_length(_characters, 0), do: 0
  defp escaped_length(<<?\\, _::utf8, rest::binary>>, count), do: 2 + escaped_length(rest, count - 1)
  defp escaped_length(<<_::utf8, rest::binary>>, count), do: 1 + escaped_length(rest, count - 1)
  defp escaped_length(_end, _count), do: 0
end

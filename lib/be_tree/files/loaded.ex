defmodule BeTree.Files.Loaded do
  @moduledoc false
  # A file of expressions with its files of attributes and constants, each read once, and the place of each expression.

  alias BeTree.Files.{Constants, Error, Ids, Patterns, Reader, Rows, Schema, Terms}

  @enforce_keys [:path, :schema_path, :constants_path, :schema, :subscriptions, :places, :constants]
  defstruct @enforce_keys ++ [:ids]

  # How to mend a file of expressions without attributes.
  @name_schema "name the file that has them: `--schema` of a task, `schema:` in Elixir"

  @typedoc """
  The place of an expression: the text that an error shows, its line, and its offset in that line. The offset is `nil` if
  the expression is the whole line, `:pattern` if it was translated from a pattern, and the place of `BeTree.Files.Rows` for a row.
  """
  @type place ::
          {text :: binary, line :: pos_integer, nil | :pattern | {file_line :: binary, non_neg_integer} | Rows.place()}

  @type t :: %__MODULE__{
          path: Path.t(),
          schema_path: Path.t() | nil,
          constants_path: Path.t() | nil,
          schema: [BeTree.Domain.t()],
          subscriptions: [BeTree.Files.subscription()],
          places: [place],
          constants: [Reader.line()],
          ids: Ids.t()
        }

  # Takes the options of `BeTree.Files.load/2`. Raises a `BeTree.Files.Error`.
  @spec read!(Path.t(), keyword(Path.t() | nil)) :: t
  def read!(path, options) do
    Reader.with_open!(path, fn cursor ->
      case Rows.format(cursor) do
        nil -> read_lines(cursor, path, options)
        format -> read_rows(cursor, format, path, options)
      end
    end)
  end

  defp read_rows(cursor, format, path, options) do
    if options[:constants] do
      reason =
        "the constants of these expressions are in the same file, in fields of their own; remove the option constants"

      raise %Error{path: path, reason: reason}
    end

    schema = read_schema(options[:schema] || refuse_missing_schema(path))
    rows = Rows.read!(cursor, format)
    {numbers, ids} = Ids.number!(rows, path)

    %__MODULE__{
      path: path,
      schema_path: options[:schema],
      constants_path: nil,
      schema: schema,
      subscriptions: Enum.zip_with(numbers, rows, &subscription/2),
      places: for(row <- rows, do: {row.expression, row.line, row.place}),
      constants: [],
      ids: ids
    }
  end

  defp subscription(number, %{constants: [], expression: expression}), do: {number, expression}
  defp subscription(number, row), do: {number, row.expression, constants: row.constants}

  defp read_lines(cursor, path, options) do
    schema_path = options[:schema]
    {schema, texts, places} = expressions(cursor, schema_path)

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
    {line, column} = if error.column, do: position(offset, number, error.column), else: {number, nil}

    %Error{
      path: loaded.path,
      line: line,
      column: column,
      reason: error.message,
      text: text,
      # The column of an error about a pattern refers to the translated expression.
      caret: if(offset == :pattern, do: nil, else: error.column)
    }
  end

  defp position(nil, number, column), do: {number, column}
  defp position(:pattern, number, _column), do: {number, nil}
  defp position({line, offset}, number, column) when is_binary(line), do: {number, column_in_file(line, offset, column)}
  defp position(row_place, number, column), do: Rows.position(row_place, number, column)

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

  defp expressions({_rest, %{path: path}}, nil), do: refuse_missing_schema(path)

  defp expressions(cursor, schema_path) do
    schema = read_schema(schema_path)
    lines = lines(cursor)
    {schema, for({text, _number} <- lines, do: text), for({text, number} <- lines, do: {text, number, nil})}
  end

  @spec refuse_missing_schema(Path.t()) :: no_return
  defp refuse_missing_schema(path),
    do: raise(%Error{path: path, reason: "has no attributes; #{@name_schema}"})

  defp lines(cursor), do: cursor |> Stream.unfold(&Reader.take/1) |> Enum.to_list()

  defp with_schema([{first, _, _, _} = located | rest], nil, path) when is_list(first),
    do: {Schema.from_term(located, path), rest}

  defp with_schema([{first, text, number, offset} | _rest], _schema_path, path) when is_list(first),
    do: raise(Reader.error(path, text, number, offset, "the attributes begin here; remove the option schema"))

  defp with_schema(_terms, nil, path),
    do: raise(%Error{path: path, reason: "does not begin with its attributes; #{@name_schema}"})

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

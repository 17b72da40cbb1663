defmodule BeTree.Files do
  @moduledoc """
  Reads schemas, expressions and events from files, in the two public formats.

      {:ok, schema, subscriptions} = BeTree.Files.load("betree_exprs", schema: "betree_defs")
      {:ok, tree} = BeTree.new(schema)
      {:ok, _count} = BeTree.insert_all(tree, subscriptions)

      for {event, _line} <- BeTree.Files.events("betree_events") do
        BeTree.search!(tree, event)
      end

  The first character of a file determines its format, not its name.

  ## Erlang terms, as erl-be-tree has them

  The expressions file begins with the list of attributes. A binary follows for each expression. Ids count from 1.

      [{age,int,disallow_undefined,0,99}, {country,bin,allow_undefined}].
      <<"age >= 21">>.
      <<"country in (\\"CA\\", \\"US\\") and not (age < 30)">>.

  Types are `bool`, `int`, `int64`, `int_enum`, `float`, `bin`, `int_list`, `bin_list`, `segments` and
  `frequency_caps`. Behind `allow_undefined` or `disallow_undefined` an ordered type may have a minimum and a maximum,
  `bin`, `bin_list` and `int_enum` a count of distinct values.

  An event is a list of values in the order of the attributes. `1` and `0` also stand for `true` and `false`.

      [30,<<"CA">>].
      [35,undefined].

  ## Lines, as be-tree's data folder has them

  The attributes (`betree_defs`) are `name|type|allow undefined`, then `|min|max` or `|count`. Types are `boolean`,
  `integer`, `integer enum`, `float`, `string`, `integer list`, `string list`, `segments` and `frequency caps`.

      age|integer|false|0|99
      country|string|true

  Each line of `betree_exprs` is an expression. Ids count from 1, unless there is a file of constants (`betree_constants`).
  That has a line for each expression: its id and the constants that frequency caps need.

      1,campaign_group_id,campaign_id,advertiser_id,flight_id

  Each line of `betree_events` is an event, a JSON object. The search parses it in the sandbox.

      {"age": 30, "country": "CA"}

  ## Patterns of EventBridge

  A file of expressions whose first character is `{` has a pattern of `BeTree.Pattern` on each line, a JSON object. Ids and constants
  are those of be-tree's lines. Without a file of attributes the schema is that of `BeTree.Pattern.schema/2`. In a schema that is
  given, the fields that may have arrays are the lists.

      {"source": ["aws.ec2"], "detail": {"state": ["running", {"prefix": "stop"}]}}

  Empty lines are skipped. Files are UTF-8 and are read line by line; atoms in them become strings.
  """

  alias BeTree.Engine.{Check, Limits, Options}
  alias BeTree.Files.{Constants, Error, Patterns, Reader, Schema, Terms}

  require Limits

  @path {:nullable, {:check, "a path, a string", &Check.path?/1}}
  @load_options [
    schema: [
      type: @path,
      doc:
        "the path of the file of attributes, in either format. Needed unless `path` begins with the attributes or has patterns"
    ],
    constants: [type: @path, doc: "the path of the file of ids and constants"]
  ]

  @typedoc "A subscription, as `BeTree.insert_all/3` takes it."
  @type subscription ::
          {BeTree.id(), String.t()} | {BeTree.id(), String.t(), constants: keyword(integer)}

  @doc """
  Returns `{:ok, schema, subscriptions}` for the file of expressions at `path`.

  ## Options

  #{Options.docs(@load_options)}

  The function reads everything into memory, about the size of the files. It does not parse expressions: when
  `BeTree.insert_all/3` refuses one, `locate/3` returns its place.

  Returns `{:error, error}` with a `BeTree.Files.Error`.

      iex> path = Path.join(System.tmp_dir!(), "be_tree_files_doctest")
      iex> File.write!(path, ~s([{age,int,disallow_undefined}].\\n<<"age > 20">>.\\n<<"age > 30">>.\\n))
      iex> {:ok, [age], subscriptions} = BeTree.Files.load(path)
      iex> File.rm!(path)
      iex> {age.name, age.type, subscriptions}
      {"age", :integer, [{1, "age > 20"}, {2, "age > 30"}]}
  """
  @spec load(Path.t(), schema: Path.t(), constants: Path.t()) ::
          {:ok, [BeTree.Domain.t()], [subscription]} | {:error, Error.t()}
  def load(path, options \\ []) do
    options = check(path, options)
    {schema, texts} = load_expressions(path, options[:schema])
    {:ok, schema, subscriptions(texts, options[:constants], path)}
  rescue
    error in Error -> {:error, error}
  end

  @doc """
  Returns a stream of the events in the file at `path`: `{event, line}` with an event for `BeTree.search/3` and the number of
  its first line.

  The stream reads the file as it is consumed, and raises a `BeTree.Files.Error` at the first event that cannot be read. The
  search, not the stream, parses JSON and compares an event with the schema.

      iex> path = Path.join(System.tmp_dir!(), "be_tree_events_doctest")
      iex> File.write!(path, "[1,0,<<\\"CA\\">>].\\n[0,undefined,\\n <<\\"US\\">>].\\n")
      iex> events = path |> BeTree.Files.events() |> Enum.to_list()
      iex> File.rm!(path)
      iex> events
      [{{:record, [1, 0, "CA"]}, 1}, {{:record, [0, :undefined, "US"]}, 2}]
  """
  @spec events(Path.t()) :: Enumerable.t()
  def events(path) do
    Check.path!(path)

    case format!(path) do
      :terms -> path |> Terms.stream() |> Stream.map(&record(&1, path))
      :lines -> path |> Reader.lines() |> Stream.map(fn {text, number} -> {{:json, text}, number} end)
    end
  end

  @doc """
  Returns the place of an error of `BeTree.new/2` or `BeTree.insert_all/3`, for files that `load/2` read.

  `path` and `options` are those of `load/2`, and `error` is a `BeTree.Error`. The function reads the file again to find the line
  of the error's position. An error without a position concerns the attributes.
  """
  @spec locate(BeTree.Error.t(), Path.t(), schema: Path.t(), constants: Path.t()) :: Error.t()
  def locate(error, path, options \\ []) do
    check_error(error)
    options = check(path, options)
    constants = options[:constants]

    cond do
      error.position == nil ->
        %Error{path: options[:schema] || path, reason: error.message}

      error.kind == :duplicate_id and constants != nil ->
        [{text, number}] = constants |> Reader.lines() |> Enum.slice(error.position, 1)
        Reader.error(constants, text, number, 0, error.message)

      true ->
        locate_expression(error, path, format!(path))
    end
  end

  @doc """
  Returns the place of an error of `BeTree.search/3`, for an event and the line number that `events/1` returned with it. The
  returned error holds the text of that line, unlike a `BeTree.Error`.
  """
  @spec locate_event(BeTree.Error.t(), BeTree.Event.t(), Path.t(), pos_integer) :: Error.t()
  def locate_event(error, event, path, line) do
    check_error(error)
    Check.path!(path)
    # A larger integer would take seconds to print.
    unless Limits.is_u64(line) and line > 0, do: Check.expected!("the number of a line, from 1", line)
    text = with {:json, json} <- event, do: json, else: (_record -> nil)
    %Error{path: path, line: line, column: error.column, reason: error.message, text: text, caret: error.column}
  end

  defp check(path, options) do
    Check.path!(path)
    Options.validate!(options, @load_options)
  end

  defp check_error(%BeTree.Error{}), do: :ok
  defp check_error(other), do: Check.expected!("a BeTree.Error", other)

  # No expression begins with a brace.
  defp patterns?(path) do
    case path |> Reader.lines() |> Enum.take(1) do
      [{text, _number}] -> String.starts_with?(String.trim_leading(text), "{")
      [] -> false
    end
  end

  # A file of terms begins with a list, a binary or a comment. No expression, attribute or JSON object begins like that.
  defp format!(path) do
    case path |> Reader.lines() |> Enum.take(1) do
      [{text, _number}] -> if String.trim_leading(text) =~ ~r/^(\[|<<|%)/, do: :terms, else: :lines
      [] -> :lines
    end
  end

  defp load_expressions(path, schema_path) do
    case {format!(path), schema_path} do
      {:terms, _path} -> load_terms(path, schema_path)
      {:lines, _path} -> load_lines(path, schema_path, patterns?(path))
    end
  end

  defp load_lines(path, schema_path, true = _patterns?),
    do: Patterns.read(path, if(schema_path, do: read_schema(schema_path)))

  defp load_lines(path, nil, false),
    do: raise(%Error{path: path, reason: "has no attributes; name their file with the option schema"})

  defp load_lines(path, schema_path, false),
    do: {read_schema(schema_path), for({text, _number} <- Reader.lines(path), do: text)}

  defp load_terms(path, schema_path) do
    terms = path |> Terms.stream() |> Enum.to_list()

    case {terms, schema_path} do
      {[{first, _, _, _} = located | rest], nil} when is_list(first) ->
        {Schema.from_term(located, path), expressions(rest, path)}

      {[{first, text, number, offset} | _rest], _path} when is_list(first) ->
        raise Reader.error(path, text, number, offset, "the attributes stand here; leave the option schema away")

      {_terms, nil} ->
        raise %Error{path: path, reason: "does not begin with its attributes; name their file with the option schema"}

      {_terms, _path} ->
        {read_schema(schema_path), expressions(terms, path)}
    end
  end

  defp read_schema(path) do
    case format!(path) do
      :terms -> Schema.read_terms(path)
      :lines -> Schema.read_lines(path)
    end
  end

  defp expressions(terms, path) do
    for {expression, text, number, offset} <- terms do
      unless is_binary(expression) do
        raise Reader.error(path, text, number, offset, ~s(an expression is a binary, <<"a and b">>))
      end

      expression
    end
  end

  defp subscriptions(texts, nil, _path), do: Enum.zip(Stream.iterate(1, &(&1 + 1)), texts)

  defp subscriptions(texts, constants_path, path) do
    constants = Constants.read(constants_path)

    if length(constants) != length(texts) do
      reason =
        "has #{length(constants)} lines for the #{length(texts)} expressions of #{path}; there must be one for each"

      raise %Error{path: constants_path, reason: reason}
    end

    Enum.zip_with(constants, texts, fn {id, constants}, text -> {id, text, constants: constants} end)
  end

  defp record({values, _text, number, _offset}, _path) when is_list(values), do: {{:record, values}, number}

  defp record({_other, text, number, offset}, path) do
    raise Reader.error(path, text, number, offset, "an event is a list of values in the order of the attributes")
  end

  defp locate_expression(error, path, :lines) do
    [{text, number}] = path |> Reader.lines() |> Enum.slice(error.position, 1)

    # The column of an error about a pattern counts in the expression that it means.
    if patterns?(path),
      do: %Error{path: path, line: number, reason: error.message, text: text},
      else: %Error{
        path: path,
        line: number,
        column: error.column,
        reason: error.message,
        text: text,
        caret: error.column
      }
  end

  defp locate_expression(error, path, :terms) do
    [{expression, text, number, offset}] =
      path
      |> Terms.stream()
      |> Stream.filter(fn {term, _, _, _} -> is_binary(term) end)
      |> Enum.slice(error.position, 1)

    column = error.column && column_in_file(text, offset, error.column)
    %Error{path: path, line: number, column: column, reason: error.message, text: expression, caret: error.column}
  end

  # An expression begins after `<<"`, and some of its characters are escaped with a backslash.
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

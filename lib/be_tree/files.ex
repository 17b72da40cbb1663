defmodule BeTree.Files do
  @moduledoc """
  Reads schemas, expressions and events from files: JSON and CSV, and the formats of erl-be-tree and be-tree.

      {:ok, schema, subscriptions} = BeTree.Files.load("betree_exprs", schema: "betree_defs")
      {:ok, tree} = BeTree.new(schema)
      {:ok, _count} = BeTree.insert_all(tree, subscriptions)

      for {event, _line} <- BeTree.Files.events("betree_events") do
        BeTree.search!(tree, event)
      end

  The first line of a file determines its format. The name matters only if it ends in `.csv`.

  ## JSON and CSV

  The attributes are a JSON object, as in the playground. A domain is a type of `BeTree.Domain`, or an object with a type and options:
  `optional`, `min`, `max`, `count`, `coerce`, `onMismatch` and `unit`. An object without a type has the fields of a map. The attributes
  are in the order of their names. The objects in an `object_list` have their attributes beside it.

      {
        "age": {"type": "integer", "min": 0, "max": 120},
        "country": {"type": "string", "optional": true},
        "user": {"address": {"city": "string"}},
        "items": "object_list",
        "items.sku": "string"
      }

  A field with the name `type` is written as a path, `"user.type": "string"`.

  The expressions are JSON objects, one a line, or CSV with the header `id,expression`. An id is a string or an integer. `constants` are
  those of frequency caps; in CSV each has a column of its name.

      {"id": "a7", "expression": "age >= 21"}
      {"id": "a8", "expression": "country = 'CA'", "constants": {"flight_id": 7}}

      id,expression
      a7,age >= 21
      a8,"country in ('CA', 'US') and user.address.city = ""Quebec\"""

  CSV is that of RFC 4180: a field with a comma, a quote or a line end is in double quotes, and a quote in it is written twice. Ids of
  CSV are integers if all of them are unsigned 64-bit integers.

  An event is a JSON object, one a line.

  ## Erlang terms, as in erl-be-tree

  The expressions file begins with the list of attributes, followed by a binary for each expression. Ids count from 1.

      [{age,int,disallow_undefined,0,99}, {country,bin,allow_undefined}].
      <<"age >= 21">>.
      <<"country in (\\"CA\\", \\"US\\") and not (age < 30)">>.

  Types are `bool`, `int`, `int64`, `int_enum`, `float`, `bin`, `int_list`, `bin_list`, `segments` and
  `frequency_caps`. After `allow_undefined` or `disallow_undefined` an ordered type may have a minimum and a maximum,
  and `bin`, `bin_list` and `int_enum` may have a count of distinct values.

  An event is a list of values in the order of the attributes. `1` and `0` also stand for `true` and `false`.

      [30,<<"CA">>].
      [35,undefined].

  ## Lines, as in be-tree's data folder

  The attributes (`betree_defs`) are `name|type|allow undefined`, optionally with `|min|max` or `|count`. Types are
  `boolean`, `integer`, `integer enum`, `float`, `string`, `integer list`, `string list`, `segments` and `frequency caps`.

      age|integer|false|0|99
      country|string|true

  Each line of `betree_exprs` is an expression. Ids count from 1, unless there is a file of constants (`betree_constants`).
  That file has a line for each expression: its id, and the constants that frequency caps need.

      1,campaign_group_id,campaign_id,advertiser_id,flight_id

  Each line of `betree_events` is an event, a JSON object. The search parses it in the sandbox.

      {"age": 30, "country": "CA"}

  A frequency cap may be flat as in be-tree: `["flight", 10, "ns", 2, 1700000000000000]`, with type, id, namespace, value
  and time in microseconds. `events/1` rewrites it to the form of `BeTree.Event`, with the key in an array of its own:
  `[["flight", 10, "ns"], 2, 1700000000000000]`. The columns of errors refer to the rewritten text.

  ## Patterns of EventBridge

  A file of expressions that begins with `{`, and whose first object has only arrays and objects, has a pattern of `BeTree.Pattern`, a JSON object, on each line. Ids and
  constants work as in be-tree's lines. Without a file of attributes the schema is that of `BeTree.Pattern.schema/2`. With
  one, the list attributes are the fields that may have arrays.

      {"source": ["aws.ec2"], "detail": {"state": ["running", {"prefix": "stop"}]}}

  Files are UTF-8 and read line by line. Empty lines and a byte order mark at the beginning are skipped. Atoms become
  strings.
  Each file is opened and read once, so pipes and `/dev/stdin` work too.
  """

  alias BeTree.Input.{Check, Limits, Options}
  alias BeTree.Files.{Caps, Error, Ids, Loaded, Reader, Terms}

  require Limits

  @path {:nullable, {:check, "a path, a string", &Check.path?/1}}
  @load_options [
    schema: [
      type: @path,
      doc:
        "the path of the file of attributes, in any format. Needed unless `path` begins with the attributes or has patterns"
    ],
    constants: [type: @path, doc: "the path of the file of ids and constants"]
  ]

  @typedoc """
  A subscription for `BeTree.insert_all/3`, or, if its file has an id that is no unsigned 64-bit integer, for a `BeTree.Server` with
  `ids: :term`.
  """
  @type subscription :: {id, String.t()} | {id, String.t(), constants: keyword(integer)}

  @type id :: BeTree.id() | integer | String.t()

  @doc """
  Returns `{:ok, schema, subscriptions}` for the file of expressions at `path`.

  ## Options

  #{Options.docs(@load_options)}

  The function reads everything into memory, about the size of the files, without parsing expressions. If
  `BeTree.insert_all/3` refuses an expression, `locate/3` returns its place.

  Returns `{:error, error}` with a `BeTree.Files.Error`.

      iex> path = Path.join(System.tmp_dir!(), "be_tree_files_\#{System.pid()}")
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
    loaded = Loaded.read!(path, options)
    {:ok, loaded.schema, for(subscription <- loaded.subscriptions, do: with_id(subscription, loaded.ids))}
  rescue
    error in Error -> {:error, error}
  end

  defp with_id(subscription, ids), do: put_elem(subscription, 0, Ids.given(ids, elem(subscription, 0)))

  @doc """
  Returns a stream of `{event, line}` for the file at `path`: an event for `BeTree.search/3`, and the number of its first
  line.

  The file is read as the stream is consumed. The stream raises a `BeTree.Files.Error` at the first unreadable event.
  Parsing JSON and checking events against the schema is left to the search.

      iex> path = Path.join(System.tmp_dir!(), "be_tree_events_\#{System.pid()}")
      iex> File.write!(path, "[1,0,<<\\"CA\\">>].\\n[0,undefined,\\n <<\\"US\\">>].\\n")
      iex> events = path |> BeTree.Files.events() |> Enum.to_list()
      iex> File.rm!(path)
      iex> events
      [{{:record, [1, 0, "CA"]}, 1}, {{:record, [0, :undefined, "US"]}, 2}]
  """
  @spec events(Path.t()) :: Enumerable.t()
  def events(path) do
    Check.path!(path)

    # The consumer opens the file, but a missing one is reported here, at once.
    with {:error, reason} <- File.stat(path), do: raise(Error.posix(path, reason))
    Reader.stream(path, &take_event/1)
  end

  defp take_event({_rest, %{format: :terms}} = cursor) do
    with {term, {_rest, reader} = cursor} <- Terms.take(cursor), do: {record(term, reader.path), cursor}
  end

  defp take_event(cursor) do
    with {{text, number}, cursor} <- Reader.take(cursor), do: {{{:json, Caps.nested(text)}, number}, cursor}
  end

  defp record({values, _text, number, _offset}, _path) when is_list(values), do: {{:record, values}, number}

  defp record({_other, text, number, offset}, path) do
    raise Reader.error(path, text, number, offset, "an event is a list of values in the order of the attributes")
  end

  @doc """
  Returns the place of an error of `BeTree.new/2` or `BeTree.insert_all/3` in the files that `load/2` read.

  `path` and `options` are those of `load/2`, and `error` is a `BeTree.Error`. The function reads the files again to find
  the line, so pipes do not work here. An error without a position concerns the attributes.
  """
  @spec locate(BeTree.Error.t(), Path.t(), schema: Path.t(), constants: Path.t()) :: Error.t()
  def locate(error, path, options \\ []) do
    check_error(error)
    options = check(path, options)
    path |> Loaded.read!(options) |> Loaded.locate(error)
  rescue
    error in Error -> error
  end

  @doc """
  Returns the place of an error of `BeTree.search/3`, for an event and its line number from `events/1`. The returned error
  contains the text of the line, unlike a `BeTree.Error`.
  """
  @spec locate_event(BeTree.Error.t(), BeTree.Event.t(), Path.t(), pos_integer) :: Error.t()
  def locate_event(error, event, path, line) do
    check_error(error)
    Check.path!(path)
    # Printing a longer integer would take seconds.
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
end

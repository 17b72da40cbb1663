defmodule BeTree.Pattern do
  @moduledoc ~S"""
  Translates EventBridge patterns to expressions.

  A pattern is a JSON object, as in Amazon EventBridge, event-ruler, quamina and hypermatch. `schema/2` returns the
  attributes that a set of patterns needs; `to_expression/2` returns the expression of one pattern:

      iex> patterns = [
      ...>   ~s({"source": ["aws.ec2"], "detail": {"state": ["running", "stopped"]}}),
      ...>   ~s({"detail": {"state": [{"anything-but": {"prefix": "init"}}], "count": [{"numeric": [">", 0, "<=", 5]}]}})
      ...> ]
      iex> {:ok, schema} = BeTree.Pattern.schema(patterns)
      iex> {:ok, tree} = BeTree.new(schema)
      iex> for {pattern, id} <- Enum.with_index(patterns, 1) do
      ...>   BeTree.insert!(tree, id, BeTree.Pattern.to_expression!(pattern, schema: schema))
      ...> end
      iex> BeTree.search(tree, {:json, ~s({"source": "aws.ec2", "detail": {"state": "running", "count": 3}, "id": "x"})})
      {:ok, [1, 2]}

  A pattern is JSON text or the decoded map with strings as keys. `mix be_tree.match` reads files of patterns.

  ## Patterns

  The fields of an object are joined by "and". The value of a field is an object with fields of its own, or an array of
  tests joined by "or".

  | test | is true of | expression |
  | --- | --- | --- |
  | `"a"`, `{"exactly": "a"}` | this string | `x = 'a'` |
  | `5`, `true`, `null` | this number, this boolean, no value | `x = 5`, `x`, `x is null` |
  | `{"prefix": "a"}`, `{"suffix": "a"}` | strings with this start, this end | `starts_with(x, 'a')`, `ends_with(x, 'a')` |
  | `{"equals-ignore-case": "a"}` | this string in upper or lower case | `lower(x) = 'a'` |
  | `{"prefix": {"equals-ignore-case": "a"}}`, also `suffix` | the same for the start, the end | `starts_with(lower(x), 'a')` |
  | `{"wildcard": "a*b"}` | strings of this form; `\*` and `\\` stand for themselves | `x like 'a*b'` |
  | `{"numeric": [">", 0, "<=", 5]}` | numbers in this interval, or `=`, `<`, `<=`, `>`, `>=` one number | `x > 0 and x <= 5` |
  | `{"cidr": "10.0.0.0/8"}` | addresses in this network | `x in ('10.0.0.0/8')` |
  | `{"exists": true}`, `{"exists": false}` | any value, no value. An empty array is none | `x is not null`, `x is null` |
  | `{"anything-but": ["a", "b"]}` | any other value: of one string, one number, or a list of either | `x not in ('a', 'b')` |
  | `{"anything-but": {"prefix": ["a"]}}` | strings that pass no such test: `prefix`, `suffix`, `equals-ignore-case`, `wildcard` with a string or a list | `x is not null and not starts_with(x, 'a')` |

  `"$or"` with an array of two or more objects joins them by "or". With any other value, or if an object in it has a field
  named like a test, `$or` is an ordinary field name.

  ## Arrays in events

  In event-ruler an array in an event passes a test if one of its elements does. In an index an attribute is a list or it is
  not. So the option `arrays:` names the fields that may have arrays; events may still have a single value there. Such a
  field supports exact strings, exact integers, and `exists`.

      iex> {:ok, [resources]} = BeTree.Pattern.schema([~s({"resources": ["a", "b"]})], arrays: ["resources"])
      iex> {resources.type, BeTree.Pattern.to_expression!(~s({"resources": ["a", "b"]}), arrays: ["resources"])}
      {:string_list, "resources one of ('a', 'b')"}

  ## Differences from event-ruler

  | | event-ruler 2 | here |
  | --- | --- | --- |
  | types | a field may be tested as a string, as a number and as a boolean; a value of another type does not match | a field has one type. `schema/2` refuses patterns that test it as two; an event with another type is an error of kind `:type` |
  | arrays | in any field | in the fields of `arrays:`, for some tests; elsewhere an error of kind `:type` |
  | arrays of objects | all tests must pass for fields of one element | an error of kind `:type` |
  | `null` | the value `null` | a missing value too |
  | `exists` | `true` for `null`; any type of value | `false` for `null`. A field with no other test takes strings, integers, booleans and lists of them |
  | `exists` of a field with fields | `false` | an error of kind `:type` |
  | a field and its fields in two patterns | each matches | refused as `:type` by `BeTree.new/2` |
  | `{"a.b": …}` | the same as `{"a": {"b": …}}` | another field, whose name has a point |
  | a field in `$or` and beside it | the test in `$or` replaces the other | both must pass |
  | an exact number | equal doubles, and equal text | equal within 2.2e-16 |
  | an exact string that is an address | also other spellings of the address | the string, or the address if the field has `cidr` tests |
  | ignoring case | characters with one upper and one lower case | the lower case of Unicode |
  | the deprecated `rulesForEvent` | fields of different array elements may match | not offered |
  """

  alias BeTree.{Domain, Error}
  alias BeTree.Error.{Attempt, Bang}
  alias BeTree.Input.{Check, Options}
  alias BeTree.Pattern.{Attributes, Expression, Reader}

  @options [
    arrays: [
      type: {:check, "a list of names of attributes", &__MODULE__.names?/1},
      default: [],
      doc: "the names of the fields that may have an array in an event, as expressions spell them: `[\"detail.tags\"]`"
    ]
  ]

  @expression_options @options ++
                        [
                          schema: [
                            type: {:nullable, {:check, "a list of BeTree.Domain", &__MODULE__.domains?/1}},
                            doc:
                              "the attributes, such as those of `schema/2`: the fields that are lists in it may have an array too"
                          ]
                        ]

  @typedoc "A pattern: JSON text, or a decoded JSON object with strings as keys."
  @type t :: String.t() | %{optional(String.t()) => term}

  @doc """
  Returns `{:ok, expression}`, the text of the pattern's expression over the attributes of `schema/2`.

  ## Options

  #{Options.docs(@expression_options)}

  Pass the schema: a field tested only for `exists` is a list in it, and `exists` is false of an empty list.

  The call takes linear time on the scheduler of the calling process. Fields lie at most 100 levels deep, and the names on
  the path to one have at most 4,000 bytes.

  Returns `{:error, error}` with the kind `:syntax` for invalid JSON and repeated names (with the column), and for wildcards
  that event-ruler refuses. The kind is `:type` for anything that is no pattern or no supported test of a field with arrays;
  that error names the field.

      iex> BeTree.Pattern.to_expression(%{"detail" => %{"first name" => [%{"prefix" => "A"}, "Bo"]}})
      {:ok, "starts_with(detail.`first name`, 'A') or detail.`first name` = 'Bo'"}

      iex> pattern = ~s({"a": [{"exists": true}]})
      iex> {:ok, schema} = BeTree.Pattern.schema([pattern])
      iex> BeTree.Pattern.to_expression(pattern, schema: schema)
      {:ok, "a is not null and not a is empty"}

      iex> {:error, error} = BeTree.Pattern.to_expression(~s({"a": "b"}))
      iex> {error.kind, error.attribute}
      {:type, "a"}
  """
  @spec to_expression(t, arrays: [String.t()], schema: [Domain.t()]) :: {:ok, String.t()} | {:error, Error.t()}
  def to_expression(pattern, options \\ []) do
    options = Options.validate!(options, @expression_options)
    lists = for %{name: name, type: type} <- options[:schema] || [], type in [:string_list, :integer_list], do: name

    with {:ok, arrays} <- arrays(options[:arrays] ++ lists),
         {:ok, pattern} <- Reader.read(pattern),
         do: Expression.text(pattern, arrays)
  end

  @doc """
  Like `to_expression/2`, but returns the text and raises on error.

      iex> BeTree.Pattern.to_expression!(~s({"a": [1, {"numeric": [">=", 10]}]}))
      "a = 1 or a >= 10"
  """
  @spec to_expression!(t, arrays: [String.t()], schema: [Domain.t()]) :: String.t()
  def to_expression!(pattern, options \\ []), do: Bang.unwrap!(to_expression(pattern, options))

  @doc """
  Returns `{:ok, schema}` with the attributes of all patterns, each optional, in the order of their names.

  ## Options

  #{Options.docs(@options)}

  Strings become `:string`, numbers `:float`, booleans `:boolean`, and fields with `cidr` tests `:ip`. A field with arrays
  becomes `:string_list` or `:integer_list`, and a field tested only for `exists` becomes `:string_list`; lists have
  `coerce: true`.

  Returns `{:error, error}` with the kinds of `to_expression/2`, and with `:type` if patterns test a field as two types. The
  error has the position of the pattern in the list, from 0.

      iex> {:ok, schema} = BeTree.Pattern.schema([~s({"a": {"n": [1]}, "b": [true]}), ~s({"a": {"s": [{"suffix": ".de"}]}})])
      iex> for domain <- schema, do: {domain.name, domain.type}
      [{"a.n", :float}, {"a.s", :string}, {"b", :boolean}]
  """
  @spec schema([t], arrays: [String.t()]) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def schema(patterns, options \\ []) do
    options = Options.validate!(options, @options)
    unless Check.proper_list?(patterns), do: Check.expected!("a list of patterns", patterns)
    with {:ok, arrays} <- arrays(options[:arrays]), do: Attributes.of(patterns, arrays)
  end

  @doc """
  Like `schema/2`, but returns the attributes and raises on error.

      iex> [domain] = BeTree.Pattern.schema!([~s({"a": ["x"]})])
      iex> {domain.name, domain.type, domain.optional}
      {"a", :string, true}
  """
  @spec schema!([t], arrays: [String.t()]) :: [Domain.t()]
  def schema!(patterns, options \\ []), do: Bang.unwrap!(schema(patterns, options))

  # Parses the paths of the option `arrays:`.
  defp arrays(names) do
    Attempt.reduce(names, MapSet.new(), fn name, paths ->
      case Domain.Path.fields(name) do
        {:ok, path} -> {:ok, MapSet.put(paths, path)}
        {:error, reason} -> {:error, no_name(name, reason)}
      end
    end)
  end

  defp no_name(name, reason),
    do: %Error{kind: :type, attribute: name, message: "the option arrays names a field that is no path: #{reason}"}

  @doc false
  @spec domains?(term) :: boolean
  def domains?(domains), do: Check.proper_list?(domains) and Enum.all?(domains, &is_struct(&1, Domain))

  @doc false
  @spec names?(term) :: boolean
  def names?(names), do: Check.proper_list?(names) and Enum.all?(names, &(is_binary(&1) and String.valid?(&1)))
end

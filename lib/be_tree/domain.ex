defmodule BeTree.Domain do
  @moduledoc """
  The domain of an attribute: its type, its bounds, and whether an event may leave it undefined.

  A *schema*, the first argument of `BeTree.new/2`, is a list of attributes, `{name, domain}`. A name is an atom or a string. A
  domain is a type, or a type with options. The order matters only for events that are records (`{:record, values}`).

      [
        age: :integer,
        country: {:string, optional: true},
        plan: {:integer, min: 0, max: 9},
        browser: {:string, count: 20}
      ]

  ## Fields of maps

  A name is the path of a field, spelled as in expressions: `user.address.city` is the field `city` of the map in the field
  `address` of the map in the field `user` of an event. A field of another name is quoted with backticks, as in
  ``user.`first name` ``; a backtick in it is written twice. A list or a map in place of a domain declares the fields of a map, in
  the order of the list or of their names. These two schemas are equal:

      ["user.name": :string, "user.address.city": {:string, optional: true}]
      [user: [name: :string, address: %{city: {:string, optional: true}}]]

  If a map is missing in an event, or undefined, so are all fields in it. Names that no expression can spell are refused. An
  attribute has no attributes below it.

  ## Lists of objects

  `{:list, fields}` declares a list of objects and the attributes of each object, as a list or a map. `{:list, fields, options}`
  takes `optional: true`. An `any` condition holds if a single object meets all of it:

      iex> tree = BeTree.new!(items: {:list, sku: :string, qty: {:integer, optional: true}})
      iex> BeTree.insert!(tree, 1, "any items (sku = 'x' and qty > 2)")
      iex> BeTree.search!(tree, %{items: [%{sku: "x", qty: 1}, %{sku: "y", qty: 5}]})
      []
      iex> BeTree.search!(tree, %{items: [%{sku: "x", qty: 3}]})
      [1]

  An object has at most 64 attributes, of any type except segments, frequency caps and lists of objects. In a record too, the
  objects are maps or lists of pairs. The same schema in the flat form, which `parse/1` returns, has an attribute of type
  `:object_list` and the attributes below it: `[items: :object_list, "items.sku": :string, "items.qty": ...]`.

  ## Types

  | type | value in an event | options |
  | --- | --- | --- |
  | `:boolean` | `true`, `false` | |
  | `:integer` | signed 64-bit integer | `:min`, `:max` |
  | `:float` | finite float, or integer | `:min`, `:max` |
  | `:string` | string, or atom | `:count` |
  | `:integer_enum` | integer; compared for equality only | `:count` |
  | `:integer_list` | list of integers | `:min`, `:max` of its elements |
  | `:string_list` | list of strings | `:count` |
  | `:segments` | list of `{id, timestamp in microseconds}` | |
  | `:frequency_caps` | list of `{{type, id, namespace}, value, timestamp in microseconds or nil}` | |
  | `:ip` | address as a string, IPv4 or IPv6, or as a tuple of 4 or 8 integers like those of `:inet` | |
  | `:datetime` | `DateTime`, `NaiveDateTime` (as UTC), a string in ISO 8601, or a number of `:unit` since 1970 | `:unit` |
  | `:object_list` | list of maps or of lists of pairs, which `{:list, fields}` declares | |

  ## Options

    * `:optional` - with `true` an event may leave the attribute undefined. Otherwise such an event is an error of kind
      `:missing_attribute`;
    * `:min`, `:max` - inclusive bounds of the constants in expressions; a constant outside of them is an error of kind `:out_of_bounds`. The
      index also estimates selectivity from them. Values of events are not checked against them;
    * `:count` - the number of distinct values that all expressions may name, from 1 to 4,294,967,295;
    * `:coerce` - with `true` values of other types in events are converted, as [a table below](#module-conversions) says. Otherwise they are an error of
      kind `:type`. All types except segments, frequency caps, addresses, times and lists of objects take it;
    * `:on_mismatch` - with `:undefined` a value of an event that does not fit the attribute counts as undefined. Otherwise, with
      `:error`, it is an error that names the attribute. The option `:on_mismatch` of `BeTree.new/2` and of `BeTree.Server` is the default
      of all optional attributes, and that of a search holds for all optional attributes in its events;
    * `:unit` - the unit of numbers for a time: `:second`, `:millisecond` or `:microsecond`, the default. It holds for the values of
      events, and for numbers with which an expression compares the attribute. Seconds and milliseconds in events may be floats.

  ## Values that do not fit

  A value does not fit if it is of another type, also after the conversion of `:coerce`; if it is a number beyond 64 bits or a float
  that is not finite; if it is a string that is no address or no time; or if it is a list with an element that does not fit, such as
  `nil`. In a list of objects, each value of an object is judged by the option of its own attribute; a list with an element that is no
  object, or that lacks a required attribute, does not fit as a whole. A value in place of a map of attributes counts as undefined if
  all of these attributes take mismatched values as undefined.

      iex> schema = [sourceIPAddress: {:ip, optional: true, on_mismatch: :undefined}, eventName: :string]
      iex> tree = BeTree.new!(schema)
      iex> BeTree.insert!(tree, 1, "eventName = 'DeleteTrail'")
      iex> BeTree.search(tree, {:json, ~s({"sourceIPAddress": "cloudformation.amazonaws.com", "eventName": "DeleteTrail"})})
      {:ok, [1]}

  A required attribute always refuses such a value, because the event would then lack the attribute. So `on_mismatch: :undefined`
  needs `optional: true`:

      iex> {:error, error} = BeTree.new(at: {:datetime, on_mismatch: :undefined})
      iex> error.message
      "on_mismatch: of `at` is :undefined, but an event must define `at`; make it optional"

  The number of values that counted as undefined is in `BeTree.Stats` and in the measurements of `BeTree.Telemetry`. Text that is
  no JSON remains an error, and so does a record with another number of values.

  ## Conversions

  With `coerce: true`:

  | attribute | converts |
  | --- | --- |
  | `:boolean` | the strings `"true"` and `"false"` |
  | `:integer`, `:integer_enum` | a string of an optional `-` and digits; a float without a fraction |
  | `:float` | a string of a number as JSON writes it (`"2"`, `"-0.5e3"`) |
  | `:string` | an integer to its digits, a boolean to `"true"` or `"false"` |
  | `:integer_list`, `:string_list` | elements like that; a single value to a list of one |

  An atom in an event is such a string too, unless it is a boolean or undefined. Nothing is trimmed or rounded: `" 42"`, `"4.0"`
  and `4.5` are no integers, and remain errors of kind `:type`, as do numbers in strings that do not fit 64 bits.

      iex> tree = BeTree.new!(age: {:integer, coerce: true})
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.search!(tree, {:json, ~s({"age": "42"})})
      [1]
  """

  import BeTree.Input.Limits, only: [is_atom_name: 1]

  alias BeTree.Domain.Path
  alias BeTree.Error
  alias BeTree.Input.{Describe, Limits}

  @derive {Inspect, optional: [:optional, :min, :max, :count, :coerce, :on_mismatch, :unit]}
  @enforce_keys [:name, :type]
  defstruct [
    :name,
    :type,
    optional: false,
    min: nil,
    max: nil,
    count: nil,
    coerce: false,
    on_mismatch: :error,
    unit: :microsecond
  ]

  @type type ::
          :boolean
          | :integer
          | :float
          | :string
          | :integer_enum
          | :integer_list
          | :string_list
          | :segments
          | :frequency_caps
          | :ip
          | :datetime
          | :object_list

  @typedoc "The treatment of a value that does not fit: it is an error, or counts as undefined."
  @type on_mismatch :: :error | :undefined

  @typedoc "The unit of numbers that are times."
  @type unit :: :second | :millisecond | :microsecond

  @typedoc "A type, or a type with options. A list of objects has their attributes."
  @type spec :: type | {type, keyword} | {:list, members} | {:list, members, keyword}

  @typedoc "A domain, or the fields of a map."
  @type fields :: spec | members

  @typedoc "The fields of a map, or of each object in a list."
  @type members :: [{atom | String.t(), fields} | t] | %{optional(atom | String.t()) => fields}

  @typedoc "An attribute: a name, a string, and its domain."
  @type t :: %__MODULE__{
          name: String.t(),
          type: type,
          optional: boolean,
          min: number | nil,
          max: number | nil,
          count: pos_integer | nil,
          coerce: boolean,
          on_mismatch: on_mismatch,
          unit: unit
        }

  @bounds %{
    boolean: [],
    integer: [:min, :max],
    float: [:min, :max],
    string: [:count],
    integer_enum: [:count],
    integer_list: [:min, :max],
    string_list: [:count],
    segments: [],
    frequency_caps: [],
    ip: [],
    datetime: [:unit],
    object_list: []
  }

  # The types for the names that other languages and libraries give them.
  @other_names %{
    int: :integer,
    bool: :boolean,
    double: :float,
    number: :float,
    decimal: :float,
    str: :string,
    text: :string,
    binary: :string,
    atom: :string,
    enum: :string,
    list: :string_list,
    array: :string_list,
    map: :object_list,
    time: :datetime,
    date: :datetime,
    timestamp: :datetime,
    utc_datetime: :datetime,
    naive_datetime: :datetime,
    ip_address: :ip,
    inet: :ip
  }

  # The lists whose elements have a type.
  @lists %{integer: :integer_list, string: :string_list}

  @units [:second, :millisecond, :microsecond]

  # The types whose values are not converted.
  @strict [:segments, :frequency_caps, :ip, :datetime, :object_list]

  @integers Limits.integers()
  @counts Limits.counts()

  @doc """
  Returns the attributes of `schema` as structs, in order. `schema` is a list of `{name, domain}` and such structs. `on_mismatch` is
  the default of that option for optional attributes.

  Returns `{:error, error}` with the kind `:type` for an attribute that is no valid one, and `:out_of_bounds` for a bound that
  the type cannot hold. The error names the attribute.

      iex> {:ok, [age, country]} = BeTree.Domain.parse(age: :integer, country: {:string, optional: true})
      iex> {age.name, age.optional, country.type, country.optional}
      {"age", false, :string, true}

      iex> {:error, error} = BeTree.Domain.parse(age: :int)
      iex> {error.kind, error.attribute}
      {:type, "age"}

      iex> {:ok, [age, country]} = BeTree.Domain.parse([age: :integer, country: {:string, optional: true}], :undefined)
      iex> {age.on_mismatch, country.on_mismatch}
      {:error, :undefined}
  """
  @spec parse([{atom | String.t(), fields} | t], on_mismatch) :: {:ok, [t]} | {:error, Error.t()}
  def parse(schema, on_mismatch \\ :error)

  def parse(schema, on_mismatch) when is_list(schema) and on_mismatch in [:error, :undefined] do
    with {:ok, parsed} <- parse(schema, [], []), do: {:ok, in_order(parsed, on_mismatch, [])}
  end

  def parse(other, _on_mismatch),
    do: refuse(:type, nil, "a schema is a list of {name, domain}, got: #{Describe.value(other)}")

  # Reverses the parsed attributes, and fills in a missing `on_mismatch`: the default for optional ones, otherwise `:error`.
  defp in_order([], _default, schema), do: schema

  defp in_order([%{on_mismatch: nil, optional: optional} = domain | rest], default, schema) do
    domain = %{domain | on_mismatch: if(optional, do: default, else: :error)}
    in_order(rest, default, [domain | schema])
  end

  defp in_order([domain | rest], default, schema), do: in_order(rest, default, [domain | schema])

  # Prepends the attributes of a list to `parsed`. `around` is the path of the maps that contain them.
  defp parse([], _around, parsed), do: {:ok, parsed}

  defp parse([domain | rest], around, parsed) do
    with {:ok, parsed} <- parse_one(domain, around, parsed), do: parse(rest, around, parsed)
  end

  defp parse(tail, _around, _parsed),
    do: refuse(:type, nil, "a schema is a proper list, but this one ends in #{Describe.value(tail)}")

  defp parse_one(%__MODULE__{} = domain, around, parsed) do
    defaults = %__MODULE__{name: nil, type: nil}
    keys = [:min, :max, :count, :coerce, :unit]
    others = for key <- keys, value <- [Map.fetch!(domain, key)], value != Map.fetch!(defaults, key), do: {key, value}
    options = [optional: domain.optional, on_mismatch: domain.on_mismatch] ++ others
    parse_one({domain.name, {domain.type, options}}, around, parsed)
  end

  defp parse_one({name, {:list, fields}}, around, parsed), do: parse_one({name, {:list, fields, []}}, around, parsed)

  defp parse_one({name, {:list, fields, options}}, around, parsed) do
    with {:ok, path} <- parse_name(name, around),
         {:ok, parsed} <- parse_one({name, {:object_list, options}}, around, parsed),
         do: parse_fields(fields, around ++ path, "a list of objects", parsed)
  end

  defp parse_one({name, {type, options}}, around, parsed) do
    with {:ok, path} <- parse_name(name, around),
         name = Path.join(around ++ path),
         {:ok, type} <- parse_type(name, type),
         :ok <- check_keys(name, type, options),
         {:ok, domain} <- put_options(%__MODULE__{name: name, type: type, on_mismatch: nil}, options),
         :ok <- check_range(domain),
         :ok <- check_on_mismatch(domain),
         do: {:ok, [domain | parsed]}
  end

  defp parse_one({name, fields}, around, parsed) when is_list(fields) or (is_map(fields) and not is_struct(fields)) do
    with {:ok, path} <- parse_name(name, around), do: parse_fields(fields, around ++ path, "a map", parsed)
  end

  defp parse_one({name, type}, around, parsed), do: parse_one({name, {type, []}}, around, parsed)

  defp parse_one(other, _around, _parsed),
    do: refuse(:type, nil, "an attribute is {name, domain}, got: #{Describe.value(other)}")

  # Adds the fields of a map, or of each object in a list.
  defp parse_fields(fields, path, _kind, parsed) when is_list(fields) and fields != [], do: parse(fields, path, parsed)

  defp parse_fields(fields, path, _kind, parsed) when is_map(fields) and fields != %{} and not is_struct(fields),
    do: parse(Enum.sort_by(fields, fn {field, _domain} -> to_text(field) end), path, parsed)

  defp parse_fields(fields, path, kind, _parsed) when fields in [[], %{}] do
    name = Path.join(path)
    refuse(:type, name, "#{Describe.quoted(name)} is #{kind} without fields; declare one, or leave it out")
  end

  defp parse_fields(other, path, _kind, _parsed) do
    name = Path.join(path)

    refuse(
      :type,
      name,
      "#{suggestion({:list, other})}the fields of #{Describe.quoted(name)} are a list or a map, got: #{Describe.value(other)}"
    )
  end

  # Atoms and strings share one order. Other terms are refused later.
  defp to_text(name) when is_atom(name), do: Atom.to_string(name)
  defp to_text(name), do: name

  defp parse_name(name, around) when is_atom_name(name),
    do: parse_path(Atom.to_string(name), around)

  defp parse_name(name, around) when is_binary(name) and name != "" do
    if String.valid?(name),
      do: parse_path(name, around),
      else: refuse(:type, nil, "the name of an attribute is UTF-8, got: #{Describe.value(name)}")
  end

  defp parse_name(name, _around) do
    refuse(
      :type,
      nil,
      "the name of an attribute is an atom or a string that is not empty, got: #{Describe.value(name)}"
    )
  end

  defp parse_path(name, around) do
    with {:error, reason} <- Path.fields(name, around) do
      quoted = Path.join([name])

      refuse(
        :type,
        name,
        "no expression can spell the name #{Describe.quoted(name)}: #{reason}; " <>
          "a field of this name is written between backticks: \"#{Describe.name(quoted)}\""
      )
    end
  end

  defp parse_type(_name, type) when is_map_key(@bounds, type), do: {:ok, type}

  defp parse_type(name, type) do
    types = @bounds |> Map.keys() |> Enum.sort() |> Enum.map_join(", ", &inspect/1)

    refuse(
      :type,
      name,
      "#{Describe.quoted(name)} has the type #{Describe.value(type)}; #{suggestion(type)}the types are #{types}"
    )
  end

  defp suggestion({:array, element}), do: suggestion({:list, element})

  defp suggestion({:list, element}) do
    case @lists[Map.get(@other_names, element, element)] do
      nil -> ""
      list -> "a list of these is #{inspect(list)}; "
    end
  end

  defp suggestion(type) when is_map_key(@other_names, type), do: "use #{inspect(@other_names[type])}; "
  defp suggestion(_type), do: ""

  defp check_keys(name, type, options) do
    allowed = [:optional, :on_mismatch | @bounds[type]] ++ if(type in @strict, do: [], else: [:coerce])

    cond do
      not Keyword.keyword?(options) ->
        refuse(
          :type,
          name,
          "the options of #{Describe.quoted(name)} are a keyword list, got: #{Describe.value(options)}"
        )

      unknown = Enum.find(Keyword.keys(options), &(&1 not in allowed)) ->
        options = Enum.map_join(allowed, ", ", &inspect/1)

        refuse(
          :type,
          name,
          "#{Describe.quoted(name)} of type #{type} takes #{options}, but not #{Describe.value(unknown)}"
        )

      true ->
        :ok
    end
  end

  defp put_options(domain, []), do: {:ok, domain}

  defp put_options(domain, [{key, value} | rest]) do
    with {:ok, value} <- parse_option(domain, key, value),
         do: put_options(Map.replace!(domain, key, value), rest)
  end

  defp parse_option(_domain, key, value) when key in [:optional, :coerce] and is_boolean(value), do: {:ok, value}

  defp parse_option(%{name: name}, key, value) when key in [:optional, :coerce] do
    refuse(
      :type,
      name,
      "#{key}: of #{Describe.quoted(name)} is true or false, got: #{Describe.value(value)}"
    )
  end

  defp parse_option(_domain, :on_mismatch, value) when value in [:error, :undefined], do: {:ok, value}

  defp parse_option(%{name: name}, :on_mismatch, value) do
    message = "on_mismatch: of `#{Describe.name(name)}` is :error or :undefined, got: #{Describe.value(value)}"
    refuse(:type, name, message)
  end

  defp parse_option(_domain, :unit, value) when value in @units, do: {:ok, value}

  defp parse_option(%{name: name}, :unit, value) do
    units = "one of #{Enum.map_join(@units, ", ", &inspect/1)}"
    refuse(:type, name, "unit: of `#{Describe.name(name)}` is #{units}, got: #{Describe.value(value)}")
  end

  defp parse_option(%{name: name}, :count, value) do
    cond do
      not is_integer(value) ->
        refuse(
          :type,
          name,
          "count: of #{Describe.quoted(name)} is an integer, got: #{Describe.value(value)}"
        )

      value not in @counts ->
        refuse_range(name, :count, value, @counts)

      true ->
        {:ok, value}
    end
  end

  defp parse_option(%{type: :float}, _bound, value) when is_float(value), do: {:ok, value}

  defp parse_option(%{type: :float, name: name}, bound, value) when is_integer(value) do
    # No float holds a longer integer.
    if value in @integers, do: {:ok, value * 1.0}, else: refuse_range(name, bound, value, @integers)
  end

  defp parse_option(%{type: type}, _bound, value) when type != :float and value in @integers, do: {:ok, value}

  defp parse_option(%{type: type, name: name}, bound, value) when type != :float and is_integer(value) do
    refuse_range(name, bound, value, @integers)
  end

  defp parse_option(%{type: type, name: name}, bound, value) do
    number = if type == :float, do: "a number", else: "an integer"

    refuse(
      :type,
      name,
      "#{bound}: of #{Describe.quoted(name)} is #{number}, got: #{Describe.value(value)}"
    )
  end

  defp check_range(%{min: min, max: max, name: name}) when min != nil and max != nil and min > max do
    refuse(:type, name, "min: of #{Describe.quoted(name)} is #{min}, above its max: #{max}")
  end

  defp check_range(_domain), do: :ok

  defp check_on_mismatch(%{on_mismatch: :undefined, optional: false, name: name}) do
    name = Describe.name(name)
    refuse(:type, name, "on_mismatch: of `#{name}` is :undefined, but an event must define `#{name}`; make it optional")
  end

  defp check_on_mismatch(_domain), do: :ok

  @doc false
  # Returns whether any attribute takes mismatched values as undefined.
  @spec forgiving?([t]) :: boolean
  def forgiving?(schema), do: Enum.any?(schema, &(&1.on_mismatch == :undefined))

  @doc false
  # Returns the schema in the format of docs/contributing/abi.md.
  @spec encode([t]) :: binary
  def encode(schema) do
    :erlang.term_to_binary(Enum.map(schema, &declaration/1), minor_version: 2)
  end

  # The shortest form, which older modules also read.
  defp declaration(%{coerce: coerce} = domain) do
    case {coerce, encoded_options(domain)} do
      {false, []} -> {domain.name, domain.type, domain.optional, bounds(domain)}
      {true, []} -> {domain.name, domain.type, domain.optional, bounds(domain), coerce}
      {_either, options} -> {domain.name, domain.type, domain.optional, bounds(domain), coerce, options}
    end
  end

  defp encoded_options(%{on_mismatch: on_mismatch, unit: unit}) do
    if(on_mismatch == :error, do: [], else: [on_mismatch: on_mismatch]) ++
      if(unit == :microsecond, do: [], else: [unit: unit])
  end

  @doc false
  # Returns the attributes in the term of a schema of that format. It may come from another program.
  @spec from_term(term) :: {:ok, [t]} | {:error, Error.t()}
  def from_term(term) do
    with {:ok, schema} <- declarations(term, []), do: parse(schema)
  end

  defp declarations([], schema), do: {:ok, Enum.reverse(schema)}

  defp declarations([{name, type, optional, bounds} | rest], schema) when is_binary(name) do
    declarations(rest, [{name, {type, [optional: optional] ++ options(bounds)}} | schema])
  end

  defp declarations([{name, type, optional, bounds, coerce} | rest], schema) when is_binary(name) do
    declarations([{name, type, optional, bounds, coerce, []} | rest], schema)
  end

  defp declarations([{name, type, optional, bounds, coerce, options} | rest], schema)
       when is_binary(name) and is_list(options) do
    coerce = if coerce == false, do: [], else: [coerce: coerce]
    declarations(rest, [{name, {type, [optional: optional] ++ coerce ++ options(bounds) ++ options}} | schema])
  end

  defp declarations(other, _schema), do: refuse(:type, nil, "this is no schema: #{Describe.value(other)}")

  defp options(nil), do: []
  defp options({min, max}), do: for({key, bound} <- [min: min, max: max], bound != nil, do: {key, bound})
  defp options(count), do: [count: count]

  defp bounds(%{count: count}) when count != nil, do: count
  defp bounds(%{min: nil, max: nil}), do: nil
  defp bounds(%{min: min, max: max}), do: {min, max}

  defp refuse_range(name, option, value, range) do
    refuse(
      :out_of_bounds,
      name,
      "#{option}: of #{Describe.quoted(name)} is #{Describe.value(value)}, not from #{range.first} to #{range.last}"
    )
  end

  defp refuse(kind, attribute, message) do
    {:error, %Error{kind: kind, attribute: attribute, message: message}}
  end
end

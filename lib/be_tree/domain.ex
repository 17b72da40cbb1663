defmodule BeTree.Domain do
  @moduledoc """
  A domain describes one attribute of a schema: its name, the type of its values, and its bounds.

  `BeTree.new/2` takes a schema as a list of `{name, spec}` pairs. A name is an atom or a string. A spec is a type, or a
  type with options. The order matters only for events that are records (`{:record, values}`, `{:records, records}`).

      [
        age: :integer,
        country: {:string, optional: true},
        plan: {:integer, min: 0, max: 9},
        browser: {:string, count: 20}
      ]

  | type | value in an event | bounds |
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

  ## Options

    * `:optional` - with `true`, an event may leave the attribute undefined. Defaults to `false`: an event without the
      attribute is an error of kind `:missing_attribute`;
    * `:min`, `:max` - the inclusive bounds of constants in expressions. An expression with a constant outside them is
      refused. Values in events may lie outside. Each of the two may be left out;
    * `:count` - the greatest number of distinct values that expressions may name, from 1 to 4,294,967,295.
  """

  alias BeTree.Error
  alias BeTree.Engine.{Answer, Describe, Limits}

  @enforce_keys [:name, :type]
  defstruct [:name, :type, optional: false, min: nil, max: nil, count: nil]

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

  @typedoc "A type, or a type with the options above."
  @type spec :: type | {type, keyword}

  @typedoc "A domain; `name` is a string."
  @type t :: %__MODULE__{
          name: String.t(),
          type: type,
          optional: boolean,
          min: number | nil,
          max: number | nil,
          count: pos_integer | nil
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
    frequency_caps: []
  }

  @integers Limits.integers()
  @counts Limits.counts()

  @doc """
  Returns the domains of `schema`, a list of `{name, spec}` pairs and `BeTree.Domain` structs, in order.

  Returns `{:error, error}` with the kind `:type` for an invalid spec, or `:out_of_bounds` for a bound that the type cannot
  hold. The error has the name of the attribute.

      iex> {:ok, [age, country]} = BeTree.Domain.parse(age: :integer, country: {:string, optional: true})
      iex> {age.name, age.optional, country.type, country.optional}
      {"age", false, :string, true}

      iex> {:error, error} = BeTree.Domain.parse(age: :int)
      iex> {error.kind, error.attribute}
      {:type, "age"}
  """
  @spec parse([{atom | String.t(), spec} | t]) :: {:ok, [t]} | {:error, Error.t()}
  def parse(schema) when is_list(schema), do: parse(schema, [])
  def parse(other), do: refuse(:type, nil, "a schema is a list of {name, domain}, got: #{Describe.value(other)}")

  defp parse([], parsed), do: {:ok, Enum.reverse(parsed)}

  defp parse([domain | rest], parsed) do
    with {:ok, domain} <- parse_one(domain), do: parse(rest, [domain | parsed])
  end

  defp parse(tail, _parsed),
    do: refuse(:type, nil, "a schema is a proper list, but this one ends in #{Describe.value(tail)}")

  defp parse_one(%__MODULE__{} = domain) do
    bounds = for {key, bound} <- Map.take(domain, [:min, :max, :count]), bound != nil, do: {key, bound}
    parse_one({domain.name, {domain.type, [optional: domain.optional] ++ bounds}})
  end

  defp parse_one({name, {type, options}}) do
    with {:ok, name} <- parse_name(name),
         {:ok, type} <- parse_type(name, type),
         :ok <- check_keys(name, type, options),
         {:ok, domain} <- put_options(%__MODULE__{name: name, type: type}, options),
         do: check_range(domain)
  end

  defp parse_one({name, type}), do: parse_one({name, {type, []}})
  defp parse_one(other), do: refuse(:type, nil, "an attribute is {name, domain}, got: #{Describe.value(other)}")

  defp parse_name(name) when is_atom(name) and name not in [nil, true, false], do: {:ok, Atom.to_string(name)}

  defp parse_name(name) when is_binary(name) and name != "" do
    if String.valid?(name),
      do: {:ok, name},
      else: refuse(:type, nil, "the name of an attribute is UTF-8, got: #{Describe.value(name)}")
  end

  defp parse_name(name) do
    refuse(
      :type,
      nil,
      "the name of an attribute is an atom or a string that is not empty, got: #{Describe.value(name)}"
    )
  end

  defp parse_type(_name, type) when is_map_key(@bounds, type), do: {:ok, type}

  defp parse_type(name, type) do
    types = Enum.map_join(Map.keys(@bounds), ", ", &inspect/1)

    refuse(
      :type,
      name,
      "`#{Describe.name(name)}` has the type #{Describe.value(type)}; the types are #{types}"
    )
  end

  defp check_keys(name, type, options) do
    allowed = [:optional | @bounds[type]]

    cond do
      not Keyword.keyword?(options) ->
        refuse(
          :type,
          name,
          "the options of `#{Describe.name(name)}` are a keyword list, got: #{Describe.value(options)}"
        )

      unknown = Enum.find(Keyword.keys(options), &(&1 not in allowed)) ->
        options = Enum.map_join(allowed, ", ", &inspect/1)

        refuse(
          :type,
          name,
          "`#{Describe.name(name)}` of type #{type} takes #{options}, but not #{Describe.value(unknown)}"
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

  defp parse_option(_domain, :optional, value) when is_boolean(value), do: {:ok, value}

  defp parse_option(%{name: name}, :optional, value) do
    refuse(
      :type,
      name,
      "optional: of `#{Describe.name(name)}` is true or false, got: #{Describe.value(value)}"
    )
  end

  defp parse_option(%{name: name}, :count, value) do
    cond do
      not is_integer(value) ->
        refuse(
          :type,
          name,
          "count: of `#{Describe.name(name)}` is an integer, got: #{Describe.value(value)}"
        )

      value not in @counts ->
        refuse_range(name, :count, value, @counts)

      true ->
        {:ok, value}
    end
  end

  defp parse_option(%{type: :float}, _bound, value) when is_float(value), do: {:ok, value}

  defp parse_option(%{type: :float, name: name}, bound, value) when is_integer(value) do
    # An integer of up to 64 bits converts to a float; a longer one may exceed the greatest float.
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
      "#{bound}: of `#{Describe.name(name)}` is #{number}, got: #{Describe.value(value)}"
    )
  end

  defp check_range(%{min: min, max: max, name: name}) when min != nil and max != nil and min > max do
    refuse(:type, name, "min: of `#{Describe.name(name)}` is #{min}, above its max: #{max}")
  end

  defp check_range(domain), do: {:ok, domain}

  @doc false
  # Encodes the schema as docs/abi.md specifies.
  @spec encode([t]) :: binary
  def encode(schema) do
    :erlang.term_to_binary(Enum.map(schema, &{&1.name, &1.type, &1.optional, bounds(&1)}), minor_version: 2)
  end

  @doc false
  # Decodes the domains from bytes that `encode/1` or another program made.
  @spec decode(binary) :: {:ok, [t]} | {:error, Error.t()}
  def decode(schema) do
    with {:ok, term} <- Answer.term(schema), {:ok, schema} <- declarations(term, []), do: parse(schema)
  end

  defp declarations([], schema), do: {:ok, Enum.reverse(schema)}

  defp declarations([{name, type, optional, bounds} | rest], schema) when is_binary(name) do
    declarations(rest, [{name, {type, [optional: optional] ++ options(bounds)}} | schema])
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
      "#{option}: of `#{Describe.name(name)}` is #{Describe.value(value)}, not from #{range.first} to #{range.last}"
    )
  end

  defp refuse(kind, attribute, message) do
    {:error, %Error{kind: kind, attribute: attribute, message: message}}
  end
end

defmodule BeTree.Input.Options do
  @moduledoc false
  # Options as data: each has a type, a default and a text. Public functions check their options by these definitions,
  # and render the text of their documentation from them. NimbleOptions does the same, but validates every definition in each call,
  # which costs more than a search; `put!/3` looks at the given options only.

  alias BeTree.Input.{Describe, Limits}

  # The error of an unknown option suggests a known name whose similarity, from 0 to 1, is greater.
  @similar 0.8

  @typedoc """
  The type of an option's value.

    * `:positive` - an integer from 1;
    * `:budget` - an amount of fuel from 1, or `:infinity`;
    * `:timeout` - milliseconds, or `:infinity`;
    * `:boolean`, `:any`;
    * `{:integer, from, to}`, `{:bytes, from, to}`;
    * `{:one_of, atoms}`;
    * `{:check, expected, function}` - any value for which the function returns `true`, described by `expected`;
    * `{:nullable, type}` - the same, or `nil`.
  """
  @type type :: atom | tuple

  @typedoc """
  Definitions by name. Keys: `:type`; `:default`, a value or `{:computed, function}`; `:default_doc`, the default as text;
  `:required`; and `:doc`, the text, which begins with a noun or a condition and has no final full stop.
  """
  @type definitions :: [{atom, keyword}]

  @doc """
  Returns the options with their defaults. An option without a default is left out unless it is given.

  Raises an `ArgumentError` that names the option and the expected values.
  """
  @spec validate!(term, definitions) :: keyword
  def validate!(options, definitions) do
    options = known!(options, Keyword.keys(definitions))

    Enum.flat_map(definitions, fn {name, definition} ->
      case Keyword.fetch(options, name) do
        {:ok, value} -> [{name, check!(name, definition[:type], value)}]
        :error -> default(name, definition)
      end
    end)
  end

  @doc """
  Merges `options` into the map `defaults`, and checks them as `validate!/2` does. It takes time only for the given options,
  so calls of a few microseconds use it.
  """
  @spec put!(map, term, definitions) :: map
  def put!(defaults, options, definitions) do
    keyword!(options)

    # From the last option to the first, so that the first value of a repeated option counts.
    List.foldr(options, defaults, fn {name, value}, checked ->
      case List.keyfind(definitions, name, 0) do
        {_name, definition} -> %{checked | name => check!(name, definition[:type], value)}
        nil -> known!(options, Keyword.keys(definitions))
      end
    end)
  end

  # Returns the first value of each option, or raises an error unless all names are in `names`.
  defp known!(options, names) do
    keyword!(options)

    case Enum.find(options, fn {name, _value} -> name not in names end) do
      nil ->
        Enum.uniq_by(options, &elem(&1, 0))

      {unknown, _value} ->
        raise ArgumentError,
              "unknown keys [#{Describe.value(unknown)}]; #{nearest(unknown, names)}the options are " <>
                Enum.map_join(names, ", ", &Describe.value/1)
    end
  end

  defp nearest(unknown, names) do
    similarity = &String.jaro_distance(Atom.to_string(&1), Atom.to_string(unknown))
    name = Enum.max_by(names, similarity, fn -> nil end)
    if name != nil and similarity.(name) > @similar, do: "did you mean #{Describe.value(name)}? All ", else: ""
  end

  @doc "Raises an `ArgumentError` unless `options` is a keyword list."
  @spec keyword!(term) :: :ok
  def keyword!(options) do
    unless Keyword.keyword?(options) do
      raise ArgumentError, "options are a keyword list, got: #{Describe.value(options)}"
    end

    :ok
  end

  defp default(name, definition) do
    case Keyword.fetch(definition, :default) do
      {:ok, {:computed, function}} -> [{name, function.()}]
      {:ok, value} -> [{name, value}]
      :error -> if definition[:required], do: missing(name, definition[:type]), else: []
    end
  end

  defp missing(name, type) do
    taken = if type == :any, do: "", else: "; it takes #{expected(type)}"
    raise ArgumentError, "the option #{Describe.value(name)} is missing#{taken}"
  end

  @doc "Returns `value`, or raises an `ArgumentError` unless the option `name` of this type can have it."
  @spec check!(atom, type, term) :: term
  def check!(name, type, value) do
    if valid?(type, value) do
      value
    else
      raise ArgumentError, "the option #{Describe.value(name)} takes #{expected(type)}, got: #{Describe.value(value)}"
    end
  end

  defp valid?(:any, _value), do: true
  defp valid?(:boolean, value), do: is_boolean(value)
  defp valid?(:positive, value), do: is_integer(value) and value > 0
  defp valid?(:budget, value), do: value == :infinity or (is_integer(value) and value > 0)

  defp valid?(:timeout, value) do
    value == :infinity or (is_integer(value) and value >= 0 and value <= Limits.max_timeout())
  end

  defp valid?({kind, from, to}, value) when kind in [:integer, :bytes] do
    is_integer(value) and value >= from and value <= to
  end

  defp valid?({:one_of, atoms}, value), do: value in atoms
  defp valid?({:check, _expected, function}, value), do: function.(value)
  defp valid?({:nullable, type}, value), do: value == nil or valid?(type, value)

  defp expected(:boolean), do: "true or false"
  defp expected(:positive), do: "a positive integer"
  defp expected(:budget), do: "a positive integer or :infinity"

  defp expected(:timeout) do
    "milliseconds from 0 to #{Limits.max_timeout()}, the most that a process can wait, or :infinity"
  end

  defp expected({:integer, from, to}), do: "an integer from #{from} to #{to}"
  defp expected({:bytes, from, to}), do: "bytes, an integer from #{from} to #{to}"

  defp expected({:one_of, [atom]}), do: inspect(atom)

  defp expected({:one_of, atoms}) do
    {first, [last]} = atoms |> Enum.map(&inspect/1) |> Enum.split(-1)
    "#{Enum.join(first, ", ")} or #{last}"
  end

  defp expected({:check, expected, _function}), do: expected
  defp expected({:nullable, type}), do: expected(type)

  @doc "Returns the definitions as a list in Markdown, an item for each option."
  @spec docs(definitions) :: String.t()
  def docs(definitions) do
    Enum.map_join(definitions, "\n", fn {name, definition} ->
      "  * `#{inspect(name)}` - #{definition[:doc]}.#{default_doc(definition)}"
    end)
  end

  defp default_doc(definition) do
    case definition[:default_doc] || Keyword.get(definition, :default) do
      nil -> ""
      text when is_binary(text) -> " Defaults to #{text}."
      value -> " Defaults to `#{inspect(value)}`."
    end
  end
end

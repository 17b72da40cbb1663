defmodule BeTree.Engine.Check do
  @moduledoc false
  # Checks what a program passes to a public function. What is the program's fault raises an ArgumentError that says what
  # was expected and what came.

  alias BeTree.Error
  alias BeTree.Engine.{Describe, Slices}

  @bytes 0xFFFF_FFFF_FFFF_FFFF
  # What an instance of a runtime is made with.
  @instantiate {:instantiate, 2}

  @doc "Raises an `ArgumentError`: what was expected, and the value that came."
  @spec expected!(String.t(), term) :: no_return
  def expected!(expected, value), do: raise(ArgumentError, "expected #{expected}, got: #{Describe.value(value)}")

  @doc "Returns `options` with the defaults of `allowed`, or raises an `ArgumentError` that names what was expected."
  @spec options!(term, keyword | [atom]) :: keyword
  def options!(options, allowed) do
    unless Keyword.keyword?(options) do
      raise ArgumentError, "options are a keyword list, got: #{Describe.value(options)}"
    end

    keys = for option <- allowed, do: if(is_tuple(option), do: elem(option, 0), else: option)

    case Enum.find(options, fn {key, _value} -> key not in keys end) do
      nil ->
        Keyword.validate!(Enum.uniq_by(options, &elem(&1, 0)), allowed)

      {unknown, _value} ->
        names = Enum.map_join(keys, ", ", &Describe.value/1)
        raise ArgumentError, "unknown keys [#{Describe.value(unknown)}]; the options are #{names}"
    end
  end

  @doc "Returns the option `:timeout`, `:infinity` where it is left out, and the others, or raises an `ArgumentError`."
  @spec timeout!(term, [atom]) :: {timeout, keyword}
  def timeout!(options, others \\ []) do
    {timeout, options} = options |> options!([{:timeout, :infinity} | others]) |> Keyword.pop!(:timeout)
    {Slices.check!(:timeout, timeout), options}
  end

  @doc "Raises an `ArgumentError` unless the option `key` is a positive integer."
  @spec positive!(keyword, atom) :: :ok
  def positive!(options, key) do
    value = options[key]
    if is_integer(value) and value > 0, do: :ok, else: option!(key, "a positive integer", value)
  end

  @doc "Raises an `ArgumentError` unless the option `:memory` is a number of bytes."
  @spec memory!(keyword) :: :ok
  def memory!(options) do
    memory = options[:memory]
    if memory in 1..@bytes, do: :ok, else: option!(:memory, "bytes, an integer from 1 to #{@bytes}", memory)
  end

  @doc "Raises an `ArgumentError` unless `runtime` is a module that implements `BeTree.Runtime`."
  @spec runtime!(term) :: :ok
  def runtime!(runtime) do
    {function, arity} = @instantiate

    if is_atom(runtime) and Code.ensure_loaded?(runtime) and function_exported?(runtime, function, arity),
      do: :ok,
      else: option!(:runtime, "a module that implements BeTree.Runtime", runtime)
  end

  @doc "Raises an `ArgumentError` unless `path` is one: a string, or a list of characters and strings."
  @spec path!(term) :: :ok
  def path!(path) when is_binary(path), do: :ok

  def path!(path) do
    if is_list(path) and is_binary(characters(path)), do: :ok, else: expected!("a path, a string", path)
  end

  defp characters(path) do
    :unicode.characters_to_binary(path)
  rescue
    ArgumentError -> nil
  end

  @doc "Returns an error of kind `:type` unless `many` is a proper list or something else that can be enumerated."
  @spec enumerable(term, String.t()) :: :ok | {:error, Error.t()}
  def enumerable(many, what) do
    if enumerable?(many),
      do: :ok,
      else: {:error, %Error{kind: :type, message: "#{what} are a list or a stream, got: #{Describe.value(many)}"}}
  end

  # The length of an improper list is none.
  defp enumerable?(list) when is_list(list) and length(list) >= 0, do: true
  defp enumerable?(list) when is_list(list), do: false
  defp enumerable?(function) when is_function(function), do: is_function(function, 2)
  defp enumerable?(other), do: Enumerable.impl_for(other) != nil

  @spec option!(atom, String.t(), term) :: no_return
  defp option!(key, expected, value) do
    raise ArgumentError, "the option #{Describe.value(key)} takes #{expected}, got: #{Describe.value(value)}"
  end
end

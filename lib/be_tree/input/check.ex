defmodule BeTree.Input.Check do
  @moduledoc false
  # Checks the arguments of public functions. A wrong argument raises an ArgumentError with the expected value and the given
  # one.

  alias BeTree.Error
  alias BeTree.Input.{Describe, Limits, Options}

  @timeout [timeout: [type: :timeout]]
  @max_path_bytes 0x8000
  # The function and the arity by which a runtime makes an instance.
  @instantiate {:instantiate, 2}

  @doc "Raises an `ArgumentError` with the expected value, in words, and the given one."
  @spec expected!(String.t(), term) :: no_return
  def expected!(expected, value), do: raise(ArgumentError, "expected #{expected}, got: #{Describe.value(value)}")

  @doc "Raises the `ArgumentError` of a term that is no target."
  @spec no_target!(term) :: no_return
  # Prints the kind only: with swapped arguments this term is the event.
  def no_target!(other) do
    raise ArgumentError,
          "expected a tree, a published index, a server's name or a cluster, got: #{Describe.kind(other)}"
  end

  @doc "Raises the `ArgumentError` of a target that cannot be changed or published."
  @spec no_tree!(term) :: no_return
  def no_tree!(other), do: expected!("a tree to change or publish, or the name of a server to change", other)

  @doc "Returns the timeout in the options of a function that takes only this option. Raises an `ArgumentError` for other options."
  @spec timeout!(term) :: timeout
  def timeout!([]), do: :infinity
  def timeout!(options), do: Options.put!(%{timeout: :infinity}, options, @timeout).timeout

  @doc "Raises an `ArgumentError` unless `bytes` is an amount of memory."
  @spec memory!(term) :: pos_integer
  def memory!(bytes), do: Options.check!(:memory, {:bytes, 1, Limits.max_u64()}, bytes)

  @doc "Returns whether `runtime` is a module that implements `BeTree.Runtime`."
  @spec runtime?(term) :: boolean
  def runtime?(runtime) do
    {function, arity} = @instantiate
    is_atom(runtime) and Code.ensure_loaded?(runtime) and function_exported?(runtime, function, arity)
  end

  @doc "Raises an `ArgumentError` unless `runtime` is a module that implements `BeTree.Runtime`."
  @spec runtime!(term) :: module
  def runtime!(runtime) do
    Options.check!(:runtime, {:check, "a module that implements BeTree.Runtime", &runtime?/1}, runtime)
  end

  @doc "Returns whether `list` is a proper list."
  @spec proper_list?(term) :: boolean
  def proper_list?(list), do: is_list(list) and not List.improper?(list)

  @doc "Returns whether `path` is a path: a string, or a list of characters and strings."
  @spec path?(term) :: boolean
  def path?(path), do: is_binary(path) or (is_list(path) and is_binary(characters(path)))

  @doc "Returns whether `path` is a path that can be a folder's: an empty one would be the current folder."
  @spec folder?(term) :: boolean
  def folder?(path), do: path?(path) and IO.chardata_to_string(path) != ""

  @doc "Raises an `ArgumentError` unless `path` is a path that the system can open. `expected` says what the function takes."
  @spec path!(term, String.t()) :: :ok
  def path!(path, expected \\ "a path, a string") do
    if path?(path) and path |> IO.chardata_to_string() |> openable?(), do: :ok, else: expected!(expected, path)
  end

  # The bytes of a file in place of its path have a zero, or are longer than the paths of any system.
  defp openable?(path), do: byte_size(path) <= @max_path_bytes and :binary.match(path, <<0>>) == :nomatch

  defp characters(path) do
    :unicode.characters_to_binary(path)
  rescue
    ArgumentError -> nil
  end

  @doc """
  Returns an error of kind `:type` unless `many` is a proper list or another enumerable. `name` is the plural of its elements.
  The message does not print `many`, which may be an event.
  """
  @spec enumerable(term, String.t()) :: :ok | {:error, Error.t()}
  def enumerable(many, name) do
    if enumerable?(many), do: :ok, else: no_list(many, name)
  end

  @doc "Like `enumerable/2` for events, but also refuses a map, which is a single event."
  @spec events(term) :: :ok | {:error, Error.t()}
  def events(event) when is_map(event) and not is_struct(event), do: no_list(event, "events")
  def events(events), do: enumerable(events, "events")

  defp no_list(other, name),
    do: {:error, %Error{kind: :type, message: "#{name} are a list or a stream, got: #{Describe.kind(other)}"}}

  # An improper list has no length.
  defp enumerable?(list) when is_list(list) and length(list) >= 0, do: true
  defp enumerable?(list) when is_list(list), do: false
  defp enumerable?(function) when is_function(function), do: is_function(function, 2)
  defp enumerable?(other), do: Enumerable.impl_for(other) != nil
end

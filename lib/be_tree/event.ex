defmodule BeTree.Event do
  @moduledoc """
  What an event may be, and its way into the sandbox.

    * a map, a keyword list, a list of pairs or a struct, with atoms or strings for keys:
      `%{age: 30, country: "CA"}`, `[age: 30]`, `[{"age", 30}]`, `%User{age: 30}`;
    * `{:json, binary}`, a JSON object as UTF-8 text: it is parsed inside the sandbox, on the search's fuel;
    * `{:record, values}`, a list or a tuple of the values in the order of the domains, without names.
      In it `1` and `0` also stand for `true` and `false`.

  Values are those of `BeTree.Domain`; `nil`, `:undefined` and JSON's `null` stand for undefined, and so does an
  attribute that is not there. Attributes that the tree does not have are passed over, whatever their values.

  In JSON a segment is `[id, micros]` and a frequency cap `[["flight", 10, "ns"], value, micros or null]`.

  The encoding costs the calling process one `:erlang.term_to_binary/2`; names and values are checked inside.
  """

  alias BeTree.Error

  @type t :: map | keyword | [{String.t(), term}] | struct | {:json, binary} | {:record, list | tuple}

  @typedoc false
  @type format :: 0..2

  @pairs 0
  @json 1
  @record 2

  @doc false
  # The format and the bytes that docs/abi.md asks for.
  @spec encode(t) :: {:ok, format, binary} | {:error, Error.t()}
  def encode(%_struct{} = event), do: {:ok, @pairs, to_term(Map.from_struct(event))}
  def encode(event) when is_map(event), do: {:ok, @pairs, to_term(event)}
  def encode(event) when is_list(event), do: {:ok, @pairs, to_term(event)}
  def encode({:json, json}) when is_binary(json), do: {:ok, @json, json}
  def encode({:record, values}) when is_list(values) or is_tuple(values), do: {:ok, @record, to_term(values)}

  def encode(other) do
    message =
      "an event is a map, a keyword list, a struct, {:json, binary} or {:record, list or tuple}, got: #{inspect(other)}"

    {:error, %Error{kind: :type, message: message}}
  end

  @doc false
  # The text in which the column of an error counts.
  @spec text(t) :: binary | nil
  def text({:json, json}), do: json
  def text(_event), do: nil

  defp to_term(term), do: :erlang.term_to_binary(term, minor_version: 2)
end

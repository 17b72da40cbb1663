defmodule BeTree.Event do
  @moduledoc """
  An event is the assignment of values to attributes that a search is given, in one of these forms:

    * a map, a keyword list, a list of pairs or a struct, with atoms or strings as keys:
      `%{age: 30, country: "CA"}`, `[age: 30]`, `[{"age", 30}]`, `%User{age: 30}`;
    * `{:json, binary}`, a JSON object as UTF-8 text. The sandbox parses it, on the fuel of the search;
    * `{:record, values}`, a list or a tuple of the values in the order of the schema, without names.
      Here `1` and `0` also stand for `true` and `false`;
    * `{:records, records}`, a list of Erlang records. The first element of each tuple is skipped. The other elements are
      the values in the order of the schema, record after record. No value is converted here: an integer is no float, an
      atom is no string, and only `:undefined` stands for undefined;
    * `{:prepared, binary}`, the result of `prepare/3` for one of the other forms.

  `BeTree.Domain` lists the values of each type. `nil`, `:undefined` and JSON's `null` stand for undefined, and a missing
  attribute is undefined too. Attributes outside the schema are skipped, whatever their values.

  In JSON a segment is `[id, micros]` and a frequency cap is `[["flight", 10, "ns"], value, micros or null]`.

  The calling process encodes an event with one `:erlang.term_to_binary/2`. The sandbox checks names and values.
  """

  alias BeTree.Error
  alias BeTree.Engine.{Bang, Check, Describe, Instance, Target}

  @type t ::
          map
          | keyword
          | [{String.t(), term}]
          | struct
          | {:json, binary}
          | {:record, list | tuple}
          | {:records, [tuple]}
          | prepared

  @typedoc "A decoded event, for trees with the same attributes in the same order."
  @type prepared :: {:prepared, binary}

  @typedoc false
  @type format :: 0..4

  @pairs 0
  @json 1
  @record 2
  @prepared 3
  @records 4

  # An event of this many bytes is decoded in less time than a slice of a search takes.
  @small 16 * 1024

  @doc """
  Decodes `event` once, for searches of several trees or many searches of one, and returns a prepared event.

  Any tree with the same attributes as `target` in the same order takes the prepared event; the bounds may differ. Another
  tree returns an error of kind `:type`. Names are resolved and values are checked here, so a search only copies them. The
  result is a plain binary, about as large as the encoded event.

  The call takes some microseconds on the scheduler of the calling process. An event of more than #{div(@small, 1024)} KB is
  decoded on a dirty scheduler. The option `:timeout` sets the milliseconds that the call may wait for the tree or for a
  replica, `:infinity` by default.

  Returns `{:error, error}` with the kinds of `BeTree.search/3` for the event.

      iex> schema = [age: :integer, country: {:string, optional: true}]
      iex> {adults, canadians} = {BeTree.new!(schema), BeTree.new!(schema)}
      iex> BeTree.insert!(adults, 1, "age >= 21")
      iex> BeTree.insert!(canadians, 2, "country = 'CA'")
      iex> {:ok, {:prepared, _bytes} = event} = BeTree.Event.prepare(adults, %{age: 30, country: "CA"})
      iex> {BeTree.search!(adults, event), BeTree.search!(canadians, event)}
      {[1], [2]}
  """
  @spec prepare(BeTree.target(), t, timeout: timeout) :: {:ok, prepared} | {:error, Error.t()}
  def prepare(target, event, options \\ []) do
    timeout = Check.timeout!(options)

    with {:ok, format, bytes} <- encode(event),
         {:ok, handle} <- Target.handle(target) do
      arguments = [format, byte_size(bytes)]
      options = [scheduler: if(byte_size(bytes) <= @small, do: :normal, else: :dirty), timeout: timeout]

      case Instance.call(handle.runtime, handle.instance, "be_tree_prepare", arguments, bytes, options) do
        {:ok, prepared} -> {:ok, {:prepared, prepared}}
        {:error, error} -> {:error, %{error | text: text(event)}}
      end
    end
  end

  @doc """
  Like `prepare/3`, but returns the event and raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.search!(tree, BeTree.Event.prepare!(tree, %{age: 30}))
      [1]
  """
  @spec prepare!(BeTree.target(), t, timeout: timeout) :: prepared
  def prepare!(target, event, options \\ []), do: Bang.unwrap!(prepare(target, event, options))

  @doc false
  # Returns the format and the bytes that docs/abi.md specifies.
  @spec encode(t) :: {:ok, format, binary} | {:error, Error.t()}
  def encode(%_struct{} = event), do: {:ok, @pairs, to_term(Map.from_struct(event))}
  def encode(event) when is_map(event), do: {:ok, @pairs, to_term(event)}
  def encode(event) when is_list(event), do: {:ok, @pairs, to_term(event)}
  def encode({:json, json}) when is_binary(json), do: {:ok, @json, json}
  def encode({:record, values}) when is_list(values) or is_tuple(values), do: {:ok, @record, to_term(values)}
  def encode({:records, records}) when is_list(records), do: {:ok, @records, to_term(records)}
  def encode({:prepared, bytes}) when is_binary(bytes), do: {:ok, @prepared, bytes}

  def encode(other) do
    expected =
      "a map, a keyword list, a struct, {:json, binary}, {:record, list or tuple}, {:records, list} or {:prepared, binary}"

    {:error, %Error{kind: :type, message: "an event is #{expected}, got: #{Describe.value(other)}"}}
  end

  @doc false
  # The text in which the column of an error counts.
  @spec text(t) :: binary | nil
  def text({:json, json}), do: json
  def text(_event), do: nil

  @doc false
  # The same text for an encoded event.
  @spec text(format, binary) :: binary | nil
  def text(@json, json), do: json
  def text(_format, _bytes), do: nil

  defp to_term(term), do: :erlang.term_to_binary(term, minor_version: 2)
end

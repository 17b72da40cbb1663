defmodule BeTree.Event do
  @moduledoc """
  The forms of an event.

    * a map, a keyword list, a list of pairs or a struct, with atoms or strings for keys:
      `%{age: 30, country: "CA"}`, `[age: 30]`, `[{"age", 30}]`, `%User{age: 30}`;
    * `{:json, binary}`, a JSON object as UTF-8 text. The sandbox parses it, on the fuel of the search;
    * `{:record, values}`, a list or a tuple of the values in the order of the schema, without names.
      `1` and `0` also stand for `true` and `false`;
    * `{:records, records}`, a list of Erlang records. The first element of each tuple is ignored; the others are the
      values in the order of the schema, record after record. Types are strict: no integer for a float, no atom for a
      string, and only `:undefined` for an undefined value;
    * a `BeTree.Event.Prepared`, a result of `prepare/3`.

  The attribute `user.address.city` is a field of the map in a field of the map in the field `user`. A map in an event is a map, a
  keyword list, a list of pairs, a struct or a JSON object. If it is missing or undefined, all of its fields are; any other value
  in its place does not fit. A field whose own name has a point is written in backticks in a schema:
  `` `a.b` ``. Records have one value for each attribute, without maps. If a name comes twice, JSON's last value counts, with all of
  its fields, and in lists of pairs the first one that is defined.

  `BeTree.Domain` lists the values of each type, and what `coerce: true` converts. `nil`, `:undefined` and JSON's `null` are undefined values, and so is a missing
  attribute. Names that the schema lacks are ignored, with any values; the option
  `strict: true` of searches and of `prepare/3` refuses them.

  A value that does not fit its attribute is an error of kind `:type` or `:out_of_bounds`, which names the attribute, or counts as
  undefined where the attribute, the schema or the call has `on_mismatch: :undefined` (`BeTree.Domain`). If JSON has a name twice, only
  the last value must fit.

  In JSON a segment is `[id, micros]` and a frequency cap `[["flight", 10, "ns"], value, micros or null]`.

  Encoding costs the calling process one `:erlang.term_to_binary/2`. The sandbox checks names and values.
  """

  alias BeTree.Error.Bang
  alias BeTree.Input.{Describe, Options}
  alias BeTree.Input.Options.Common
  alias BeTree.{Error, Target}
  alias BeTree.Event.Prepared

  @type t ::
          map
          | keyword
          | [{String.t(), term}]
          | struct
          | {:json, binary}
          | {:record, list | tuple}
          | {:records, [tuple]}
          | Prepared.t()

  @typedoc false
  @type format :: 0..6 | 16..22

  @typedoc false
  # The options that decide how an event is read. The map may have further options.
  @type reading :: %{:strict => boolean, :on_mismatch => BeTree.Domain.on_mismatch(), optional(atom) => term}

  @pairs 0
  @json 1
  @record 2
  @prepared 3
  @records 4
  # Added to the formats of pairs and JSON for a strict event.
  @strict_offset 5
  # Added to a format whose mismatched values count as undefined.
  @forgiving_offset 16

  @typedoc "An option of `prepare/3`."
  @type prepare_option :: {:timeout, timeout} | {:strict, boolean} | {:on_mismatch, BeTree.Domain.on_mismatch()}

  @doc """
  Decodes `event` once, for several searches. Returns `{:ok, event}`.

  Every tree with the attributes of `target` in the same order accepts the returned event; their bounds may differ. Any other
  tree refuses it with an error of kind `:type`. The event is about as large as the original as a term. Its names are resolved
  and its values checked, so a search only copies them.

  The call takes some microseconds on the scheduler of the calling process. An event of more than 16 KB is decoded on a
  dirty scheduler.

  ## Options

  #{Options.docs(Common.prepare())}

  Returns `{:error, error}` with the kinds of `BeTree.search/3` for the event, or `:timeout`.

  A search for the event with `on_mismatch: :undefined`, or under a schema that has it, also counts the values that did not fit when it
  was prepared.

  With `strict: true` it also refuses names that the schema lacks, with the kind `:unknown_attribute`:

      iex> tree = BeTree.new!(age: :integer)
      iex> {:error, error} = BeTree.Event.prepare(tree, %{age: 30, aeg: 31}, strict: true)
      iex> error.message
      "the schema has no attribute `aeg`; did you mean `age`?"

      iex> schema = [age: :integer, country: {:string, optional: true}]
      iex> {adults, canadians} = {BeTree.new!(schema), BeTree.new!(schema)}
      iex> BeTree.insert!(adults, 1, "age >= 21")
      iex> BeTree.insert!(canadians, 2, "country = 'CA'")
      iex> {:ok, event} = BeTree.Event.prepare(adults, %{age: 30, country: "CA"})
      iex> {BeTree.search!(adults, event), BeTree.search!(canadians, event)}
      {[1], [2]}
  """
  @spec prepare(BeTree.target(), t, [prepare_option]) :: {:ok, Prepared.t()} | {:error, Error.t()}
  def prepare(target, event, options \\ []), do: Target.prepare(target, event, options)

  @doc """
  Like `prepare/3`, but returns the event and raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.search!(tree, BeTree.Event.prepare!(tree, %{age: 30}))
      [1]
  """
  @spec prepare!(BeTree.target(), t, [prepare_option]) :: Prepared.t()
  def prepare!(target, event, options \\ []), do: Bang.unwrap!(prepare(target, event, options))

  @doc false
  # Returns the format and the bytes of an event, as docs/abi.md specifies them. A strict format refuses names that the schema
  # lacks. Strictness means nothing for records, which have no names, and for prepared events, which were checked.
  @spec encode(t, reading) :: {:ok, format, binary} | {:error, Error.t()}
  def encode(event, reading) do
    with {:ok, format, bytes} <- encode(event), do: {:ok, format |> strict(reading) |> forgiving(reading), bytes}
  end

  defp strict(format, %{strict: true}) when format in [@pairs, @json], do: format + @strict_offset
  defp strict(format, _reading), do: format

  defp forgiving(format, %{on_mismatch: :undefined}) when format != @prepared, do: format + @forgiving_offset
  defp forgiving(format, _reading), do: format

  @doc false
  # Returns the format and the bytes of an event that is neither strict nor forgiving.
  @spec encode(t) :: {:ok, format, binary} | {:error, Error.t()}
  def encode(%Prepared{bytes: bytes}), do: {:ok, @prepared, bytes}
  def encode(%_struct{} = event), do: {:ok, @pairs, to_term(Map.from_struct(event))}
  def encode(event) when is_map(event), do: {:ok, @pairs, to_term(event)}
  def encode(event) when is_list(event), do: {:ok, @pairs, to_term(event)}
  def encode({:json, json}) when is_binary(json), do: {:ok, @json, json}
  def encode({:record, values}) when is_list(values) or is_tuple(values), do: {:ok, @record, to_term(values)}
  def encode({:records, records}) when is_list(records), do: {:ok, @records, to_term(records)}

  def encode(other) do
    expected = "a map, a keyword list, a struct, {:json, binary}, {:record, list or tuple} or {:records, list}"
    {:error, %Error{kind: :type, message: "an event is #{expected}, got: #{Describe.kind(other)}"}}
  end

  defp to_term(term), do: :erlang.term_to_binary(term, minor_version: 2)
end

defmodule BeTree.Rules.Server.Base do
  @moduledoc false
  # Bases of the journal of a server of rules: the memory of the engine.
  #
  # The content of a base is the length of a head, the head, an external term of `t:head/0`, and then parts of the memory, each after
  # its address and its length.

  alias BeTree.Call.Instance
  alias BeTree.Journal.Owner
  alias BeTree.{Error, Guest, Rules}
  alias BeTree.Rules.Module
  alias BeTree.Rules.Server.ModuleFile

  @typedoc "`module` is the digest of the module that wrote the memory, `length` the bytes of the memory."
  @type head :: %{
          required(:module) => binary,
          required(:length) => non_neg_integer,
          required(:text) => String.t(),
          optional(atom) => term
        }

  # The bytes of memory that are read at a time. Zeros are left out in pieces of this size.
  @part_bytes 0x1_0000
  @zeros <<0::size(@part_bytes)-unit(8)>>

  @doc "Takes a snapshot of the rules for a base with `content` in its head. Returns a function that writes it."
  @spec prepare(Rules.t(), map, non_neg_integer) ::
          {:ok, (Owner.write(), Owner.flush() -> {:ok, non_neg_integer} | {:error, Error.t()})} | {:error, Error.t()}
  def prepare(rules, content, version) do
    with {:ok, payload} <- payload(rules, content),
         do: {:ok, fn write, flush -> with(:ok <- flush.(), :ok <- write.(version, payload), do: {:ok, version}) end}
  end

  @doc "Returns the parts of a base, which has a snapshot of the rules and `content` in its head. The rules have the present module."
  @spec payload(Rules.t(), map) :: {:ok, Enumerable.t()} | {:error, Error.t()}
  def payload(%{runtime: runtime, instance: instance}, content) do
    with {:ok, guest} <- Module.built_in(runtime),
         {:ok, snapshot} <- runtime.snapshot(instance, :infinity) do
      length = runtime.snapshot_length(snapshot)
      head = Map.merge(content, %{module: ModuleFile.digest(guest), length: length})
      # The process that writes the base encodes the head, which may have many notices.
      {:ok, [head] |> Stream.map(&encode/1) |> Stream.concat(memory(runtime, snapshot, length))}
    end
  end

  defp encode(head) do
    head = :erlang.term_to_binary(head)
    [<<byte_size(head)::little-64>>, head]
  end

  defp memory(runtime, snapshot, length) do
    Stream.flat_map(0..(length - 1)//@part_bytes, fn address ->
      case runtime.snapshot_read(snapshot, address, min(@part_bytes, length - address)) do
        {:ok, @zeros} -> []
        {:ok, bytes} -> [[<<address::little-64, byte_size(bytes)::little-64>>, bytes]]
        {:error, error} -> raise error
      end
    end)
  end

  @doc """
  Returns the rules in the content of a base, which may take `memory` bytes, the module that runs them, and the head of the base. `find`
  returns the module with a digest.
  """
  @spec read(binary, map, pos_integer, (ModuleFile.digest() -> {:ok, Guest.t()} | {:error, Error.t()})) ::
          {:ok, Rules.t(), Guest.t(), head} | {:error, Error.t()}
  def read(<<size::little-64, head::binary-size(size), parts::binary>>, options, memory, find) do
    head = :erlang.binary_to_term(head, [:safe])

    with {:ok, guest} <- find.(head.module),
         {:ok, snapshot} <- options.runtime.snapshot_of(head.length, parts(parts)),
         {:ok, instance} <- Instance.instantiate(guest, memory, snapshot),
         do: {:ok, Rules.handle(instance, options), guest, head}
  end

  defp parts(""), do: []

  defp parts(<<address::little-64, length::little-64, bytes::binary-size(length), rest::binary>>),
    do: [{address, bytes} | parts(rest)]
end

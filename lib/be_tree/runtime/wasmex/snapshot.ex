defmodule BeTree.Runtime.Wasmex.Snapshot do
  @moduledoc false
  # The state of an instance at one moment: its memory, and its exported mutable globals.

  alias BeTree.Error
  alias BeTree.Runtime.Wasmex.{Compiled, Machine}

  @derive {Inspect, only: []}
  @enforce_keys [:memory, :globals]
  defstruct @enforce_keys

  @type t :: %__MODULE__{memory: binary, globals: [{String.t(), number}]}

  @page 65_536

  # A store takes 1,024 requests at once, and a piece of memory is one request.
  @most_at_once 64

  @doc "Returns the state of a machine that the calling process holds. wasmex copies the memory on its own threads."
  @spec take(Machine.t(), [String.t()]) :: {:ok, t} | {:error, Error.t()}
  def take(machine, globals) do
    before = Machine.restore_operations(machine)
    size = Machine.measure(machine)
    memory = if machine.memory, do: [{:read, 0, size}], else: []
    replies = Machine.round(machine, before ++ memory ++ for(name <- globals, do: {:global, name}))
    replies = Enum.drop(replies, length(before))

    case Enum.find(replies, &match?({:error, _reason}, &1)) do
      {:error, reason} -> error(:out_of_memory, "there is no snapshot of #{size} bytes: #{reason}")
      nil when machine.memory == nil -> {:ok, %__MODULE__{memory: "", globals: Enum.zip(globals, replies)}}
      nil -> {:ok, %__MODULE__{memory: hd(replies), globals: Enum.zip(globals, tl(replies))}}
    end
  end

  @doc "Returns a snapshot with a memory of `length` bytes that is zero except for these parts, which do not overlap."
  @spec from_parts(non_neg_integer, [{non_neg_integer, binary}]) :: {:ok, t} | {:error, Error.t()}
  def from_parts(length, parts) do
    with {:ok, memory} <- parts |> Enum.sort() |> join(0, length, []) do
      {:ok, %__MODULE__{memory: IO.iodata_to_binary(memory), globals: []}}
    end
  end

  defp join([], at, length, joined), do: {:ok, [joined | zeros(length - at)]}

  defp join([{address, bytes} | parts], at, length, joined)
       when address >= at and address + byte_size(bytes) <= length do
    join(parts, address + byte_size(bytes), length, [joined, zeros(address - at) | bytes])
  end

  defp join([{address, bytes} | _parts], at, length, _joined) do
    part = "a part is #{byte_size(bytes)} bytes at #{address}"
    error(:bad_module, "#{part}, before another's end at #{at} or outside of the memory of #{length} bytes")
  end

  defp zeros(count), do: :binary.copy(<<0>>, count)

  @doc "Returns `:ok` if a module's instances can begin as this snapshot, or an error."
  @spec check(t | nil, Compiled.t()) :: :ok | {:error, Error.t()}
  def check(nil, _compiled), do: :ok

  def check(%__MODULE__{memory: memory, globals: globals}, compiled) do
    size = byte_size(memory)
    first = first_size(compiled.exports)
    missing = Enum.find(globals, fn {name, _value} -> not match?({:global, _, :mutable}, compiled.exports[name]) end)

    cond do
      size < first or rem(size, @page) != 0 ->
        error(:bad_module, "a snapshot of #{size} bytes is not of this module, whose memory starts with #{first}")

      missing != nil ->
        error(:bad_module, "the module has no mutable global #{elem(missing, 0)} as the snapshot has")

      true ->
        :ok
    end
  end

  defp first_size(%{"memory" => {:memory, _bits, pages, _most}}), do: pages * @page
  defp first_size(_exports), do: 0

  @doc "Returns the number of bytes of its memory."
  @spec size(t) :: non_neg_integer
  def size(%__MODULE__{memory: memory}), do: byte_size(memory)

  @doc "Returns a part of its memory."
  @spec read(t, non_neg_integer, non_neg_integer) :: {:ok, binary} | {:error, Error.t()}
  def read(%__MODULE__{memory: memory}, address, length) do
    size = byte_size(memory)

    if address >= 0 and length >= 0 and address + length <= size,
      do: {:ok, binary_part(memory, address, length)},
      else: error(:bad_module, "the read is #{length} bytes at #{address}, outside of the snapshot of #{size} bytes")
  end

  @doc """
  Writes the snapshot to a machine that the calling process holds. Pages that the machine grew beyond it stay, unused.
  """
  @spec restore(t, Machine.t()) :: :ok | {:error, Error.t()}
  def restore(%__MODULE__{memory: memory, globals: globals}, machine) do
    # A search may have been cancelled before the snapshot, and the inbox lies where the snapshot has it.
    Machine.put(machine, :torn, 1)
    Machine.put(machine, :capacity, 0)
    missing = byte_size(memory) - Machine.measure(machine)
    grow = if missing > 0, do: [{:grow, div(missing + @page - 1, @page)}], else: []
    write = if memory == "", do: [], else: Machine.write_operations(0, memory)
    globals = for {name, value} <- globals, do: {:global, name, value}

    (grow ++ write ++ globals)
    |> Enum.chunk_every(@most_at_once)
    |> Enum.flat_map(&Machine.round(machine, &1))
    |> Enum.find(&match?({:error, _reason}, &1))
    |> case do
      nil ->
        Machine.measure(machine)
        :ok

      {:error, reason} ->
        message =
          "the memory of the snapshot, #{byte_size(memory)} bytes, is more than the limit or than the module may have"

        error(:out_of_memory, "#{message}: #{reason}")
    end
  end

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end

defmodule BeTree.Engine.Journal.Base do
  @moduledoc false
  # A base is a file `VERSION.base` with the state of the owner after the change of that version:
  #
  #     "BTBASE\n\0"
  #     format    32 bits, little-endian like all others
  #     version   64 bits
  #     length    32 bits, and as many bytes: the identity of the owner
  #     size      64 bits: the bytes of the payload
  #     crc       32 bits, CRC-32 of all of the above
  #     payload
  #     crc       32 bits, CRC-32 of the payload
  #
  # It gets its name when all of it is on the disk.

  alias BeTree.Engine.Journal.{Fault, Segment}

  @magic "BTBASE\n\0"
  @format 1
  @fixed 24

  @enforce_keys [:version, :path, :identity, :at, :size]
  defstruct [:version, :path, :identity, :at, :size]

  @type t :: %__MODULE__{
          version: non_neg_integer,
          path: Path.t(),
          identity: binary,
          at: pos_integer,
          size: non_neg_integer
        }

  @doc """
  Writes the base of `version` into `folder`. `payload` is an enumerable of iodata. Any process may call this. Meanwhile the journal
  goes on.
  """
  @spec write(module, Path.t(), non_neg_integer, binary, Enumerable.t()) :: :ok | {:error, BeTree.Error.t()}
  def write(files, folder, version, identity, payload) do
    path = Path.join(folder, Segment.digits(version) <> ".base")
    unfinished = "#{path}.#{System.unique_integer([:positive])}.new"

    with :ok <- create(files, unfinished, version, identity, payload),
         :ok <- files.rename(unfinished, path),
         :ok <- files.sync_folder(folder) do
      :ok
    else
      {:error, reason} ->
        _ = files.delete(unfinished)
        Fault.file("write", path, reason)
    end
  end

  defp create(files, path, version, identity, payload) do
    with {:ok, device} <- files.create(path) do
      filled = fill(files, device, version, identity, payload)
      closed = files.close(device)
      with :ok <- filled, do: closed
    end
  end

  # The head is written last, because it has the size.
  defp fill(files, device, version, identity, payload) do
    at = @fixed + byte_size(identity) + 12

    with {:ok, size, crc} <- fill(files, device, at, payload),
         :ok <- files.pwrite(device, at + size, <<crc::little-32>>),
         :ok <- files.pwrite(device, 0, head(version, identity, size)),
         do: files.sync(device)
  end

  defp fill(files, device, at, payload) do
    Enum.reduce_while(payload, {:ok, 0, :erlang.crc32("")}, fn part, {:ok, size, crc} ->
      case files.pwrite(device, at + size, part) do
        :ok -> {:cont, {:ok, size + IO.iodata_length(part), :erlang.crc32(crc, part)}}
        {:error, reason} -> {:halt, {:error, reason}}
      end
    end)
  end

  defp head(version, identity, size) do
    head = [
      @magic,
      <<@format::little-32, version::little-64, byte_size(identity)::little-32>>,
      identity,
      <<size::little-64>>
    ]

    [head, <<:erlang.crc32(head)::little-32>>]
  end

  @doc "Returns the base in the file at `path`, checked but for its payload."
  @spec open(module, Path.t()) :: {:ok, t} | {:error, BeTree.Error.t()}
  def open(files, path) do
    with_device(files, path, fn device ->
      with {:ok, size} <- files.size(path),
           {:ok, <<@magic, @format::little-32, version::little-64, length::little-32>> = fixed} <-
             files.pread(device, 0, @fixed),
           true <- @fixed + length + 12 <= size,
           {:ok, <<identity::binary-size(length), bytes::little-64, crc::little-32>> = rest} <-
             files.pread(device, @fixed, length + 12),
           true <- crc == :erlang.crc32([fixed, binary_part(rest, 0, length + 8)]),
           true <- size == @fixed + length + 12 + bytes + 4,
           true <- version == path |> Path.basename() |> Segment.number(".base") do
        {:ok, %__MODULE__{version: version, path: path, identity: identity, at: @fixed + length + 12, size: bytes}}
      else
        {:ok, <<@magic, format::little-32, _rest::binary>>} when format != @format ->
          Fault.damaged(path, "its format is #{format}; expected #{@format}")

        {:error, reason} ->
          Fault.file("read", path, reason)

        _other ->
          Fault.damaged(path, "its head or its length is not as it was written")
      end
    end)
  end

  @doc "Returns the payload of a base."
  @spec read(module, t) :: {:ok, binary} | {:error, BeTree.Error.t()}
  def read(files, %__MODULE__{path: path, at: at, size: size}) do
    with_device(files, path, fn device ->
      with {:ok, <<payload::binary-size(size), crc::little-32>>} <- files.pread(device, at, size + 4),
           true <- crc == :erlang.crc32(payload) do
        {:ok, payload}
      else
        {:error, reason} -> Fault.file("read", path, reason)
        _other -> Fault.damaged(path, "its content is not as it was written")
      end
    end)
  end

  defp with_device(files, path, function) do
    case files.open(path) do
      {:ok, device} ->
        result = function.(device)
        _ = files.close(device)
        result

      {:error, reason} ->
        Fault.file("open", path, reason)
    end
  end
end

defmodule BeTree.Journal.Base do
  @moduledoc false
  # A base is a file `VERSION.base` with the state of the owner after the change of that version:
  #
  #     head      "BTBASE\n\0", with the version, and the bytes of the payload in 64 bits (BeTree.Journal.Head)
  #     payload
  #     crc       32 bits, CRC-32 of the payload
  #
  # It gets its name when all of it is on the disk.

  import BeTree.Journal.Files, only: [with_device: 3]

  alias BeTree.Journal.{Fault, Head, Segment}

  @magic "BTBASE\n\0"
  # The bytes of the size in the head, and those of the checksum of the payload.
  @size_bytes 8
  @crc_bytes 4

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
  Writes the base of `version` into `folder`. `payload` is an enumerable of iodata. Any process may call this, while the journal
  goes on.
  """
  @spec write(module, Path.t(), non_neg_integer, binary, Enumerable.t()) :: :ok | {:error, BeTree.Error.t()}
  def write(files, folder, version, identity, payload) do
    path = Path.join(folder, Segment.digits(version) <> ".base")
    # A process that was told to stop may still write one of the same version.
    unfinished = "#{path}.#{Segment.digits(System.unique_integer([:positive, :monotonic]))}.new"

    # A node that was killed may have left one of that name.
    with gone when gone in [:ok, {:error, :enoent}] <- files.delete(unfinished),
         :ok <- create(files, unfinished, version, identity, payload),
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
    at = Head.size(identity, @size_bytes)

    with {:ok, size, crc} <- fill(files, device, at, payload),
         :ok <- files.pwrite(device, at + size, <<crc::little-32>>),
         :ok <- files.pwrite(device, 0, Head.encode(@magic, version, identity, <<size::little-64>>)),
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

  @doc "Returns the base in the file at `path`, checked but for its payload."
  @spec open(module, Path.t()) :: {:ok, t} | {:error, BeTree.Error.t()}
  def open(files, path) do
    with_device(files, path, fn device ->
      with {:ok, bytes} <- bytes(files, path),
           {:ok, head} <- Head.read(files, path, device, bytes, @magic, @size_bytes) do
        <<size::little-64>> = head.more
        version = path |> Path.basename() |> Segment.number(".base")

        if head.number == version and bytes == head.at + size + @crc_bytes,
          do: {:ok, %__MODULE__{version: version, path: path, identity: head.identity, at: head.at, size: size}},
          else: Fault.damaged(path, "its length or its name is not as it was written")
      end
    end)
  end

  defp bytes(files, path) do
    with {:error, reason} <- files.size(path), do: Fault.file("read", path, reason)
  end

  @doc "Returns the payload of a base."
  @spec read(module, t) :: {:ok, binary} | {:error, BeTree.Error.t()}
  def read(files, %__MODULE__{path: path, at: at, size: size}) do
    with_device(files, path, fn device ->
      with {:ok, bytes} when byte_size(bytes) == size + @crc_bytes <- files.pread(device, at, size + @crc_bytes),
           {payload, <<crc::little-32>>} = :erlang.split_binary(bytes, size),
           true <- crc == :erlang.crc32(payload) do
        {:ok, payload}
      else
        {:error, reason} -> Fault.file("read", path, reason)
        _other -> Fault.damaged(path, "its content is not as it was written")
      end
    end)
  end
end

defmodule BeTree.Journal.Files do
  @moduledoc false
  # The operations on files that a journal needs. BeTree.Journal.Disk implements them with the system's files. The tests' disk injects
  # failures, and loses unsynced bytes.

  alias BeTree.Error.Attempt
  alias BeTree.Journal.Fault

  @type device :: term
  @type posix :: :file.posix() | :badarg | :terminated | :system_limit

  @doc "Creates a file that does not exist, which its owner alone may read, and opens it for reading and writing."
  @callback create(Path.t()) :: {:ok, device} | {:error, posix}

  @doc "Opens a file that exists for reading and syncing."
  @callback open(Path.t()) :: {:ok, device} | {:error, posix}

  @doc "Opens a file that exists for writing too. No other process may remove it meanwhile."
  @callback open_to_write(Path.t()) :: {:ok, device} | {:error, posix}

  @callback close(device) :: :ok | {:error, posix}
  @callback pread(device, non_neg_integer, non_neg_integer) :: {:ok, binary} | :eof | {:error, posix}
  @callback pwrite(device, non_neg_integer, iodata) :: :ok | {:error, posix}
  @callback truncate(device, non_neg_integer) :: :ok | {:error, posix}

  @doc "Returns when the content of the file is on the disk."
  @callback sync(device) :: :ok | {:error, posix}

  @doc "Returns when the names of the folder are on the disk, where the system can do that."
  @callback sync_folder(Path.t()) :: :ok | {:error, posix}

  @callback size(Path.t()) :: {:ok, non_neg_integer} | {:error, posix}
  @callback list(Path.t()) :: {:ok, [String.t()]} | {:error, posix}

  @doc "Makes a folder, which its owner alone may enter, and those above it. One that exists stays as it is."
  @callback make_folder(Path.t()) :: :ok | {:error, posix}

  @callback rename(Path.t(), Path.t()) :: :ok | {:error, posix}
  @callback delete(Path.t()) :: :ok | {:error, posix}

  @doc "Returns the result of `function` for the file at `path`, which is open meanwhile."
  @spec with_device(module, Path.t(), (device -> result)) :: result | {:error, BeTree.Error.t()} when result: var
  def with_device(files, path, function) do
    case files.open(path) do
      {:ok, device} ->
        result = function.(device)
        _ = files.close(device)
        result

      {:error, reason} ->
        Fault.file("open", path, reason)
    end
  end

  @doc """
  Makes a file of `parts`, each a place and bytes, and returns it open. It is written beside `path`, synced, and then gets that name,
  so a file of that name is never half written. It takes the place of one that exists.
  """
  @spec create_whole(module, Path.t(), [{non_neg_integer, iodata}]) :: {:ok, device} | {:error, BeTree.Error.t()}
  def create_whole(files, path, parts) do
    unfinished = path <> ".new"

    # A failed attempt, or an owner that was killed, may have left it.
    with gone when gone in [:ok, {:error, :enoent}] <- files.delete(unfinished),
         {:ok, device} <- files.create(unfinished) do
      with :ok <- write_all(files, device, parts),
           :ok <- files.sync(device),
           :ok <- files.rename(unfinished, path),
           :ok <- files.sync_folder(Path.dirname(path)) do
        {:ok, device}
      else
        {:error, reason} ->
          _ = files.close(device)
          _ = files.delete(unfinished)
          Fault.file("write", path, reason)
      end
    else
      {:error, reason} -> Fault.file("write", path, reason)
    end
  end

  defp write_all(files, device, parts), do: Attempt.each(parts, fn {at, bytes} -> files.pwrite(device, at, bytes) end)
end

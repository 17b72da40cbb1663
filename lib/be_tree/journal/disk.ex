defmodule BeTree.Journal.Disk do
  @moduledoc false
  # The system's operations on files. Each runs on a dirty scheduler for input and output.

  @behaviour BeTree.Journal.Files

  # The modes of files and folders: for their owner alone. Some file systems have none.
  @file_mode 0o600
  @folder_mode 0o700
  @no_modes [:eperm, :enotsup, :enosys]

  @impl true
  def create(path) do
    with {:ok, device} <- :file.open(path, [:raw, :binary, :read, :write, :exclusive]) do
      case change_mode(path, @file_mode) do
        :ok ->
          {:ok, device}

        {:error, reason} ->
          _ = :file.close(device)
          {:error, reason}
      end
    end
  end

  defp change_mode(path, mode) do
    with {:error, reason} when reason in @no_modes <- :file.change_mode(path, mode), do: :ok
  end

  # Opens read-only, because opening for writing would recreate a segment that a base has removed before its sync. POSIX syncs a
  # file through any descriptor.
  @impl true
  def open(path), do: :file.open(path, [:raw, :binary, :read])

  @impl true
  def open_to_write(path) do
    with {:ok, _stat} <- File.stat(path), do: :file.open(path, [:raw, :binary, :read, :write])
  end

  @impl true
  def close(device), do: :file.close(device)

  @impl true
  def pread(device, at, length), do: :file.pread(device, at, length)

  @impl true
  def pwrite(device, at, bytes), do: :file.pwrite(device, at, bytes)

  @impl true
  def truncate(device, at) do
    with {:ok, ^at} <- :file.position(device, at), do: :file.truncate(device)
  end

  # fdatasync also writes the size of a file that has grown. On macOS it is only a barrier, and fsync reaches the disk.
  @impl true
  def sync(device) do
    case :os.type() do
      {:unix, :darwin} -> :file.sync(device)
      _other -> :file.datasync(device)
    end
  end

  # Some systems cannot open a folder (Windows), and some file systems cannot sync one. Then names are safe by other means or not.
  @impl true
  def sync_folder(path) do
    case :file.open(path, [:raw, :read, :directory]) do
      {:ok, device} ->
        synced = :file.sync(device)
        _ = :file.close(device)
        if synced in [{:error, :einval}, {:error, :enotsup}], do: :ok, else: synced

      {:error, reason} when reason in [:eisdir, :eacces, :enotsup] ->
        :ok

      {:error, reason} ->
        {:error, reason}
    end
  end

  @impl true
  def size(path) do
    with {:ok, stat} <- File.stat(path), do: {:ok, stat.size}
  end

  @impl true
  def list(path), do: File.ls(path)

  # A folder's name is stored in its parent. The process that made the folder may have been killed before it synced the parent.
  @impl true
  def make_folder(path) do
    above = Path.dirname(path)

    with :ok <- if(File.dir?(above), do: :ok, else: make_folder(above)),
         :ok <- make_one(path),
         do: sync_folder(above)
  end

  defp make_one(path) do
    case :file.make_dir(path) do
      :ok -> change_mode(path, @folder_mode)
      {:error, reason} -> if File.dir?(path), do: :ok, else: {:error, reason}
    end
  end

  @impl true
  def rename(from, to), do: :file.rename(from, to)

  @impl true
  def delete(path), do: :file.delete(path)
end

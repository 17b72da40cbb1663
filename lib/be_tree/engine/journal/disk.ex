defmodule BeTree.Engine.Journal.Disk do
  @moduledoc false
  # The system's operations on files. Each runs on a dirty scheduler for input and output.

  @behaviour BeTree.Engine.Journal.Files

  @impl true
  def create(path), do: :file.open(path, [:raw, :binary, :read, :write, :exclusive])

  # Some systems sync a file only through a descriptor that may write.
  @impl true
  def open(path), do: :file.open(path, [:raw, :binary, :read, :write])

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

  # Where the system opens no folder (Windows), or a file system syncs none, its names are safe by other means or not at all.
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

  @impl true
  def make_folder(path), do: File.mkdir_p(path)

  @impl true
  def rename(from, to), do: :file.rename(from, to)

  @impl true
  def delete(path), do: :file.delete(path)
end

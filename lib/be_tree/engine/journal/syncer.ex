defmodule BeTree.Engine.Journal.Syncer do
  @moduledoc false
  # A process that brings a segment to the disk while the journal's owner writes on. It ends with the owner, which starts
  # another one if this one ends.

  alias BeTree.Engine.Journal.Fault

  @doc "Starts a syncer of the calling process. Returns it and a monitor of it."
  @spec start(module) :: {pid, reference}
  def start(files) do
    owner = self()
    spawn_monitor(fn -> loop(files, Process.monitor(owner), nil, nil) end)
  end

  @doc "Syncs the file at `path`, and then sends the caller `{tag, :ok}` or `{tag, {:error, error}}`."
  @spec sync(pid, Path.t(), term) :: :ok
  def sync(syncer, path, tag) do
    send(syncer, {:sync, self(), path, tag})
    :ok
  end

  # The last file stays open.
  defp loop(files, monitor, path, device) do
    receive do
      {:DOWN, ^monitor, :process, _owner, _reason} ->
        :ok

      {:sync, owner, ^path, tag} ->
        send(owner, {tag, sync_device(files, path, device)})
        loop(files, monitor, path, device)

      {:sync, owner, other, tag} ->
        if device, do: files.close(device)
        open(files, monitor, other, owner, tag)
    end
  end

  defp open(files, monitor, path, owner, tag) do
    case files.open(path) do
      {:ok, device} ->
        send(owner, {tag, sync_device(files, path, device)})
        loop(files, monitor, path, device)

      {:error, reason} ->
        send(owner, {tag, Fault.file("open", path, reason)})
        loop(files, monitor, nil, nil)
    end
  end

  defp sync_device(files, path, device) do
    with {:error, reason} <- files.sync(device), do: Fault.file("sync", path, reason)
  end
end

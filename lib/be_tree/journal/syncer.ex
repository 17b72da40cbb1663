defmodule BeTree.Journal.Syncer do
  @moduledoc false
  # A process that syncs a segment while the journal's owner appends. It ends with the owner. The owner restarts it.

  @behaviour BeTree.Journal.Background

  alias BeTree.Journal.Fault

  @impl true
  def send_later(message, ms) do
    _timer = Process.send_after(self(), message, ms)
    :ok
  end

  @impl true
  def start(files) do
    owner = self()
    spawn_monitor(fn -> loop(files, Process.monitor(owner), nil, nil) end)
  end

  @impl true
  def sync(syncer, path, tag) do
    send(syncer, {:sync, self(), path, tag})
    :ok
  end

  @impl true
  def stop(syncer, monitor) do
    Process.demonitor(monitor, [:flush])
    Process.exit(syncer, :kill)
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

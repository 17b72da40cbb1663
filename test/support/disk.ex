defmodule BeTree.Test.Disk do
  @moduledoc """
  A simulated disk for a journal: real files with faults, and background work that runs when the owner lets time pass.

  It tracks syncs, so `lose_power/1` leaves a possible state after a loss of power: synced contents and names, and of
  unsynced ones any blocks and any prefix of the renames.
  """

  @behaviour BeTree.Journal.Files
  @behaviour BeTree.Journal.Background

  alias BeTree.Journal
  alias BeTree.Journal.{Disk, Fault}

  @block 16

  @doc "Makes a folder for a test, in memory if the system has such folders, where syncs take no time. A callback for `setup`."
  def folder(_context) do
    above = if File.dir?("/dev/shm"), do: "/dev/shm", else: System.tmp_dir!()
    folder = Path.join(above, "be_tree_#{System.pid()}_#{System.unique_integer([:positive])}")
    File.mkdir_p!(folder)
    ExUnit.Callbacks.on_exit(fn -> File.rm_rf!(folder) end)
    %{folder: folder}
  end

  @doc "Starts tracking a folder."
  def watch(folder) do
    start_table()
    :ets.match_delete(__MODULE__, {{folder, :_}, :_})
    put(folder, :names, %{})
    put(folder, :synced_names, %{})
    put(folder, :unsynced, [])
    folder
  end

  # One table for all tests, never deleted.
  defp start_table do
    if :ets.whereis(__MODULE__) == :undefined do
      spawn(fn ->
        _ = :ets.new(__MODULE__, [:named_table, :public])
        Process.sleep(:infinity)
      end)

      BeTree.Test.Eventually.eventually(fn -> :ets.whereis(__MODULE__) != :undefined end)
    end
  end

  @doc "Sets `fault`, which gets the name and number of each operation, and returns `nil` or the reason of a failure."
  def fail(folder, fault), do: put(folder, :fault, fault)

  @doc "Limits the folder to `bytes` more bytes; `:infinity` removes the limit."
  def room(folder, bytes), do: put(folder, :room, bytes)

  @doc "Returns the number of operations of this name."
  def count(folder, operation), do: get(folder, {:count, operation}, 0)

  @doc "Makes each operation after the first `count` exit, as if the process were killed there."
  def crash_after(folder, count), do: put(folder, :crash_after, get(folder, :operations, 0) + count)

  @doc "Ends all faults of a folder."
  def heal(folder) do
    for key <- [:fault, :room, :crash_after], do: :ets.delete(__MODULE__, {folder, key})
    :ok
  end

  defp put(folder, key, value), do: :ets.insert(__MODULE__, {{folder, key}, value})

  defp get(folder, key, default \\ nil) do
    case :ets.lookup(__MODULE__, {folder, key}) do
      [{_key, value}] -> value
      [] -> default
    end
  end

  defp begin(folder, operation) do
    number = :ets.update_counter(__MODULE__, {folder, :operations}, 1, {{folder, :operations}, 0})
    :ets.update_counter(__MODULE__, {folder, {:count, operation}}, 1, {{folder, {:count, operation}}, 0})
    if number > get(folder, :crash_after, :infinity), do: exit(:crash)

    case get(folder, :fault) do
      nil -> :ok
      fault -> if reason = fault.(operation, number), do: {:error, reason}, else: :ok
    end
  end

  ## Operations

  @impl true
  def create(path) do
    folder = Path.dirname(path)

    with :ok <- begin(folder, :create), {:ok, device} <- Disk.create(path) do
      id = make_ref()
      change_names(folder, {:put, Path.basename(path), id})
      {:ok, {folder, id, path, device}}
    end
  end

  @impl true
  def open(path), do: open(path, &Disk.open/1)

  @impl true
  def open_to_write(path), do: open(path, &Disk.open_to_write/1)

  defp open(path, open) do
    folder = Path.dirname(path)

    with :ok <- begin(folder, :open), {:ok, device} <- open.(path) do
      {:ok, {folder, get(folder, :names)[Path.basename(path)], path, device}}
    end
  end

  @impl true
  def close({_folder, _id, _path, device}), do: Disk.close(device)

  @impl true
  def pread({folder, _id, _path, device}, at, length) do
    with :ok <- begin(folder, :pread), do: Disk.pread(device, at, length)
  end

  @impl true
  def pwrite({folder, _id, _path, device}, at, bytes) do
    with :ok <- begin(folder, :pwrite) do
      {:ok, size} = :file.position(device, :eof)
      length = IO.iodata_length(bytes)
      # Overwriting existing bytes needs no room.
      growth = (at + length - size) |> max(0) |> min(length)

      case get(folder, :room, :infinity) do
        room when room >= growth ->
          if room != :infinity, do: put(folder, :room, room - growth)
          Disk.pwrite(device, at, bytes)

        room ->
          :ok = Disk.pwrite(device, at, bytes |> IO.iodata_to_binary() |> binary_part(0, length - growth + room))
          put(folder, :room, 0)
          {:error, :enospc}
      end
    end
  end

  @impl true
  def truncate({folder, _id, _path, device}, at) do
    with :ok <- begin(folder, :truncate), do: Disk.truncate(device, at)
  end

  @impl true
  def sync({folder, id, _path, device}) do
    with :ok <- begin(folder, :sync) do
      {:ok, bytes} = content(device)
      put(folder, {:synced, id}, bytes)
      :ok
    end
  end

  defp content(device) do
    {:ok, size} = :file.position(device, :eof)
    with :eof <- Disk.pread(device, 0, size), do: {:ok, ""}
  end

  @impl true
  def sync_folder(folder) do
    # The parent of the journal's folder is not tracked.
    if get(folder, :names) do
      with :ok <- begin(folder, :sync_folder) do
        put(folder, :synced_names, get(folder, :names))
        put(folder, :unsynced, [])
        :ok
      end
    else
      :ok
    end
  end

  @impl true
  def size(path), do: Disk.size(path)

  @impl true
  def list(folder) do
    with :ok <- begin(folder, :list), do: Disk.list(folder)
  end

  @impl true
  def make_folder(folder), do: Disk.make_folder(folder)

  @impl true
  def rename(from, to) do
    folder = Path.dirname(from)

    # The name is removed, but returns if power is lost before the folder is synced.
    replaced = if id = get(folder, :names)[Path.basename(to)], do: {id, File.read!(to)}

    with :ok <- begin(folder, :rename), :ok <- Disk.rename(from, to) do
      with {id, bytes} <- replaced, do: put(folder, {:deleted, id}, bytes)
      id = Map.fetch!(get(folder, :names), Path.basename(from))
      change_names(folder, {:rename, Path.basename(from), Path.basename(to), id})
    end
  end

  @impl true
  def delete(path) do
    folder = Path.dirname(path)

    with :ok <- begin(folder, :delete),
         {:ok, bytes} <- File.read(path),
         :ok <- Disk.delete(path) do
      if id = get(folder, :names)[Path.basename(path)], do: put(folder, {:deleted, id}, bytes)
      change_names(folder, {:delete, Path.basename(path)})
    end
  end

  defp change_names(folder, change) do
    put(folder, :names, changed(change, get(folder, :names)))
    put(folder, :unsynced, get(folder, :unsynced) ++ [change])
    :ok
  end

  defp changed({:put, name, id}, names), do: Map.put(names, name, id)
  defp changed({:rename, from, to, id}, names), do: names |> Map.delete(from) |> Map.put(to, id)
  defp changed({:delete, name}, names), do: Map.delete(names, name)

  ## Background

  # Everything runs in the owner, ordered by the process's `:rand`, so a test repeats exactly. Losing power requires that:
  # of two concurrent syncs of a file, one would forget what the other has synced.
  @impl true
  def send_later(message, _ms), do: wait({:message, message})

  @impl true
  def start(_files), do: {:syncer, make_ref()}

  @impl true
  def sync(:syncer, path, tag), do: wait({:sync, path, tag})

  @impl true
  def stop(:syncer, _monitor), do: :ok

  defp wait(event) do
    Process.put(__MODULE__, waiting() ++ [event])
    :ok
  end

  defp waiting, do: Process.get(__MODULE__, [])

  @doc """
  Lets time pass for the journal's owner: the first pending timer or sync completes. A sync may take two steps: the file is
  synced, then its message arrives.
  """
  def pass(journal) do
    case waiting() do
      [] ->
        journal

      [event | rest] ->
        Process.put(__MODULE__, rest)
        happen(event, journal)
    end
  end

  defp happen({:message, message}, journal) do
    {:ok, journal} = Journal.info(journal, message)
    journal
  end

  defp happen({:sync, path, tag}, journal) do
    message = {tag, sync_path(path)}

    if :rand.uniform(2) == 1 do
      happen({:message, message}, journal)
    else
      wait({:message, message})
      journal
    end
  end

  defp sync_path(path) do
    with {:ok, device} <- open(path) do
      synced = sync(device)
      :ok = close(device)
      synced
    end
    |> case do
      :ok -> :ok
      {:error, reason} -> Fault.file("sync", path, reason)
    end
  end

  ## Power

  @doc "Leaves a possible state after a loss of power, chosen by the process's `:rand`, and clears all faults."
  def lose_power(folder) do
    unsynced = get(folder, :unsynced)
    kept = Enum.take(unsynced, :rand.uniform(length(unsynced) + 1) - 1)
    names = Enum.reduce(kept, get(folder, :synced_names), &changed/2)
    present = for {name, id} <- get(folder, :names), into: %{}, do: {id, File.read!(Path.join(folder, name))}

    files =
      for {name, id} <- names do
        written = present[id] || get(folder, {:deleted, id})
        {name, id, mixture(get(folder, {:synced, id}, ""), written)}
      end

    for name <- File.ls!(folder), do: File.rm!(Path.join(folder, name))
    watch(folder)

    for {name, id, bytes} <- files do
      File.write!(Path.join(folder, name), bytes)
      put(folder, {:synced, id}, bytes)
    end

    names = Map.new(files, fn {name, id, _bytes} -> {name, id} end)
    put(folder, :names, names)
    put(folder, :synced_names, names)
    :ok
  end

  defp mixture(synced, synced), do: synced

  defp mixture(synced, written) do
    case :rand.uniform(3) do
      1 ->
        synced

      2 ->
        written

      3 ->
        sizes = Enum.sort([byte_size(synced), byte_size(written)])
        size = Enum.random(Range.new(hd(sizes), List.last(sizes)))
        blocks(pad(synced, size), pad(written, size), [])
    end
  end

  defp pad(bytes, size) when byte_size(bytes) >= size, do: binary_part(bytes, 0, size)
  defp pad(bytes, size), do: bytes <> :binary.copy(<<0>>, size - byte_size(bytes))

  defp blocks(<<a::binary-size(@block), rest_a::binary>>, <<b::binary-size(@block), rest_b::binary>>, done),
    do: blocks(rest_a, rest_b, [done, Enum.random([a, b])])

  defp blocks(a, b, done), do: IO.iodata_to_binary([done, Enum.random([a, b])])
end

defmodule BeTree.Input.AtomicFile do
  @moduledoc false
  # A file that is replaced as a whole or stays unchanged.
  #
  # A regular file, or one that is missing, is written under another name in the same folder and renamed when it is complete.
  # It keeps the mode and, where permitted, the owner of the file that it replaces. Symbolic links are followed first, so a
  # link stays a link. Other hard links to the replaced file keep its content. Devices and pipes are written to directly.
  #
  # Error texts omit the path, which the caller puts in front.

  import Bitwise

  @enforce_keys [:device]
  defstruct [:device, :unfinished, :target]

  @typedoc "The open file; and unless it is written to directly, the name that it has until `commit/1` and that behind it."
  @type t :: %__MODULE__{device: :file.io_device(), unfinished: Path.t() | nil, target: Path.t() | nil}

  # The limit of symbolic links that Linux follows.
  @max_links 40
  @permissions 0o7777

  @doc """
  Returns whether `path` can be written, without a change. It is refused if it is also one of `inputs`, by any name.
  """
  @spec check(Path.t(), [Path.t()]) :: :ok | {:error, String.t()}
  def check(path, inputs) do
    case place(path, inputs) do
      {:ok, _place} -> :ok
      {:error, reason} -> {:error, text(reason)}
    end
  end

  @doc "Opens `path` if `check/2` accepts it. Small writes are joined. A pipe with a name waits for its reader."
  @spec open(Path.t(), [Path.t()]) :: {:ok, t} | {:error, String.t()}
  def open(path, inputs), do: open(path, inputs, [:delayed_write])

  @doc "Writes bytes."
  @spec write(t, iodata) :: :ok | {:error, String.t()}
  def write(%__MODULE__{device: device}, bytes), do: with_text(:file.write(device, bytes))

  @doc "Ends the output: the file has its name, and the disk its bytes. After an error nothing has changed."
  @spec commit(t) :: :ok | {:error, String.t()}
  def commit(%__MODULE__{unfinished: nil, device: device}), do: with_text(:file.close(device))

  def commit(%__MODULE__{device: device} = output) do
    synced = :file.sync(device)
    closed = :file.close(device)

    with :ok <- synced, :ok <- closed, :ok <- :file.rename(output.unfinished, output.target) do
      :ok
    else
      {:error, reason} ->
        _ = :file.delete(output.unfinished)
        {:error, text(reason)}
    end
  end

  @doc "Ends the output without a change, except to a device or a pipe, which keeps the bytes that it has."
  @spec discard(t) :: :ok
  def discard(%__MODULE__{device: device, unfinished: unfinished}) do
    _ = :file.close(device)
    if unfinished, do: :file.delete(unfinished)
    :ok
  end

  @doc "Writes all of a file."
  @spec write_file(Path.t(), iodata, [Path.t()]) :: :ok | {:error, String.t()}
  def write_file(path, bytes, inputs \\ []) do
    with {:ok, output} <- open(path, inputs, []) do
      case write(output, bytes) do
        :ok ->
          commit(output)

        {:error, text} ->
          discard(output)
          {:error, text}
      end
    end
  end

  defp open(path, inputs, modes) do
    opened =
      case place(path, inputs) do
        {:ok, :direct} ->
          with {:ok, device} <- :file.open(path, [:append, :raw | modes]), do: {:ok, %__MODULE__{device: device}}

        {:ok, {target, stat}} ->
          create(target, stat, modes)

        {:error, reason} ->
          {:error, reason}
      end

    with {:error, reason} <- opened, do: {:error, text(reason)}
  end

  defp create(target, stat, modes) do
    # The temporary name does not contain the target's name, which may have the maximum length already.
    random = Base.encode16(:crypto.strong_rand_bytes(8), case: :lower)
    unfinished = Path.join(Path.dirname(target), ".be_tree-#{random}")

    with {:ok, device} <- :file.open(unfinished, [:write, :raw, :exclusive | modes]) do
      output = %__MODULE__{device: device, unfinished: unfinished, target: target}

      case if(stat, do: keep(unfinished, stat), else: :ok) do
        :ok ->
          {:ok, output}

        {:error, reason} ->
          discard(output)
          {:error, reason}
      end
    end
  end

  # Gives the new file the owner and the mode of the old one, before it has content. Only root may give a file to another user,
  # and only a member to a group.
  defp keep(path, old) do
    with {:ok, new} <- File.stat(path) do
      if {new.uid, new.gid} != {old.uid, old.gid} do
        with {:error, _not_permitted} <- :file.change_owner(path, old.uid, old.gid),
             do: :file.change_group(path, old.gid)
      end

      mode = old.mode &&& @permissions
      if mode == (new.mode &&& @permissions), do: :ok, else: :file.change_mode(path, mode)
    end
  end

  # Returns `:direct`, or the path to create or replace with its `File.Stat`, nil if the file is missing.
  defp place(path, inputs) do
    with {:ok, target} <- follow(path, @max_links), do: place(target, File.stat(target), inputs)
  end

  defp place(target, {:error, :enoent}, _inputs) do
    with {:ok, _folder} <- File.stat(Path.dirname(target)), do: {:ok, {target, nil}}
  end

  defp place(_target, {:error, reason}, _inputs), do: {:error, reason}
  defp place(_target, {:ok, %{type: :directory}}, _inputs), do: {:error, :eisdir}
  # A device may be input and output at once.
  defp place(_target, {:ok, %{type: :device}}, _inputs), do: {:ok, :direct}

  defp place(target, {:ok, stat}, inputs) do
    cond do
      input = Enum.find(inputs, &same?(&1, stat)) -> {:error, {:input, input}}
      stat.type != :regular -> {:ok, :direct}
      descriptor?(target) -> {:error, :opened}
      true -> with :ok <- writable(target), do: {:ok, {target, stat}}
    end
  end

  defp same?(input, stat) do
    case File.stat(input) do
      {:ok, other} -> {other.major_device, other.inode} == {stat.major_device, stat.inode}
      {:error, _reason} -> false
    end
  end

  # A rename needs no permission on the replaced file, so this checks it by an open for appending, which changes nothing.
  defp writable(target) do
    with {:ok, device} <- :file.open(target, [:append, :raw]), do: :file.close(device)
  end

  defp follow(path, left) do
    case File.read_link(path) do
      {:ok, _link} when left == 0 -> {:error, :eloop}
      {:ok, link} -> if descriptor?(path), do: {:ok, path}, else: path |> linked(link) |> follow(left - 1)
      {:error, _no_link} -> {:ok, path}
    end
  end

  # The folder may be a link too, so `..` in it is left to the system.
  defp linked(path, link) do
    if Path.type(link) == :absolute, do: link, else: Path.join(Path.dirname(path), link)
  end

  # `/dev/stdout` links to `/proc/self/fd/1`. That link stands for an open file, and its text need not be a path.
  defp descriptor?(path) do
    with {:ok, %{type: :symlink, major_device: device}} <- File.lstat(path),
         {:ok, %{major_device: ^device}} <- File.lstat("/proc/self") do
      true
    else
      _other -> false
    end
  end

  defp with_text(:ok), do: :ok
  defp with_text({:error, reason}), do: {:error, text(reason)}

  defp text({:input, input}), do: "the command reads this file too, as #{input}; name another file for the output"

  defp text(:opened),
    do: "this stands for a file that the shell has opened, which cannot be replaced; give the file's own name"

  defp text(reason), do: to_string(:file.format_error(reason))
end

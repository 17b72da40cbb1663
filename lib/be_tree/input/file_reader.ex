defmodule BeTree.Input.FileReader do
  @moduledoc false
  # Sequential reads of a file, a pipe or a device.
  #
  # The process `:user` of the VM buffers the standard input. A pipe or a terminal that is the standard input must therefore be read
  # from this process, under any of its names: `/dev/stdin`, `/dev/fd/0`, `/dev/pts/1`.

  @enforce_keys [:device]
  defstruct [:device, :encoding]

  @typedoc "A raw file; or the process `:user`, with the encoding that it has between two reads."
  @type t :: %__MODULE__{device: :file.io_device() | :user, encoding: atom}

  @read_ahead 0x10000
  @chunk 0x100000

  @doc "Opens `path`. A pipe with a name waits for its writer."
  @spec open(Path.t()) :: {:ok, t} | {:error, :file.posix()}
  def open(path) do
    if standard_input?(path) do
      case :io.getopts(:user) do
        {:error, _no_process} -> {:error, :enxio}
        options -> {:ok, %__MODULE__{device: :user, encoding: Keyword.get(options, :encoding, :latin1)}}
      end
    else
      with {:ok, device} <- :file.open(path, [:read, :raw, :binary, read_ahead: @read_ahead]),
           do: {:ok, %__MODULE__{device: device}}
    end
  end

  @spec close(t) :: :ok
  def close(%__MODULE__{device: :user}), do: :ok

  def close(%__MODULE__{device: device}) do
    _ = :file.close(device)
    :ok
  end

  @doc "Returns the next line with its line end."
  @spec read_line(t) :: {:ok, binary} | :eof | {:error, term}
  def read_line(%__MODULE__{device: :user} = input), do: request(input, {:get_line, :latin1, ~c""})
  def read_line(%__MODULE__{device: device}), do: :file.read_line(device)

  @doc "Returns the next `count` bytes, or fewer at the end."
  @spec read(t, non_neg_integer) :: {:ok, binary} | {:error, term}
  def read(%__MODULE__{} = input, count), do: read(input, count, [])

  defp read(_input, 0, found), do: {:ok, IO.iodata_to_binary(found)}

  defp read(input, count, found) do
    case read_some(input, min(count, @chunk)) do
      {:ok, bytes} -> read(input, count - byte_size(bytes), [found | bytes])
      :eof -> {:ok, IO.iodata_to_binary(found)}
      {:error, reason} -> {:error, reason}
    end
  end

  defp read_some(%__MODULE__{device: :user} = input, count), do: request(input, {:get_chars, :latin1, ~c"", count})
  defp read_some(%__MODULE__{device: device}, count), do: :file.read(device, count)

  @doc "Returns all bytes of `path`."
  @spec read_file(Path.t()) :: {:ok, binary} | {:error, term}
  def read_file(path) do
    with {:ok, input} <- open(path) do
      # More bytes than any file has.
      bytes = read(input, 0xFFFF_FFFF_FFFF)
      close(input)
      bytes
    end
  end

  # A regular file that is the standard input can be opened again.
  defp standard_input?(path) do
    with {:ok, %{type: type} = stat} when type in [:device, :other] <- File.stat(path),
         {:ok, standard} <- File.stat("/dev/stdin") do
      {stat.major_device, stat.inode} == {standard.major_device, standard.inode}
    else
      _other -> false
    end
  end

  # Bytes are the characters of Latin-1. The output of the process keeps its encoding.
  defp request(%__MODULE__{encoding: encoding}, request) do
    :ok = ask({:setopts, [encoding: :latin1]})
    result = ask(request)
    :ok = ask({:setopts, [encoding: encoding]})

    case result do
      :eof -> :eof
      {:error, reason} -> {:error, reason}
      # A list of characters, where the process was not told to return binaries.
      bytes -> {:ok, IO.iodata_to_binary(bytes)}
    end
  end

  defp ask(request) do
    user = Process.whereis(:user)
    monitor = Process.monitor(user)
    send(user, {:io_request, self(), monitor, request})

    receive do
      {:io_reply, ^monitor, reply} ->
        Process.demonitor(monitor, [:flush])
        reply

      {:DOWN, ^monitor, _type, _user, _reason} ->
        {:error, :terminated}
    end
  end
end

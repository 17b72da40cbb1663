defmodule BeTree.Journal.Lock do
  @moduledoc false
  # The lock of a folder. It is freed when the process that holds it ends, also by a kill.
  #
  # On Linux it is a listening Unix domain socket in the abstract name space, whose name has the device and the inode of the
  # folder. The kernel binds a name to one socket at a time, and frees it when the socket is closed, at the latest when its process
  # ends. So there are no leftovers, no file in the folder, and no race. A folder has the same name by every path, also after a
  # move. Its inode cannot be reused meanwhile, because the owner has a file in it open. Such names belong to a network namespace:
  # a container with its own network does not see those of another.
  #
  # Other systems have no such names. There the socket is a file in the folder (BeTree.Journal.Lock.SocketFile).

  alias BeTree.Journal.Fault
  alias BeTree.Journal.Lock.SocketFile
  alias BeTree.Processes.Deadline

  @type t :: {:name, :inet.socket()} | {:file, SocketFile.t()}

  # Milliseconds between two attempts, at least.
  @pause 20

  @doc """
  Locks the folder for the calling process. Waits for as many milliseconds while another process has it, and then returns an error of kind
  `:locked`.
  """
  @spec acquire(Path.t(), timeout) :: {:ok, t} | {:error, BeTree.Error.t()}
  def acquire(folder, timeout), do: try_until(folder, Deadline.new(timeout))

  defp try_until(folder, deadline) do
    case try_acquire(:os.type(), folder) do
      {:ok, lock} -> {:ok, lock}
      :locked -> if Deadline.left(deadline) == 0, do: Fault.locked(folder), else: wait(folder, deadline)
      {:error, %BeTree.Error{} = error} -> {:error, error}
      {:error, reason} -> Fault.file("lock", folder, reason)
    end
  end

  # The pause differs between processes, so that two that compete do not retry in step. It leaves the caller's `:rand` state alone.
  defp wait(folder, deadline) do
    pause = @pause + rem(System.unique_integer([:positive]), @pause)
    pause |> min(Deadline.left(deadline)) |> Process.sleep()
    try_until(folder, deadline)
  end

  defp try_acquire({:unix, :linux}, folder) do
    with {:ok, stat} <- File.stat(folder) do
      name = "be_tree journal #{stat.major_device} #{stat.inode}"

      case :gen_tcp.listen(0, [:binary, active: false, ifaddr: {:local, <<0, name::binary>>}]) do
        {:ok, socket} -> {:ok, {:name, socket}}
        {:error, :eaddrinuse} -> :locked
        {:error, reason} -> {:error, reason}
      end
    end
  end

  defp try_acquire(_other, folder) do
    with {:ok, lock} <- SocketFile.acquire(folder), do: {:ok, {:file, lock}}
  end

  @doc "Frees the folder. Only the process that locked it may call this."
  @spec release(t) :: :ok
  def release({:name, socket}), do: :gen_tcp.close(socket)
  def release({:file, lock}), do: SocketFile.release(lock)
end

defmodule BeTree.Journal.Lock.SocketFile do
  @moduledoc false
  # The lock of a folder on systems other than Linux: a listening Unix domain socket in the folder, `lock.N`.
  #
  # A socket that accepts connections belongs to a living process. One that refuses them is left over. Such locks usually fail at
  # the removal of left-over files: a slow process removes the file that a faster one has just made. So no process takes over a
  # file, and only the holder of the lock removes files of other processes:
  #
  #   1. if any `lock.N` accepts a connection, the folder is locked;
  #   2. otherwise listen on `lock.M`, with M above all that are there (to bind a name that exists fails);
  #   3. look again: if another one accepts a connection now, or has a higher number, give up;
  #   4. remove the files with lower numbers;
  #   5. to free the folder, or to give up, remove the own file, and close the socket after that.
  #
  # Suppose two processes X and Y hold the lock, and Y did step 3 last. If X's file was there, it accepted a connection, and Y gave
  # up. X removes its file only to free the folder. A third process Z removes it only after a refused connection, so before X
  # listened, and Z's file with a higher number was bound by then. When X did step 3, either Z's file was there, or Z had removed
  # X's file and then its own. In both cases X's file was not the last one, and X gave up. Step 3 may make both of two processes
  # give up, which is safe: they try again.

  alias BeTree.Journal.Fault

  @type t :: {:inet.socket(), Path.t()}

  @wait 5_000
  # A socket path has at most 108 bytes on Linux and 104 elsewhere, with the final zero.
  @max_path_bytes 100

  @doc "Locks the folder for the calling process, or returns `:locked`, or why no lock can be made."
  @spec acquire(Path.t()) :: {:ok, t} | :locked | {:error, BeTree.Error.t() | :inet.posix() | String.t()}
  def acquire(folder) do
    with_short_name(folder, fn short ->
      with {:ok, socket, name} <- try_acquire(short), do: {:ok, {socket, Path.join(folder, name)}}
    end)
  end

  @doc "Frees the folder. Only the process that locked it may call this."
  @spec release(t) :: :ok
  def release({socket, path}) do
    _ = File.rm(path)
    :gen_tcp.close(socket)
  end

  defp try_acquire(folder) do
    with {:ok, numbers} <- numbers(folder),
         :free <- probe(folder, numbers),
         number = Enum.max([0 | numbers]) + 1,
         {:ok, socket} <- listen(Path.join(folder, name(number))) do
      confirm(folder, number, socket)
    end
  end

  defp confirm(folder, number, socket) do
    with {:ok, numbers} <- numbers(folder),
         true <- Enum.max([0 | numbers]) == number || :locked,
         others = List.delete(numbers, number),
         :free <- probe(folder, others) do
      for other <- others, do: File.rm(Path.join(folder, name(other)))
      {:ok, socket, name(number)}
    else
      failure ->
        release({socket, Path.join(folder, name(number))})
        failure
    end
  end

  defp listen(path) do
    case :gen_tcp.listen(0, [:binary, active: false, ifaddr: {:local, path}]) do
      {:ok, socket} ->
        {:ok, socket}

      {:error, :eaddrinuse} ->
        :locked

      {:error, reason} when reason in [:eafnosupport, :einval, :enotsup] ->
        {:error, "no Unix domain socket can be made there"}

      {:error, reason} ->
        {:error, reason}
    end
  end

  # Only a refused connection proves that nobody listens.
  defp probe(folder, numbers) do
    free? = fn number ->
      case :gen_tcp.connect({:local, Path.join(folder, name(number))}, 0, [:binary, active: false], @wait) do
        {:error, reason} when reason in [:econnrefused, :enoent] ->
          true

        {:ok, socket} ->
          :ok = :gen_tcp.close(socket)
          false

        {:error, _reason} ->
          false
      end
    end

    if Enum.all?(numbers, free?), do: :free, else: :locked
  end

  defp numbers(folder) do
    with {:ok, names} <- File.ls(folder) do
      {:ok, for("lock." <> digits <- names, {number, ""} <- [Integer.parse(digits)], do: number)}
    end
  end

  defp name(number), do: "lock.#{number}"

  # The path of a socket must be short. A long path is replaced by a symbolic link to the folder, for the moment of the call.
  defp with_short_name(folder, function) do
    if byte_size(folder) + 20 <= @max_path_bytes do
      function.(folder)
    else
      link = Path.join(System.tmp_dir!(), "be_tree-" <> Base.encode16(:crypto.strong_rand_bytes(8), case: :lower))

      with true <-
             byte_size(link) + 20 <= @max_path_bytes ||
               "its path is too long for a Unix domain socket, and TMPDIR is too",
           :ok <- File.ln_s(folder, link) do
        try do
          function.(link)
        after
          File.rm(link)
        end
      else
        {:error, reason} -> Fault.file("link #{link} to", folder, reason)
        reason -> {:error, reason}
      end
    end
  end
end

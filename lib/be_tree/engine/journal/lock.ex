defmodule BeTree.Engine.Journal.Lock do
  @moduledoc false
  # A lock of a folder, which ends with the process that holds it, by whatever it ends.
  #
  # The lock is a listening Unix domain socket in the folder, `lock.N`. A socket that accepts connections belongs to a living
  # process. One that refuses them is left over. Removing a left-over file is where such locks usually fail: a slow process
  # removes the file that a faster one has made meanwhile. So no process takes over a file, or removes one before it has the
  # lock:
  #
  #   1. if any `lock.N` accepts a connection, the folder is locked;
  #   2. otherwise listen on `lock.M`, with M above all that are there (to bind a name that exists fails);
  #   3. look again: if another one accepts a connection now, or has a higher number, give up;
  #   4. remove the files with lower numbers.
  #
  # Suppose two processes pass step 3, with the numbers X < Y. X did not see Y's file, so X listened before Y bound its file, and
  # Y, which looks after that, finds X alive, unless X's file is gone. Only a third process with the lock and a higher number
  # removes X's file; the file with the highest number always stays, so X or that process gave up at step 3. Step 3 may make
  # both of two processes give up, which is safe: they try again.

  alias BeTree.Engine.Journal.Fault

  @enforce_keys [:socket, :path]
  defstruct [:socket, :path]

  @type t :: %__MODULE__{socket: :inet.socket(), path: Path.t()}

  # A process that was killed closes its socket a moment after it is gone, so a lock is tried for some time.
  @attempts 30
  @pause 20
  @wait 5_000
  # Linux takes 108 bytes, others 104, with a zero at the end.
  @longest 100

  @doc """
  Locks the folder for the calling process. Tries for a second, and then returns an error of kind `:locked`.
  """
  @spec acquire(Path.t()) :: {:ok, t} | {:error, BeTree.Error.t()}
  def acquire(folder), do: with_short_name(folder, &attempt(folder, &1, @attempts))

  defp attempt(folder, short, attempts) do
    case try_acquire(short) do
      {:ok, socket, name} -> {:ok, %__MODULE__{socket: socket, path: Path.join(folder, name)}}
      :locked when attempts > 1 -> again(folder, short, attempts - 1)
      :locked -> Fault.locked(folder)
      {:error, reason} -> Fault.file("lock", folder, reason)
    end
  end

  defp again(folder, short, attempts) do
    Process.sleep(@pause + :rand.uniform(@pause))
    attempt(folder, short, attempts)
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
        :ok = :gen_tcp.close(socket)
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

  # A socket's path is short, so that of a long one is a link to the folder, which is needed only for the moment of the call.
  defp with_short_name(folder, function) do
    if byte_size(folder) + 20 <= @longest do
      function.(folder)
    else
      link = Path.join(System.tmp_dir!(), "be_tree-" <> Base.encode16(:crypto.strong_rand_bytes(8), case: :lower))

      with true <-
             byte_size(link) + 20 <= @longest || "its path is too long for a Unix domain socket, and TMPDIR is too",
           :ok <- File.ln_s(folder, link) do
        try do
          function.(link)
        after
          File.rm(link)
        end
      else
        {:error, reason} -> Fault.file("link #{link} to", folder, reason)
        reason -> Fault.file("lock", folder, reason)
      end
    end
  end

  @doc "Frees the folder. Only the process that locked it may call this."
  @spec release(t) :: :ok
  def release(%__MODULE__{socket: socket}), do: :gen_tcp.close(socket)
end

defmodule BeTree.Journal.Owner do
  @moduledoc false
  # The life of a journal in the process that owns it: open, recover, append, write bases beside the work, trim, close.
  #
  # The process holds its state in memory. The journal has the changes of that state, and bases bound the changes that a recovery
  # repeats. A user of this module supplies three callbacks: how to load a base, how to repeat changes, and how to write a base. It is
  # a GenServer that
  #
  #   * traps exits, and keeps a `t:t/0` in its state. `nil` stands for a process without a folder, for which nothing is kept;
  #   * appends its changes in groups: all changes of a call share a write and a sync;
  #   * calls `write_base_if_due/3` after changes and after messages of the journal;
  #   * passes messages to `info/2`, and replies to the call `:flush` with the result of `flush/1`;
  #   * calls `close/1` when it ends.
  #
  # ## When a base is due
  #
  # A recovery reads the newest base and repeats the changes after it. A base is due when one of three numbers since the last base
  # exceeds its limit:
  #
  #   * the bytes of records: `:base_bytes`, 16 MiB by default;
  #   * the changes: `:base_changes`, 10,000 by default, and a quarter of the entries of the state, so that many small changes of a
  #     large state do not write it again and again. `:infinity` removes this limit;
  #   * the segments: 32 more than these bytes fill (`BeTree.Journal.fragmented?/1`). Each start and each failed write
  #     begins a segment.
  #
  # A linked process writes the base while the owner goes on. After a failure the owner keeps all changes, logs the error once, and
  # the base is due again a second later.

  alias BeTree.Processes.{CrashReport, Log}
  alias BeTree.Input.Describe
  alias BeTree.Journal
  alias BeTree.Error

  @base_bytes 0x100_0000
  @base_changes 10_000
  @base_share 4
  @retry_after 1_000

  @enforce_keys [:journal, :user, :base_bytes, :base_changes]
  defstruct @enforce_keys ++ [:writer, :retry, :error, :oldest, :oldest_of_writer, base_at: 0]

  @typedoc """
    * `:user` - the module with the callbacks;
    * `:base_at` - the bytes that the journal had written when the last base began;
    * `:writer` - the process that writes a base, and the bytes that the journal had written when it began; or `nil`;
    * `:retry` - the timer of the next attempt after a failure, or `nil`;
    * `:error` - the error of the last base or of the removal of the files that it replaces, or `nil`;
    * `:oldest` - when the oldest change after the newest base was appended, in monotonic microseconds, or `nil` if there is none. Records
      have no time, so a change from before the journal was opened counts as appended then;
    * `:oldest_of_writer` - the same of the changes since `:writer` began.
  """
  @type t :: %__MODULE__{
          journal: Journal.t(),
          user: module,
          base_bytes: pos_integer,
          base_changes: pos_integer | :infinity,
          base_at: non_neg_integer,
          writer: {pid, non_neg_integer} | nil,
          retry: reference | nil,
          error: Error.t() | nil,
          oldest: integer | nil,
          oldest_of_writer: integer | nil
        }

  @type option :: Journal.option() | {:base_bytes, pos_integer} | {:base_changes, pos_integer | :infinity}

  @typedoc "Writes the base of a version from its content, an enumerable of iodata."
  @type write :: (version :: non_neg_integer, Enumerable.t() -> :ok | {:error, Error.t()})

  @typedoc "Returns when all changes that the owner has appended so far are on the disk."
  @type flush :: (... -> :ok | {:error, Error.t()})

  @doc "Loads the content of the newest base."
  @callback load_base(content :: binary, state :: term) :: {:ok, state :: term} | {:error, Error.t()}

  @doc "Repeats changes, in order."
  @callback repeat([{version :: pos_integer, record :: binary}], state :: term) ::
              {:ok, state :: term} | {:error, Error.t()}

  @doc """
  Prepares a base in the owner's process, after the change `version`. Returns a function that another process calls to write the
  base. That function returns the base's version.
  """
  @callback base(source :: term, version :: non_neg_integer) ::
              {:ok, (write, flush -> {:ok, non_neg_integer} | {:error, Error.t()})} | {:error, Error.t()}

  ## Opening

  @doc "Opens the journal in `folder` for the calling process, like `BeTree.Journal.open/2`."
  @spec open(module, Path.t(), [option]) :: {:ok, t} | {:error, Error.t() | {:identity, binary}}
  def open(user, folder, options) do
    {limits, options} = Keyword.split(options, [:base_bytes, :base_changes])

    with {:ok, journal} <- Journal.open(folder, options) do
      {:ok,
       %__MODULE__{
         journal: journal,
         user: user,
         oldest: if(Journal.last(journal) > journal.kept, do: now()),
         base_bytes: Keyword.get(limits, :base_bytes, @base_bytes),
         base_changes: Keyword.get(limits, :base_changes, @base_changes)
       }}
    end
  end

  @doc "Loads the newest base into `state`, and repeats the changes after it."
  @spec recover(t, state) :: {:ok, state} | {:error, Error.t()} when state: term
  def recover(%__MODULE__{journal: journal, user: user} = owner, state) do
    case Journal.read_base(journal) do
      {:ok, _version, content} -> with {:ok, state} <- user.load_base(content, state), do: repeat(owner, state)
      :none -> repeat(owner, state)
      {:error, error} -> {:error, error}
    end
  end

  @doc "Repeats the changes after the newest base, for a state that has the base."
  @spec repeat(t, state) :: {:ok, state} | {:error, Error.t()} when state: term
  def repeat(%__MODULE__{journal: journal, user: user}, state), do: Journal.reduce(journal, state, &user.repeat/2)

  ## Changes

  @doc "Appends changes, all of them or none, like `BeTree.Journal.append/2`."
  @spec append(t | nil, [iodata]) :: {:ok, t | nil} | {:error, Error.t(), t}
  def append(nil, _records), do: {:ok, nil}

  def append(owner, records) do
    with {:ok, owner} <- put(Journal.append(owner.journal, records), owner), do: {:ok, appended(owner, records)}
  end

  defp appended(owner, []), do: owner

  defp appended(owner, _records) do
    now = now()
    %{owner | oldest: owner.oldest || now, oldest_of_writer: owner.oldest_of_writer || now}
  end

  defp now, do: System.monotonic_time(:microsecond)

  @doc "Returns the reply to the call `:flush`, when all changes are on the disk."
  @spec flush(t | nil) :: {:ok | {:error, Error.t()}, t | nil}
  def flush(nil), do: {:ok, nil}

  def flush(owner) do
    case put(Journal.flush(owner.journal), owner) do
      {:ok, owner} -> {:ok, owner}
      {:error, error, owner} -> {{:error, error}, owner}
    end
  end

  defp put({:ok, journal}, owner), do: {:ok, %{owner | journal: journal}}
  defp put({:error, error, journal}, owner), do: {:error, error, %{owner | journal: journal}}

  @doc "Handles a message. Returns `:unknown` if it is not one of the journal."
  @spec info(t | nil, term) :: {:ok, t} | :unknown
  def info(nil, _message), do: :unknown

  def info(%__MODULE__{writer: {pid, written}} = owner, {__MODULE__, pid, outcome}),
    do: {:ok, ended(%{owner | writer: nil}, outcome, written)}

  def info(%__MODULE__{writer: {pid, _written}} = owner, {:EXIT, pid, reason}) do
    error = %Error{kind: :trap, message: "writing a base ended with #{Describe.reason(reason)}"}
    {:ok, failed(%{owner | writer: nil}, error)}
  end

  # A late outcome of a stopped base writer.
  def info(%__MODULE__{} = owner, {__MODULE__, pid, _outcome}) when is_pid(pid), do: {:ok, owner}
  def info(%__MODULE__{retry: timer} = owner, {:timeout, timer, __MODULE__}), do: {:ok, %{owner | retry: nil}}

  def info(%__MODULE__{} = owner, message) do
    with {:ok, journal} <- Journal.info(owner.journal, message), do: {:ok, %{owner | journal: journal}}
  end

  ## Bases

  @doc """
  Starts a process that writes a base of `source`, if one is due. `size` is the number of entries of the state.
  """
  @spec write_base_if_due(t | nil, source :: term, size :: non_neg_integer) :: t | nil
  def write_base_if_due(%__MODULE__{writer: nil, retry: nil} = owner, source, size),
    do: if(due?(owner, size), do: start_base(owner, source), else: owner)

  def write_base_if_due(owner, _source, _size), do: owner

  defp due?(%{journal: journal} = owner, size) do
    # An atom is greater than each integer.
    Journal.written(journal) - owner.base_at > owner.base_bytes or
      Journal.last(journal) - journal.kept > max(owner.base_changes, div(size, @base_share)) or
      Journal.fragmented?(journal)
  end

  defp start_base(%{journal: journal, user: user} = owner, source) do
    case user.base(source, Journal.last(journal)) do
      {:ok, write_base} ->
        writer = {start_writer(write_base, Journal.base_writer(journal)), Journal.written(journal)}
        %{owner | writer: writer, oldest_of_writer: nil}

      {:error, error} ->
        failed(owner, error)
    end
  end

  defp start_writer(write_base, write) do
    owner = self()
    flush = fn -> GenServer.call(owner, :flush, :infinity) end

    spawn_link(fn ->
      outcome = CrashReport.guard(fn -> write_base.(write, flush) end)
      send(owner, {__MODULE__, self(), outcome})
    end)
  end

  # The base may have changes that came after its writer began. They count as missing if it lacks later ones.
  defp ended(owner, {:ok, version}, written) do
    oldest = if Journal.last(owner.journal) > version, do: owner.oldest_of_writer || owner.oldest
    trimmed(%{owner | base_at: written, oldest: oldest}, Journal.trim(owner.journal, version))
  end

  defp ended(owner, {:error, error}, _written), do: failed(owner, error)

  # The next base removes the files that are left over.
  defp trimmed(owner, {:ok, journal}), do: %{owner | journal: journal, error: nil}
  defp trimmed(owner, {:error, error, journal}), do: report(%{owner | journal: journal}, error)

  defp failed(owner, error),
    do: report(%{owner | retry: :erlang.start_timer(@retry_after, self(), __MODULE__)}, error)

  defp report(%{error: nil} = owner, error) do
    Log.error("#{Exception.message(error)}; the journal keeps all changes")
    %{owner | error: error}
  end

  defp report(owner, error), do: %{owner | error: error}

  @doc """
  Writes a base of `version`, which is after the last change, and replaces all changes by it. The calling process, the owner, waits
  for that. With `identity`, the folder has this identity from then on: the name of the base's file changes the content and the
  identity at once.
  """
  @spec replace(t | nil, pos_integer, Enumerable.t(), binary | nil) :: {:ok, t | nil} | {:error, Error.t()}
  def replace(owner, version, content, identity \\ nil)
  def replace(nil, _version, _content, _identity), do: {:ok, nil}

  def replace(%__MODULE__{} = owner, version, content, identity) do
    journal = Journal.identify(owner.journal, identity)

    case Journal.base_writer(journal).(version, content) do
      :ok ->
        owner = stop_writer(%{owner | journal: journal})
        owner = %{owner | base_at: Journal.written(journal), oldest: nil}
        {:ok, trimmed(owner, Journal.rebase(journal, version))}

      {:error, error} ->
        Journal.remove_base(journal, version)
        {:error, error}
    end
  end

  # The process may have ended before.
  defp stop_writer(%{writer: {pid, _written}} = owner) do
    monitor = Process.monitor(pid)
    Process.unlink(pid)
    Process.exit(pid, :kill)
    receive(do: ({:DOWN, ^monitor, :process, ^pid, _reason} -> :ok))
    receive(do: ({:EXIT, ^pid, _reason} -> :ok), after: (0 -> :ok))
    %{owner | writer: nil}
  end

  defp stop_writer(owner), do: owner

  ## Closing

  @doc "Brings all changes to the disk, and frees the folder. Logs a failure."
  @spec close(t | nil) :: :ok
  def close(nil), do: :ok

  def close(%__MODULE__{} = owner) do
    with {:error, error} <- Journal.close(stop_writer(owner).journal) do
      text = "the last changes may not be on the disk: #{Exception.message(error)}"
      Log.error(text)
    end
  end

  @doc "Frees the folder, and leaves it as it is."
  @spec release(t | nil) :: :ok
  def release(nil), do: :ok
  def release(%__MODULE__{} = owner), do: Journal.release(stop_writer(owner).journal)

  @doc "Returns the version of the last change."
  @spec last(t) :: non_neg_integer
  def last(%__MODULE__{journal: journal}), do: Journal.last(journal)

  @doc "Returns the bytes of the segments with changes after the newest base."
  @spec bytes(t | nil) :: non_neg_integer
  def bytes(nil), do: 0
  def bytes(%__MODULE__{journal: journal}), do: Journal.bytes(journal)

  @doc "Returns the moment at which the oldest change after the newest base was appended, for `age/1`, or `nil` if there is none."
  @spec oldest(t | nil) :: integer | nil
  def oldest(nil), do: nil
  def oldest(%__MODULE__{oldest: oldest}), do: oldest

  @doc "Returns the microseconds since a moment of `oldest/1`."
  @spec age(integer | nil) :: non_neg_integer
  def age(nil), do: 0
  def age(oldest), do: now() - oldest

  @doc """
  Returns the version up to which all changes are on the disk, the bytes of the changes after the newest base, the age of the oldest of
  them in microseconds, and the error of the last sync in the background.
  """
  @spec status(t | nil) ::
          %{durable: non_neg_integer, bytes: non_neg_integer, age: non_neg_integer, error: Error.t() | nil} | nil
  def status(nil), do: nil

  def status(%__MODULE__{journal: journal} = owner),
    do: %{durable: journal.durable, bytes: Journal.bytes(journal), age: age(owner.oldest), error: journal.error}
end

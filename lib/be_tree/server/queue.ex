defmodule BeTree.Server.Queue do
  @moduledoc false
  # The callers of a server's process that wait for a version. The queue is ordered by version, so a change visits only the callers
  # that it wakes, after one look-up. It lies in tables, outside the heap that the process collects.
  #
  # A caller leaves the queue when its version comes, its timeout passes, or its process ends.

  alias BeTree.Server.Lineage

  @enforce_keys [:order, :callers]
  defstruct @enforce_keys

  # `:order` has keys `{version, monitor}`, and `:callers` has `{monitor, version, from, wanted, timer}`. The version is :unknown, which
  # is greater than all numbers, for a position in a lineage that the server does not know.
  @type t :: %__MODULE__{order: :ets.tid(), callers: :ets.tid()}

  @typedoc """
  A version; a position, which is a version of a lineage; or, for a courier, any other position than this one.
  """
  @type wanted :: Lineage.version() | Lineage.position() | {:next, Lineage.position()}

  @typedoc "The history and the last version of the server, -1 if it has none."
  @type present :: {Lineage.t(), Lineage.version() | -1}

  @spec new() :: t
  def new, do: %__MODULE__{order: :ets.new(:order, [:ordered_set, :private]), callers: :ets.new(:callers, [:private])}

  @doc """
  Adds a caller that waits, or replies to it at once. The process receives `{:expired, monitor}` after `timeout` milliseconds, and
  `{:gone, monitor, :process, pid, reason}` when the caller's process ends, also late, after the caller has left the queue.
  """
  @spec add(t, GenServer.from(), wanted, timeout, present) :: t
  def add(queue, {pid, _tag} = from, wanted, timeout, present) do
    case outcome(wanted, present) do
      {:wait, version} ->
        # The tag lets `info/2` recognize late messages. Otherwise each removal would scan the mailbox to flush one.
        monitor = :erlang.monitor(:process, pid, tag: :gone)
        timer = if timeout != :infinity, do: Process.send_after(self(), {:expired, monitor}, timeout)
        put(queue, version, {monitor, version, from, wanted, timer})

      {:reply, reply} ->
        GenServer.reply(from, reply)
        queue
    end
  end

  defp put(%__MODULE__{order: order, callers: callers} = queue, version, {monitor, _, _, _, _} = caller) do
    :ets.insert(order, {{version, monitor}})
    :ets.insert(callers, caller)
    queue
  end

  # A follower can be ahead of a server that was restored.
  defp outcome({:next, {id, version}}, {history, present}) do
    if Lineage.id(history) != id or present != version, do: {:reply, {:ok, present}}, else: {:wait, version + 1}
  end

  defp outcome({_id, version} = position, {history, present}) do
    case Lineage.find(history, position) do
      :included -> outcome(version, {history, present})
      {:ended, last} -> {:reply, {:error, Lineage.lost(position, last)}}
      :unknown -> {:wait, :unknown}
    end
  end

  defp outcome(version, {_history, present}) do
    if present >= version, do: {:reply, {:ok, present}}, else: {:wait, version}
  end

  @doc "Replies to the callers whose version has come in the present lineage."
  @spec advance(t, Lineage.version() | -1) :: t
  def advance(%__MODULE__{order: order} = queue, present) do
    case :ets.first(order) do
      {version, monitor} when is_integer(version) and version <= present ->
        reply(queue, monitor, {:ok, present})
        advance(queue, present)

      _later ->
        queue
    end
  end

  @doc "Decides about all callers again, because the history has changed."
  @spec renew(t, present) :: t
  def renew(%__MODULE__{order: order, callers: callers} = queue, present) do
    for {monitor, version, from, wanted, timer} <- :ets.tab2list(callers) do
      case outcome(wanted, present) do
        {:reply, reply} ->
          reply(queue, monitor, reply)

        {:wait, other} ->
          :ets.delete(order, {version, monitor})
          put(queue, other, {monitor, other, from, wanted, timer})
      end
    end

    queue
  end

  defp reply(queue, monitor, reply) do
    [{_monitor, _version, from, _wanted, _timer}] = take(queue, monitor)
    GenServer.reply(from, reply)
  end

  @doc "Handles the message about a caller whose timeout has passed or whose process has ended. Returns whether it is one."
  @spec info(t, term) :: boolean
  def info(queue, {:expired, monitor}) when is_reference(monitor), do: is_list(take(queue, monitor))
  def info(queue, {:gone, monitor, :process, _pid, _reason}), do: is_list(take(queue, monitor))
  def info(_queue, _message), do: false

  defp take(%__MODULE__{order: order, callers: callers}, monitor) do
    for {_monitor, version, _from, _wanted, timer} = caller <- :ets.take(callers, monitor) do
      :ets.delete(order, {version, monitor})
      if timer, do: Process.cancel_timer(timer, async: true, info: false)
      Process.demonitor(monitor)
      caller
    end
  end

  @doc "Returns the number of callers that wait."
  @spec count(t) :: non_neg_integer
  def count(%__MODULE__{callers: callers}), do: :ets.info(callers, :size)
end

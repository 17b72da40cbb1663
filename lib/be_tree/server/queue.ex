defmodule BeTree.Server.Queue do
  @moduledoc false
  # The callers of a server's process that wait for a version. Each waits until the version comes or its timeout passes, so none
  # is kept longer than it waits.

  @type t :: [{GenServer.from(), non_neg_integer, reference | nil}]

  @spec new() :: t
  def new, do: []

  @doc "Adds a caller that waits for `version`. After `timeout` milliseconds the process receives `{:expired, from}`."
  @spec add(t, GenServer.from(), non_neg_integer, timeout) :: t
  def add(queue, from, version, timeout) do
    timer = if timeout != :infinity, do: Process.send_after(self(), {:expired, from}, timeout)
    # A caller without a timeout may be gone.
    queue = Enum.filter(queue, fn {{pid, _tag}, _version, _timer} -> node(pid) != node() or Process.alive?(pid) end)
    [{from, version, timer} | queue]
  end

  @doc "Replies to the callers whose version has come."
  @spec reply(t, non_neg_integer) :: t
  def reply([], _version), do: []

  def reply(queue, version) do
    {come, rest} = Enum.split_with(queue, fn {_from, wanted, _timer} -> wanted <= version end)

    for {from, _wanted, timer} <- come do
      if timer, do: Process.cancel_timer(timer)
      GenServer.reply(from, {:ok, version})
    end

    rest
  end

  @doc "Removes a caller whose timeout has passed. The caller has stopped waiting itself."
  @spec expire(t, {:expired, GenServer.from()}) :: t
  def expire(queue, {:expired, from}), do: Enum.reject(queue, fn {other, _version, _timer} -> other == from end)
end

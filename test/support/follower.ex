defmodule BeTree.Test.Follower do
  @moduledoc """
  A process that follows the notices of a server of rules by their numbers, as the documentation of the server tells: it handles each
  number once and in order, and asks again for those that it missed. A slow one handles a message only when the test allows it.
  """

  import ExUnit.Assertions

  alias BeTree.Error
  alias BeTree.Rules.Server

  @wait 300_000

  @doc """
  Starts a follower after the numbers `since`, linked to the calling process: a number, or a map by partitions. Returns when it is
  subscribed. With `slow: true` it handles a message for each `step/1`.
  """
  def start(name, since, options \\ []) do
    state = %{
      name: name,
      test: self(),
      last: since,
      handled: [],
      received: %{},
      slow: Keyword.get(options, :slow, false)
    }

    pid = spawn_link(fn -> begin(state, options[:register]) end)
    assert_receive {^pid, :subscribed}, @wait
    pid
  end

  @doc "Allows a slow follower to handle a message."
  def step(pid), do: send(pid, :step)

  @doc "Makes a slow follower a fast one."
  def hurry(pid), do: send(pid, :hurry)

  @doc "Returns the last number that the follower has handled, or a map by partitions."
  def last(pid), do: ask(pid, :last)

  @doc "Returns all notices that the follower has handled, in that order."
  def handled(pid), do: pid |> ask(:handled) |> Enum.reverse()

  defp ask(pid, key) do
    send(pid, {:ask, key, self()})
    assert_receive {^pid, :answer, answer}, @wait
    answer
  end

  defp begin(state, as) do
    if as, do: Process.register(self(), as)
    subscribe(state)
    send(state.test, {self(), :subscribed})
    if state.slow, do: wait(state), else: follow(state)
  end

  defp subscribe(state) do
    case Server.subscribe(state.name, since: state.last) do
      :ok ->
        :ok

      {:error, %Error{kind: kind}} when kind in [:no_server, :file] ->
        Process.sleep(5)
        subscribe(state)
    end
  end

  # Notices stay in the mailbox.
  defp wait(state) do
    receive do
      :step -> wait(receive(do: (message -> next(message, state)), after: (0 -> state)))
      :hurry -> follow(%{state | slow: false})
      {:ask, _key, _from} = ask -> wait(next(ask, state))
    end
  end

  defp follow(state), do: state |> then(&receive(do: (message -> next(message, &1)))) |> follow()

  defp next({:ask, key, from}, state) do
    send(from, {self(), :answer, Map.fetch!(state, key)})
    state
  end

  defp next(message, state) when message in [:step, :hurry], do: state

  defp next({Server, name, notices}, %{name: name} = state) when is_list(notices),
    do: Enum.reduce(notices, state, &handle/2)

  defp next({Server, name, {:dropped, _count}}, %{name: name} = state) do
    subscribe(state)
    state
  end

  defp next({Server, name, :restarted}, %{name: name} = state) do
    subscribe(state)
    state
  end

  defp handle(notice, state) do
    key = {notice.partition, notice.number}
    # A repeated notice is the same.
    ^notice = Map.get(state.received, key, notice)
    state = put_in(state.received[key], notice)
    if notice.number == last_of(state, notice) + 1, do: handled_one(state, notice), else: state
  end

  defp last_of(%{last: last}, %{partition: nil}), do: last
  defp last_of(%{last: last}, %{partition: partition}), do: Map.get(last, partition, 0)

  defp handled_one(%{last: last} = state, notice) do
    last = if notice.partition, do: Map.put(last, notice.partition, notice.number), else: notice.number
    %{state | last: last, handled: [notice | state.handled]}
  end
end

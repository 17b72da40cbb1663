defmodule BeTree.Test.Subscriber do
  @moduledoc "A process that subscribes to a server of rules and keeps notices in its mailbox until a test requests them."

  import ExUnit.Assertions

  alias BeTree.Rules.Server

  @wait 60_000

  @doc "Starts a subscriber on a node, linked to the calling process. Returns after it has subscribed."
  def start(name, node \\ node()) do
    pid = Node.spawn_link(node, __MODULE__, :run, [name, self()])
    assert_receive {^pid, :subscribed}, @wait
    pid
  end

  @doc false
  def run(name, test) do
    if node(test) == node() do
      :ok = Server.subscribe(name)
    else
      # The name is registered on the other node.
      :ok = :erpc.call(node(test), GenServer, :call, [name, {:subscribe, self(), nil}])
    end

    send(test, {self(), :subscribed})
    keep()
  end

  @doc "Keeps notices in the calling process's mailbox for the functions below."
  def keep do
    # A selective receive.
    receive do
      {:take, :all, from} -> send(from, {self(), taken()})
      {:take, :one, from} -> send(from, {self(), receive(do: ({Server, _name, content} -> ids(content)))})
    end

    keep()
  end

  defp taken do
    receive do
      {Server, _name, content} -> ids(content) ++ taken()
    after
      0 -> []
    end
  end

  defp ids({:dropped, count}), do: [{:dropped, count}]
  defp ids(:restarted), do: [:restarted]
  defp ids(notices), do: for(notice <- notices, do: notice.values["id"])

  @doc "Takes all notices from the mailbox. Returns their ids, `{:dropped, count}` for dropped ones, and `:restarted`."
  def take(pid), do: take(pid, :all)

  @doc "Returns the ids of the notices of the next message, or `[{:dropped, count}]`."
  def take_one(pid), do: take(pid, :one)

  defp take(pid, what) do
    send(pid, {:take, what, self()})
    assert_receive {^pid, taken}, @wait
    taken
  end

  @doc "Takes messages until `gaps` reports of dropped notices arrived. Returns the ids, and the counts."
  def take_until_told(pid, gaps \\ 1, before \\ []) do
    taken = before ++ take(pid)
    {ids, told} = Enum.split_with(taken, &is_integer/1)

    if length(told) >= gaps do
      {ids, for({:dropped, count} <- told, do: count)}
    else
      Process.sleep(10)
      take_until_told(pid, gaps, taken)
    end
  end

  @doc "Returns the number of messages in a local process's mailbox."
  def waiting(pid), do: pid |> Process.info(:message_queue_len) |> elem(1)
end

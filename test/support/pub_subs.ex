defmodule BeTree.Test.PubSubs do
  @moduledoc "Starts pubsubs, finds their processes, and compares their tables."

  import BeTree.Test.{Eventually, Kill}
  import ExUnit.Assertions

  alias BeTree.{PubSub, Server}
  alias BeTree.PubSub.{Message, Table}

  # A test that waits for a message fails after this time.
  @patience 60_000

  @doc "Starts a pubsub under a new name for the duration of the test, and returns the name. Any number of kills does not end it."
  def start(options \\ []) do
    name = :"pubsub_#{System.unique_integer([:positive])}"
    fixed = [name: name, schema: [a: :integer], max_restarts: 1_000_000_000]
    ExUnit.Callbacks.start_supervised!({PubSub, Keyword.merge(fixed, options)}, id: name)
    name
  end

  @doc "Returns the tables of a pubsub."
  def table(name) do
    {:ok, table} = Table.fetch(name)
    table
  end

  @doc "Returns all processes below the supervisor of a pubsub, supervisors included."
  def processes(name), do: name |> Process.whereis() |> below()

  defp below(supervisor) do
    for {_id, pid, type, _modules} <- Supervisor.which_children(supervisor), is_pid(pid), reduce: [] do
      pids -> [pid | if(type == :supervisor, do: below(pid), else: [])] ++ pids
    end
  catch
    # It was killed meanwhile.
    :exit, _reason -> []
  end

  @doc "Starts a process that calls the functions of `run/2`, until the test ends. It receives no other message by itself."
  def actor, do: spawn_link(&act/0)

  defp act do
    receive(do: ({:run, from, reference, function} -> send(from, {reference, function.()})))
    act()
  end

  @doc "Returns the result of the function in the process of `actor/0`."
  def run(actor, function) do
    monitor = Process.monitor(actor)
    send(actor, {:run, self(), monitor, function})

    receive do
      {^monitor, result} ->
        Process.demonitor(monitor, [:flush])
        result

      {:DOWN, ^monitor, :process, ^actor, reason} ->
        exit(reason)
    end
  end

  @doc "Ends a process of `actor/0`."
  def stop(actor) do
    Process.unlink(actor)
    kill(actor)
  end

  @doc "Starts a pubsub of this name on another node, which lives as long as the node."
  def start_on(node, name, options \\ []) do
    :erpc.call(node, fn ->
      fixed = [name: name, schema: [a: :integer], limit: 1_000_000, max_restarts: 1_000_000_000]
      {:ok, pid} = PubSub.start_link(Keyword.merge(fixed, options))
      Process.unlink(pid)
      pid
    end)
  end

  @doc "Starts a process on a node that subscribes, and sends each message as `{node, message}` to the calling process."
  def subscribe_on(node, name, expression) do
    test = self()

    subscriber =
      Node.spawn(node, fn ->
        PubSub.subscribe!(name, expression, tag: node())
        send(test, :subscribed)
        forward(test)
      end)

    assert_receive :subscribed, @patience
    subscriber
  end

  defp forward(test) do
    receive(do: (message -> send(test, {node(), message})))
    forward(test)
  end

  @doc "Returns the message for the calling process, of which one must come."
  def message do
    assert_receive(%Message{} = message, @patience)
    message
  end

  @doc "Returns the messages of a pubsub in the mailbox."
  def messages do
    receive do
      %Message{} = message -> [message | messages()]
    after
      0 -> []
    end
  end

  @doc "Waits until the index and all tables have the same subscriptions, those of `count` processes."
  def settle(name, subscriptions, count) do
    eventually(fn -> sizes(name) == {subscriptions, subscriptions, subscriptions, count, 0, 0} end)
    table = table(name)
    ids = for {id, _pid, _credit, _tag, _why} <- :ets.tab2list(table.rows), do: id
    assert Enum.sort(ids) == Enum.sort(for {id, _text, _constants} <- :ets.tab2list(table.texts), do: id)
    assert Enum.sort(ids) == Enum.sort(for {{_pid, id}} <- :ets.tab2list(table.by_pid), do: id)
    eventually(fn -> Server.ids(table.index) == {:ok, Enum.sort(ids)} end)
    assert BeTree.Server.count(table.index) == {:ok, subscriptions}
  end

  defp sizes(name) do
    table = table(name)
    tables = [table.rows, table.texts, table.by_pid, table.subscribers, table.full, table.intents]
    tables |> Enum.map(&:ets.info(&1, :size)) |> List.to_tuple()
  end
end

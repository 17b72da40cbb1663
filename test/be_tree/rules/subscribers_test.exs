defmodule BeTree.Rules.SubscribersTest do
  # Pending notices of a mailbox are bounded, and a process learns the number of dropped ones.
  # Makes this node a distributed one, which changes the name that the clusters of concurrent tests have.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually
  import BeTree.Test.Peers, only: [distribute: 1]
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.Subscriber, except: [start: 1, start: 2]

  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.{Shared, Subscribers}
  alias BeTree.Test.{Peers, Subscriber}

  setup :quiet
  setup_all :distribute

  @wait 60_000
  @rules "fact click(id: integer) rule seen when c: click then notify seen(id: c.id), retract c"
  @layouts [one: [], partitions: [partitions: 3, partition_by: :id]]

  defp start!(options) do
    name = :"subscribers_#{System.unique_integer([:positive])}"
    start = {Server, :start_link, [[name: name, rules: @rules] ++ options]}
    start_supervised!(%{id: name, start: start, restart: :temporary, type: :supervisor})
    name
  end

  defp click(name, ids) do
    {:ok, page} = Server.assert_all(name, for(id <- ids, do: {:click, id: id}))
    assert page.firings == Enum.count(ids)
  end

  defp dropped(name) do
    {:ok, info} = Server.info(name)
    info.dropped
  end

  for {layout, options} <- @layouts do
    describe "with #{layout}" do
      @describetag options: options

      test "an idle subscriber gets max_pending notices, then the number of dropped ones", %{
        options: options
      } do
        name = start!([max_pending: 100] ++ options)
        most = 100 * (options[:partitions] || 1)
        pid = Subscriber.start(name)
        for id <- 1..2_000, do: click(name, [id])
        assert waiting(pid) == most
        assert dropped(name) == 2_000 - most

        # The server does nothing else.
        gaps = options[:partitions] || 1

        {ids, told} = take_until_told(pid, gaps)
        assert length(ids) == most
        assert Enum.sum(told) == 2_000 - most
        # Each partition sends its first notices, then none until it reports the dropped ones.
        if gaps == 1, do: assert(ids == Enum.to_list(1..100))

        click(name, 2_001..2_020)
        assert Enum.sort(take(pid)) == Enum.to_list(2_001..2_020)
        assert dropped(name) == 2_000 - most
      end

      test "a fast process gets every notice", %{options: options} do
        # The mailbox has at most three messages of three notices. A partition counts other messages as its own latest.
        name = start!([max_pending: 12] ++ options)
        :ok = Server.subscribe(name)

        for id <- 1..3_000 do
          click(name, [id])
          assert_received {Server, ^name, [%{values: %{"id" => ^id}}]}
        end

        assert dropped(name) == 0

        for part <- Enum.chunk_every(1..3_000, 3) do
          click(name, part)
          assert Enum.sort(received(name, length(part))) == part
        end

        assert dropped(name) == 0
      end

      test "a slow process does not affect others", %{options: options} do
        name = start!([max_pending: 50] ++ options)
        slow = Subscriber.start(name)
        :ok = Server.subscribe(name)

        for id <- 1..1_000 do
          click(name, [id])
          assert_received {Server, ^name, [%{values: %{"id" => ^id}}]}
        end

        assert waiting(slow) == 50 * (options[:partitions] || 1)
        Process.unlink(slow)
        Process.exit(slow, :kill)
        click(name, 1_001..1_020)
        assert Enum.sort(received(name, 20)) == Enum.to_list(1_001..1_020)
      end
    end
  end

  defp received(_name, 0), do: []

  defp received(name, count) do
    assert_receive {Server, ^name, notices}, @wait
    Enum.map(notices, & &1.values["id"]) ++ received(name, count - length(notices))
  end

  for {layout, options} <- @layouts do
    describe "a restart with #{layout}" do
      @describetag options: options

      setup %{options: options} do
        name = :"restarted_#{System.unique_integer([:positive])}"
        options = [name: name, rules: @rules, notify: [:"#{name}_listener"]] ++ options
        # The test ends one process after the other.
        start_supervised!({Server, options})
        Process.register(self(), :"#{name}_listener")
        :ok = Server.subscribe(name)
        [name: name]
      end

      test "of a killed server keeps the subscribers, and tells them and the processes of :notify", %{name: name} do
        other = Subscriber.start(name)
        kill(name)
        # It is a subscriber and a process of :notify.
        parts = parts(name)
        for _ <- 1..parts, do: assert_receive({Server, ^name, :restarted}, @wait)
        assert take(other) == List.duplicate(:restarted, parts)
        click(name, [7])
        assert received(name, 1) == [7]
        assert take(other) == [7]
        refute_received {Server, ^name, :restarted}
      end

      test "of a server that was stopped keeps the subscribers, and tells nothing", %{name: name} do
        [{_id, pid, _type, _modules}] =
          for {id, _pid, _type, _modules} = child <- Supervisor.which_children(supervisor()),
              id == {Server, name},
              do: child

        monitor = Process.monitor(pid)
        GenServer.stop(name)
        assert_receive {:DOWN, ^monitor, :process, ^pid, :normal}, @wait
        eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
        click(name, [7])
        assert received(name, 1) == [7]
        refute_received {Server, ^name, :restarted}
      end

      test "forgets a subscriber that ended, and one that unsubscribed", %{name: name} do
        other = Subscriber.start(name)
        Process.unlink(other)
        Process.exit(other, :kill)
        eventually(fn -> Subscribers.of(name) == [self()] end)
        :ok = Server.unsubscribe(name)
        kill(name)
        assert Subscribers.of(name) == []
        for _ <- 1..parts(name), do: assert_receive({Server, ^name, :restarted}, @wait)
        click(name, [7])
        assert received(name, 1) == [7]
        refute_received {Server, ^name, _other}
      end
    end
  end

  defp supervisor do
    [supervisor] = for {:ok, pid} <- [ExUnit.fetch_test_supervisor()], do: pid
    supervisor
  end

  defp parts(name), do: Shared.partitions(name) || 1

  # Kills the server with all its processes, and waits until it has started again.
  defp kill(name) do
    pid = Process.whereis(name)
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}, @wait
    eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
  end

  test "a call with too many notices sends those that fit" do
    name = start!(max_pending: 100)
    pid = Subscriber.start(name)
    click(name, 1..30)
    click(name, 31..250)
    assert waiting(pid) == 2
    assert dropped(name) == 150
    {ids, told} = take_until_told(pid)
    assert ids == Enum.to_list(1..100)
    assert told == [150]
    # A list of this length is the maximum, so more can never wait.
    click(name, 1..1_000)
    {ids, told} = take_until_told(pid)
    # The previous message may still be in the mailbox.
    assert length(ids) in 99..100
    assert ids == Enum.to_list(1..length(ids))
    assert told == [1_000 - length(ids)]
  end

  test "notices resume when half of them are received" do
    name = start!(max_pending: 10)
    pid = Subscriber.start(name)
    for id <- 1..15, do: click(name, [id])
    assert waiting(pid) == 10
    # Six notices wait, so the check finds the mailbox full.
    for id <- 1..4, do: assert(take_one(pid) == [id])
    click(name, [16])
    assert waiting(pid) == 6
    assert take_one(pid) == [5]
    click(name, [17])
    for id <- 6..10, do: assert(take_one(pid) == [id])
    # Five were dropped before four were received, and one afterwards.
    assert take_one(pid) == [{:dropped, 6}]
    assert take_one(pid) == [17]
    assert dropped(name) == 6
  end

  test "processes of :notify are bounded, and a successor of the name gets all" do
    listener = :"listener_#{System.unique_integer([:positive])}"
    name = start!(max_pending: 20, notify: [listener])
    click(name, 1..5)
    {:ok, first} = Task.start(fn -> keep() end)
    Process.register(first, listener)
    for id <- 1..100, do: click(name, [id])
    assert waiting(first) == 20
    assert dropped(name) == 80
    monitor = Process.monitor(first)
    Process.exit(first, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^first, _killed}, @wait
    click(name, 1..5)
    second = spawn_link(fn -> keep() end)
    Process.register(second, listener)
    for id <- 101..120, do: click(name, [id])
    assert take(second) == Enum.to_list(101..120)
    assert dropped(name) == 80
  end

  test "a subscriber on another node is bounded" do
    {_peer, node} = Peers.start()
    name = start!(max_pending: 100)
    pid = Subscriber.start(name, node)
    for id <- 1..1_000, do: click(name, [id])
    assert {:message_queue_len, 100} = :erpc.call(node, Process, :info, [pid, :message_queue_len])
    assert dropped(name) == 900
    {ids, told} = take_until_told(pid)
    assert ids == Enum.to_list(1..100)
    assert told == [900]
    # The subscriber receives as fast as notices arrive.
    for id <- 1..1_000 do
      click(name, [id])
      if rem(id, 50) == 0, do: assert(take(pid) == Enum.to_list((id - 49)..id))
    end

    assert dropped(name) == 900
  end

  test "an unresponsive node does not delay the server" do
    {peer, node} = Peers.start()
    name = start!(max_pending: 100)
    pid = Subscriber.start(name, node)
    Process.unlink(pid)
    os_pid = :erpc.call(node, System, :pid, [])
    {_output, 0} = System.cmd("kill", ["-STOP", os_pid])
    for id <- 1..1_000, do: click(name, [id])
    assert dropped(name) == 900
    {_output, 0} = System.cmd("kill", ["-CONT", os_pid])
    {ids, told} = take_until_told(pid)
    assert ids == Enum.to_list(1..100)
    assert told == [900]
    Peers.stop(peer)
    eventually(fn -> Subscribers.of(name) == [] end)
  end

  test "max_pending is a positive integer" do
    assert_raise ArgumentError, ~r/max_pending/, fn -> Server.start_link(name: :x, rules: @rules, max_pending: 0) end
  end
end

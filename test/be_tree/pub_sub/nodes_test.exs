defmodule BeTree.PubSub.NodesTest do
  # Not async: nodes of other tests come and go.
  use ExUnit.Case

  import BeTree.Test.{Eventually, Kill, PubSubs, Quiet}

  alias BeTree.PubSub
  alias BeTree.PubSub.Table
  alias BeTree.Test.Peers

  setup_all context, do: Peers.distribute(context)
  setup :quiet

  defp await_nodes(name, nodes) do
    eventually(fn -> name |> PubSub.stats!() |> Map.fetch!(:nodes) |> Map.keys() |> Enum.sort() == Enum.sort(nodes) end)
    # Each router of them is known.
    eventually(fn ->
      {:publishing, _, _, _, _, peers} = Table.publishing(name)
      Enum.all?(peers, fn {_node, _origin, _unsent, routers} -> nil not in Tuple.to_list(routers) end)
    end)
  end

  # Receives the events of a node, in the order in which they arrived, until one has `last` for its value.
  defp received(node, last) do
    assert_receive {^node, %{event: %{a: a}, tags: [^node]}}, 60_000
    if a == last, do: [a], else: [a | received(node, last)]
  end

  test "each node delivers to its own subscribers, in the order of a publisher, and acknowledges" do
    name = start(limit: 1_000_000)
    nodes = for _number <- 1..2, do: elem(Peers.start(), 1)
    for node <- nodes, do: start_on(node, name)
    await_nodes(name, nodes)
    [first, second] = nodes
    subscribe_on(first, name, "a > 0")
    subscribe_on(second, name, "a > 990")
    PubSub.subscribe!(name, "a = 7")

    for a <- 1..900, do: PubSub.publish!(name, %{a: a})
    PubSub.publish_many!(name, for(a <- 901..1_000, do: %{a: a}))
    assert received(first, 1_000) == Enum.to_list(1..1_000)
    assert received(second, 1_000) == Enum.to_list(991..1_000)
    assert %{event: %{a: 7}} = message()

    eventually(fn ->
      Enum.all?(PubSub.stats!(name).nodes, fn {_node, counts} -> counts == %{in_flight: 0, unsent: 0} end)
    end)

    # From a node to this one.
    :ok = :erpc.call(first, PubSub, :publish, [name, %{a: 7}])
    assert %{event: %{a: 7}} = message()
    assert PubSub.stats!(name).published == 1_000
    refute_received {^second, _message}
  end

  test "an event that another node refuses is counted there" do
    name = start()
    {_peer, node} = Peers.start()

    start_on(node, name, schema: [b: :integer])
    await_nodes(name, [node])
    PubSub.publish!(name, %{a: 1})
    eventually(fn -> :erpc.call(node, PubSub, :stats!, [name]).refused == 1 end)
  end

  test "a killed node is gone, and one that comes back is found" do
    name = start()
    {_peer, node} = Peers.start(:pub_sub_again)
    start_on(node, name)
    await_nodes(name, [node])
    Peers.kill(node)
    await_nodes(name, [])
    assert PubSub.publish(name, %{a: 1}) == :ok
    {_peer, ^node} = Peers.start(:pub_sub_again)
    start_on(node, name)
    await_nodes(name, [node])
    subscribe_on(node, name, "a > 0")
    PubSub.publish!(name, %{a: 2})
    assert received(node, 2) == [2]
  end

  test "a netsplit loses events, and heals" do
    name = start(limit: 1_000_000)
    {_peer, node} = Peers.start_apart()
    start_on(node, name)
    await_nodes(name, [node])
    subscribe_on(node, name, "a > 0")
    PubSub.publish!(name, %{a: 1})
    assert received(node, 1) == [1]

    for round <- 1..5 do
      true = Node.disconnect(node)
      await_nodes(name, [])
      for a <- 1..100, do: assert(PubSub.publish(name, %{a: a}) == :ok)
      true = Node.connect(node)
      await_nodes(name, [node])
      for a <- 1..200, do: PubSub.publish!(name, %{a: 1_000 * round + a})
      last = 1_000 * round + 200
      assert last |> then(&received(node, &1)) == Enum.to_list((1_000 * round + 1)..last)
      eventually(fn -> PubSub.stats!(name).nodes == %{node => %{in_flight: 0, unsent: 0}} end)
    end
  end

  test "events that another node does not acknowledge are bounded, and counted" do
    name = start()
    {_peer, node} = Peers.start()
    start_on(node, name)
    await_nodes(name, [node])
    {:publishing, _, _, _, _, [{^node, _origin, _unsent, routers}]} = Table.publishing(name)
    routers = for {router, _account} <- Tuple.to_list(routers), do: router
    for router <- routers, do: :erpc.call(node, :sys, :suspend, [router])
    for _number <- 1..120, do: PubSub.publish_many!(name, for(a <- 1..100, do: %{a: a}))
    assert PubSub.stats!(name).nodes == %{node => %{in_flight: 10_000, unsent: 2_000}}
    for router <- routers, do: :erpc.call(node, :sys, :resume, [router])
    eventually(fn -> PubSub.stats!(name).nodes == %{node => %{in_flight: 0, unsent: 2_000}} end)
  end

  test "killed routers, scopes and lists of nodes are replaced" do
    name = start(limit: 1_000_000)
    {_peer, node} = Peers.start()
    start_on(node, name)
    await_nodes(name, [node])
    subscribe_on(node, name, "a > 0")

    for round <- 1..10 do
      [{_id, supervisor, _type, _modules}] =
        for({BeTree.PubSub.Nodes, _, _, _} = child <- Supervisor.which_children(name), do: child)

      [{_, members, _, _}] = for({:members, _, _, _} = child <- Supervisor.which_children(supervisor), do: child)

      pids =
        for {_id, pid, _type, _modules} <- Supervisor.which_children(members) ++ Supervisor.which_children(supervisor),
            do: pid

      kill(Enum.random(pids))
      node |> :erpc.call(Process, :whereis, [Module.concat(name, Scope)]) |> Process.exit(:kill)
      PubSub.publish!(name, %{a: round})

      # Events are lost until the nodes know each other again.
      eventually(fn ->
        PubSub.publish!(name, %{a: 100 + round})
        receive(do: ({^node, %{event: %{a: a}}} when a == 100 + round -> true), after: (50 -> false))
      end)
    end
  end
end

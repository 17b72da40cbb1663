defmodule BeTreeExchange.PartitionTest do
  # A network partition in each mode of `cluster_partition_handling`: the third of three nodes is cut off, and bindings change on each
  # side that runs. During the partition and after it, each node routes by exactly the bindings that its broker lists.
  use ExUnit.Case

  alias BeTreeExchange.Test.{Audit, Broker, Client, Cluster}

  # Khepri has no such modes: only the side of a majority takes changes.
  if Broker.khepri?(), do: @moduletag(:skip)

  test "ignore: both sides go on, and the node that is restarted takes over the bindings of the others" do
    [first, second, third] = :ignore |> start() |> cut_and_change()

    # Mnesia notices that both sides have changed, and joins them no more.
    Broker.heal(third, [first, second])
    for number <- [first, second, third], do: Broker.eventually(fn -> Broker.partitions(number) != [] end)
    change(first, 110)
    change(third, 310)
    for number <- [first, second, third], do: Audit.run(number, "x")

    Broker.stop(third)
    Broker.start(third)
    assert_whole()
    assert routes?([100, 110, 200])
    assert routes_none?([300, 310])
  end

  # If the connections come back one after the other, the broker sees partitions that do not exist, and restarts several times, on the
  # other nodes too. So this test does not expect the bindings of a certain side.
  test "autoheal: the broker restarts itself on nodes, and each node routes by the bindings that are left" do
    [first, second, third] = :autoheal |> start() |> cut_and_change()
    Broker.heal(third, [first, second])
    Cluster.await_whole()
    for number <- [first, second, third], do: Audit.run(number, "x")
    assert_shared_changes()
  end

  test "pause_minority: the node alone takes no connections until it sees the others" do
    :pause_minority |> start() |> pause_and_return()
  end

  test "pause_if_all_down: a node that does not see the listed one takes no connections until it does" do
    {:pause_if_all_down, hd(Cluster.numbers())} |> start() |> pause_and_return()
  end

  # Cuts the third node off. Then bindings change through each node.
  defp cut_and_change([first, second, third] = numbers) do
    Broker.cut(third, [first, second])
    change(first, 100)
    change(second, 200)
    change(third, 300)
    for number <- numbers, do: Audit.run(number, "x")
    numbers
  end

  # Twice, because the broker starts again in the same VM.
  defp pause_and_return([first, second, third]) do
    for a <- [100, 200] do
      Broker.cut(third, [first, second])
      Broker.eventually(fn -> Broker.rpc(third, :rabbit, :is_running, []) == false end)
      change(first, a)
      change(second, a + 50)
      for number <- [first, second], do: Audit.run(number, "x")
      Broker.heal(third, [first, second])
      assert_whole()
      assert routes?([a, a + 50])
    end
  end

  # Each node has a durable queue and one that the broker deletes, with its bindings, when the node is gone.
  defp start(mode) do
    numbers = Cluster.start(mode)

    for number <- numbers do
      client = Client.open(number)
      :ok = Client.declare_queue(client, "durable#{number}", durable: true)
      :ok = Client.declare_queue(client, "transient#{number}")
      :ok = Client.bind(client, "durable#{number}", "x", expression: "a = #{number}")
      :ok = Client.bind(client, "transient#{number}", "x", expression: "a = #{10 + number}")
      Client.close(client)
    end

    Cluster.assert_whole()
    numbers
  end

  # Adds five bindings through a node, and another one that it removes.
  defp change(number, a) do
    client = Client.open(number)
    for n <- a..(a + 4), do: assert(bind(client, client, number, n))
    assert bind(client, client, number, a + 5)
    refute unbind(client, client, number, a + 5)
    Client.close(client)
  end

  # Returns whether the next publish of a client is routed.
  defp bind(binder, publisher, number, a) do
    :ok = Client.bind(binder, "durable#{number}", "x", expression: "a = #{a}")
    Client.publish(publisher, "x", headers: [a: a])
  end

  defp unbind(binder, publisher, number, a) do
    :ok = Client.unbind(binder, "durable#{number}", "x", expression: "a = #{a}")
    Client.publish(publisher, "x", headers: [a: a])
  end

  # The nodes are as one again.
  defp assert_whole do
    Cluster.assert_whole()
    assert_shared_changes()
  end

  # A change through any node is used by the others.
  defp assert_shared_changes do
    [first, second, third] = Cluster.numbers()

    for {binding, publishing} <- [{first, third}, {third, second}, {second, first}, {third, first}] do
      [binder, publisher] = [Client.open(binding), Client.open(publishing)]
      assert bind(binder, publisher, binding, 90)
      refute unbind(binder, publisher, binding, 90)
      for client <- [binder, publisher], do: Client.close(client)
    end
  end

  defp routes?(values), do: Enum.all?(routed(values))
  defp routes_none?(values), do: not Enum.any?(routed(values))

  defp routed(values) do
    for number <- Cluster.numbers(), a <- values do
      client = Client.open(number)
      routed = Client.publish(client, "x", headers: [a: a])
      Client.close(client)
      routed
    end
  end
end

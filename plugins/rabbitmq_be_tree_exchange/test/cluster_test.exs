defmodule BeTreeExchange.ClusterTest do
  # A node of three that joins, starts after its death, or starts together with the others: it routes its first message by all bindings
  # of the cluster.
  use ExUnit.Case

  alias BeTreeExchange.Test.{Broker, Client, Cluster}

  setup do
    [first, second, third] = Cluster.start(:ignore)
    client = Client.open(first)
    :ok = Client.declare_queue(client, "q", durable: true)
    {:ok, first: first, second: second, third: third, client: client}
  end

  defp bind(client, a), do: :ok = Client.bind(client, "q", "x", expression: "a = #{a}")
  defp unbind(client, a), do: :ok = Client.unbind(client, "q", "x", expression: "a = #{a}")

  # Returns whether the first messages of a node are routed.
  defp routed(number, values) do
    client = Client.open(number)
    routed = for a <- values, do: Client.publish(client, "x", headers: [a: a])
    Client.close(client)
    routed
  end

  test "a node that joins has all bindings with its first publish", %{third: third} = context do
    Broker.remove(third)
    Broker.forget(context.first, third)
    for a <- 1_001..3_000, do: bind(context.client, a)
    Broker.start(third, join: context.first)
    assert routed(third, [1_001, 3_000, 3_001]) == [true, true, false]
    Cluster.assert_whole()
  end

  test "a node that was dead has all changes with its first publish", %{second: second} = context do
    for a <- 1..20, do: bind(context.client, a)
    Broker.kill(second)
    for a <- 21..30, do: bind(context.client, a)
    for a <- 1..10, do: unbind(context.client, a)
    assert routed(context.first, [10, 11, 30]) == [false, true, true]
    Broker.start(second)
    assert routed(second, [10, 11, 30]) == [false, true, true]
    Cluster.assert_whole()
  end

  test "nodes that were killed all at once have all bindings with their first publish", context do
    for a <- 1..20, do: bind(context.client, a)
    unbind(context.client, 7)
    for number <- Cluster.numbers(), do: Broker.kill(number)
    for number <- Cluster.numbers(), do: Broker.launch(number)
    for number <- Cluster.numbers(), do: Broker.await(number)
    for number <- Cluster.numbers(), do: assert(routed(number, [6, 7, 20]) == [true, false, true])
    Cluster.assert_whole()
  end
end

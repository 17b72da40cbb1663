defmodule PartitionsTest do
  use ExUnit.Case

  alias BeTreeExchange.Test.Broker
  alias Workers.{Amqp, Partition, Partitions}
  alias Workers.Test.Nodes

  @partitions 4
  @tenants for number <- 1..20, do: "tenant #{number}"
  @schema [price: :integer]

  @tag :tmp_dir
  test "a killed node's partitions move, the others stay, and each event counts once", %{tmp_dir: dir} do
    exchange = "tenants_#{System.unique_integer([:positive])}"
    broker = [port: Broker.port(31)]
    Partitions.declare(broker, exchange, @partitions)
    channel = Amqp.open(broker, 1)
    options = [broker: broker, exchange: exchange, dir: dir, schema: @schema, report: self()]

    # The first consumer of a queue is the active one, so each node begins with its own half.
    [one, two] = nodes = [Nodes.start(), Nodes.start()]
    for {node, own} <- Enum.zip(nodes, [[0, 1], [2, 3]]), do: consume(node, own, options)
    for {node, others} <- Enum.zip(nodes, [[2, 3], [0, 1]]), do: consume(node, others, options)

    for tenant <- @tenants, {id, text} <- [{1, "price <= 250"}, {2, "price <= 50"}] do
      Amqp.publish(channel, exchange, tenant, text, type: "put", id: "#{id}", headers: [{"tenant", tenant}])
    end

    publish(channel, exchange, 1..100)
    for partition <- [0, 1], do: assert_receive({:opened, ^partition, ^one}, 300_000)
    for partition <- [2, 3], do: assert_receive({:opened, ^partition, ^two}, 300_000)

    # The queues have events when the node is killed.
    publish(channel, exchange, 101..200)
    killed = System.monotonic_time(:millisecond)
    Nodes.kill(one)
    publish(channel, exchange, 201..300)
    for partition <- [0, 1], do: assert_receive({:opened, ^partition, ^two}, 300_000)
    IO.puts("two partitions moved in #{System.monotonic_time(:millisecond) - killed} ms after kill -9")

    # A publisher that got no confirm repeats its events.
    publish(channel, exchange, 290..300)
    publish(channel, exchange, 301..301)
    Broker.eventually(fn -> Enum.all?(@tenants, &(last(two, exchange, &1) == 301)) end)

    for tenant <- @tenants do
      {name, report} = report(two, exchange, tenant)
      # The expression 0 matches every event.
      assert [[%{events: 301, matches: 601}], [%{id: 0, matches: 301}, %{id: 1, matches: 250}, %{id: 2, matches: 50}]] =
               report

      {:ok, usage} = :erpc.call(two, BeTree.Tenants, :usage, [name, tenant])
      assert usage.days |> Map.values() |> Enum.map(& &1.events) |> Enum.sum() == 301
    end

    # No partition was opened twice by a node.
    refute_received {:opened, _partition, _node}
  end

  defp consume(node, partitions, options),
    do: for(partition <- partitions, do: Nodes.run(node, Partition, [{:partition, partition} | options]))

  defp publish(channel, exchange, sequences) do
    for sequence <- sequences, tenant <- @tenants do
      body = ~s({"price": #{sequence}, "sequence": #{sequence}})
      Amqp.publish(channel, exchange, tenant, body, headers: [{"tenant", tenant}, {"sequence", sequence}])
    end

    Amqp.await_confirms(channel)
  end

  defp last(node, exchange, tenant) do
    case report(node, exchange, tenant) do
      {name, _report} -> :erpc.call(node, Partition, :last, [name, tenant])
      nil -> 0
    end
  end

  # The partition of a tenant is the one that knows it.
  defp report(node, exchange, tenant) do
    Enum.find_value(0..(@partitions - 1), fn partition ->
      name = Partition.name(exchange, partition)

      with {:ok, [[_entry | _], _ids] = report} <-
             :erpc.call(node, BeTree.Tenants, :report, [name, [tenants: [tenant], sections: [[], [:id]]]]),
           do: {name, report},
           else: (_other -> nil)
    end)
  end
end

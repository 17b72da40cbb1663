defmodule PartitionsTest do
  use ExUnit.Case

  alias BeTreeExchange.Test.Broker
  alias Workers.{Amqp, Partition, Partitions}
  alias Workers.Test.Nodes

  @partitions 4
  @tenants for number <- 1..20, do: "tenant #{number}"
  @schema [price: :integer]

  @tag :tmp_dir
  test "killed nodes' partitions move, the others stay, each event counts once, and no match is lost", %{tmp_dir: dir} do
    exchange = "tenants_#{System.unique_integer([:positive])}"
    broker = [port: Broker.port(31)]
    Partitions.declare(broker, exchange, @partitions)
    channel = Amqp.open(broker, 1_000)
    matches = exchange <> ".matches"
    Amqp.declare_exchange(channel, matches, "fanout")
    Amqp.declare_queue(channel, matches)
    Amqp.bind(channel, matches, matches, "")
    Amqp.consume(channel, matches)
    options = [broker: broker, exchange: exchange, matches: matches, dir: dir, schema: @schema, report: self()]

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

    # All partitions move again.
    three = Nodes.start()
    consume(three, [0, 1, 2, 3], options)
    publish(channel, exchange, 301..350)
    Nodes.kill(two)
    publish(channel, exchange, 351..400)
    for partition <- 0..3, do: assert_receive({:opened, ^partition, ^three}, 300_000)

    # A publisher that got no confirm repeats its events.
    publish(channel, exchange, 240..250)
    publish(channel, exchange, 401..401)
    Broker.eventually(fn -> Enum.all?(@tenants, &(last(three, exchange, &1) == 401)) end)
    wanted = for tenant <- @tenants, sequence <- 1..250, do: {tenant, sequence}
    seen = collect(channel, MapSet.new(wanted), %{})
    repeated = Enum.count(seen, fn {_event, bodies} -> length(bodies) > 1 end)
    IO.puts("two killed nodes: the matches of #{repeated} of #{map_size(seen)} events were published more than once")

    for {{_tenant, sequence}, bodies} <- seen,
        do: assert(Enum.uniq(bodies) == [if(sequence <= 50, do: "[1,2]", else: "[1]")])

    for tenant <- @tenants do
      {name, report} = report(three, exchange, tenant)
      # The expression 0 matches every event.
      assert [[%{events: 401, matches: 701}], [%{id: 0, matches: 401}, %{id: 1, matches: 250}, %{id: 2, matches: 50}]] =
               report

      {:ok, usage} = :erpc.call(three, BeTree.Tenants, :usage, [name, tenant])
      assert usage.days |> Map.values() |> Enum.map(& &1.events) |> Enum.sum() == 401
    end

    # No partition was opened twice by a node.
    refute_received {:opened, _partition, _node}
  end

  @tag :tmp_dir
  test "an event before a change has the matches of before, and a counted event is published again", %{tmp_dir: dir} do
    exchange = "changes_#{System.unique_integer([:positive])}"
    broker = [port: Broker.port(31)]
    Partitions.declare(broker, exchange, 1)
    channel = Amqp.open(broker, 1_000)
    Amqp.declare_exchange(channel, "#{exchange}.matches", "fanout")
    Amqp.declare_queue(channel, "#{exchange}.matches")
    Amqp.bind(channel, "#{exchange}.matches", "#{exchange}.matches", "")
    Amqp.consume(channel, "#{exchange}.matches")
    change = &Amqp.publish(channel, exchange, "t", &1, type: &2, id: &3, headers: [{"tenant", "t"}])

    event =
      &Amqp.publish(channel, exchange, "t", ~s({"price": 1, "sequence": #{&1}}),
        headers: [{"tenant", "t"}, {"sequence", &1}]
      )

    # The first change of a tenant is refused; the second one creates it.
    change.("price >", "put", "5")
    change.("price > 0", "put", "1")
    event.(1)
    change.("price = 1", "put", "2")
    event.(2)
    event.(2)
    change.("", "delete", "1")
    change.("", "delete", "7")
    event.(3)
    Amqp.await_confirms(channel)

    node = Nodes.start()
    options = [broker: broker, exchange: exchange, matches: "#{exchange}.matches", dir: dir, schema: @schema]
    consume(node, [0], options)

    received =
      for _message <- 1..4 do
        assert_receive {{:"basic.deliver", _, _, _, _, _}, _} = delivery, 300_000
        {_queue, message} = Amqp.message(delivery)
        {message.headers["sequence"], message.body}
      end

    assert Enum.sort(received) == [{1, "[1]"}, {2, "[1,2]"}, {2, "[1,2]"}, {3, "[2]"}]
    assert {_name, [[%{events: 3, matches: 7}], _ids]} = report(node, exchange, "t", 1)
  end

  # Returns the matches by event when all `wanted` events have some.
  defp collect(channel, wanted, seen) do
    if MapSet.size(wanted) == 0 do
      seen
    else
      assert_receive {{:"basic.deliver", _, _, _, _, _}, _} = delivery, 300_000
      {_queue, message} = Amqp.message(delivery)
      Amqp.ack(channel, message.tag)
      event = {message.headers["tenant"], message.headers["sequence"]}
      collect(channel, MapSet.delete(wanted, event), Map.update(seen, event, [message.body], &[message.body | &1]))
    end
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
      {name, _report} -> :erpc.call(node, Partition, :last_of, [name, [tenant]])[tenant]
      nil -> 0
    end
  end

  # The partition of a tenant is the one that knows it.
  defp report(node, exchange, tenant, partitions \\ @partitions) do
    Enum.find_value(0..(partitions - 1), fn partition ->
      name = Partition.name(exchange, partition)

      with {:ok, [[_entry | _], _ids] = report} <-
             :erpc.call(node, BeTree.Tenants, :report, [name, [tenants: [tenant], sections: [[], [:id]]]]),
           do: {name, report},
           else: (_other -> nil)
    end)
  end
end

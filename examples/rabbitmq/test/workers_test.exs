defmodule WorkersTest do
  use ExUnit.Case

  alias BeTreeExchange.Test.Broker
  alias Workers.{Amqp, Expressions, Worker}
  alias Workers.Test.Nodes

  @schema [price: :integer]

  setup context do
    # Each test has queues of its own.
    base = "workers_#{System.unique_integer([:positive])}"
    broker = [port: Broker.port(31)]
    channel = Amqp.open(broker, 1_000)
    Amqp.declare_queue(channel, base <> ".events")
    Amqp.declare_exchange(channel, base <> ".matches", "fanout")
    Amqp.declare_queue(channel, base <> ".seen")
    Amqp.bind(channel, base <> ".seen", base <> ".matches", "")
    Amqp.consume(channel, base <> ".seen")

    name = Module.concat(Workers.Test, base)
    expressions = [name: name, schema: @schema, broker: broker, stream: base <> ".expressions"]
    worker = [name: name, broker: broker, events: base <> ".events", matches: base <> ".matches"]
    Map.merge(context, %{channel: channel, base: base, name: name, expressions: expressions, worker: worker})
  end

  defp publish(context, ids, headers \\ []) do
    for id <- ids,
        do:
          Amqp.publish(context.channel, "", context.base <> ".events", ~s({"price": #{id}}),
            id: "#{id}",
            headers: headers
          )

    Amqp.await_confirms(context.channel)
  end

  # Returns the matches by event, when all `wanted` events have some.
  defp collect(context, wanted, seen \\ %{}) do
    if map_size(seen) == wanted do
      seen
    else
      assert_receive {{:"basic.deliver", _, _, _, _, _}, _} = delivery, 300_000
      {_queue, message} = Amqp.message(delivery)
      Amqp.ack(context.channel, message.tag)
      collect(context, wanted, Map.update(seen, message.id, [message.body], &[message.body | &1]))
    end
  end

  test "change/2: all workers apply a change, and a later worker replays the stream", context do
    [one, two] = [Nodes.start(), Nodes.start()]
    Nodes.run(one, Expressions, context.expressions)
    {:ok, _version} = :erpc.call(one, Expressions, :change, [context.name, {:put, 1, "price > 10"}])
    assert {:error, %{kind: :syntax}} = :erpc.call(one, Expressions, :change, [context.name, {:put, 2, "price >"}])
    {:ok, _version} = :erpc.call(one, Expressions, :change, [context.name, {:put, 3, "price > 5"}])
    {:ok, version} = :erpc.call(one, Expressions, :change, [context.name, {:delete, 1}])

    Nodes.run(two, Expressions, context.expressions)
    assert :erpc.call(two, Expressions, :await, [context.name, version]) == version
    assert :erpc.call(two, Expressions, :version, [context.name]) == version
    assert :erpc.call(two, BeTree, :search!, [context.name, [price: 20]]) == [3]
  end

  test "an event waits for the version that it asks for", context do
    node = Nodes.start()
    Nodes.run(node, Expressions, context.expressions)
    {:ok, version} = :erpc.call(node, Expressions, :change, [context.name, {:put, 1, "price > 0"}])
    Nodes.run(node, Worker, context.worker)

    publish(context, [7], [{"version", version + 1}])
    {:ok, later} = :erpc.call(node, Expressions, :change, [context.name, {:put, 2, "price = 7"}])
    assert later == version + 1
    assert collect(context, 1) == %{"7" => ["[1,2]"]}
  end

  test "an event that the schema refuses does not hold up the others", context do
    node = Nodes.start()
    Nodes.run(node, Expressions, context.expressions)
    {:ok, _version} = :erpc.call(node, Expressions, :change, [context.name, {:put, 1, "price > 0"}])
    Amqp.publish(context.channel, "", context.base <> ".events", "no JSON", id: "0")
    publish(context, 1..20)
    Nodes.run(node, Worker, context.worker)
    assert collect(context, 20) == Map.new(1..20, &{"#{&1}", ["[1]"]})
  end

  test "killed workers lose no event, and a repetition has the same id and matches", context do
    nodes = [one, two] = [Nodes.start(), Nodes.start()]
    for node <- nodes, do: Nodes.run(node, Expressions, context.expressions)
    {:ok, _version} = :erpc.call(one, Expressions, :change, [context.name, {:put, 1, "price > 0"}])
    {:ok, version} = :erpc.call(one, Expressions, :change, [context.name, {:put, 2, "price > 1000"}])
    for node <- nodes, do: Nodes.run(node, Worker, context.worker)

    publish(context, 1..1_000, [{"version", version}])
    seen = collect(context, 100)
    Nodes.kill(one)
    publish(context, 1_001..2_000, [{"version", version}])
    three = Nodes.start()
    Nodes.run(three, Expressions, context.expressions)
    Nodes.run(three, Worker, context.worker)
    Nodes.kill(two)

    seen = collect(context, 2_000, seen)
    repeated = Enum.count(seen, fn {_id, bodies} -> length(bodies) > 1 end)
    IO.puts("two killed workers: #{repeated} of 2000 events were matched more than once")

    for {id, bodies} <- seen,
        do: assert(Enum.uniq(bodies) == [if(String.to_integer(id) > 1_000, do: "[1,2]", else: "[1]")])
  end
end

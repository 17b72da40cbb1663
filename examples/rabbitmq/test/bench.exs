defmodule WorkersBench do
  use ExUnit.Case

  alias BeTreeExchange.Test.Broker
  alias Workers.{Amqp, Expressions, Partition, Partitions, Worker}
  alias Workers.Test.Nodes

  @expressions 20_000
  @events 20_000
  @countries 1_000
  @schema [price: :integer, country: :string]

  defp seconds(fun) do
    {microseconds, _result} = :timer.tc(fun)
    microseconds / 1_000_000
  end

  defp rate(count, seconds), do: "#{round(count / seconds)} a second"

  test "a worker: replay of the stream, and events until the matches are confirmed" do
    broker = [port: Broker.port(31)]
    channel = Amqp.open(broker, 1_000)
    Amqp.declare_queue(channel, "bench.expressions", [{"x-queue-type", :longstr, "stream"}])
    Amqp.declare_queue(channel, "bench.events")

    for id <- 1..@expressions do
      text = "country = 'c#{rem(id, @countries)}' and price > #{rem(id, 97)}"
      Amqp.publish(channel, "", "bench.expressions", text, type: "put", id: "#{id}")
    end

    for id <- 1..@events do
      body = ~s({"price": #{rem(id, 100)}, "country": "c#{rem(id * 7, @countries)}"})
      Amqp.publish(channel, "", "bench.events", body, id: "#{id}")
    end

    Amqp.await_confirms(channel)
    node = Nodes.start()
    options = [name: Bench, broker: broker, schema: @schema, stream: "bench.expressions"]

    replay =
      seconds(fn ->
        Nodes.run(node, Expressions, options)
        :erpc.call(node, Expressions, :await, [Bench, @expressions - 1])
      end)

    IO.puts("replay of #{@expressions} expressions: #{rate(@expressions, replay)}")

    matching =
      seconds(fn ->
        Nodes.run(node, Worker, name: Bench, broker: broker, events: "bench.events", matches: "bench.matches")
        await_empty(["bench.events"])
      end)

    IO.puts("one worker: #{rate(@events, matching)}")
  end

  @tag :tmp_dir
  test "a node with four partitions: events until they are counted and written", %{tmp_dir: dir} do
    broker = [port: Broker.port(31)]
    Partitions.declare(broker, "bench", 4)
    channel = Amqp.open(broker, 1)

    for tenant <- 1..100, id <- 1..100 do
      text = "country = 'c#{id}' and price > #{id}"
      Amqp.publish(channel, "bench", "#{tenant}", text, type: "put", id: "#{id}", headers: [{"tenant", "#{tenant}"}])
    end

    Amqp.await_confirms(channel)
    node = Nodes.start()
    options = [broker: broker, exchange: "bench", dir: dir, schema: @schema]
    queues = for partition <- 0..3, do: Partitions.queue("bench", partition)

    changing =
      seconds(fn ->
        for partition <- 0..3, do: Nodes.run(node, Partition, [{:partition, partition} | options])
        await_empty(queues)
      end)

    IO.puts("four partitions, 10000 changes: #{rate(10_000, changing)}")

    counting =
      seconds(fn ->
        for sequence <- 1..div(@events, 100), tenant <- 1..100 do
          body = ~s({"price": 100, "country": "c#{rem(sequence, 100)}", "sequence": #{sequence}})
          Amqp.publish(channel, "bench", "#{tenant}", body, headers: [{"tenant", "#{tenant}"}, {"sequence", sequence}])
        end

        Amqp.await_confirms(channel)
        await_empty(queues)
      end)

    IO.puts("four partitions, events of 100 tenants, with their publishing: #{rate(@events, counting)}")
  end

  # A queue is empty when it has no message, acknowledged ones excepted.
  defp await_empty(queues) do
    Broker.eventually(fn ->
      Enum.all?(queues, fn queue ->
        {:ok, found} = Broker.rpc(31, :rabbit_amqqueue, :lookup, [{:resource, "/", :queue, queue}])
        Broker.rpc(31, :rabbit_amqqueue, :info, [found, [:messages]]) == [messages: 0]
      end)
    end)
  end
end

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
    # A queue stores the matches, as in use.
    Amqp.declare_exchange(channel, "bench.matches", "fanout")
    Amqp.declare_queue(channel, "bench.worker_matches")
    Amqp.bind(channel, "bench.worker_matches", "bench.matches", "")
    node = Nodes.start()
    options = [name: Bench, broker: broker, schema: @schema, stream: "bench.expressions"]

    replay =
      seconds(fn ->
        Nodes.run(node, Expressions, options)
        :erpc.call(node, Expressions, :await, [Bench, @expressions - 1])
      end)

    IO.puts("replay of #{@expressions} expressions: #{rate(@expressions, replay)}")

    before = processor_times(node)

    matching =
      seconds(fn ->
        Nodes.run(node, Worker, name: Bench, broker: broker, events: "bench.events", matches: "bench.matches")
        await_empty(["bench.events"])
      end)

    IO.puts("one worker: #{rate(@events, matching)}")
    report_processor_times(before, node)
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
    # A queue stores the matches, as in use.
    Amqp.declare_exchange(channel, "bench.partition_matches", "fanout")
    Amqp.declare_queue(channel, "bench.seen")
    Amqp.bind(channel, "bench.seen", "bench.partition_matches", "")
    options = [broker: broker, exchange: "bench", matches: "bench.partition_matches", dir: dir, schema: @schema]
    queues = for partition <- 0..3, do: Partitions.queue("bench", partition)

    changing =
      seconds(fn ->
        for partition <- 0..3, do: Nodes.run(node, Partition, [{:partition, partition} | options])
        await_empty(queues)
      end)

    IO.puts("four partitions, 10000 changes: #{rate(10_000, changing)}")

    # Another node takes over, with the events in the queues.
    Nodes.kill(node)

    for sequence <- 1..div(@events, 100), tenant <- 1..100 do
      body = ~s({"price": 100, "country": "c#{rem(sequence, 100)}", "sequence": #{sequence}})
      Amqp.publish(channel, "bench", "#{tenant}", body, headers: [{"tenant", "#{tenant}"}, {"sequence", sequence}])
    end

    Amqp.await_confirms(channel)
    node = Nodes.start()
    before = processor_times(node)

    counting =
      seconds(fn ->
        for partition <- 0..3, do: Nodes.run(node, Partition, [{:partition, partition} | options])
        await_empty(queues)
      end)

    IO.puts("four partitions, events of 100 tenants: #{rate(@events, counting)}")
    report_processor_times(before, node)
  end

  # Processor time does not depend on other work of the machine as much as the clock does.
  defp processor_times(node), do: for({name, pid} <- processes(node), do: {name, processor_ticks(pid)})

  defp processes(node) do
    broker = 31 |> Broker.folder() |> Path.join("pid") |> File.read!()
    [{"the node", :erpc.call(node, System, :pid, [])}, {"the broker", String.trim(broker)}]
  end

  # utime and stime, the fields 14 and 15.
  defp processor_ticks(pid) do
    [_name, fields] = "/proc/#{pid}/stat" |> File.read!() |> String.split(") ")
    [user, system] = fields |> String.split() |> Enum.slice(11, 2) |> Enum.map(&String.to_integer/1)
    user + system
  end

  @microseconds_per_tick 10_000

  defp report_processor_times(before, node) do
    for {{name, ticks}, {name, later}} <- Enum.zip(before, processor_times(node)),
        do:
          IO.puts(
            "  processor time of #{name}: #{round((later - ticks) * @microseconds_per_tick / @events)} us an event"
          )
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

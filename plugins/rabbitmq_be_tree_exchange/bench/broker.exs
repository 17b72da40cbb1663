# Measures the exchange type beside the broker's own, inside one node of Debian's broker: `make bench CASE=broker`.
Code.require_file("../test/test_helper.exs", __DIR__)
[{inside, code}] = Code.require_file("inside.ex", __DIR__)
ExUnit.start(autorun: false)

alias BeTreeExchange.Test.{Broker, Client}

Broker.start(1, plugins: ["rabbitmq_be_tree_exchange", "rabbitmq_jms_topic_exchange"])

try do
  {:module, ^inside} = Broker.rpc(1, :code, :load_binary, [inside, ~c"inside", code])
  call = fn function, arguments -> Broker.rpc(1, inside, function, arguments) end
  types = [:"x-be-tree", :headers, :"x-jms-topic"]
  :ok = call.(:prepare, [types])

  IO.puts("| bindings | exchange | route, us of processor time | destinations | bind, us |")
  IO.puts("| --- | --- | --- | --- | --- |")

  bound = Map.new(types, &{&1, 0})

  found =
    for count <- [1_000, 10_000, 100_000],
        type <- types,
        type != :"x-jms-topic" or count == 1_000,
        reduce: {bound, []} do
      {bound, found} ->
        time = call.(:bind, [type, Enum.to_list((bound[type] + 1)..count//1)])

        {processor, destinations} =
          call.(:route, [type, if(type == :"x-be-tree", do: 50_000, else: max(50, div(2_000_000, count)))])

        IO.puts(
          "| #{count} | #{type} | #{Float.round(processor, 1)} | #{Float.round(destinations, 2)} | #{Float.round(time, 0)} |"
        )

        {Map.put(bound, type, count), [{count, type, destinations} | found]}
    end

  # The same events, so the same number of destinations, but for fewer events.
  IO.inspect(elem(found, 1), label: "destinations")

  client = Client.open(1)

  headers =
    for n <- 1..2_000, do: Client.arguments([{"country", "c#{rem(n, 100)}"}, {"plan", rem(n, 7)}, {"device", "none"}])

  IO.puts("\nmessages a second with confirms, nothing routed, 100,000 bindings")

  for exchange <- ["bench_betree", "amq.direct"] do
    {time, :ok} = :timer.tc(fn -> Client.publish_all(client, exchange, headers, 10) end)
    IO.puts("#{exchange}: #{round(20_000 * 1_000_000 / time)}")
  end
after
  Broker.remove(1)
end

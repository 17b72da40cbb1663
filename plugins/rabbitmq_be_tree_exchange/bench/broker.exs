# Measures the exchange type beside the broker's own, inside nodes of Debian's broker: `make bench CASE=broker`.
Code.require_file("../test/test_helper.exs", __DIR__)
[{inside, code}] = Code.require_file("inside.ex", __DIR__)
ExUnit.start(autorun: false)

alias BeTreeExchange.Test.{Broker, Client}

be_tree = :"x-be-tree"
jms = :"x-jms-topic"
types = [be_tree, :headers, jms]
plugins = ["rabbitmq_be_tree_exchange", "rabbitmq_jms_topic_exchange"]
call = fn function, arguments -> Broker.rpc(1, inside, function, arguments) end
# The selectors' exchange takes minutes for more bindings.
measured = for count <- [1_000, 10_000, 100_000], type <- types, type != jms or count == 1_000, do: {count, type}
# The number of timed bindings, and the number of messages that all exchanges must route to the same queues.
timed = 500
compared = 50

try do
  Broker.start(1, plugins: plugins)
  {:module, ^inside} = Broker.rpc(1, :code, :load_binary, [inside, ~c"inside", code])
  :ok = call.(:prepare, [types])

  IO.puts("| bindings | exchange | route, us of processor time | a bind, us |\n| --- | --- | --- | --- |")

  Enum.reduce(measured, {%{}, %{}}, fn {count, type}, {bound, destinations} ->
    call.(:bind, [type, Enum.to_list((Map.get(bound, type, 0) + 1)..(count - timed))])
    bind = call.(:bind, [type, Enum.to_list((count - timed + 1)..count)])
    found = call.(:destinations, [type, compared])
    expected = Map.get(destinations, count, found)
    if found != expected, do: raise("#{type} routes messages elsewhere than #{be_tree}")
    messages = if type == be_tree, do: 50_000, else: max(50, div(2_000_000, count))
    route = call.(:route, [type, messages])
    IO.puts("| #{count} | #{type} | #{Float.round(route, 1)} | #{round(bind)} |")
    {Map.put(bound, type, count), Map.put(destinations, count, expected)}
  end)

  IO.puts("\na check of a binding: #{round(call.(:validate, [be_tree, 5_000]))} us")

  client = Client.open(1)

  headers =
    for n <- 1..2_000, do: Client.arguments([{"country", "c#{rem(n, 100)}"}, {"plan", rem(n, 7)}, {"device", "none"}])

  IO.puts("\nmessages a second with confirms, nothing routed, 100,000 bindings; the median of five runs")

  rates =
    for _run <- 1..5, exchange <- ["bench_betree", "amq.direct"] do
      {time, :ok} = :timer.tc(fn -> Client.publish_all(client, exchange, headers, 10) end)
      {exchange, round(20_000 * 1_000_000 / time)}
    end

  for exchange <- ["bench_betree", "amq.direct"] do
    IO.puts("#{exchange}: #{Enum.at(Enum.sort(for {^exchange, rate} <- rates, do: rate), 2)}")
  end

  # A node joins. Measures its first message to the exchange, and messages to another exchange while that one waits.
  Broker.start(2, join: 1, plugins: plugins)

  waiting =
    Task.async(fn ->
      client = Client.open(2)
      :timer.tc(fn -> Client.publish(client, "bench_betree", headers: [country: "none"]) end)
    end)

  client = Client.open(2)

  others =
    Stream.repeatedly(fn -> :timer.tc(fn -> Client.publish(client, "amq.direct") end) end)
    |> Enum.reduce_while([], fn {time, _routed}, times ->
      if Process.alive?(waiting.pid), do: {:cont, [time | times]}, else: {:halt, [time | times]}
    end)

  {first, _routed} = Task.await(waiting, :infinity)
  # The broker writes its log later.
  log = fn -> Broker.folder(2) |> Path.join("log/*.log") |> Path.wildcard() |> Enum.map_join(&File.read!/1) end
  Broker.eventually(fn -> log.() =~ "x-be-tree: indexed 100000" end)
  [built] = Regex.run(~r/x-be-tree: indexed 100000.*/, log.())

  IO.puts("""

  a node that joins: #{built}
  its first message: #{div(first, 1_000)} ms; messages to amq.direct meanwhile: #{length(others)}, the slowest #{div(Enum.max(others), 1_000)} ms
  """)
after
  for number <- 1..2, do: Broker.remove(number)
end

defmodule BeTreeExchange.ExchangeTest do
  use ExUnit.Case

  alias BeTreeExchange.Test.{Broker, Client}

  @schema ~s({"price": "float", "country": {"type": "string", "optional": true}})

  setup_all do
    Broker.start(1, plugins: ["rabbitmq_be_tree_exchange", "rabbitmq_management", "rabbitmq_prometheus"])
    on_exit(fn -> Broker.remove(1) end)
  end

  setup do
    client = Client.open(1)
    on_exit(fn -> Client.close(client) end)
    [client: client]
  end

  # A name that no other test has.
  defp unique(name), do: "#{name}_#{System.unique_integer([:positive])}"

  defp exchange(client, arguments \\ [{"x-schema", @schema}]) do
    name = unique("exchange")
    :ok = Client.declare_exchange(client, name, arguments)
    name
  end

  defp queue(client) do
    name = unique("queue")
    :ok = Client.declare_queue(client, name)
    name
  end

  defp status(exchange) do
    :rabbit_exchange_type_be_tree
    |> then(&Broker.rpc(1, &1, :status, []))
    |> Enum.find_value(fn {name, numbers} -> if name =~ "'#{exchange}'", do: Map.new(numbers) end)
  end

  describe "a publish" do
    test "reaches the queues whose expressions are true", %{client: client} do
      exchange = exchange(client)
      [dear, canadian] = [queue(client), queue(client)]
      :ok = Client.bind(client, dear, exchange, expression: "price > 100 and country in ('CA', 'US')")
      :ok = Client.bind(client, canadian, exchange, expression: "country = 'CA'")

      assert Client.publish(client, exchange, headers: [price: 120.0, country: "CA"])
      assert {Client.purge(client, dear), Client.purge(client, canadian)} == {1, 1}
      assert Client.publish(client, exchange, headers: [price: 120, country: "US"])
      assert {Client.purge(client, dear), Client.purge(client, canadian)} == {1, 0}
      refute Client.publish(client, exchange, headers: [price: 1.5])
      assert {Client.purge(client, dear), Client.purge(client, canadian)} == {0, 0}
    end

    test "comes once to a queue with many bindings", %{client: client} do
      exchange = exchange(client)
      queue = queue(client)
      for n <- 1..20, do: :ok = Client.bind(client, queue, exchange, expression: "price > #{n}")
      assert Client.publish(client, exchange, headers: [price: 21.0])
      assert Client.purge(client, queue) == 1
    end

    test "uses a binding as soon as it is acknowledged, and not after it is gone", %{client: client} do
      exchange = exchange(client)
      queue = queue(client)

      for n <- 1..200 do
        :ok = Client.bind(client, queue, exchange, expression: "price = #{n}")
        assert Client.publish(client, exchange, headers: [price: n])
        :ok = Client.unbind(client, queue, exchange, expression: "price = #{n}")
        refute Client.publish(client, exchange, headers: [price: n])
      end
    end

    test "has the JSON of its payload as event, if x-event says so", %{client: client} do
      schema = ~s({"user": {"city": "string", "age": {"type": "integer", "optional": true}}, "routing_key": "string"})
      exchange = exchange(client, [{"x-schema", schema}, {"x-event", "payload"}])
      queue = queue(client)

      :ok =
        Client.bind(client, queue, exchange, [expression: "user.city = 'Bonn' and routing_key = binding_key"], "it's")

      payload = ~s({"user": {"city": "Bonn"}, "routing_key": "other"})

      assert Client.publish(client, exchange, payload: payload, key: "it's", content_type: "application/json")

      assert Client.publish(client, exchange,
               payload: payload,
               key: "it's",
               content_type: "application/cloudevents+json"
             )

      assert Client.publish(client, exchange, payload: payload, key: "it's")
      refute Client.publish(client, exchange, payload: payload, key: "other")
      refute Client.publish(client, exchange, payload: payload, key: "it's", content_type: "text/plain")
      assert %{routed: 3, refused: 1, unroutable: 1} = status(exchange)
    end

    test "goes through bindings between exchanges", %{client: client} do
      [first, second] = [exchange(client), exchange(client)]
      queue = queue(client)
      :ok = Client.bind_exchange(client, second, first, expression: "price > 10")
      :ok = Client.bind(client, queue, second, expression: "country = 'CA'")
      assert Client.publish(client, first, headers: [price: 11, country: "CA"])
      refute Client.publish(client, first, headers: [price: 9, country: "CA"])
      refute Client.publish(client, first, headers: [price: 11, country: "US"])
    end

    test "that no expression matches, or that does not fit, goes to the alternate exchange", %{client: client} do
      other = unique("other")
      :ok = Client.declare_exchange(client, other, [], type: "fanout")
      rest = queue(client)
      :ok = Client.bind(client, rest, other, [])
      exchange = exchange(client, [{"x-schema", @schema}, {"alternate-exchange", other}])
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")

      for headers <- [[price: 1], [price: "dear"], [], [country: "CA"]],
          do: assert(Client.publish(client, exchange, headers: headers))

      assert {Client.purge(client, queue), Client.purge(client, rest)} == {0, 4}
      assert %{routed: 0, unroutable: 1, refused: 3, bindings: 1} = status(exchange)
    end

    test "whose search uses all of its fuel is not routed, and counted", %{client: client} do
      exchange = exchange(client, [{"x-schema", @schema}, {"x-fuel", 1}])
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      refute Client.publish(client, exchange, headers: [price: 11])
      assert %{out_of_fuel: 1, routed: 0} = status(exchange)
    end
  end

  describe "hostile" do
    test "headers and payloads close no channel", %{client: client} do
      exchange = exchange(client)

      payloads =
        exchange(client, [{"x-schema", ~s({"price": "float", "routing_key": "string"})}, {"x-event", "payload"}])

      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      :ok = Client.bind(client, queue, payloads, expression: "price > 10")

      values = [
        {:void, :undefined},
        {:table, [{"price", :long, 1}]},
        {:table, []},
        {:array, [{:long, 1}, {:table, [{"a", :array, []}]}]},
        {:array, []},
        {:decimal, {255, 4_294_967_295}},
        {:binary, <<255, 0, 254>>},
        {:longstr, <<255, 254>>},
        {:timestamp, 18_446_744_073_709_551_615},
        {:byte, -128},
        {:bool, true},
        {:longstr, String.duplicate("x", 100_000)},
        {:signedint, -1}
      ]

      for value <- values, name <- ["price", "country", <<255, 254>>, "", "x-match"] do
        Client.publish(client, exchange, headers: [{name, value}])
        Client.publish(client, exchange, headers: [{name, value}, {"price", 11}], key: <<255, 254>>)
      end

      nested = Enum.reduce(1..200, {:long, 1}, fn _, value -> {:array, [value]} end)
      Client.publish(client, exchange, headers: [{"price", nested}])

      for payload <- [
            "",
            "}",
            "{}",
            " { } ",
            "{\"price\": 11",
            "{\"price\": 1e999}",
            "{\"price\": \"{}",
            "[]",
            "null",
            <<255>>,
            "{\"price\": 11}}",
            String.duplicate("[", 100_000),
            String.duplicate(" ", 100_000)
          ],
          key <- ["", "\"", <<255, 254>>, "\\"],
          do: refute(Client.publish(client, payloads, payload: payload, key: key))

      assert Client.publish(client, exchange, headers: [price: 11])
      assert Client.publish(client, payloads, payload: "{\"price\": 11} \n", key: <<255, 254>>)
      assert status(exchange).failed == 0
    end

    test "expressions of one binding do not stop the others", %{client: client} do
      exchange = exchange(client)
      queue = queue(client)
      long = Enum.map_join(1..5_000, " or ", &"price = #{&1}")
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      Client.bind(client, queue, exchange, expression: long)
      client = if Process.alive?(client.channel), do: client, else: Client.reopen(client)
      assert Client.publish(client, exchange, headers: [price: 11])
    end
  end

  describe "exchange.declare" do
    test "is refused with the reason", %{client: client} do
      for {arguments, reason} <- [
            {[], "x-schema is missing"},
            {[{"x-schema", 7}], "x-schema is missing"},
            {[{"x-schema", "{\"price\" \"float\"}"}], "x-schema, column 10: no JSON"},
            {[{"x-schema", "{\"price\": \"float\", \"price\": \"float\"}"}], "column 20: price is there twice"},
            {[{"x-schema", "{}"}], "x-schema: a schema is a JSON object with an attribute or more"},
            {[{"x-schema", "[]"}], "x-schema: a schema is a JSON object with an attribute or more"},
            {[{"x-schema", "{\"price\": \"flaot\"}"}],
             "x-schema: `price`: \"flaot\" is no type; the types are boolean"},
            {[{"x-schema", "{\"seen\": \"segments\"}"}],
             "`seen`: \"segments\" is no type that can be used here; the types"},
            {[{"x-schema", "{\"seen\": \"frequency_caps\"}"}], "\"frequency_caps\" is no type that can be used here"},
            {[{"x-schema", table([{"seen", "segments"}])}], "`seen`: \"segments\" is no type that can be used here"},
            {[{"x-schema", table([{"price", 7}])}], "x-schema: `price`: a domain is a type"},
            {[{"x-schema", table([{"price", <<255>>}])}], "x-schema: `price`: \"\u00ff\" is no type"},
            {[{"x-schema", table([])}], "x-schema: a schema is a JSON object with an attribute or more"},
            {[{"x-schema", "{\"user\": {\"city\": {}}}"}], "`user.city`: a domain is"},
            {[{"x-schema", "{\"price\": {\"type\": \"float\", \"maximum\": 1}}"}], "there is no option \"maximum\""},
            {[{"x-schema", "{\"price\": {\"type\": \"float\", \"min\": 9, \"max\": 1}}"}], "above its max"},
            {[{"x-schema", "{\"routing_key\": \"integer\"}"}], "its type is string"},
            {[{"x-schema", @schema}, {"x-event", "body"}], "x-event is headers or payload"},
            {[{"x-schema", @schema}, {"x-fuel", 0}], "x-fuel is a number above 0"},
            {[{"x-schema", @schema}, {"x-memory", "all"}], "x-memory is a number above 0"},
            {[{"x-schema", @schema}, {"x-while-building", "no"}], "x-while-building is wait or last"}
          ] do
        assert {:error, text} = Client.declare_exchange(Client.reopen(client), unique("refused"), arguments)
        assert text =~ "PRECONDITION_FAILED"
        assert text =~ reason
      end
    end

    test "is refused with characters of all languages, and with a part of a long reason", %{client: client} do
      for {schema, reason} <- [
            {"{\"größe\": \"flaot\"}", "`größe`: \"flaot\" is no type"},
            {"{\"日本\": \"flaot\"}", "`日本`: \"flaot\" is no type"},
            {"{\"#{String.duplicate("日本", 30)}\": \"flaot\"}", "日本日本日"},
            {"{\"a#{String.duplicate("日本", 30)}\": \"flaot\"}", "日本日本日"}
          ] do
        assert {:error, text} =
                 Client.declare_exchange(Client.reopen(client), unique("refused"), [{"x-schema", schema}])

        assert text =~ "PRECONDITION_FAILED"
        assert text =~ reason
      end

      exchange = exchange(client)
      queue = queue(client)
      assert {:error, text} = Client.bind(Client.reopen(client), queue, exchange, expression: "`größe日本` = 1")
      assert text =~ "größe日本"
    end

    test "takes a table of AMQP in place of JSON", %{client: client} do
      table = table([{"price", "float"}, {"user", table(city: "string")}])
      exchange = exchange(client, [{"x-schema", table}])
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "user.city = 'Bonn' and price > 1")
      assert Client.publish(client, exchange, headers: [{"user", table(city: "Bonn")}, {"price", 2.5}])
    end

    defp table(pairs), do: {:table, Client.arguments(pairs)}

    test "of the same name again, after a deletion, has the new schema and no old binding", %{client: client} do
      exchange = exchange(client)
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      assert Client.publish(client, exchange, headers: [price: 11])

      for _ <- 1..20 do
        :ok = Client.delete_exchange(client, exchange)
        :ok = Client.declare_exchange(client, exchange, [{"x-schema", ~s({"age": "integer"})}])
        refute Client.publish(client, exchange, headers: [price: 11, age: 30])
        :ok = Client.bind(client, queue, exchange, expression: "age > 10")
        assert Client.publish(client, exchange, headers: [age: 30])
        :ok = Client.delete_exchange(client, exchange)
        :ok = Client.declare_exchange(client, exchange, [{"x-schema", ~s({"age": "integer"})}])
        refute Client.publish(client, exchange, headers: [age: 30])
      end
    end
  end

  describe "queue.bind" do
    test "is refused with the reason", %{client: client} do
      exchange = exchange(client)
      queue = queue(client)

      for {arguments, reason} <- [
            {[], "the argument expression is missing"},
            {[expression: 7], "the argument expression is a string"},
            {[expression: "price > "], "expression, column 9"},
            {[expression: "prise > 1"], "expression, column 1"},
            {[expression: <<"price > ", 255>>], "not UTF-8"},
            {[expression: ""], "expression"}
          ] do
        client = Client.reopen(client)
        assert {:error, text} = Client.bind(client, queue, exchange, arguments)
        assert text =~ "PRECONDITION_FAILED"
        assert text =~ reason
      end
    end
  end

  describe "a binding that the index cannot hold" do
    test "is counted, and the others are used", %{client: client} do
      exchange = exchange(client, [{"x-schema", ~s({"country": {"type": "string", "count": 2}})}])
      queue = queue(client)

      for country <- ["A", "B", "C", "D"],
          do: :ok = Client.bind(client, queue, exchange, expression: "country = '#{country}'")

      assert for(country <- ["A", "B", "C", "D"], do: Client.publish(client, exchange, headers: [country: country])) ==
               [true, true, false, false]

      assert %{bindings: 2, refused_bindings: 2} = status(exchange)
      :ok = Client.unbind(client, queue, exchange, expression: "country = 'D'")
      :ok = Client.unbind(client, queue, exchange, expression: "country = 'A'")

      assert for(country <- ["A", "B"], do: Client.publish(client, exchange, headers: [country: country])) == [
               false,
               true
             ]
    end
  end

  describe "x-while-building=last" do
    test "uses changes soon, and all bindings after the index ended", %{client: client} do
      exchange = exchange(client, [{"x-schema", @schema}, {"x-while-building", "last"}])
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      Broker.eventually(fn -> Client.publish(client, exchange, headers: [price: 11]) end)
      :ok = Client.unbind(client, queue, exchange, expression: "price > 10")
      Broker.eventually(fn -> not Client.publish(client, exchange, headers: [price: 11]) end)
    end
  end

  describe "the deletion of a queue" do
    test "with thousands of bindings ends all of them", %{client: client} do
      exchange = exchange(client)
      [queue, other] = [queue(client), queue(client)]
      for n <- 1..3_000, do: :ok = Client.bind(client, queue, exchange, expression: "price = #{n}")
      :ok = Client.bind(client, other, exchange, expression: "price > 2999")
      assert Client.publish(client, exchange, headers: [price: 17])
      :ok = Client.delete_queue(client, queue)
      refute Client.publish(client, exchange, headers: [price: 17])
      assert Client.publish(client, exchange, headers: [price: 3_000])
      assert status(exchange).bindings == 1
    end
  end

  describe "a policy" do
    test "sets the fuel of messages, and is checked", %{client: client} do
      exchange = exchange(client)
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      assert Client.publish(client, exchange, headers: [price: 11])

      set =
        &Broker.rpc(1, :rabbit_policy, :set, [
          "/",
          "fuel",
          "^#{exchange}$",
          [{"be-tree-fuel", &1}],
          0,
          "exchanges",
          "tests"
        ])

      assert {:error_string, _reason} = set.("much")
      :ok = set.(1)
      Broker.eventually(fn -> not Client.publish(client, exchange, headers: [price: 11]) end)
      :ok = Broker.rpc(1, :rabbit_policy, :delete, ["/", "fuel", "tests"])
      Broker.eventually(fn -> Client.publish(client, exchange, headers: [price: 11]) end)
    end
  end

  describe "the numbers of an exchange" do
    setup %{client: client} do
      exchange = exchange(client)
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      for price <- [9, 11, 12], do: Client.publish(client, exchange, headers: [price: price])
      [exchange: exchange]
    end

    test "are metrics of Prometheus", %{exchange: exchange} do
      labels = ~s({vhost="/",exchange="#{exchange}"})

      for {metric, value} <- [routed_total: 2, unroutable_total: 1, refused_total: 0, bindings: 1] do
        Broker.eventually(fn ->
          get(Broker.metrics_port(1), "/metrics") =~ "rabbitmq_be_tree_#{metric}#{labels} #{value}\n"
        end)
      end

      assert get(Broker.metrics_port(1), "/metrics") =~
               ~r/rabbitmq_be_tree_memory_bytes\{vhost="\/",exchange="#{exchange}"\} [1-9]/
    end

    test "are no longer collected when the plugin has stopped" do
      collected? = fn -> BeTreeExchange.Prometheus in Broker.rpc(1, :prometheus_registry, :collectors, [:default]) end
      :ok = Broker.rpc(1, :application, :stop, [:rabbitmq_be_tree_exchange])
      stopped = collected?.()
      :ok = Broker.rpc(1, :application, :start, [:rabbitmq_be_tree_exchange])
      assert {stopped, collected?.()} == {false, true}
    end

    test "are in the API of the management plugin", %{exchange: exchange} do
      Broker.eventually(fn -> get(Broker.management_port(1), "/api/exchanges/%2F/#{exchange}") =~ ~s("routed":2) end)
      assert get(Broker.management_port(1), "/api/exchanges/%2F/#{exchange}") =~ ~s("bindings":1)
    end
  end

  defp get(port, path) do
    guest = {~c"authorization", ~c"Basic " ++ :base64.encode_to_string("guest:guest")}
    url = String.to_charlist("http://127.0.0.1:#{port}#{path}")

    case :httpc.request(:get, {url, [guest]}, [], body_format: :binary) do
      {:ok, {{_version, 200, _text}, _headers, body}} -> body
      _not_yet -> ""
    end
  end

  describe "an index whose process is killed" do
    test "is built again, and no binding is missed", %{client: client} do
      exchange = exchange(client)
      queue = queue(client)
      :ok = Client.bind(client, queue, exchange, expression: "price > 10")
      assert Client.publish(client, exchange, headers: [price: 11])

      for victim <- [BeTreeExchange.Follower, :rabbit_be_tree_server_1], _ <- 1..3 do
        with pid when is_pid(pid) <- Broker.rpc(1, :erlang, :whereis, [victim]), do: Process.exit(pid, :kill)
        assert Client.publish(client, exchange, headers: [price: 11])
        refute Client.publish(client, exchange, headers: [price: 9])
      end
    end
  end
end

defmodule BeTreeExchange.Bench.Inside do
  @moduledoc """
  Measures exchanges inside the broker's node, where the benchmark loads this module: a binding tests three attributes for equality,
  and there are 1,000 queues.
  """

  import BeTreeExchange.Records, except: [headers: 1]

  @types %{"x-be-tree": "betree", headers: "headers", "x-jms-topic": "jms"}
  @schema ~s({"country": {"type": "string", "optional": true}, "plan": {"type": "integer", "optional": true},
    "device": {"type": "string", "optional": true}, "price": {"type": "integer", "optional": true}})

  defp exchange_name(type), do: resource(virtual_host: "/", kind: :exchange, name: "bench_#{@types[type]}")
  defp queue_name(n), do: resource(virtual_host: "/", kind: :queue, name: "bench_#{n}")

  def prepare(types) do
    for n <- 1..1_000, do: :rabbit_amqqueue.declare(queue_name(n), false, false, [], :none, "bench")

    for type <- types,
        do: :rabbit_exchange.declare(exchange_name(type), type, false, false, false, arguments(type), "bench")

    :ok
  end

  defp arguments(:"x-be-tree"), do: [{"x-schema", :longstr, @schema}]
  defp arguments(_type), do: []

  @doc "Adds bindings, and returns the microseconds of each."
  def bind(type, numbers) do
    {time, :ok} =
      :timer.tc(fn ->
        for n <- numbers do
          :ok =
            :rabbit_binding.add(
              binding_record(
                source: exchange_name(type),
                destination: queue_name(1 + rem(n, 1_000)),
                key: Integer.to_string(n),
                args: Enum.sort(binding(type, n))
              ),
              "bench"
            )
        end

        :ok
      end)

    time / Enum.count(numbers)
  end

  defp attributes(n), do: {"c#{rem(n, 100)}", rem(div(n, 100), 10), "d#{rem(div(n, 1_000), 10)}"}

  defp binding(:headers, n), do: [{"x-match", :longstr, "all"} | headers(n)]

  defp binding(:"x-be-tree", n) do
    {country, plan, device} = attributes(n)
    [{"expression", :longstr, "country = '#{country}' and plan = #{plan} and device = '#{device}'"}]
  end

  defp binding(:"x-jms-topic", n) do
    {country, plan, device} = attributes(n)
    test = fn name, value -> {:=, {:ident, name}, value} end
    selector = {:and, {:and, test.("country", country), test.("plan", plan)}, test.("device", device)}
    [{"rjms_erlang_selector", :longstr, IO.iodata_to_binary(:io_lib.format("~w.", [selector]))}]
  end

  defp headers(n) do
    {country, plan, device} = attributes(n)
    [{"country", :longstr, country}, {"plan", :signedint, plan}, {"device", :longstr, device}]
  end

  @doc "Routes messages, and returns the microseconds of processor time and the destinations of one."
  def route(type, count) do
    {:ok, exchange} = :rabbit_exchange.lookup(exchange_name(type))
    # The same events for every type.
    :rand.seed(:exsss, {1, 2, 3})
    deliveries = for _ <- 1..count, do: delivery(type, :rand.uniform(1_000_000))
    :rabbit_exchange.route(exchange, hd(deliveries))
    before = processor_time()

    destinations =
      for delivery <- deliveries, reduce: 0, do: (sum -> sum + length(:rabbit_exchange.route(exchange, delivery)))

    {(processor_time() - before) / count, destinations / count}
  end

  defp delivery(type, n) do
    properties = {:P_basic, :undefined, :undefined, headers(n)} |> pad(15)

    {:ok, message} =
      :rabbit_basic.message(exchange_name(type), "", :rabbit_basic.build_content(properties, "a payload"))

    :rabbit_basic.delivery(false, false, message, :undefined)
  end

  defp pad(tuple, size), do: if(tuple_size(tuple) == size, do: tuple, else: pad(Tuple.append(tuple, :undefined), size))

  # Microseconds of user and system time of the node, in steps of 10 ms.
  defp processor_time do
    [_name, rest] = "/proc/self/stat" |> File.read!() |> String.split(") ", parts: 2)
    fields = String.split(rest)
    10_000 * (String.to_integer(Enum.at(fields, 11)) + String.to_integer(Enum.at(fields, 12)))
  end
end

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
    bindings = for n <- numbers, do: record(type, n)
    {time, _results} = :timer.tc(fn -> for binding <- bindings, do: :ok = :rabbit_binding.add(binding, "bench") end)
    time / length(bindings)
  end

  defp record(type, n) do
    binding_record(
      source: exchange_name(type),
      destination: queue_name(1 + rem(n, 1_000)),
      key: Integer.to_string(n),
      args: Enum.sort(binding(type, n))
    )
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

  @doc "Routes messages, and returns the microseconds of processor time of one."
  def route(type, count) do
    exchange = look_up(type)
    deliveries = deliveries(type, count)
    :rabbit_exchange.route(exchange, hd(deliveries))
    before = processor_time()
    for delivery <- deliveries, do: :rabbit_exchange.route(exchange, delivery)
    (processor_time() - before) / count
  end

  @doc "Returns the names of the queues of each of `count` messages, which are the same messages for every type."
  def destinations(type, count) do
    exchange = look_up(type)
    for delivery <- deliveries(type, count), do: exchange |> :rabbit_exchange.route(delivery) |> Enum.sort()
  end

  @doc "Returns the microseconds in which a binding is checked."
  def validate(type, count) do
    exchange = look_up(type)
    module = :rabbit_exchange_type_be_tree
    bindings = for n <- 1..count, do: record(type, n)
    :ok = module.validate_binding(exchange, hd(bindings))

    {time, _results} =
      :timer.tc(fn -> for binding <- bindings, do: :ok = module.validate_binding(exchange, binding) end)

    time / count
  end

  defp look_up(type) do
    {:ok, exchange} = :rabbit_exchange.lookup(exchange_name(type))
    exchange
  end

  defp deliveries(type, count) do
    :rand.seed(:exsss, {1, 2, 3})
    for _ <- 1..count, do: delivery(type, :rand.uniform(1_000_000))
  end

  defp delivery(type, n) do
    properties = {:P_basic, :undefined, :undefined, headers(n)} |> pad(15)

    {:ok, message} =
      :rabbit_basic.message(exchange_name(type), "", :rabbit_basic.build_content(properties, "a payload"))

    :rabbit_basic.delivery(false, false, message, :undefined)
  end

  defp pad(tuple, size), do: List.to_tuple(Tuple.to_list(tuple) ++ List.duplicate(:undefined, size - tuple_size(tuple)))

  # Microseconds of user and system time of the node, in steps of 10 ms.
  defp processor_time do
    [_name, rest] = "/proc/self/stat" |> File.read!() |> String.split(") ", parts: 2)
    fields = String.split(rest)
    10_000 * (String.to_integer(Enum.at(fields, 11)) + String.to_integer(Enum.at(fields, 12)))
  end
end

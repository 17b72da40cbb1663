defmodule BeTreeExchange.ModelTest do
  # Random declarations, bindings, deletions, publishes and kills, in cycles: the queues that get a message are those of a model, a
  # list of bindings that is searched one by one.
  use ExUnit.Case

  import BeTreeExchange.Records, only: [resource: 1]

  alias BeTreeExchange.Test.{Broker, Client, Footprint}

  @schema ~s({"a": "integer", "b": {"type": "string", "optional": true}})
  @exchanges ["m1", "m2"]
  @queues for n <- 1..4, do: "mq#{n}"

  # All cycles end with this many bindings, so that their memory can be compared.
  @bindings 40
  @steps 100

  setup do
    Broker.start(1)
    Broker.start(2, join: 1)
    on_exit(fn -> for number <- 1..2, do: Broker.remove(number) end)
  end

  # For some seconds, or for BE_TREE_BROKER_MINUTES.
  @tag timeout: :infinity
  test "routes are those of a model, and the memory of a node stays as it was" do
    seed = String.to_integer(System.get_env("BE_TREE_BROKER_SEED", "#{:rand.uniform(1_000_000)}"))
    minutes = String.to_integer(System.get_env("BE_TREE_BROKER_MINUTES", "0"))
    IO.puts("model: BE_TREE_BROKER_SEED=#{seed}")
    :rand.seed(:exsss, {seed, 0, 0})
    state = %{clients: clients(), exchanges: MapSet.new(), queues: MapSet.new(), bindings: MapSet.new()}
    started = System.monotonic_time(:second)
    elapsed = fn -> System.monotonic_time(:second) - started end

    {state, _footprints} = cycle(state)
    state = cycles_until(state, fn -> elapsed.() >= minutes * 20 end)
    {state, early} = cycle(state)
    state = cycles_until(state, fn -> elapsed.() >= minutes * 60 end)
    {_state, late} = cycle(state)
    Footprint.assert_flat(early, late)
    # Indexes end with their exchanges, and without an error.
    refute Broker.log(1) =~ "rabbit_be_tree_server"
  end

  defp cycles_until(state, ended?) do
    if ended?.(), do: state, else: state |> cycle() |> elem(0) |> cycles_until(ended?)
  end

  # Returns the footprint of the first node, which is not killed.
  defp cycle(state) do
    state = steps(state, @steps) |> kill() |> steps(div(@steps, 4)) |> level()
    footprint = Footprint.measure(1)
    IO.puts("model: #{inspect(footprint)}")
    {state, footprint}
  end

  defp steps(state, count), do: Enum.reduce(1..count, state, fn _n, state -> step(action(), state) end)

  # All exchanges and queues, and a fixed number of bindings.
  defp level(state) do
    state = Enum.reduce(@exchanges, state, &declare_exchange(&2, &1))
    @queues |> Enum.reduce(state, &declare_queue(&2, &1)) |> level_bindings()
  end

  defp level_bindings(%{bindings: bindings} = state) do
    case MapSet.size(bindings) do
      @bindings -> state
      count -> step(if(count < @bindings, do: :bind, else: :unbind), state) |> level_bindings()
    end
  end

  # The first node goes on alone, and then the second comes back. The queues are on the first node.
  defp kill(%{clients: {first, _second}} = state) do
    Broker.kill(2)
    state = steps(%{state | clients: {first, first}}, 40)
    Broker.start(2)
    state = %{state | clients: {first, Client.open(2)}}
    step(:publish, state)
  end

  defp clients, do: {Client.open(1), Client.open(2)}
  defp client(%{clients: clients}), do: elem(clients, :rand.uniform(2) - 1)

  defp action do
    case :rand.uniform(100) do
      n when n <= 40 -> :publish
      n when n <= 70 -> :bind
      n when n <= 88 -> :unbind
      n when n <= 93 -> :declare_queue
      n when n <= 95 -> :delete_queue
      n when n <= 99 -> :declare_exchange
      _rest -> :delete_exchange
    end
  end

  defp step(:declare_exchange, state), do: declare_exchange(state, Enum.random(@exchanges))
  defp step(:declare_queue, state), do: declare_queue(state, Enum.random(@queues))

  defp step(:delete_exchange, state) do
    name = Enum.random(@exchanges)
    :ok = Client.delete_exchange(client(state), name)
    bindings = MapSet.reject(state.bindings, fn {exchange, _queue, _expression} -> exchange == name end)
    %{state | exchanges: MapSet.delete(state.exchanges, name), bindings: bindings}
  end

  defp step(:delete_queue, state) do
    name = Enum.random(@queues)
    :ok = Client.delete_queue(client(state), name)
    bindings = MapSet.reject(state.bindings, fn {_exchange, queue, _expression} -> queue == name end)
    %{state | queues: MapSet.delete(state.queues, name), bindings: bindings}
  end

  defp step(:bind, state) do
    with [exchange, queue] <- pick(state) do
      expression = expression()
      :ok = Client.bind(client(state), queue, exchange, expression: text(expression))
      %{state | bindings: MapSet.put(state.bindings, {exchange, queue, expression})}
    end
  end

  defp step(:unbind, %{bindings: bindings} = state) do
    if MapSet.size(bindings) == 0 do
      state
    else
      {exchange, queue, expression} = binding = Enum.random(bindings)
      :ok = Client.unbind(client(state), queue, exchange, expression: text(expression))
      %{state | bindings: MapSet.delete(bindings, binding)}
    end
  end

  defp step(:publish, state) do
    with [exchange, _queue] <- pick(state) do
      {a, b} = {:rand.uniform(10), Enum.random([nil, "x", "y"])}
      headers = [{"a", a} | if(b, do: [{"b", b}], else: [])]
      expected = for {^exchange, queue, expression} <- state.bindings, true?(expression, a, b), uniq: true, do: queue
      assert Client.publish(client(state), exchange, headers: headers) == (expected != [])
      reader = elem(state.clients, 0)
      assert Enum.sort(expected) == for(queue <- Enum.sort(state.queues), Client.purge(reader, queue) == 1, do: queue)
      state
    end
  end

  defp declare_exchange(state, name) do
    :ok = Client.declare_exchange(client(state), name, [{"x-schema", @schema}], durable: true)
    await_everywhere(:rabbit_exchange, resource(virtual_host: "/", kind: :exchange, name: name))
    %{state | exchanges: MapSet.put(state.exchanges, name)}
  end

  defp declare_queue(state, name) do
    :ok = Client.declare_queue(elem(state.clients, 0), name, durable: true)
    await_everywhere(:rabbit_amqqueue, resource(virtual_host: "/", kind: :queue, name: name))
    %{state | queues: MapSet.put(state.queues, name)}
  end

  # The broker may acknowledge a durable exchange or queue before its other node has it. That node would close a channel that uses it.
  defp await_everywhere(module, name) do
    for number <- 1..2, Broker.node_name(number) in Node.list() do
      Broker.eventually(fn -> match?({:ok, _found}, Broker.rpc(number, module, :lookup, [name])) end)
    end
  end

  # Returns the state if there is no exchange or no queue.
  defp pick(state) do
    if MapSet.size(state.exchanges) == 0 or MapSet.size(state.queues) == 0,
      do: state,
      else: [Enum.random(state.exchanges), Enum.random(state.queues)]
  end

  defp expression do
    case :rand.uniform(4) do
      1 -> {:a, Enum.random([:<, :>, :==]), :rand.uniform(10)}
      2 -> {:b, Enum.random(["x", "y"])}
      3 -> {:and, {:a, :>, :rand.uniform(10)}, {:b, "x"}}
      4 -> {:or, {:a, :==, :rand.uniform(10)}, {:b, "y"}}
    end
  end

  defp text({:a, :==, n}), do: "a = #{n}"
  defp text({:a, relation, n}), do: "a #{relation} #{n}"
  defp text({:b, b}), do: "b = '#{b}'"
  defp text({word, left, right}) when word in [:and, :or], do: "#{text(left)} #{word} #{text(right)}"

  defp true?({:a, relation, n}, a, _b), do: apply(Kernel, relation, [a, n])
  defp true?({:b, wanted}, _a, b), do: b == wanted
  defp true?({:and, left, right}, a, b), do: true?(left, a, b) and true?(right, a, b)
  defp true?({:or, left, right}, a, b), do: true?(left, a, b) or true?(right, a, b)
end

defmodule BeTreeExchange.ClusterTest do
  use ExUnit.Case

  alias BeTreeExchange.Test.{Broker, Client}

  @arguments [{"x-schema", ~s({"price": "float"})}]
  # More with BE_TREE_BROKER_ROUNDS.
  @rounds String.to_integer(System.get_env("BE_TREE_BROKER_ROUNDS", "25"))

  setup do
    on_exit(fn -> for number <- 1..3, File.dir?(Broker.folder(number)), do: Broker.remove(number) end)
  end

  defp publish(client, price), do: Client.publish(client, "x", headers: [price: price])

  # Binds through one node, publishes through another, unbinds, and publishes again. Returns how often a message was not routed by
  # the new binding, and how often one was by the old.
  defp rounds(binding, publishing, queue, from) do
    results =
      for n <- from..(from + @rounds - 1) do
        :ok = Client.bind(binding, queue, "x", expression: "price = #{n}")
        missed = not publish(publishing, n)
        :ok = Client.unbind(binding, queue, "x", expression: "price = #{n}")
        {missed, publish(publishing, n)}
      end

    {Enum.count(results, &elem(&1, 0)), Enum.count(results, &elem(&1, 1))}
  end

  test "every node uses each binding that any node has acknowledged, also after a kill, a restart and a join" do
    Broker.start(1)
    Broker.start(2, join: 1)
    [first, second] = [Client.open(1), Client.open(2)]
    :ok = Client.declare_exchange(first, "x", @arguments, durable: true)
    :ok = Client.declare_queue(first, "q", durable: true)
    :ok = Client.bind(first, "q", "x", expression: "price > 1000000")

    assert rounds(first, second, "q", 1) == {0, 0}
    assert rounds(second, first, "q", 1_000) == {0, 0}
    assert publish(first, 1_000_001) and publish(second, 1_000_001)

    # Both at once, each with its own bindings.
    tasks =
      for {a, b, n} <- [{1, 2, 10_000}, {2, 1, 20_000}],
          do: Task.async(fn -> rounds(Client.open(a), Client.open(b), "q", n) end)

    assert Task.await_many(tasks, :infinity) == [{0, 0}, {0, 0}]

    # A node that joins has all bindings with its first publish.
    for n <- 1..2_000, do: :ok = Client.bind(first, "q", "x", expression: "price = #{100_000 + n}")
    Broker.start(3, join: 1)
    third = Client.open(3)
    assert publish(third, 100_001) and publish(third, 102_000) and not publish(third, 102_001)
    assert rounds(third, second, "q", 40_000) == {0, 0}
    assert rounds(first, third, "q", 50_000) == {0, 0}

    # While one node is dead the other one changes bindings.
    Broker.kill(2)
    :ok = Client.bind(first, "q", "x", expression: "price = -1")
    :ok = Client.unbind(first, "q", "x", expression: "price > 1000000")
    assert publish(first, -1) and not publish(first, 1_000_001)
    Broker.start(2)
    second = Client.open(2)
    assert publish(second, -1)
    refute publish(second, 1_000_001)
    assert rounds(second, first, "q", 30_000) == {0, 0}

    # All nodes are killed at once.
    for number <- 1..3, do: Broker.kill(number)
    for number <- 1..3, do: Broker.launch(number)
    for number <- 1..3, do: Broker.await(number)

    for number <- 1..3 do
      client = Client.open(number)
      assert publish(client, -1) and publish(client, 101_234) and not publish(client, 1_000_001)
    end

    assert rounds(Client.open(2), Client.open(3), "q", 60_000) == {0, 0}
  end
end

defmodule BeTreeExchange.WaitingTest do
  # What publishers wait for while a node has no index, or the plugin does not run.
  use ExUnit.Case

  alias BeTreeExchange.{Follower, Readiness}
  alias BeTreeExchange.Test.{Broker, Client}

  import BeTreeExchange.Records, only: [resource: 1]

  @schema {"x-schema", ~s({"price": "float"})}

  setup_all do
    Broker.start(1)
    Broker.start(2, join: 1)
    on_exit(fn -> for number <- 1..2, do: Broker.remove(number) end)
  end

  setup context do
    [first, second] = [Client.open(1), Client.open(2)]
    on_exit(fn -> for client <- [first, second], do: Client.close(client) end)
    name = "waiting_#{System.unique_integer([:positive])}"

    :ok =
      Client.declare_exchange(first, name, [@schema, {"x-while-building", context[:while_building] || "wait"}],
        durable: true
      )

    :ok = Client.declare_queue(first, name, durable: true)
    for n <- 1..50, do: :ok = Client.bind(first, name, name, expression: "price = #{n}")
    assert Client.publish(first, name, headers: [price: 1])
    Broker.eventually(fn -> Client.publish(second, name, headers: [price: 50]) end)
    [first: first, second: second, name: name]
  end

  # The second node has no index of the exchange, and its follower starts none until it goes on.
  defp hold_without_index(name) do
    exchange = resource(virtual_host: "/", kind: :exchange, name: name)
    :ok = Broker.rpc(2, Follower, :forget, [exchange])
    :ok = Broker.rpc(2, :sys, :suspend, [Follower])
  end

  defp go_on, do: :ok = Broker.rpc(2, :sys, :resume, [Follower])

  # Publishes through the second node from a process and a connection of its own.
  defp publish_beside(name, headers) do
    Task.async(fn ->
      client = Client.open(2)
      Client.publish(client, name, headers: headers)
    end)
  end

  describe "a publish on a node without an index" do
    test "waits for the build, and holds neither other channels nor other exchanges", context do
      %{second: second, name: name} = context
      other = "direct_#{name}"
      :ok = Client.declare_exchange(second, other, [], type: "direct")
      :ok = Client.bind(second, name, other, [], "key")
      hold_without_index(name)
      waiting = publish_beside(name, price: 25)
      not_matching = publish_beside(name, price: 1_000)

      for _ <- 1..100, do: assert(Client.publish(second, other, key: "key"))
      assert {Task.yield(waiting, 0), Task.yield(not_matching, 0)} == {nil, nil}
      go_on()
      assert Task.await(waiting, :infinity)
      refute Task.await(not_matching, :infinity)
    end

    @tag while_building: "last"
    test "is routed by another node with x-while-building=last", %{first: first, second: second, name: name} do
      Client.purge(first, name)
      hold_without_index(name)
      assert Client.publish(second, name, headers: [price: 25])
      refute Client.publish(second, name, headers: [price: 1_000])
      assert Client.purge(first, name) == 1
      go_on()
      assert Client.publish(second, name, headers: [price: 25])
    end
  end

  describe "a publish while the plugin does not run" do
    test "waits until the plugin has started", %{name: name} do
      :ok = Broker.rpc(2, :supervisor, :terminate_child, [BeTreeExchange.Supervisor, Follower])
      waiting = publish_beside(name, price: 25)
      # The message waits once the process for which it waits knows of it.
      Broker.eventually(fn -> Broker.rpc(2, :sys, :get_state, [Readiness]) != [] end)
      assert Task.yield(waiting, 0) == nil
      {:ok, _pid} = Broker.rpc(2, :supervisor, :restart_child, [BeTreeExchange.Supervisor, Follower])
      assert Task.await(waiting, :infinity)
    end
  end

  describe "an index that missed changes" do
    test "has all bindings with the next publish", %{first: first, second: second, name: name} do
      hold_without_index(name)
      :ok = Client.bind(first, name, name, expression: "price = 1001")
      :ok = Client.unbind(first, name, name, expression: "price = 17")
      go_on()
      assert Client.publish(second, name, headers: [price: 1_001])
      refute Client.publish(second, name, headers: [price: 17])
    end
  end
end

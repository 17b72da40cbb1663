defmodule BeTreeExchange.RoundsTest do
  # A round binds through one node, publishes through another, unbinds, and publishes again. Two nodes of three make rounds while the
  # third is restarted, killed, cut off, or replaced by a new one.
  use ExUnit.Case

  alias BeTreeExchange.Test.{Broker, Client, Cluster}

  @options [partition_handling: :pause_minority]

  # Rolling restart first. All again until this many rounds are made. With Khepri a node that is cut off goes on.
  @events [restart: 0, restart: 1, restart: 2, kill: 0, replace: 2] ++ if(Broker.khepri?(), do: [], else: [cut: 1])
  @rounds String.to_integer(System.get_env("BE_TREE_BROKER_ROUNDS", "100"))

  @tag timeout: :infinity
  test "no round misses its binding or finds it stale, whatever happens to the third node" do
    numbers = Cluster.start(:pause_minority)
    events = for {kind, index} <- @events, do: {kind, Enum.at(numbers, index), List.delete_at(numbers, index)}
    counts = Enum.reduce_while(Stream.cycle([events]), %{}, &all_events/2)
    assert %{missed: 0, stale: 0} = counts
  end

  defp all_events(events, counts) do
    counts = Enum.reduce(events, counts, fn event, counts -> event |> during() |> Map.merge(counts, &add/3) end)
    IO.puts("rounds: #{inspect(counts)}")
    if counts.rounds < @rounds, do: {:cont, counts}, else: {:halt, counts}
  end

  defp add(_name, count, other), do: count + other

  # Makes rounds in both directions until the event is over.
  defp during({_kind, _number, [a, b]} = event) do
    over = :atomics.new(1, [])
    tasks = for {binding, publishing, from} <- [{a, b, 100}, {b, a, 200}], do: rounds(binding, publishing, from, over)
    happen(event)
    Cluster.await_whole()
    :atomics.put(over, 1, 1)
    [one, other] = Task.await_many(tasks, :infinity)
    Cluster.assert_whole()
    Map.merge(one, other, &add/3)
  end

  defp happen({:restart, number, _others}) do
    Broker.stop(number)
    Broker.start(number, @options)
  end

  defp happen({:kill, number, _others}) do
    Broker.kill(number)
    Broker.start(number, @options)
  end

  defp happen({:cut, number, others}) do
    Broker.cut(number, others)
    Broker.eventually(fn -> Broker.rpc(number, :rabbit, :is_running, []) == false end)
    Broker.heal(number, others)
  end

  defp happen({:replace, number, [other, _another]}) do
    Broker.remove(number)
    Broker.forget(other, number)
    Broker.start(number, [join: other] ++ @options)
  end

  # Each direction has a queue on the node that binds, and one binding that stays.
  defp rounds(binding, publishing, from, over) do
    Task.async(fn ->
      [binder, publisher] = [Client.open(binding), Client.open(publishing)]
      queue = "q#{binding}"
      :ok = Client.declare_queue(binder, queue, durable: true)
      :ok = Client.bind(binder, queue, "x", expression: "a = #{binding}")
      count(binder, publisher, queue, from, over, %{rounds: 0, missed: 0, stale: 0})
    end)
  end

  defp count(binder, publisher, queue, from, over, counts) do
    a = from + rem(counts.rounds, 100)
    :ok = Client.bind(binder, queue, "x", expression: "a = #{a}")
    missed = if Client.publish(publisher, "x", headers: [a: a]), do: 0, else: 1
    :ok = Client.unbind(binder, queue, "x", expression: "a = #{a}")
    stale = if Client.publish(publisher, "x", headers: [a: a]), do: 1, else: 0
    counts = %{rounds: counts.rounds + 1, missed: counts.missed + missed, stale: counts.stale + stale}

    if :atomics.get(over, 1) == 1 do
      Enum.each([binder, publisher], &Client.close/1)
      counts
    else
      count(binder, publisher, queue, from, over, counts)
    end
  end
end

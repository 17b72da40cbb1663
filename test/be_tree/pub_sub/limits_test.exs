defmodule BeTree.PubSub.LimitsTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Kill, PubSubs, Quiet}

  alias BeTree.PubSub
  alias BeTree.PubSub.{Credit, Disconnected, Gauge, Message, Table}

  @limit 100

  setup :quiet

  # A subscriber that runs functions, and one that receives nothing until it is resumed.
  defp subscriber(name, options \\ []) do
    actor = actor()
    run(actor, fn -> PubSub.subscribe!(name, "a > 0", options) end)
    actor
  end

  defp publish(name, events), do: for(a <- events, do: PubSub.publish!(name, %{a: a}))

  defp waiting(pid), do: Credit.length_of(pid)

  # Whether the gauge has closed the account of a process.
  defp full?(name, pid), do: :ets.member(table(name).full, pid)

  test "a suspended subscriber gets its limit, and the number of dropped messages when it continues" do
    name = start(limit: @limit)
    [slow, quick] = for _number <- 1..2, do: subscriber(name)
    true = :erlang.suspend_process(slow)
    publish(name, 1..(3 * @limit))
    assert waiting(slow) == @limit
    assert run(quick, fn -> length(messages()) end) > 0
    eventually(fn -> PubSub.stats!(name).full >= 1 and full?(name, slow) end)
    before = PubSub.stats!(name)
    assert before.dropped >= 2 * @limit
    assert before.delivered + before.dropped == 2 * 3 * @limit

    :erlang.resume_process(slow)
    assert run(slow, fn -> for(%{event: %{a: a}, dropped: 0} <- messages(), do: a) end) == Enum.to_list(1..@limit)
    eventually(fn -> PubSub.stats!(name).full == 0 end)
    publish(name, [1_000])
    assert %Message{event: %{a: 1_000}, dropped: dropped} = run(slow, &message/0)
    assert dropped == 2 * @limit
    publish(name, [1_001])
    assert %Message{event: %{a: 1_001}, dropped: 0} = run(slow, &message/0)
  end

  test "messages of other senders count" do
    name = start(limit: @limit)
    slow = subscriber(name)
    true = :erlang.suspend_process(slow)
    for number <- 1..(2 * @limit), do: send(slow, {:other, number})
    publish(name, 1..(@limit + 1))
    # The publisher looked when it had sent its limit.
    assert waiting(slow) == 3 * @limit
    assert PubSub.stats!(name).dropped == 1
  end

  test "a subscriber that keeps up misses nothing, however many messages it gets" do
    name = start(limit: 10)
    quick = subscriber(name)

    for a <- 1..1_000 do
      publish(name, [a])
      assert %Message{event: %{a: ^a}, dropped: 0} = run(quick, &message/0)
    end

    assert %{dropped: 0, delivered: 1_000, full: 0} = PubSub.stats!(name)
  end

  test "a full subscriber is open again when half of its limit waits" do
    name = start(limit: @limit)
    slow = subscriber(name)
    true = :erlang.suspend_process(slow)
    publish(name, 1..(@limit + 1))
    eventually(fn -> full?(name, slow) end)
    receive_some = fn count -> for _number <- 1..count, do: message() end
    :erlang.resume_process(slow)
    run(slow, fn -> receive_some.(div(@limit, 2) - 10) end)
    publish(name, [1])
    assert full?(name, slow)
    run(slow, fn -> receive_some.(10) end)
    eventually(fn -> not full?(name, slow) end)
    publish(name, [5_000])

    assert run(slow, fn -> List.last(messages()) end) == %Message{
             pubsub: name,
             event: %{a: 5_000},
             tags: [nil],
             dropped: 2
           }
  end

  test "the limit of a subscription is that of its process, and the last one counts" do
    name = start(limit: @limit)
    slow = subscriber(name, limit: 7)
    run(slow, fn -> PubSub.subscribe!(name, "a > 1") end)
    true = :erlang.suspend_process(slow)
    publish(name, 1..20)
    assert waiting(slow) == 7
    :erlang.resume_process(slow)
    run(slow, &messages/0)
    eventually(fn -> not full?(name, slow) end)
    run(slow, fn -> PubSub.subscribe!(name, "a > 2", limit: 30) end)
    publish(name, 1..7)
    run(slow, &messages/0)
    true = :erlang.suspend_process(slow)
    publish(name, 1..60)
    assert waiting(slow) in 30..37
    :erlang.resume_process(slow)
  end

  test "with overflow: :disconnect a full subscriber is told, and forgotten" do
    name = start(limit: @limit, overflow: :disconnect)
    slow = subscriber(name)
    quick = subscriber(name, overflow: :drop_new)
    true = :erlang.suspend_process(slow)
    publish(name, 1..(@limit + 5))
    run(quick, &messages/0)
    settle(name, 1, 1)
    :erlang.resume_process(slow)
    assert length(run(slow, &messages/0)) == @limit

    assert %Disconnected{pubsub: ^name, dropped: dropped} =
             run(slow, fn -> receive(do: (%Disconnected{} = last -> last)) end)

    assert dropped in 1..5
    run(quick, &messages/0)
    publish(name, [1])
    assert run(slow, &messages/0) == []
    run(slow, fn -> PubSub.subscribe!(name, "a > 0") end)
    publish(name, [2])
    assert [%Message{event: %{a: 2}, dropped: 0}] = run(slow, &messages/0)
  end

  test "a killed gauge is followed by one that watches the same subscribers" do
    name = start(limit: @limit)
    slow = subscriber(name)
    true = :erlang.suspend_process(slow)
    publish(name, 1..(@limit + 1))
    eventually(fn -> full?(name, slow) end)
    gauge = Table.process(name, :gauge)
    {:links, links} = Process.info(gauge, :links)
    [watcher] = links -- processes_and_self(name)
    kill(watcher)
    kill(gauge)
    eventually(fn -> Table.process(name, :gauge) != gauge end)
    assert full?(name, slow)
    :erlang.resume_process(slow)
    run(slow, &messages/0)
    eventually(fn -> not full?(name, slow) end)
    publish(name, [1])
    assert %Message{dropped: 1} = run(slow, &message/0)
  end

  defp processes_and_self(name), do: [Process.whereis(name) | processes(name)]

  test "a subscriber that ends while it is full leaves nothing" do
    name = start(limit: @limit)
    slow = subscriber(name)
    true = :erlang.suspend_process(slow)
    publish(name, 1..(@limit + 1))
    eventually(fn -> full?(name, slow) end)
    stop(slow)
    settle(name, 0, 0)
    gauge = Table.process(name, :gauge)
    assert :sys.get_state(gauge).watchers == %{}
  end

  test "concurrent publishers do not exceed the limit" do
    name = start(limit: @limit)
    slow = subscriber(name)
    true = :erlang.suspend_process(slow)
    1..8 |> Enum.map(fn _number -> Task.async(fn -> publish(name, 1..200) end) end) |> Task.await_many(60_000)
    assert waiting(slow) == @limit
    assert %{delivered: @limit, dropped: 1_500} = PubSub.stats!(name)
  end

  test "the gauge ignores a report about a process that is not full" do
    name = start(limit: @limit)
    quick = subscriber(name)
    [{^quick, credit, _monitor}] = :ets.lookup(table(name).subscribers, quick)
    Gauge.full(name, quick, credit, :unknown)
    :sys.get_state(Table.process(name, :gauge))
    eventually(fn -> not full?(name, quick) end)
    publish(name, [1])
    assert %Message{dropped: 0} = run(quick, &message/0)
  end
end

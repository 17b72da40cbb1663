defmodule BeTree.PubSub.HistoryTest do
  @moduledoc """
  Concurrent subscribers and publishers, with and without kills, against the guarantees: a subscription that was made before an
  event is published hears it, and one that was ended before does not.
  """
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Kill, PubSubs, Quiet}

  alias BeTree.PubSub
  alias BeTree.Test.Attack

  @subscribers 6
  @publishers 3
  @events Attack.size(300, 2_000)
  @values 8
  @kills Attack.size(40, 1_000)
  # The value of events and subscriptions that are not checked.
  @unchecked 1_000

  setup :quiet

  test "without kills" do
    name = start(schema: [a: :integer, number: :integer], limit: 1_000_000)
    check(name, fn -> :ok end)
    settle(name, 0, 0)
  end

  test "while processes of the pubsub, other subscribers and other publishers are killed" do
    check_with_kills(fn name -> processes(name) end)
  end

  # Tables of the index end with its supervisor. Processes of a former index may run on for a moment.
  test "while processes of its index, other subscribers and other publishers are killed" do
    check_with_kills(fn name ->
      with {:ok, table} <- PubSub.Table.fetch(name), pid when is_pid(pid) <- Process.whereis(table.index) do
        processes(table.index)
      else
        _no_index -> []
      end
    end)
  end

  defp check_with_kills(killed) do
    name = start(schema: [a: :integer, number: :integer], limit: 1_000_000)
    count = length(processes(name))
    stop = :atomics.new(1, [])
    victims = for _number <- 1..2, do: Task.async(fn -> victims(name, stop) end)

    check(name, fn ->
      for _kill <- 1..@kills do
        # The process may be gone already.
        with [_ | _] = pids <- killed.(name), do: pids |> Enum.random() |> Process.exit(:kill)
        Process.sleep(:rand.uniform(8))
      end
    end)

    :atomics.put(stop, 1, 1)
    Task.await_many(victims, :infinity)
    settle(name, 0, 0)
    eventually(fn -> length(processes(name)) == count end)
  end

  # Starts processes that subscribe and publish, and kills them at any moment, one after the other.
  defp victims(name, stop) do
    victim = spawn(fn -> subscribe_and_publish(name, 1) end)
    Process.sleep(:rand.uniform(20))
    kill(victim)
    if :atomics.get(stop, 1) == 0, do: victims(name, stop)
  end

  defp subscribe_and_publish(name, number) do
    subscription = PubSub.subscribe!(name, "a = #{@unchecked}")
    PubSub.publish!(name, %{a: @unchecked, number: number}, timeout: :infinity)
    if rem(number, 3) == 0, do: PubSub.unsubscribe!(name, subscription)
    subscribe_and_publish(name, number + 1)
  end

  # Runs subscribers and publishers beside `disturb`, and checks what each subscriber received.
  defp check(name, disturb) do
    stop = :atomics.new(1, [])
    steady = for _number <- 1..2, do: steady_subscriber(name, stop)
    disturber = Task.async(fn -> disturb.() end)
    subscribers = for _number <- 1..@subscribers, do: Task.async(fn -> subscriber(name, stop) end)
    publishers = for number <- 1..@publishers, do: Task.async(fn -> publish(name, number, disturber.pid) end)
    events = publishers |> Task.await_many(:infinity) |> Enum.concat()
    Task.await(disturber, :infinity)
    :atomics.put(stop, 1, 1)

    heard =
      for {subscriptions, messages} <- Task.await_many(steady ++ subscribers, :infinity),
          do: compare(events, subscriptions, messages)

    # The two steady subscribers are certain to hear each event, so the test is no empty one.
    assert Enum.sum(heard) > length(events)
  end

  # Starts a subscriber that keeps one subscription, to all values, from now on.
  defp steady_subscriber(name, stop) do
    test = self()

    task =
      Task.async(fn ->
        called = now()
        subscription = PubSub.subscribe!(name, "a in (#{Enum.join(1..@values, ", ")})", tag: 1)
        entry = {1, Enum.to_list(1..@values), subscription, {called, now()}}
        send(test, {:subscribed, self()})
        await(stop)
        messages = messages()
        PubSub.unsubscribe!(name)
        {[ended(entry, {now(), now()})], messages}
      end)

    receive(do: ({:subscribed, pid} when pid == task.pid -> task))
  end

  defp await(stop) do
    if :atomics.get(stop, 1) == 0 do
      Process.sleep(10)
      await(stop)
    end
  end

  # Publishes events until the disturbance has ended. Returns each with the times before and after.
  defp publish(name, publisher, disturber, number \\ 1, events \\ []) do
    if number > @events and not Process.alive?(disturber) do
      events
    else
      if number > @events, do: Process.sleep(10)
      event = %{a: :rand.uniform(@values), number: @publishers * number + publisher}
      called = now()

      if rem(number, 5) == 0,
        do: PubSub.publish_many!(name, [event], timeout: :infinity),
        else: PubSub.publish!(name, event, timeout: :infinity)

      publish(name, publisher, disturber, number + 1, [{event, called, now()} | events])
    end
  end

  # Makes and ends subscriptions. Returns them with the times before and after each call, and the messages.
  defp subscriber(name, stop), do: subscriber(name, stop, [], [], 1)

  defp subscriber(name, stop, present, ended, tag) do
    # Bounds the history, which the number of kills may make long.
    if tag > @events, do: Process.sleep(10)

    cond do
      :atomics.get(stop, 1) == 1 ->
        # All publishers have returned, so their messages are in the mailbox.
        messages = messages()
        PubSub.unsubscribe!(name)
        {Enum.map(present, &ended(&1, {now(), now()})) ++ ended, messages}

      length(present) < 3 or (length(present) < 8 and :rand.uniform(2) == 1) ->
        values = Enum.take_random(1..@values, :rand.uniform(3))
        called = now()
        subscription = PubSub.subscribe!(name, "a in (#{Enum.join(values, ", ")})", tag: tag)
        subscriber(name, stop, [{tag, values, subscription, {called, now()}} | present], ended, tag + 1)

      :rand.uniform(20) == 1 ->
        called = now()
        PubSub.unsubscribe!(name)
        times = {called, now()}
        subscriber(name, stop, [], Enum.map(present, &ended(&1, times)) ++ ended, tag)

      true ->
        {_tag, _values, subscription, _times} = entry = Enum.random(present)
        called = now()
        PubSub.unsubscribe!(name, subscription)
        subscriber(name, stop, List.delete(present, entry), [ended(entry, {called, now()}) | ended], tag)
    end
  end

  # Adds the times before and after the call that ended a subscription.
  defp ended({tag, values, subscription, made}, times), do: {tag, values, subscription, made, times}

  defp now, do: System.monotonic_time()

  # Returns how many tags were certain to be heard.
  defp compare(events, subscriptions, messages) do
    numbers = for %{event: %{number: number}} <- messages, do: number
    assert Enum.uniq(numbers) == numbers
    assert Enum.all?(messages, &(&1.dropped == 0))
    tags = Map.new(messages, &{&1.event.number, &1.tags})

    by_value =
      for({_, values, _, _, _} = entry <- subscriptions, value <- values, do: {value, entry})
      |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))

    for {%{a: a, number: number}, called, returned} <- events, reduce: 0 do
      sum ->
        heard = Map.get(tags, number, [])
        assert Enum.sort(heard) == heard
        matching = Map.get(by_value, a, [])
        must = for {tag, _values, _, {_, made}, {ended, _}} <- matching, made < called and ended > returned, do: tag
        may = for {tag, _values, _, {made, _}, {_, ended}} <- matching, made < returned and ended > called, do: tag
        assert must -- heard == [], "event #{number} missed subscriptions"
        assert heard -- may == [], "event #{number} was heard by other subscriptions"
        sum + length(must)
    end
  end
end

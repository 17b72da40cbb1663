defmodule BeTree.Search.SourceTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Logs

  alias BeTree.Error

  setup do
    tree = BeTree.new!(a: :integer)
    BeTree.insert!(tree, 1, "a > 0")
    {:ok, tree: tree, index: BeTree.publish!(tree)}
  end

  # A source of the events 1..count, which then waits for a message to its process: `:go` ends it, and `{:events, events}` are events.
  # It tells the test when it starts and when its after function runs, each with the process in which it does.
  defp source(count, test \\ self()) do
    Stream.resource(
      fn ->
        send(test, {:started, self()})
        1
      end,
      fn
        n when n <= count ->
          {[%{a: n}], n + 1}

        n ->
          receive do
            :go -> {:halt, n}
            {:events, events} -> {events, n + length(events)}
            {:raise, kind, reason} -> :erlang.raise(kind, reason, [])
          end
      end,
      fn n -> send(test, {:closed, n, self()}) end
    )
  end

  # Consumes in another process, which sends each pair to the test, and then what the stream has left in it.
  defp consume(stream, test \\ self()) do
    spawn(fn ->
      Enum.each(stream, &send(test, {:result, &1}))
      send(test, {:end, Process.info(self(), [:messages, :monitors, :links])})
    end)
  end

  defp results(numbers), do: for(n <- numbers, do: assert_receive({:result, {%{a: ^n}, {:ok, [1]}}}, 60_000))
  defp nothing_left, do: [messages: [], monitors: [], links: []]

  defp started do
    assert_receive {:started, reader}, 60_000
    reader
  end

  defp dead?(pid) do
    monitor = Process.monitor(pid)
    assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, 60_000
    true
  end

  describe "a source that is quiet after many events" do
    test "returns the results of a burst before the next event of the source", %{tree: tree, index: index} do
      for target <- [tree, index], count <- [1, 2, 3, 255, 511, 700, 767, 1_023], options <- [[], [timeout: 60_000]] do
        consume(BeTree.stream(target, source(count), options))
        reader = started()
        # All results arrive before the source goes on.
        results(1..count)
        send(reader, {:events, [%{a: 5}, %{a: 6}]})
        results(5..6)
        send(reader, {:events, for(a <- 1..300, do: %{a: a})})
        results(1..300)
        send(reader, :go)
        assert_receive {:end, left}, 60_000
        assert left == nothing_left()
        assert_receive {:closed, _, ^reader}
      end
    end

    test "delays no result with several searching processes", %{index: index} do
      for concurrency <- [1, 2, 3, 8] do
        consume(BeTree.stream(index, source(2_000), max_concurrency: concurrency, linger: 1))
        reader = started()
        results(1..2_000)
        send(reader, :go)
        assert_receive {:end, left}, 60_000
        assert left == nothing_left()
      end
    end

    test "leaves a consumer that traps exits no message of a searching process", %{index: index} do
      Process.flag(:trap_exit, true)

      for _round <- 1..20, take <- [1_000, 2_000], linger <- [1, :infinity] do
        events = Stream.map(1..2_000, &%{a: &1})
        pairs = index |> BeTree.stream(events, max_concurrency: 8, linger: linger) |> Enum.take(take)
        assert length(pairs) == take
        assert Process.info(self(), [:messages, :monitors, :links]) == nothing_left()
      end
    end

    test "delays no result of a server" do
      name = :"source_#{System.unique_integer([:positive])}"
      start_supervised!({BeTree.Server, name: name, schema: [a: :integer]})
      BeTree.insert!(name, 1, "a > 0")
      consume(BeTree.stream(name, source(700)))
      reader = started()
      results(1..700)
      send(reader, :go)
      assert_receive {:end, left}, 60_000
      assert left == nothing_left()
    end

    test "delays no error of an event", %{index: index} do
      consume(BeTree.stream(index, source(10)))
      reader = started()
      results(1..10)
      events = for n <- 1..600, do: if(rem(n, 3) == 0, do: %{}, else: %{a: n})
      send(reader, {:events, events})

      for event <- events do
        assert_receive {:result, {^event, result}}, 60_000

        if event == %{},
          do: assert({:error, %Error{kind: :missing_attribute}} = result),
          else: assert(result == {:ok, [1]})
      end

      send(reader, :go)
      assert_receive {:end, _left}, 60_000
    end
  end

  describe "linger:" do
    test "with 0 or :infinity runs the source in the consumer", %{index: index} do
      for linger <- [0, :infinity] do
        consumer = consume(BeTree.stream(index, source(3), linger: linger))
        assert started() == consumer
        send(consumer, :go)
        results(1..3)
        assert_receive {:end, left}, 60_000
        assert left == nothing_left()
        assert_receive {:closed, 4, ^consumer}
      end
    end

    test "with 0 searches each event before the source is asked for the next", %{index: index} do
      consumer = consume(BeTree.stream(index, source(700), linger: 0))
      results(1..700)
      send(consumer, {:events, [%{a: 5}]})
      results([5])
      send(consumer, :go)
      assert_receive {:end, _left}, 60_000
    end

    test "is of no effect on collections in memory", %{index: index} do
      me = self()
      pair = {%{a: 1}, {:ok, [1]}}

      for events <- [List.duplicate(%{a: 1}, 300), MapSet.new([%{a: 1}])], linger <- [0, 5, :infinity] do
        assert index |> BeTree.stream(events, linger: linger) |> Enum.uniq() == [pair]
      end

      # A map that is computed lazily runs elsewhere.
      assert [_pair] =
               index |> BeTree.stream(Stream.map([1], fn a -> send(me, {:in, self()}) && %{a: a} end)) |> Enum.to_list()

      assert_received {:in, reader}
      assert reader != self()
    end

    test "refuses what is no time", %{tree: tree} do
      for linger <- [-1, 1.5, nil, "5"] do
        assert_raise ArgumentError, ~r/:linger/, fn -> BeTree.stream(tree, [], linger: linger) end
      end
    end
  end

  describe "a consumer that halts" do
    test "closes the source in its own process", %{index: index} do
      for count <- [1, 3, 5, 700, 5_000] do
        assert index |> BeTree.stream(source(100_000)) |> Enum.take(count) |> length() == count
        reader = started()
        assert_received {:closed, n, ^reader}
        assert n > count and n <= count + 256 * 8
        assert dead?(reader)
      end

      refute_received {:closed, _n, _process}
    end

    test "closes a source that is blocked", %{index: index} do
      before = Process.info(self(), [:monitors, :links])
      assert index |> BeTree.stream(source(700)) |> Enum.take(700) |> length() == 700
      assert_received {:started, reader}
      assert_received {:closed, 701, _process}
      refute Process.alive?(reader)
      assert Process.info(self(), [:monitors, :links, :messages]) == before ++ [messages: []]
    end

    test "frees what the process of a blocked source owns", %{index: index} do
      me = self()

      stuck = fn ->
        Stream.resource(
          fn -> send(me, {:opened, :ets.new(:table, [:protected]), self()}) end,
          fn {:opened, _table, _reader} = acc ->
            if Process.put(:begun, true), do: block(me)
            {[%{a: 1}], acc}
          end,
          # Only the owner may write to the table.
          fn {:opened, table, _reader} -> :ets.insert(table, {:closed}) end
        )
      end

      stream = BeTree.stream(index, twice(stuck))
      {pairs, [line]} = with_log("a stream was blocked", fn -> stream |> once_blocked() |> Enum.take(2) end)
      assert pairs == List.duplicate({%{a: 1}, {:ok, [1]}}, 2)
      assert_received {:opened, table, reader}
      assert :ets.info(table) == :undefined
      refute Process.alive?(reader)
      assert line =~ "after function failed in another process: it raised ArgumentError: "
      assert line =~ "source_test.exs:"
      assert Process.info(self(), :messages) == {:messages, []}
    end

    defp block(consumer) do
      send(consumer, :blocked)
      Process.sleep(:infinity)
    end

    # Passes the second result on when the source is blocked.
    defp once_blocked(stream) do
      stream
      |> Stream.with_index(1)
      |> Stream.map(fn
        {pair, 2} -> receive(do: (:blocked -> pair))
        {pair, _position} -> pair
      end)
    end

    # The second event comes with the first, so that the consumer halts while the source is blocked.
    defp twice(source), do: source.() |> Stream.flat_map(&[&1, &1])

    test "raises what the after function raises", %{index: index} do
      failing = Stream.resource(fn -> 1 end, &{[%{a: &1}], &1 + 1}, fn _ -> throw(:not_closed) end)
      assert catch_throw(index |> BeTree.stream(failing) |> Enum.take(3)) == :not_closed
      assert Process.info(self(), :messages) == {:messages, []}
    end

    test "sees no failure of the source behind its last event", %{index: index} do
      failing = Stream.map(1..10, &if(&1 == 10, do: raise("late"), else: %{a: &1}))
      assert index |> BeTree.stream(failing) |> Enum.take(9) |> length() == 9
      assert Process.info(self(), :messages) == {:messages, []}
    end

    test "by an exception closes the source", %{index: index} do
      assert_raise RuntimeError, "enough", fn ->
        index |> BeTree.stream(source(100_000)) |> Stream.drop(2_000) |> Enum.each(fn _pair -> raise "enough" end)
      end

      reader = started()
      assert_received {:closed, _n, ^reader}
      assert dead?(reader)
    end
  end

  describe "a source that fails" do
    test "raises in the consumer, after the results of the events before", %{tree: tree, index: index} do
      for target <- [tree, index], count <- [0, 1, 2, 300, 700] do
        for {kind, reason} <- [error: %KeyError{key: :a}, throw: :thrown, exit: :gone, exit: :normal] do
          test = self()

          events = Stream.map(1..(count + 1), fn a -> if a > count, do: fail(kind, reason), else: %{a: a} end)

          {caught, caught_reason, stack} =
            try do
              target |> BeTree.stream(events) |> Enum.each(&send(test, {:result, &1}))
            catch
              kind, reason -> {kind, reason, __STACKTRACE__}
            end

          assert {caught, caught_reason} == {kind, reason}
          assert Enum.any?(stack, &match?({__MODULE__, :fail, 2, _location}, &1))
          results(1..count//1)
          assert Process.info(self(), :messages) == {:messages, []}
        end
      end
    end

    # Not in tail position, so that the stack has this function.
    defp fail(kind, reason) do
      :erlang.raise(kind, reason, [{__MODULE__, :fail, 2, []}])
    end

    test "by the end of a linked process exits", %{index: index} do
      linked = Stream.map([1], fn _ -> spawn_link(fn -> exit(:lost) end) && Process.sleep(:infinity) end)
      assert catch_exit(index |> BeTree.stream(linked) |> Enum.to_list()) == :lost
      assert Process.info(self(), :messages) == {:messages, []}
    end

    test "while it starts raises", %{index: index} do
      starting = Stream.resource(fn -> raise "no file" end, fn acc -> {:halt, acc} end, fn _ -> :ok end)
      assert_raise RuntimeError, "no file", fn -> index |> BeTree.stream(starting) |> Enum.to_list() end
    end
  end

  describe "the process of a source" do
    test "ends with a consumer that is killed", %{index: index} do
      consumer = consume(BeTree.stream(index, source(700)))
      reader = started()
      results(1..700)
      Process.exit(consumer, :kill)
      assert dead?(reader)
    end

    test "ends with a consumer that ends and leaves the stream suspended", %{index: index} do
      test = self()

      spawn(fn ->
        {:suspended, _, _continuation} =
          Enumerable.reduce(BeTree.stream(index, source(1, test)), {:cont, nil}, fn pair, _ -> {:suspend, pair} end)
      end)

      assert dead?(started())
    end

    test "ends with consumers that are killed or halt at any moment", %{index: index} do
      test = self()
      :rand.seed(:exsss, 52)

      # The links of a reader are its buffer.
      events = fn count ->
        Stream.transform(source(count, test), nil, fn event, _ ->
          if event.a == 1, do: send(test, {:linked, Process.info(self(), :links)})
          {[event], nil}
        end)
      end

      for _ <- 1..300 do
        count = :rand.uniform(700)
        stop = :rand.uniform(count)
        stream = index |> BeTree.stream(events.(count), max_concurrency: 2, linger: 1) |> Stream.take(stop)
        consumer = spawn(fn -> Enum.each(stream, &send(test, &1)) end)
        for _ <- 1..:rand.uniform(stop), do: assert_receive({%{a: _}, {:ok, [1]}}, 60_000)
        assert_receive {:linked, {:links, [buffer]}}, 60_000
        reader = started()
        Process.exit(consumer, :kill)
        assert dead?(reader)
        assert dead?(buffer)
      end
    end

    test "gets no message but those for the source", %{index: index} do
      any = Stream.repeatedly(fn -> receive(do: (message -> message)) end)

      stream = Stream.resource(fn -> send(self(), %{a: 1}) end, fn acc -> {Enum.take(any, 1), acc} end, fn _ -> :ok end)

      # Each event makes the next.
      events = Stream.each(stream, fn %{a: a} -> send(self(), %{a: a + 1}) end)
      assert index |> BeTree.stream(events) |> Enum.take(3_000) == for(a <- 1..3_000, do: {%{a: a}, {:ok, [1]}})
    end

    test "has the consumer among its callers", %{index: index} do
      test = self()
      stream = BeTree.stream(index, Stream.map([1], &(send(test, Process.get(:"$callers")) && %{a: &1})))
      assert [_pair] = Enum.to_list(stream)
      assert_received [^test | _callers]
    end

    test "reads a bounded number of events for a slow consumer", %{index: index} do
      read = :counters.new(1, [])

      events =
        Stream.map(Stream.iterate(1, &(&1 + 1)), fn a ->
          :counters.add(read, 1, 1)
          %{a: a}
        end)

      index
      |> BeTree.stream(events, max_concurrency: 2)
      |> Stream.with_index(1)
      |> Stream.each(fn {_pair, taken} ->
        if rem(taken, 1_000) == 0, do: Process.sleep(20)
        assert :counters.get(read, 1) - taken <= 256 * 6
      end)
      |> Enum.take(5_000)
    end

    test "holds few large events", %{index: index} do
      read = :counters.new(1, [])
      spaces = String.duplicate(" ", 100_000)

      events =
        Stream.map(Stream.iterate(1, &(&1 + 1)), fn a ->
          :counters.add(read, 1, 1)
          {:json, spaces <> ~s({"a": #{a}})}
        end)

      taken = index |> BeTree.stream(events, max_concurrency: 2) |> Enum.take(200)
      assert Enum.all?(taken, &match?({_event, {:ok, [1]}}, &1))
      assert :counters.get(read, 1) <= 200 + 32
    end
  end

  test "streams of streams return all pairs in order and leave nothing", %{index: index} do
    inner = BeTree.stream(index, Stream.map(1..2_000, &%{a: &1}))
    outer = BeTree.stream(index, Stream.map(inner, fn {event, {:ok, [1]}} -> event end))
    pairs = for a <- 1..2_000, do: {%{a: a}, {:ok, [1]}}
    assert Enum.to_list(outer) == pairs
    assert Enum.take(outer, 1_000) == Enum.take(pairs, 1_000)
    assert Enum.zip(outer, outer) == Enum.zip(pairs, pairs)
    eventually(fn -> Process.info(self(), :messages) == {:messages, []} end)
  end
end

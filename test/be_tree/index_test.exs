defmodule BeTree.IndexTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Holding
  import BeTree.WasmModule

  alias BeTree.{Error, Index, Search}
  alias BeTree.Test.{Language, Random, WasmGuest}
  alias BeTree.Workload.{W1, W3}

  doctest Index

  @event %{a: 2_500, b: true}
  @matches Enum.to_list(2_500..5_000)

  # A tree whose search takes many slices.
  defp tree do
    tree = BeTree.new!(a: :integer, b: {:boolean, optional: true})
    BeTree.insert_all!(tree, for(id <- 1..5_000, do: {id, "not (a > #{id} and b) or a = #{id}"}))
    tree
  end

  defp info(%{runtime: runtime, instance: instance}), do: runtime.info(instance)

  describe "an index returns what its tree returns," do
    test "over the whole language, in every way to search" do
      tree = BeTree.new!(Language.schema())
      BeTree.insert_all!(tree, Language.subscriptions())
      index = BeTree.publish!(tree)
      events = for {_expression, event, _holds} <- Language.rows(), do: event

      for event <- events do
        {:ok, ids, stats} = BeTree.search(tree, event, stats: true)
        assert BeTree.search(index, event, stats: true) == {:ok, ids, stats}
        assert Search.run(index, event, slice: 1_000) == Search.run(tree, event, slice: 1_000)
        some = Enum.take_random(0..length(events), 20)
        assert BeTree.search(index, event, ids: some) == BeTree.search(tree, event, ids: some)
        assert {:done, ^ids, _stats} = Search.run(index, event, slice: 1_000)
      end

      assert BeTree.search_many(index, events) == BeTree.search_many(tree, events)
      assert Enum.to_list(BeTree.stream(index, events)) == Enum.to_list(BeTree.stream(tree, events))
      assert BeTree.info(index) == BeTree.info(tree)

      for {{_expression, event, _holds}, id} <- Enum.with_index(Language.rows()) do
        assert BeTree.explain(index, event, id) == BeTree.explain(tree, event, id)
      end
    end

    for workload <- [W1, W3] do
      test "over #{inspect(workload)}" do
        parameters = Map.merge(unquote(workload).defaults(), %{expressions: 2_000, events: 100})
        tree = BeTree.new!(unquote(workload).schema(parameters))
        texts = parameters |> unquote(workload).expressions() |> Enum.with_index(&{&2 + 1, &1})
        BeTree.insert_all!(tree, texts)
        index = BeTree.publish!(tree)

        for event <- unquote(workload).events(parameters) do
          assert BeTree.search(index, event, stats: true) == BeTree.search(tree, event, stats: true)
        end
      end
    end

    test "errors included" do
      tree = BeTree.new!(a: :integer)
      BeTree.insert!(tree, 1, "a = 1")
      index = BeTree.publish!(tree)

      for event <- [%{}, %{a: "x"}, {:json, "{\"a\": }"}, :nothing] do
        assert {:error, %Error{}} = BeTree.search(index, event)
        assert BeTree.search(index, event) == BeTree.search(tree, event)
      end

      assert BeTree.explain(index, %{a: 1}, 2) == BeTree.explain(tree, %{a: 1}, 2)
      assert {:error, %Error{kind: :out_of_fuel}} = BeTree.search(index, %{a: 1}, fuel: 10)
      assert BeTree.search(index, %{a: 1}) == {:ok, [1]}
    end

    test "after every change of the tree" do
      :rand.seed(:exsss, 1)
      domains = Random.schema()
      tree = BeTree.new!(domains)

      texts = for id <- 1..300, do: {id, Random.text(Random.expression(domains)), constants: Random.constants()}

      events = for _ <- 1..20, do: Random.event(domains)

      versions =
        for part <- Enum.chunk_every(texts, 50) do
          BeTree.insert_all!(tree, part)
          for {id, _text, _options} <- Enum.take_random(part, 10), do: BeTree.delete!(tree, id)
          {BeTree.publish!(tree), BeTree.search_many!(tree, events)}
        end

      for {index, found} <- Enum.shuffle(versions), do: assert(BeTree.search_many!(index, events) == found)
    end
  end

  describe "publish" do
    test "leaves the tree unchanged, and the index misses later changes" do
      tree = BeTree.new!(a: :integer)
      BeTree.insert!(tree, 1, "a = 1")
      index = BeTree.publish!(tree)
      BeTree.insert_all!(tree, for(id <- 2..5_000, do: {id, "a = 1"}))
      BeTree.delete!(tree, 1)
      assert BeTree.search(index, %{a: 1}) == {:ok, [1]}
      assert BeTree.search(tree, %{a: 1}) == {:ok, Enum.to_list(2..5_000)}
      assert BeTree.search(BeTree.publish!(tree), %{a: 1}) == {:ok, Enum.to_list(2..5_000)}
      assert BeTree.info!(index).expressions == 1
    end

    test "accepts an empty tree, and one without attributes" do
      index = BeTree.publish!(BeTree.new!(a: :integer))
      assert BeTree.search(index, %{a: 1}) == {:ok, []}
      assert inspect(index) =~ ~r/^#BeTree.Index<0 expressions, \d+\.\d MB>$/

      tree = BeTree.new!([])
      BeTree.insert!(tree, 1, "true")
      index = BeTree.publish!(tree)
      assert BeTree.search(index, %{}) == {:ok, [1]}
      assert inspect(index) =~ ~r/^#BeTree.Index<1 expression, \d+\.\d MB>$/
    end

    test "waits for the search of another process, but not for the caller's own" do
      tree = tree()
      holder = hold(tree, @event)
      publisher = Task.async(fn -> BeTree.publish!(tree) end)
      eventually(fn -> info(tree).waiting == 1 end)
      release(holder)
      assert BeTree.search(Task.await(publisher, 60_000), @event) == {:ok, @matches}

      {:yield, search} = Search.start(tree, @event, slice: 10_000)
      assert {:error, %Error{kind: :overloaded}} = BeTree.publish(tree)
      Search.cancel(search)
    end

    test "refuses a tree damaged by an interrupted change" do
      tree = tree()
      input = :erlang.term_to_binary(for(id <- 10_000..20_000, do: {id, "a = #{id}", []}))
      # On a normal scheduler a call out of fuel is cut off.
      request = %{input: input, output: :binary, fuel: 1_000_000, slice: :infinity, scheduler: :normal}

      assert {:error, %{kind: :out_of_fuel}} =
               tree.runtime.call(tree.instance, "be_tree_insert", [byte_size(input)], request)

      assert {:error, %Error{kind: :trap}} = BeTree.info(tree)
      assert {:error, %Error{kind: :trap}} = BeTree.publish(tree)
    end

    test "checks its options" do
      tree = BeTree.new!(a: :integer)

      for options <- [[replicas: 0], [replicas: 1.0], [replicas: 65_536], [queue: -1], [queue: :infinity], [size: 1]] do
        assert_raise ArgumentError, fn -> BeTree.publish(tree, options) end
      end

      assert_raise ArgumentError, ~r/a %BeTree.Index{}/, fn -> BeTree.publish(BeTree.publish!(tree)) end
    end

    test "refuses a guest with state outside its memory, and names the state" do
      body = fn more -> WasmGuest.assemble(more[:body] || [], parts: more[:parts] || []) end

      for {more, why} <- [
            {[parts: [memory: [{1, nil}, {1, nil}]]], "it has 2 memories"},
            {[parts: [globals: [{nil, :i32, :mutable, 0}]]], "its mutable global number 1 is not exported"},
            {[parts: [table: 1], body: [i32_const(0), null_function(), table_set()]], "it uses table.set"}
          ] do
        tree = BeTree.new!([], guest: body.(more))
        assert BeTree.search(tree, %{}) == {:ok, WasmGuest.ids()}
        assert {:error, %Error{kind: :bad_module, message: message}} = BeTree.publish(tree)
        assert message =~ why
        assert BeTree.search(tree, %{}) == {:ok, WasmGuest.ids()}
      end

      # Immutable state needs no copy.
      tree = BeTree.new!([], guest: body.(parts: [table: 1, globals: [{nil, :i32, :constant, 0}]]))
      assert BeTree.search(BeTree.publish!(tree), %{}) == {:ok, WasmGuest.ids()}
    end

    test "refuses a guest with malformed counts" do
      guest = WasmGuest.assemble([], parts: [data: []])
      assert {:error, %Error{kind: :bad_module}} = BeTree.publish(BeTree.new!([], guest: guest))
    end
  end

  describe "replicas" do
    test "are made on demand up to the limit, and reused last in, first out" do
      index = BeTree.publish!(tree(), replicas: 3)
      assert %{machines: 1, state: :free} = info(index)
      for _ <- 1..10, do: BeTree.search!(index, @event, slice: 10_000)
      assert %{machines: 1} = info(index)
      holders = for _ <- 1..3, do: hold(index, @event)
      assert %{machines: 3, state: :suspended, waiting: 0} = info(index)
      Enum.each(holders, &release/1)
      eventually(fn -> info(index).state == :free end)
      assert BeTree.search(index, @event) == {:ok, @matches}
    end

    test "run concurrent searches of one process, until it holds all of them" do
      index = BeTree.publish!(tree(), replicas: 2)
      {:yield, one} = Search.start(index, @event, slice: 10_000)
      {:yield, two} = Search.start(index, @event, slice: 10_000)
      assert {:error, %Error{kind: :overloaded}} = Search.start(index, @event)
      Search.cancel(one)
      assert BeTree.search(index, @event) == {:ok, @matches}
      assert finish(two) == @matches
    end

    defp finish(search) do
      case Search.resume(search) do
        {:yield, search} -> finish(search)
        {:done, ids, _stats} -> ids
      end
    end

    test "are granted in order to at most :queue waiting callers" do
      index = BeTree.publish!(tree(), replicas: 1, queue: 20)
      holder = hold(index, @event)
      turns = :counters.new(1, [])

      # Counts the waiting calls while it holds the only replica.
      turn = fn ->
        {:yield, search} = Search.start(index, @event, slice: 10_000)
        before = :counters.get(turns, 1)
        :counters.put(turns, 1, before + 1)
        assert finish(search) == @matches
        before
      end

      waiting =
        for number <- 1..20 do
          task = Task.async(turn)
          eventually(fn -> info(index).waiting == number end)
          task
        end

      assert {:error, %Error{kind: :overloaded, message: message}} = BeTree.search(index, @event)
      assert message =~ "1 replica is in use"
      assert {:error, %Error{kind: :overloaded}} = BeTree.explain(index, @event, 1)
      release(holder)
      assert Task.await_many(waiting, 60_000) == Enum.to_list(0..19)
      assert BeTree.search(index, @event) == {:ok, @matches}
    end

    test "are refused at once with an empty queue" do
      index = BeTree.publish!(tree(), replicas: 2, queue: 0)
      holders = for _ <- 1..2, do: hold(index, @event)
      assert {:error, %Error{kind: :overloaded}} = BeTree.search(index, @event)
      Enum.each(holders, &release/1)
      eventually(fn -> info(index).state == :free end)
      assert BeTree.search(index, @event) == {:ok, @matches}
    end

    for {title, publish} <- [{"a tree", false}, {"an index", true}] do
      test "waiting for #{title} ends at the caller's timeout" do
        tree = tree()
        target = if unquote(publish), do: BeTree.publish!(tree, replicas: 1), else: tree
        holder = hold(target, @event)

        for timeout <- [0, 1, 50] do
          assert {:error, %Error{kind: :timeout, message: message}} = BeTree.search(target, @event, timeout: timeout)
          assert message =~ "#{timeout} ms while it waited"
        end

        assert info(target).waiting == 0
        late = Task.async(fn -> BeTree.search(target, @event, timeout: 60_000) end)
        eventually(fn -> info(target).waiting == 1 end)
        release(holder)
        assert Task.await(late, 60_000) == {:ok, @matches}
        refute_received {_reference, :ready}
      end
    end

    test "return from killed processes, and killed callers leave the queue" do
      index = BeTree.publish!(tree(), replicas: 2, queue: 5)
      holders = for _ <- 1..2, do: hold(index, @event)
      Process.flag(:trap_exit, true)
      waiting = for _ <- 1..5, do: spawn_link(fn -> BeTree.search!(index, @event) end)
      eventually(fn -> info(index).waiting == 5 end)
      for pid <- waiting, do: Process.exit(pid, :kill)
      eventually(fn -> info(index).waiting == 0 end)
      last = Task.async(fn -> BeTree.search(index, @event) end)
      eventually(fn -> info(index).waiting == 1 end)
      for %{pid: pid} <- holders, do: Process.exit(pid, :kill)
      assert Task.await(last, 60_000) == {:ok, @matches}
      eventually(fn -> info(index).state == :free end)
      assert %{machines: 2} = info(index)
    end

    test "are made anew after a trap, also for waiting callers" do
      # Counts what it is asked in its memory, and traps for what is JSON.
      counted = [i32_const(48), i32_const(48), i32_load(), i32_const(1), i32_add(), i32_store()]
      guest = WasmGuest.assemble([counted, unreachable()], when_json: true)
      index = BeTree.publish!(BeTree.new!([], guest: guest), replicas: 2)
      %{memory: memory} = info(index)

      for _ <- 1..50 do
        assert {:error, %Error{kind: :trap}} = BeTree.search(index, {:json, "{}"})
        assert %{machines: 0, state: :free} = info(index)
        assert BeTree.search(index, %{}) == {:ok, WasmGuest.ids()}
        assert %{machines: 1, memory: ^memory} = info(index)
        assert {:ok, <<0, 0, 0, 0>>} = index.runtime.read(index.instance, 48, 4)
      end

      answers =
        1..300
        |> Enum.map(fn number ->
          event = if rem(number, 2) == 0, do: %{}, else: {:json, "{}"}
          {number, Task.async(fn -> BeTree.search(index, event, slice: 1_000) end)}
        end)
        |> Enum.map(fn {number, task} -> {number, Task.await(task, 60_000)} end)

      for {number, answer} <- answers do
        if rem(number, 2) == 0,
          do: assert(answer == {:ok, WasmGuest.ids()}),
          else: assert({:error, %Error{kind: :trap}} = answer)
      end
    end

    test "release their memory after an error of kind :out_of_memory" do
      grow = [loop([i32_const(1), memory_grow(), i32_const(-1), i32_ne(), branch_if(0)]), unreachable()]
      guest = WasmGuest.assemble(grow, when_json: true)
      tree = BeTree.new!([], guest: guest, memory: 50 * 65_536)
      index = BeTree.publish!(tree, replicas: 2)

      for _ <- 1..10 do
        assert {:error, %Error{kind: :out_of_memory}} = BeTree.search(index, {:json, "{}"})
        assert BeTree.search(index, %{}) == {:ok, WasmGuest.ids()}
        eventually(fn -> info(index).memory == 65_536 end)
      end
    end

    test "each have the memory limit of the tree" do
      grow = [i32_const(30), memory_grow(), i32_const(-1), i32_ne(), branch_if(0), unreachable()]
      spin = loop(branch(0))
      guest = WasmGuest.assemble([block([grow]), spin], when_json: true)
      tree = BeTree.new!([], guest: guest, memory: 31 * 65_536)
      index = BeTree.publish!(tree, replicas: 3)
      searches = for _ <- 1..3, do: Search.start(index, {:json, "{}"}, slice: 100_000)
      for {:yield, search} <- searches, do: Search.cancel(search)
      assert length(searches) == 3
      assert info(index).memory == 91 * 65_536
    end
  end

  describe "many processes" do
    test "outnumber the replicas, are killed at random, and return the right ids" do
      tree = tree()
      index = BeTree.publish!(tree, replicas: 3)
      :rand.seed(:exsss, 7)

      for _round <- 1..3 do
        workers =
          for _ <- 1..500 do
            a = Enum.random(1..5_000)
            slice = Enum.random([10_000, 50_000, :infinity])
            spawn_monitor(fn -> exit({:found, a, BeTree.search(index, %{a: a, b: true}, slice: slice)}) end)
          end

        for {pid, _monitor} <- Enum.take_random(workers, 150) do
          if :rand.uniform() < 0.1, do: Process.sleep(1)
          Process.exit(pid, :kill)
        end

        for {pid, monitor} <- workers do
          assert_receive {:DOWN, ^monitor, :process, ^pid, reason}, 30_000

          case reason do
            {:found, a, answer} -> assert answer == {:ok, Enum.to_list(a..5_000)}
            :killed -> :ok
          end
        end

        eventually(fn -> match?(%{state: :free, waiting: 0}, info(index)) end)
        assert info(index).machines <= 3
      end
    end

    test "read only complete versions during publications" do
      tree = BeTree.new!(a: :integer)
      BeTree.insert!(tree, 1, "a = 1")
      :persistent_term.put(__MODULE__, BeTree.publish!(tree))

      readers =
        for _ <- 1..4 do
          Task.async(fn ->
            Enum.reduce_while(Stream.cycle([1]), 0, fn _, least ->
              {:ok, ids} = BeTree.search(:persistent_term.get(__MODULE__), %{a: 1}, slice: 1_000)
              count = length(ids)
              assert ids == Enum.to_list(1..count)
              assert count >= least
              if count < 100, do: {:cont, count}, else: {:halt, :ok}
            end)
          end)
        end

      for id <- 2..100 do
        BeTree.insert!(tree, id, "a = 1")
        :persistent_term.put(__MODULE__, BeTree.publish!(tree))
      end

      assert Task.await_many(readers, 60_000) == List.duplicate(:ok, 4)
      :persistent_term.erase(__MODULE__)
    end
  end

  test "other terms than trees and indexes are refused" do
    for wrong <- [nil, %{}, "a name"] do
      assert_raise ArgumentError, fn -> BeTree.search(wrong, %{}) end
      assert_raise ArgumentError, fn -> BeTree.info(wrong) end
      assert_raise ArgumentError, fn -> BeTree.explain(wrong, %{}, 1) end
      assert_raise ArgumentError, fn -> Search.start(wrong, %{}) end
    end
  end
end

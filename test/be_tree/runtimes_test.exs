defmodule BeTree.RuntimesTest do
  # Behavior of every runtime, tested on each available one.
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Holding
  import BeTree.Test.Reductions
  import BeTree.WasmModule

  alias BeTree.{Error, Runtime, Search, Server}
  alias BeTree.Test.{Runtimes, WasmGuest}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Workload.{W1, W3}

  @event %{a: 2_500, b: true}
  @matches Enum.to_list(2_500..5_000)
  @free 1_000_000_000_000
  @request %{input: nil, output: :none, fuel: :infinity, slice: :infinity, scheduler: :normal}

  defp tree(runtime, options \\ []) do
    tree = BeTree.new!([a: :integer, b: {:boolean, optional: true}], [runtime: runtime] ++ options)
    BeTree.insert_all!(tree, for(id <- 1..5_000, do: {id, "not (a > #{id} and b) or a = #{id}"}))
    tree
  end

  defp info(%{runtime: runtime, instance: instance}), do: runtime.info(instance)

  defp finish({:yield, search}), do: finish(Search.resume(search))
  defp finish(answer), do: answer

  defp instance(runtime, parts, options \\ []) do
    {:ok, compiled} = runtime.load(assemble(parts))
    {:ok, instance} = runtime.instantiate(compiled, Keyword.put_new(options, :memory, 64 * 65_536))
    instance
  end

  # Input is copied into an inbox at 1024; `echo` returns it.
  defp echo(runtime) do
    answer = [i32_const(16), i32_const(1024), i32_store(), i32_const(20), local_get(0), i32_store()]

    functions = [
      function("inbox", [:i32], [:i32], i32_const(1024)),
      function("outbox", [], [:i32], i32_const(16)),
      function("echo", [:i32], [:i32], [answer, i32_const(0)]),
      function("refuse", [:i32], [:i32], [answer, i32_const(1)]),
      function("point", [:i32, :i32], [:i32], [
        [i32_const(16), local_get(0), i32_store(), i32_const(20), local_get(1), i32_store(), i32_const(0)]
      ])
    ]

    instance(runtime, [functions: functions, memory: {1, nil}], inbox: "inbox", outbox: "outbox")
  end

  defp call(runtime, instance, export, arguments \\ [], changes \\ []) do
    runtime.call(instance, export, arguments, Map.merge(@request, Map.new(changes)))
  end

  defp outside(what, length, address) do
    "the #{what} is #{length} bytes at #{address}, outside of the memory of 65536 bytes"
  end

  for runtime <- Runtimes.all() do
    describe "#{Runtimes.name(runtime)}: modules," do
      @describetag runtime: runtime

      test "refuses bytes that are no module, the text format too", %{runtime: runtime} do
        for bytes <- ["", "nonsense", "(module)", <<"\0asm", 2::little-32>>, <<"\0asm", 1::little-32, 10, 200>>] do
          assert {:error, %Error{kind: :bad_module, message: message}} = runtime.load(bytes)
          assert message =~ "not a WebAssembly module that can run here: "
        end
      end

      test "returns imports and exports", %{runtime: runtime} do
        {:ok, compiled} =
          runtime.load(
            assemble(
              imports: [{"env", "log"}],
              functions: [function("f", [:i32, :i64], [:f64], [f64_const(1.0)])],
              memory: {1, 3},
              globals: [{"g", :i32, :mutable, 5}, {"c", :i64, :constant, 5}]
            )
          )

        assert runtime.imports(compiled) == [{"env", "log", {:function, [], []}}]

        assert Enum.sort(runtime.exports(compiled)) == [
                 {"c", {:global, :i64, :constant}},
                 {"f", {:function, [:i32, :i64], [:f64]}},
                 {"g", {:global, :i32, :mutable}},
                 {"memory", {:memory, 32, 1, 3}}
               ]

        assert {:error, %Error{kind: :bad_module, message: message}} = runtime.instantiate(compiled, memory: 1_000_000)
        assert message =~ "env.log"
      end

      test "reports start functions that trap or do not end, and too much memory", %{runtime: runtime} do
        for {parts, kind} <- [
              {[functions: [function(nil, [], [], loop(branch(0)))], start: 0], :out_of_fuel},
              {[functions: [function(nil, [], [], unreachable())], start: 0], :trap},
              {[memory: {3, nil}], :out_of_memory},
              {[table: 100_000], :out_of_memory}
            ] do
          {:ok, compiled} = runtime.load(assemble(parts))
          assert {:error, %Error{kind: ^kind}} = runtime.instantiate(compiled, memory: 131_072)
        end
      end

      test "checks inboxes and outboxes", %{runtime: runtime} do
        functions = [
          function("takes_nothing", [], [:i32], i32_const(0)),
          function("far", [], [:i32], i32_const(65_529)),
          function("spins", [], [:i32], [loop(branch(0)), i32_const(0)])
        ]

        {:ok, compiled} = runtime.load(assemble(functions: functions, memory: {1, nil}))

        for {options, kind, message} <- [
              {[inbox: "absent"], :bad_module, "exports no function absent"},
              {[inbox: "takes_nothing"], :bad_module,
               "takes_nothing has the type () -> (i32), and must have (i32) -> (i32)"},
              {[outbox: "far"], :bad_module, "the outbox is 8 bytes at 65529, outside of the memory of 65536 bytes"},
              {[outbox: "spins"], :out_of_fuel, "fuel"}
            ] do
          assert {:error, %Error{kind: ^kind} = error} = runtime.instantiate(compiled, [memory: 65_536] ++ options)
          assert error.message =~ message
        end
      end
    end

    describe "#{Runtimes.name(runtime)}: calls," do
      @describetag runtime: runtime

      test "passes signed and unsigned integers and refuses others", %{runtime: runtime} do
        functions = [
          function("i32", [:i32], [:i32], local_get(0)),
          function("i64", [:i64], [:i64], local_get(0)),
          function("none", [], [], []),
          function("two", [], [:i32, :i32], [i32_const(1), i32_const(2)]),
          function("vector", [:v128], [], [])
        ]

        instance = instance(runtime, functions: functions, memory: {1, nil})

        for {export, argument, result} <- [
              {"i32", -1, -1},
              {"i32", 0xFFFF_FFFF, -1},
              {"i64", 0xFFFF_FFFF_FFFF_FFFF, -1},
              {"i64", 5, 5}
            ] do
          assert {:done, ^result, nil, _fuel} = call(runtime, instance, export, [argument])
        end

        assert {:done, 0, nil, _fuel} = call(runtime, instance, "none")

        for {export, arguments, kind, message} <- [
              {"i32", [0x1_0000_0000], :type, "i32 takes an i32 as argument 1"},
              {"i64", [0x1_0000_0000_0000_0000], :type, "i64 takes an i64 as argument 1"},
              {"i32", [1.0], :type, "i32 takes an i32 as argument 1"},
              {"i32", [1, 2], :type, "the function i32 takes 1 arguments, and got 2"},
              {"i32", :none, :type, ""},
              {"i32", [1 | 2], :type, ""},
              {"two", [], :bad_module, "[1, 2]"},
              {"absent", [], :bad_module, "exports no function absent"},
              {"memory", [], :bad_module, "exports no function memory"},
              {"vector", [1], :bad_module, "v128"}
            ] do
          assert {:error, %Error{kind: ^kind} = error} = call(runtime, instance, export, arguments)
          assert error.message =~ message
        end
      end

      test "raises on an invalid request", %{runtime: runtime} do
        instance = instance(runtime, functions: [function("none", [], [], [])])

        for changes <- [[slice: 0], [fuel: -1], [output: :list]] do
          assert_raise ArgumentError, fn -> call(runtime, instance, "none", [], changes) end
        end

        assert {:done, 0, nil, _fuel} = call(runtime, instance, "none", [], fuel: 2 ** 70, slice: 2 ** 70)
      end

      test "writes input and reads output, both checked", %{runtime: runtime} do
        instance = echo(runtime)
        assert {:done, 0, "hello", _fuel} = call(runtime, instance, "echo", [5], input: "hello", output: :binary)
        assert {:done, 0, "", _fuel} = call(runtime, instance, "echo", [0], input: "", output: :binary)
        assert {:done, 0, nil, _fuel} = call(runtime, instance, "echo", [5], input: "hello")

        for count <- [4, 200] do
          ids = for id <- 1..count, do: id * 0x7FFF_FFFF_FFFF_FF
          packed = for id <- ids, into: "", do: <<id::little-64>>
          arguments = [byte_size(packed)]

          for _ <- 1..2 do
            assert {:done, 0, ^ids, _fuel} = call(runtime, instance, "echo", arguments, input: packed, output: :u64s)
          end

          assert {:done, 1, ^packed, _fuel} = call(runtime, instance, "refuse", arguments, input: packed, output: :u64s)
        end

        most = 65_536 - 1_024
        assert {:done, 0, nil, _fuel} = call(runtime, instance, "echo", [0], input: :binary.copy("x", most))
        assert {:error, error} = call(runtime, instance, "echo", [0], input: :binary.copy("x", most + 1))
        assert {error.kind, error.message} == {:bad_module, outside("inbox", most + 1, 1_024)}

        for {address, length} <- [{65_536, 1}, {0, 65_537}, {0xFFFF_FFFF, 0xFFFF_FFFF}, {65_530, 8}] do
          assert {:error, error} = call(runtime, instance, "point", [address, length], output: :binary)
          assert {error.kind, error.message} == {:bad_module, outside("outbox", length, address)}
        end

        assert {:error, %Error{kind: :bad_module}} = call(runtime, instance, "point", [0, 7], output: :u64s)

        none = instance(runtime, functions: [function("none", [], [], [])], memory: {1, nil})
        assert {:error, %Error{kind: :bad_module}} = call(runtime, none, "none", [], input: "x")
        assert {:error, %Error{kind: :bad_module}} = call(runtime, none, "none", [], output: :binary)
      end

      test "reports an inbox without room, one that traps, and an endless one", %{runtime: runtime} do
        for {body, kind} <- [
              {i32_const(0), :out_of_memory},
              {unreachable(), :trap},
              {[loop(branch(0)), i32_const(0)], :out_of_fuel}
            ] do
          functions = [function("inbox", [:i32], [:i32], body), function("run", [], [], [])]
          instance = instance(runtime, [functions: functions, memory: {1, nil}], inbox: "inbox")
          assert {:error, %Error{kind: ^kind}} = call(runtime, instance, "run", [], input: "x")
          assert {:done, 0, nil, _fuel} = call(runtime, instance, "run")
        end
      end

      test "reports a misbehaving module, restores its stack pointer and keeps it usable", %{runtime: runtime} do
        functions = [
          function("unreachable", [], [], [i32_const(5), global_set(0), unreachable()]),
          function("divide", [], [:i32], [i32_const(1), i32_const(0), i32_div_u()]),
          function("load", [], [:i32], [i32_const(-4), i32_load()]),
          function("recurse", [], [], BeTree.WasmModule.call(3)),
          function("spin", [], [], [i32_const(6), global_set(0), loop(branch(0))]),
          function("stack", [], [:i32], global_get(0))
        ]

        globals = [{"__stack_pointer", :i32, :mutable, 1_000}]
        instance = instance(runtime, functions: functions, memory: {1, nil}, globals: globals)

        for scheduler <- [:normal, :dirty],
            {export, kind, message} <- [
              {"unreachable", :trap, "unreachable"},
              {"divide", :trap, "divide by zero"},
              {"load", :trap, "out of bounds memory access"},
              {"recurse", :trap, "call stack exhausted"},
              {"spin", :out_of_fuel, "larger budget"}
            ] do
          assert {:error, error} = call(runtime, instance, export, [], fuel: 100_000_000, scheduler: scheduler)
          assert {error.kind, error.message =~ message} == {kind, true}
          assert {:done, 1_000, nil, _fuel} = call(runtime, instance, "stack")
        end
      end
    end

    describe "#{Runtimes.name(runtime)}: fuel," do
      @describetag runtime: runtime

      test "ids are the same for every slice, and fuel is at least theirs", %{runtime: runtime} do
        tree = tree(runtime)
        {:done, @matches, whole} = Search.run(tree, @event, slice: :infinity)
        assert whole.slices == 1
        assert whole.fuel > 50_000

        for slice <- [1, 10, 1_000, 10_000, 33_333, 77_777, 1_000_000_000] do
          {:done, @matches, sliced} = Search.run(tree, @event, slice: slice)
          assert sliced.fuel >= whole.fuel
          if runtime == Wasmtime, do: assert(sliced.fuel == whole.fuel)
          assert {sliced.visited, sliced.evaluated} == {whole.visited, whole.evaluated}
          if slice in [10_000, 33_333], do: assert(sliced.slices > 5)
        end

        assert {:done, @matches, ^whole} = Search.run(tree, @event, slice: :infinity)
      end

      for workload <- [W1, W3] do
        test "slices change nothing over #{inspect(workload)}", %{runtime: runtime} do
          parameters = Map.merge(unquote(workload).defaults(), %{expressions: 500, events: 20})
          tree = BeTree.new!(unquote(workload).schema(parameters), runtime: runtime)
          texts = parameters |> unquote(workload).expressions() |> Enum.with_index(&{&2 + 1, &1})
          BeTree.insert_all!(tree, texts)

          for event <- unquote(workload).events(parameters) do
            ids = BeTree.search!(tree, event)
            for slice <- [10_000, 30_000, 100_000], do: assert(BeTree.search!(tree, event, slice: slice) == ids)
          end
        end
      end

      test "a slice too small for a step of a batch does not end the batch", %{runtime: runtime} do
        tree = tree(runtime)
        events = for a <- [1, 2_500, 4_999], do: %{a: a, b: true}
        lists = BeTree.search_many!(tree, events)
        assert Enum.at(lists, 1) == @matches

        for slice <- [1, 500, 5_000, 20_000] do
          assert BeTree.search_many!(tree, events, slice: slice, timeout: 20_000) == lists
        end
      end

      # Starting a batch costs some hundred units of fuel; an event costs at most an eight hundredth more than its search.
      test "a batch costs no more fuel than its searches", %{runtime: runtime} do
        whole = [slice: :infinity]

        for {workload, expressions} <- [{BeTree.Workload.W1, 600}, {BeTree.Workload.W4, 1_000}] do
          parameters = Map.merge(workload.defaults(), %{expressions: expressions, events: 300})
          tree = BeTree.new!(workload.schema(parameters), runtime: runtime)
          BeTree.insert_all!(tree, parameters |> workload.expressions() |> Enum.with_index(&{&2 + 1, &1}))
          events = Enum.to_list(workload.events(parameters))
          searched = for event <- events, do: BeTree.search!(tree, event, [stats: true] ++ whole)

          for count <- [1, 2, 3, 16, 79, 80, 256, 257, 300] do
            {found, stats} = searched |> Enum.take(count) |> Enum.unzip()
            fuel = Enum.sum(Enum.map(stats, & &1.fuel))
            budget = if count == 1, do: fuel, else: fuel + div(fuel, 800) + 600
            assert BeTree.search_many(tree, Enum.take(events, count), [fuel: budget] ++ whole) == {:ok, found}
          end
        end
      end

      # Cuts off the phases of a small index after every number of units up to a bound.
      test "a search cut off anywhere finds the same", %{runtime: runtime} do
        tree = BeTree.new!([a: :integer, s: {:string, optional: true}], runtime: runtime)
        BeTree.insert_all!(tree, for(i <- 20..1//-1, do: {i * 7919, "a = #{i} or not (s = 'x#{i}')"}))
        event = {:json, ~S({"a": 3, "s": "x\u0034"})}
        {:ok, ids, %{fuel: fuel}} = BeTree.search(tree, event, stats: true)
        assert length(ids) == 19
        memory = info(tree).memory

        for slice <- 1..fuel//7 do
          assert {slice, BeTree.search!(tree, event, slice: slice)} == {slice, ids}
        end

        assert {:ok, ^ids, %{fuel: ^fuel}} = BeTree.search(tree, event, stats: true)
        assert info(tree).memory == memory

        # What is refused, too.
        refused = BeTree.search(tree, {:json, ~S({"a": "\u0034"})})
        assert {:error, %Error{kind: :type}} = refused
        for slice <- 1..fuel//97, do: assert(BeTree.search(tree, {:json, ~S({"a": "\u0034"})}, slice: slice) == refused)
      end

      test "a budget that is too small leaves the tree unchanged", %{runtime: runtime} do
        tree = tree(runtime)
        {:done, @matches, %{fuel: fuel}} = Search.run(tree, @event, slice: :infinity)
        assert {:done, @matches, %{fuel: ^fuel}} = Search.run(tree, @event, fuel: fuel + 1_000, slice: :infinity)

        for slice <- [1_000, 10_000, :infinity], budget <- [1, 100, div(fuel, 2), fuel - 1_000] do
          assert {:error, %Error{kind: :out_of_fuel}} = Search.run(tree, @event, fuel: budget, slice: slice)
          assert {:done, @matches, %{fuel: ^fuel}} = Search.run(tree, @event, slice: :infinity)
        end
      end

      test "the process is charged", %{runtime: runtime} do
        tree = tree(runtime, fuel_per_reduction: 20)
        free = tree(runtime, fuel_per_reduction: @free)

        for slice <- [:infinity, 200_000, 50_000] do
          {:done, _ids, %{fuel: fuel}} = Search.run(tree, @event, slice: slice)
          own = reductions(fn -> Search.run(free, @event, slice: slice) end)
          charged = reductions(fn -> Search.run(tree, @event, slice: slice) end) - own
          assert_in_delta charged, fuel / 20, fuel / 20 / 10
        end
      end

      test "an endless module ends at its budget or timeout", %{runtime: runtime} do
        tree = BeTree.new!([], guest: WasmGuest.assemble(loop(branch(0)), when_json: true), runtime: runtime)

        for slice <- [10_000, 200_000, :infinity] do
          assert {:error, %Error{kind: :out_of_fuel}} =
                   BeTree.search(tree, {:json, "{}"}, fuel: 50_000_000, slice: slice)

          assert BeTree.search(tree, %{}) == {:ok, WasmGuest.ids()}
        end

        assert {:error, %Error{kind: :timeout}} = BeTree.search(tree, {:json, "{}"}, timeout: 20)
        assert BeTree.search(tree, %{}) == {:ok, WasmGuest.ids()}
      end
    end

    describe "#{Runtimes.name(runtime)}: searches," do
      @describetag runtime: runtime

      setup %{runtime: runtime} do
        {:ok, tree: tree(runtime)}
      end

      test "run step by step in any process", %{tree: tree} do
        {:yield, search} = Search.start(tree, @event, slice: 10_000)
        assert inspect(search) =~ ~r/^#BeTree.Search<1 slice, \d+ fuel>$/
        {:yield, search} = Search.resume(search)
        assert inspect(search) =~ ~r/^#BeTree.Search<2 slices, \d+ fuel>$/
        assert inspect(tree) =~ ~r/^#BeTree<suspended, /
        assert {:done, @matches, _stats} = Task.await(Task.async(fn -> finish(Search.resume(search)) end), :infinity)
        assert inspect(tree) =~ ~r/^#BeTree<5000 expressions, /
      end

      test "are not resumed after they ended or were cancelled", %{tree: tree} do
        {:yield, search} = Search.start(tree, @event, slice: 10_000)
        assert Search.cancel(search) == :ok
        assert Search.cancel(search) == :ok
        assert {:error, %Error{kind: :not_found}} = Search.resume(search)
        {:yield, search} = Search.start(tree, @event, slice: 10_000)
        assert {:done, @matches, _stats} = finish({:yield, search})
        assert {:error, %Error{kind: :not_found}} = Search.resume(search)
        assert BeTree.search(tree, @event) == {:ok, @matches}
      end

      test "are refused to a process that holds one, and time out", %{tree: tree} do
        {:yield, search} = Search.start(tree, @event, slice: 10_000)
        assert {:error, %Error{kind: :overloaded}} = BeTree.search(tree, @event)
        assert {:error, %Error{kind: :overloaded}} = BeTree.insert(tree, 9_999, "b")
        assert Search.cancel(search) == :ok
        assert {:error, %Error{kind: :timeout}} = BeTree.search(tree, @event, slice: 1_000, timeout: 0)

        holder = hold(tree, @event)
        assert {:error, %Error{kind: :timeout}} = BeTree.search(tree, @event, timeout: 10)
        assert info(tree).waiting == 0
        release(holder)
        assert BeTree.search(tree, @event, timeout: 60_000) == {:ok, @matches}
      end

      test "wait in order", %{tree: tree} do
        turns = :counters.new(1, [])
        holder = hold(tree, @event)

        # Counts the waiting calls while it holds the tree.
        turn = fn ->
          {:yield, search} = Search.start(tree, @event, slice: 10_000)
          before = :counters.get(turns, 1)
          :counters.put(turns, 1, before + 1)
          {:done, @matches, _stats} = finish({:yield, search})
          before
        end

        waiting =
          for number <- 1..20 do
            task = Task.async(turn)
            eventually(fn -> info(tree).waiting == number end)
            task
          end

        # A waiting process may die.
        Process.unlink(hd(waiting).pid)
        Process.exit(hd(waiting).pid, :kill)
        eventually(fn -> info(tree).waiting == 19 end)
        release(holder)
        assert Task.await_many(tl(waiting), 60_000) == Enum.to_list(0..18)
        assert %{state: :free, waiting: 0} = info(tree)
      end

      test "of a killed process free the tree", %{tree: tree} do
        for pause <- [0, 1, 2, 5] do
          holders =
            for _ <- 1..20, do: spawn(fn -> for _ <- 1..100, do: BeTree.search!(tree, @event, slice: 10_000) end)

          Process.sleep(pause)
          for pid <- holders, do: Process.exit(pid, :kill)
          assert BeTree.search(tree, @event) == {:ok, @matches}
        end

        parent = self()

        pid =
          spawn(fn ->
            {:yield, _search} = Search.start(tree, @event, slice: 10_000)
            send(parent, :suspended)
            Process.sleep(:infinity)
          end)

        assert_receive :suspended
        Process.exit(pid, :kill)
        assert BeTree.search(tree, @event) == {:ok, @matches}
      end
    end

    describe "#{Runtimes.name(runtime)}: every function," do
      @describetag runtime: runtime

      test "works as in the moduledoc", %{runtime: runtime} do
        domains = [age: :integer, country: {:string, optional: true}, plan: {:integer, min: 0, max: 9}]
        {:ok, tree} = BeTree.new(domains, runtime: runtime)
        assert BeTree.insert(tree, 1, "age >= 21 and country in ('CA', 'US')") == :ok
        assert BeTree.insert_all(tree, [{2, "plan = 3"}, {3, "not (age < 65)"}]) == {:ok, 2}
        assert {:error, %Error{kind: :syntax, column: 8}} = BeTree.insert(tree, 4, "age >= ")
        assert {:error, %Error{kind: :not_found}} = BeTree.delete(tree, 4)
        assert BeTree.search(tree, %{age: 30, country: "CA", plan: 1}) == {:ok, [1]}
        assert BeTree.search(tree, {:json, ~s({"age": 70, "plan": 3})}, ids: [3, 1]) == {:ok, [3]}
        assert BeTree.search_many(tree, [%{age: 70, plan: 3}, [age: 1, plan: 1]]) == {:ok, [[2, 3], []]}
        assert BeTree.search_many(tree, [%{age: 70, plan: 3}], as: :binary) == {:ok, [<<2::little-64, 3::little-64>>]}
        assert tree |> BeTree.stream([%{age: 70, plan: 3}, %{}]) |> Enum.map(&elem(elem(&1, 1), 0)) == [:ok, :error]
        {:ok, prepared} = BeTree.Event.prepare(tree, %{age: 70, plan: 3})
        assert BeTree.search(tree, prepared) == {:ok, [2, 3]}
        assert {:done, [2, 3], _stats} = BeTree.Search.run(tree, %{age: 70, plan: 3}, slice: 1_000)
        assert BeTree.explain!(tree, %{age: 70, plan: 3}, 2).match
        assert BeTree.info!(tree).expressions == 3
        {:ok, index} = BeTree.publish(tree)
        assert BeTree.delete(tree, 2) == :ok
        assert BeTree.search(tree, %{age: 70, plan: 3}) == {:ok, [3]}
        assert BeTree.search(index, %{age: 70, plan: 3}) == {:ok, [2, 3]}
        assert BeTree.explain!(index, %{age: 70, plan: 3}, 2).match
        assert BeTree.info!(index).expressions == 3
      end

      test "respects the memory limit and keeps earlier expressions", %{runtime: runtime} do
        tree = BeTree.new!([a: :integer], memory: 4_000_000, runtime: runtime)
        BeTree.insert!(tree, 1, "a = 1")
        rules = for id <- 2..100_000, do: {id, "a = #{id} or a in (#{id + 1}, #{id + 2}) and a <> #{id * 7}"}
        assert {:error, %Error{kind: :out_of_memory}} = BeTree.insert_all(tree, rules)
        assert BeTree.search(tree, %{a: 1}) == {:ok, [1]}
        assert BeTree.insert(tree, 2, "a = 1") == :ok
        assert BeTree.search(tree, %{a: 1}) == {:ok, [1, 2]}
        assert info(tree).memory <= 4_000_000
        assert {:error, %Error{kind: :out_of_memory}} = BeTree.new([a: :integer], memory: 1, runtime: runtime)
      end

      test "takes events far larger than usual", %{runtime: runtime} do
        tree = BeTree.new!([l: :integer_list, s: {:string, optional: true}], runtime: runtime)
        BeTree.insert_all!(tree, [{1, "l one of (70000, 3)"}, {2, "contains(s, 'needle')"}])
        event = %{l: Enum.to_list(1..70_000), s: String.duplicate("hay", 200_000) <> "needle"}

        for slice <- [10_000, 1_000_000, :infinity],
            do: assert(BeTree.search(tree, event, slice: slice) == {:ok, [1, 2]})

        assert BeTree.search(tree, %{l: []}) == {:ok, []}
        assert BeTree.search(tree, event, fuel: 1_000_000) |> elem(1) |> Map.fetch!(:kind) == :out_of_fuel
        assert BeTree.search(tree, event) == {:ok, [1, 2]}
      end
    end

    describe "#{Runtimes.name(runtime)}, a server:" do
      @describetag runtime: runtime

      test "changes are visible at once, and a next base is built", %{runtime: runtime} do
        name = :"server_#{System.unique_integer([:positive])}"
        start_supervised!({Server, name: name, schema: [a: :integer], runtime: runtime})
        Server.insert_all!(name, for(id <- 1..5_000, do: {id, "a = #{rem(id, 10)}"}))
        %{bases: bases} = Server.info!(name)
        for id <- 1..600, do: Server.delete!(name, id)
        for id <- 1..500, do: Server.insert!(name, id, "a = #{rem(id, 7)}")

        there = fn value ->
          for id <- 1..5_000, id not in 501..600, rem(id, if(id <= 500, do: 7, else: 10)) == value, do: id
        end

        for value <- [3, 8], do: assert(BeTree.search(name, %{a: value}) == {:ok, there.(value)})
        eventually(fn -> Server.info!(name).bases > bases end)
        for value <- [3, 8], do: assert(BeTree.search(name, %{a: value}) == {:ok, there.(value)})
        assert %{expressions: 4_900} = Server.info!(name)
      end
    end

    describe "#{Runtimes.name(runtime)}: replicas," do
      @describetag runtime: runtime

      test "run in parallel up to their number, then queue, then refuse", %{runtime: runtime} do
        index = BeTree.publish!(tree(runtime), replicas: 2, queue: 3)
        assert %{machines: 1, state: :free} = info(index)
        {:yield, one} = Search.start(index, @event, slice: 10_000)
        {:yield, two} = Search.start(index, @event, slice: 10_000)
        assert %{machines: 2, state: :suspended, waiting: 0} = info(index)
        assert {:error, %Error{kind: :overloaded}} = Search.start(index, @event)

        waiting =
          for number <- 1..3 do
            task = Task.async(fn -> BeTree.search(index, @event) end)
            eventually(fn -> info(index).waiting == number end)
            task
          end

        refused = Task.await(Task.async(fn -> BeTree.search(index, @event) end), :infinity)
        assert {:error, %Error{kind: :overloaded, message: message}} = refused
        assert message =~ "all 2 replicas are in use"
        assert {:done, @matches, _stats} = finish({:yield, one})
        Search.cancel(two)
        assert Task.await_many(waiting, 60_000) == List.duplicate({:ok, @matches}, 3)
        eventually(fn -> match?(%{state: :free, waiting: 0, machines: 2}, info(index)) end)
      end

      test "survive kills of their processes", %{runtime: runtime} do
        index = BeTree.publish!(tree(runtime), replicas: 3)

        for round <- 1..5 do
          workers =
            for _ <- 1..60, do: spawn_monitor(fn -> exit({:found, BeTree.search(index, @event, slice: 10_000)}) end)

          Process.sleep(round)
          for {pid, _monitor} <- Enum.take_every(workers, 4), do: Process.exit(pid, :kill)

          for {pid, monitor} <- workers do
            assert_receive {:DOWN, ^monitor, :process, ^pid, reason}, 60_000
            assert reason in [:killed, {:found, {:ok, @matches}}]
          end
        end

        eventually(fn -> match?(%{state: :free, waiting: 0}, info(index)) end)
        assert BeTree.search(index, @event) == {:ok, @matches}
      end

      test "are replaced after a trap", %{runtime: runtime} do
        # Each search counts in memory, and the third of an instance traps.
        count = [i32_const(0), i32_const(0), i32_load(100), i32_const(1), i32_add(), i32_store(100)]
        third = [block([i32_const(0), i32_load(100), i32_const(3), i32_ne(), branch_if(0), unreachable()])]
        tree = BeTree.new!([], guest: WasmGuest.assemble([count, third]), runtime: runtime)
        assert BeTree.search(tree, %{}) == {:ok, WasmGuest.ids()}
        index = BeTree.publish!(tree, replicas: 1)

        for _ <- 1..3 do
          assert BeTree.search(index, %{}) == {:ok, WasmGuest.ids()}
          assert {:error, %Error{kind: :trap}} = BeTree.search(index, %{})
        end
      end

      test "refuse a guest with state that cannot be copied", %{runtime: runtime} do
        guest = WasmGuest.assemble([], parts: [globals: [{nil, :i32, :mutable, 0}]])

        assert {:error, %Error{kind: :bad_module, message: message}} =
                 BeTree.publish(BeTree.new!([], guest: guest, runtime: runtime))

        assert message =~ "its mutable global number 1 is not exported"
      end

      test "can be read, and made of bytes", %{runtime: runtime} do
        functions = [function("first", [], [:i32], [i32_const(0), i32_load()])]
        {:ok, compiled} = runtime.load(assemble(functions: functions, memory: {1, nil}, data: [{0, <<7, 0, 0, 0>>}]))
        {:ok, instance} = runtime.instantiate(compiled, memory: 200_000)
        {:ok, snapshot} = runtime.snapshot(instance)
        assert runtime.snapshot_length(snapshot) == 65_536
        assert runtime.snapshot_read(snapshot, 0, 5) == {:ok, <<7, 0, 0, 0, 0>>}
        assert {:error, %Error{kind: :bad_module}} = runtime.snapshot_read(snapshot, 65_530, 7)

        {:ok, other} = runtime.snapshot_of(131_072, [{0, <<9>>}, {70_000, "far"}])
        assert runtime.snapshot_length(other) == 131_072
        assert runtime.snapshot_read(other, 69_999, 5) == {:ok, <<0, "far", 0>>}
        assert {:error, %Error{kind: :bad_module}} = runtime.snapshot_of(65_536, [{65_535, "ab"}])
        {:ok, replicas} = runtime.replicate(compiled, other, memory: 200_000, replicas: 2, queue: 0)
        assert {:done, 9, nil, _fuel} = call(runtime, replicas, "first")
        assert {:done, 7, nil, _fuel} = call(runtime, instance, "first")
        {:ok, narrow} = runtime.replicate(compiled, other, memory: 70_000, replicas: 1, queue: 0)
        assert {:error, %Error{kind: :out_of_memory}} = call(runtime, narrow, "first")

        {:ok, begun} = runtime.instantiate(compiled, memory: 200_000, snapshot: other)
        assert {:done, 9, nil, _fuel} = call(runtime, begun, "first")
        {:ok, short} = runtime.snapshot_of(0, [])
        assert {:error, %Error{kind: :bad_module}} = runtime.instantiate(compiled, memory: 200_000, snapshot: short)
      end
    end
  end

  describe "wasmex alone:" do
    @describetag runtime: Runtime.Wasmex

    # Uses functions of wasmex, which may be missing here.
    defp stack_pointer(tree) do
      [value] = apply(Runtime.Wasmex.Machine, :round, [elem(tree.instance.machines, 0), [{:global, "__stack_pointer"}]])
      value
    end

    test "a thousand interrupted searches leave memory and stack unchanged", %{runtime: runtime} do
      tree = tree(runtime)
      {:ok, @matches, %{fuel: fuel}} = BeTree.search(tree, @event, stats: true)
      {memory, stack} = {info(tree).memory, stack_pointer(tree)}
      :rand.seed(:exsss, 1)

      for number <- 1..1_000 do
        case rem(number, 3) do
          0 ->
            {:error, %{kind: :out_of_fuel}} = BeTree.search(tree, @event, fuel: :rand.uniform(fuel - 1_000))

          1 ->
            {:ok, @matches} = BeTree.search(tree, @event, slice: 20_000 + :rand.uniform(50_000))

          2 ->
            {:yield, search} = Search.start(tree, @event, slice: :rand.uniform(div(fuel, 2)))
            Search.cancel(search)
        end
      end

      assert {:ok, @matches, %{fuel: ^fuel}} = BeTree.search(tree, @event, stats: true)
      assert stack_pointer(tree) == stack
      assert Runtime.Wasmtime != runtime and info(tree).memory == memory
      assert BeTree.info!(tree).memory_bytes == memory
    end

    test "a search without progress ends, even without a budget", %{runtime: runtime} do
      tree = BeTree.new!([], guest: WasmGuest.assemble(loop(branch(0)), when_json: true), runtime: runtime)
      assert {:error, %Error{kind: :out_of_fuel, message: message}} = BeTree.search(tree, {:json, "{}"})
      assert message =~ "made no progress"
      assert BeTree.search(tree, %{}) == {:ok, WasmGuest.ids()}
    end
  end
end

Code.require_file("examples/steiner/steiner.ex")

defmodule BeTree.SandboxTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually

  import BeTree.WasmModule

  alias BeTree.{Error, Sandbox, WasmModule}

  doctest Sandbox

  @page 65_536
  @ratio 100

  # Modules are assembled in place, so each test shows its code.
  defp sandbox(parts, options \\ []) do
    parts |> WasmModule.assemble() |> Sandbox.load!() |> Sandbox.new!([fuel_per_reduction: @ratio] ++ options)
  end

  # `count(n)` counts down and returns 7; `spin` never ends.
  defp counter do
    sandbox(
      functions: [
        function("count", [:i32], [:i32], [count_down(0, nop()), i32_const(7)]),
        function("spin", [], [], loop(branch(0)))
      ],
      memory: {1, nil}
    )
  end

  defp finish({:yield, call}), do: finish(Sandbox.resume(call))
  defp finish(ended), do: ended

  describe "load and new" do
    test "a module with imports is refused, and the error names them" do
      wasm = WasmModule.assemble(imports: [{"env", "log"}, {"wasi", "clock"}])
      assert {:error, %Error{kind: :bad_module, message: message}} = Sandbox.load(wasm)
      assert message =~ "env.log, wasi.clock"
      assert_raise Error, ~r/env\.log/, fn -> Sandbox.load!(wasm) end
    end

    test "limit memories and tables together" do
      module = Sandbox.load!(WasmModule.assemble(memory: {2, nil}, table: 1_000))
      assert {:error, %Error{kind: :out_of_memory}} = Sandbox.new(module, memory: 2 * @page + 7_999)
      assert {:ok, _sandbox} = Sandbox.new(module, memory: 2 * @page + 8_000)
    end

    test "report a start function that traps or does not end" do
      for {body, kind} <- [{unreachable(), :trap}, {loop(branch(0)), :out_of_fuel}] do
        module = Sandbox.load!(WasmModule.assemble(functions: [function(nil, [], [], body)], start: 0))
        assert {:error, %Error{kind: ^kind}} = Sandbox.new(module)
      end
    end

    test "instances of one module have separate memories" do
      module = Sandbox.load!(WasmModule.assemble(memory: {1, nil}, data: [{4, "start"}]))
      [one, other] = [Sandbox.new!(module), Sandbox.new!(module)]
      :ok = Sandbox.write(one, 4, "after")
      assert Sandbox.read(one, 4, 5) == {:ok, "after"}
      assert Sandbox.read(other, 4, 5) == {:ok, "start"}
    end

    test "unknown or wrong options raise" do
      module = Sandbox.load!(WasmModule.assemble([]))

      for options <- [[memory: 0], [memory: :infinity], [fuel_per_reduction: 1.5], [table: 3]] do
        assert_raise ArgumentError, fn -> Sandbox.new(module, options) end
      end
    end
  end

  describe "call/4" do
    test "passes results of any number and type" do
      functions = [
        function("none", [], [], []),
        function("all", [:i32, :i64, :f32, :f64], [:f64, :f32, :i64, :i32], for(n <- [3, 2, 1, 0], do: local_get(n))),
        function("infinite", [], [:f64, :f64], [
          [f64_const(1.0), f64_const(0.0), f64_div()],
          [f64_const(-1.0), f64_const(0.0), f64_div()]
        ]),
        function("undefined", [], [:f64], [f64_const(0.0), f64_const(0.0), f64_div()])
      ]

      sandbox = sandbox(functions: functions)
      assert {:ok, [], %{slices: 1}} = Sandbox.call(sandbox, "none", [])
      assert Sandbox.call!(sandbox, "all", [0xFFFF_FFFF, -2, 1, 0.25]) == [0.25, 1.0, -2, -1]
      assert Sandbox.call!(sandbox, "infinite", []) == [:infinity, :negative_infinity]
      assert Sandbox.call!(sandbox, "undefined", []) == [:nan]
    end

    test "refuses a missing export, and arguments of wrong types" do
      sandbox = counter()

      for {export, arguments, kind} <- [
            {"absent", [], :bad_module},
            {"memory", [], :bad_module},
            {"count", [], :type},
            {"count", [1.5], :type},
            {"count", :one, :type}
          ] do
        assert {:error, %Error{kind: ^kind, message: message}} = Sandbox.call(sandbox, export, arguments)
        assert message =~ export or message =~ "arguments"
      end

      assert_raise Error, fn -> Sandbox.call!(sandbox, "absent", []) end
    end

    test "unknown or wrong options raise" do
      sandbox = counter()

      for options <- [[fuel: 0], [slice: -1], [slice: nil], [timeout: 0.5], [ids: []]] do
        assert_raise ArgumentError, fn -> Sandbox.call(sandbox, "count", [1], options) end
      end
    end

    test "charges the process for the fuel of every slice size" do
      sandbox = counter()
      {:ok, [7], %{fuel: fuel}} = Sandbox.call(sandbox, "count", [100_000])

      for slice <- [20_000, 100_000, :infinity] do
        charged =
          fn ->
            {:reductions, before} = Process.info(self(), :reductions)
            {:ok, [7], %{fuel: ^fuel}} = Sandbox.call(sandbox, "count", [100_000], slice: slice)
            {:reductions, later} = Process.info(self(), :reductions)
            later - before
          end
          |> Task.async()
          |> Task.await(:infinity)

        assert_in_delta charged, fuel / @ratio, fuel / @ratio / 10, "slice #{slice}"
      end
    end
  end

  describe "a call in steps" do
    test "yields after each slice and resumes in any process" do
      sandbox = counter()
      {:yield, call} = Sandbox.start(sandbox, "count", [10_000], slice: 20_000)
      assert inspect(call) == "#BeTree.Sandbox.Call<1 slice, 20000 fuel>"
      assert inspect(sandbox) == "#BeTree.Sandbox<suspended, 0.1 of 67.1 MB>"
      assert {:error, %Error{kind: :overloaded}} = Sandbox.call(sandbox, "count", [1])
      assert {:error, %Error{kind: :overloaded}} = Sandbox.read(sandbox, 0, 1)

      {:yield, call} = Sandbox.resume(call)
      assert inspect(call) == "#BeTree.Sandbox.Call<2 slices, 40000 fuel>"
      {:done, [7], sliced} = Task.await(Task.async(fn -> finish({:yield, call}) end), :infinity)
      assert {:error, %Error{kind: :not_found}} = Sandbox.resume(call)

      assert {:done, [7], %{slices: 1} = whole} = Sandbox.start(sandbox, "count", [10_000], slice: :infinity)
      assert sliced.fuel == whole.fuel
      assert sliced.slices > 3
    end

    test "a cancelled call releases its instance" do
      sandbox = counter()
      {:yield, call} = Sandbox.start(sandbox, "spin", [])
      assert Sandbox.cancel(call) == :ok
      assert Sandbox.cancel(call) == :ok
      assert {:error, %Error{kind: :not_found}} = Sandbox.resume(call)
      assert Sandbox.call!(sandbox, "count", [3]) == [7]
    end
  end

  describe "a module" do
    test "with an endless loop ends with its budget or timeout" do
      sandbox = counter()
      assert {:error, %Error{kind: :out_of_fuel}} = Sandbox.call(sandbox, "spin", [], fuel: 3_000_000)
      assert {:error, %Error{kind: :out_of_fuel}} = Sandbox.call(sandbox, "spin", [], fuel: 1, slice: :infinity)

      {microseconds, answer} = :timer.tc(fn -> Sandbox.call(sandbox, "spin", [], timeout: 50) end)
      assert {:error, %Error{kind: :timeout, message: message}} = answer
      assert message =~ ~r/after \d+ slices/
      # Not before its timeout; the delay depends on the machine.
      assert microseconds >= 49_000

      assert Sandbox.call!(sandbox, "count", [3]) == [7]
    end

    test "recurses for ever traps, and its stack pointer is restored" do
      # As compiled code does: takes room on the shadow stack, then calls itself.
      recurse = [global_get(0), i32_const(16), i32_sub(), global_set(0), call(0)]

      sandbox =
        sandbox(
          functions: [
            function("recurse", [], [], recurse),
            function("pointer", [], [:i32], global_get(0))
          ],
          globals: [{"__stack_pointer", :i32, :mutable, 60_000}]
        )

      for slice <- [:infinity, 1_000] do
        assert {:error, %Error{kind: :trap, message: message}} = Sandbox.call(sandbox, "recurse", [], slice: slice)
        assert message =~ "stack"
        assert Sandbox.call!(sandbox, "pointer", []) == [60_000]
      end
    end

    test "allocates for ever runs out of memory, or out of fuel if it ignores refusals" do
      grow = [i32_const(1), memory_grow()]

      sandbox =
        sandbox(
          [
            functions: [
              function("insist", [], [], loop([grow, i32_const(-1), i32_ne(), branch_if(0), unreachable()])),
              function("persist", [], [], loop([grow, drop(), branch(0)])),
              function("pages", [], [:i32], memory_size())
            ],
            memory: {1, nil}
          ],
          memory: 10 * @page
        )

      assert {:error, %Error{kind: :out_of_memory}} = Sandbox.call(sandbox, "insist", [], fuel: 100_000_000)
      assert Sandbox.call!(sandbox, "pages", []) == [10]
      assert {:error, %Error{kind: :out_of_fuel}} = Sandbox.call(sandbox, "persist", [], fuel: 1_000_000)
      assert Sandbox.call!(sandbox, "pages", []) == [10]
    end

    test "grows its memory or a table repeatedly is charged for the host's work, and others get their turns" do
      functions = [
        function("grow_memory", [:i32], [], count_down(0, [i32_const(1), memory_grow(), drop()])),
        function("grow_table", [:i32], [], count_down(0, [ref_null(), i32_const(1), table_grow(), drop()])),
        function("nothing", [:i32], [], count_down(0, [])),
        function("spin", [], [], loop([i32_const(1), memory_grow(), drop(), branch(0)]))
      ]

      # Most growths are refused, which also takes the host time.
      new = fn -> sandbox([functions: functions, memory: {1, nil}, table: 1], memory: 100 * @page) end
      {:ok, [], %{fuel: idle}} = Sandbox.call(new.(), "nothing", [5_000])

      for export <- ["grow_memory", "grow_table"], slice <- [10_000, :infinity] do
        {:ok, [], %{fuel: fuel, slices: slices}} = Sandbox.call(new.(), export, [5_000], slice: slice)
        assert fuel - idle >= 5_000 * 255
        if slice == 10_000, do: assert(slices >= 5_000 * 255 / 11_000)
      end

      growing = for _ <- 1..(2 * System.schedulers_online()), do: new.()
      callers = for sandbox <- growing, do: spawn(fn -> Sandbox.call(sandbox, "spin", []) end)
      for _ <- 1..50, do: Process.sleep(1)
      for caller <- callers, do: Process.exit(caller, :kill)
      for sandbox <- growing, do: assert(Sandbox.call!(sandbox, "nothing", [1]) == [])
    end

    test "traps returns an error that names the trap, and can be called again" do
      sandbox =
        sandbox(
          functions: [
            function("stop", [], [], unreachable()),
            function("divide", [:i32], [:i32], [i32_const(6), local_get(0), i32_div_u()]),
            function("load", [:i32], [:i32], [local_get(0), i32_load()])
          ],
          memory: {1, nil}
        )

      for {export, arguments, words} <- [
            {"stop", [], "unreachable"},
            {"divide", [0], "divide by zero"},
            {"load", [@page - 3], "out of bounds memory access"}
          ] do
        assert {:error, %Error{kind: :trap, message: message}} = Sandbox.call(sandbox, export, arguments)
        assert message =~ words
        assert Sandbox.call!(sandbox, "divide", [2]) == [3]
      end
    end
  end

  test "a killed caller leaves the instance usable, without a suspended call" do
    sandbox = counter()
    callers = for _ <- 1..20, do: spawn(fn -> Sandbox.call(sandbox, "spin", [], slice: 10_000) end)

    # One call loops and the others wait; each killed one makes room for the next.
    for caller <- callers do
      Process.sleep(2)
      Process.exit(caller, :kill)
    end

    assert Sandbox.call!(sandbox, "count", [3], timeout: 5_000) == [7]
    eventually(fn -> inspect(sandbox) =~ "<free, " end)
  end

  test "is read and written within its memory" do
    sandbox = counter()
    assert Sandbox.write(sandbox, @page - 3, "end") == :ok
    assert Sandbox.read(sandbox, @page - 3, 3) == {:ok, "end"}
    assert Sandbox.read(sandbox, @page, 0) == {:ok, ""}

    for {address, length} <- [{@page - 2, 3}, {@page + 1, 0}, {0xFFFF_FFFF_FFFF_FFFF, 1}] do
      assert {:error, %Error{kind: :bad_module, message: message}} = Sandbox.read(sandbox, address, length)
      assert message =~ "outside of the memory of #{@page} bytes"
    end

    assert {:error, %Error{kind: :bad_module}} = Sandbox.write(sandbox, @page - 2, "end")
    assert {:error, %Error{kind: :bad_module}} = Sandbox.read(sandbox([]), 0, 1)
  end

  describe "the Steiner tree example" do
    # The cheapest spanning tree over the terminals and any subset of other nodes.
    defp brute_force(nodes, edges, terminals) do
      others = Enum.to_list(0..(nodes - 1)) -- terminals

      others
      |> subsets()
      |> Enum.map(&spanning_tree(terminals ++ &1, edges))
      |> Enum.reject(&is_nil/1)
      |> Enum.min(fn -> nil end)
    end

    defp subsets([]), do: [[]]
    defp subsets([first | rest]), do: Enum.flat_map(subsets(rest), &[&1, [first | &1]])

    # Kruskal: each node starts as its own component.
    defp spanning_tree(nodes, edges) do
      {components, cost} =
        edges
        |> Enum.filter(fn {from, to, _weight} -> from in nodes and to in nodes end)
        |> Enum.sort_by(&elem(&1, 2))
        |> Enum.reduce({Map.new(nodes, &{&1, &1}), 0}, fn {from, to, weight}, {components, cost} ->
          {here, there} = {components[from], components[to]}

          if here == there,
            do: {components, cost},
            else: {Map.new(components, fn {n, c} -> {n, if(c == there, do: here, else: c)} end), cost + weight}
        end)

      if components |> Map.values() |> Enum.uniq() |> length() <= 1, do: cost
    end

    test "has the cost that an exhaustive search finds" do
      :rand.seed(:exsss, 11)
      steiner = Steiner.new!()

      for _ <- 1..300 do
        nodes = :rand.uniform(7)
        density = :rand.uniform()

        edges =
          for from <- 0..(nodes - 1),
              to <- 0..(nodes - 1),
              from != to and :rand.uniform() < density,
              do: {from, to, :rand.uniform(20) - 1}

        terminals = Enum.take_random(0..(nodes - 1), :rand.uniform(nodes))
        expected = brute_force(nodes, edges, terminals)

        assert Steiner.cost!(steiner, nodes, edges, terminals, slice: 5_000) == expected,
               inspect({nodes, edges, terminals})
      end
    end

    test "a path of terminals costs its edges, and the same fuel for every slice" do
      runs =
        for slice <- [1_000, 20_000, 100_000, 1_000_000, :infinity] do
          # Fuel depends on the allocator's state, so each run has a new instance.
          {:ok, [8], stats} = Sandbox.call(Steiner.new!(), "steiner_path", [9], slice: slice)
          stats
        end

      assert [fuel] = runs |> Enum.map(& &1.fuel) |> Enum.uniq()
      assert List.last(runs).slices == 1
      assert hd(runs).slices > fuel / 1_200
    end

    test "can be stopped at any slice, and refuses wrong input" do
      steiner = Steiner.new!()
      assert {:error, %Error{kind: :timeout}} = Sandbox.call(steiner, "steiner_paths", [11, 1_000_000], timeout: 20)

      pid = spawn(fn -> Sandbox.call(steiner, "steiner_paths", [11, 1_000_000]) end)
      Process.sleep(20)
      Process.exit(pid, :kill)
      assert Sandbox.call!(steiner, "steiner_path", [11]) == [10]

      assert {:error, %Error{kind: :trap}} = Sandbox.call(steiner, "steiner_path", [25])
      assert {:error, %Error{kind: :out_of_memory}} = Sandbox.call(steiner, "steiner_path", [20])
      assert Sandbox.call!(steiner, "steiner_path", [11]) == [10]
    end
  end
end

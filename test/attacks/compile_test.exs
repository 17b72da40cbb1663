defmodule BeTree.Attacks.CompileTest do
  # Modules that take far longer to compile than their length suggests, and more modules than the compilers can handle. The
  # test runs alone, because all tests of a run share the compilers.
  use ExUnit.Case, async: false

  import BeTree.WasmModule
  import BeTree.Test.Eventually

  alias BeTree.{Error, Sandbox, Server}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.Attack

  @moduletag timeout: :infinity
  @moduletag runtime: Wasmtime
  # Far more than a busy machine needs.
  @wait_ms 300_000

  describe "refuses before compilation a module with too many" do
    test "loops over many variables" do
      refused(function("f", [:i32], [:i32], loops(1_900, 2_000), List.duplicate(:i32, 1_900)), "work for the compiler")
    end

    test "blocks within blocks" do
      body = Enum.reduce(1..1_000, [], fn _, body -> block(body) end)
      refused(function("f", [], [], body), "nested blocks in its function 0")
    end

    test "operands that outlast loops" do
      operands = for number <- 1..5_000, do: [local_get(0), i32_const(number), i32_add()]
      loops = for _ <- 1..1_000, do: loop([local_get(0), branch_if(0)])
      sum = List.duplicate(i32_add(), 4_999)
      refused(function("f", [:i32], [:i32], [operands, loops, sum]), "work for the compiler in its function 0")
    end

    test "results that are all alive at once" do
      loads = for number <- 1..20_000, do: [local_get(0), i32_load(number)]
      sum = List.duplicate(i32_add(), 19_999)
      refused(function("f", [:i32], [:i32], [loads, sum]), "work for the compiler in its function 0")
    end

    test "branches of a table" do
      table = [local_get(0), 0x0E, u(100_000), List.duplicate(0, 100_001)]
      body = [block(table), loops(50, 1)]
      refused(function("f", [:i32], [:i32], body, List.duplicate(:i32, 50)), "work for the compiler")
    end

    test "variables" do
      refused(function("f", [], [], nop(), List.duplicate(:i32, 2_001)), "2001 local variables in its function 0")
    end

    test "functions" do
      functions = List.duplicate(function(nil, [], [], nop()), 20_001)
      assert message(assemble(functions: functions)) =~ "20001 functions"
    end

    test "exports and imports" do
      functions = for number <- 1..2_001, do: function("f#{number}", [], [], nop())
      assert message(assemble(functions: functions)) =~ "2001 exports"
      assert message(assemble(imports: for(number <- 1..2_001, do: {"m", "f#{number}"}))) =~ "2001 imports"
    end

    test "bytes of code" do
      function = function(nil, [], [], List.duplicate(nop(), 80_000))
      assert message(assemble(functions: List.duplicate(function, 60))) =~ "bytes of code"
    end
  end

  test "at most two modules compile at a time, for any number of callers" do
    counter = start_supervised!({Task, fn -> most_threads(0) end})
    modules = for seed <- 1..Attack.size(4, 16), do: slow(seed)
    askers = for wasm <- modules, do: Task.async(fn -> Sandbox.load(wasm) end)
    for answer <- Task.await_many(askers, :infinity), do: assert({:ok, _module} = answer)
    send(counter, {:stop, self()})
    assert_receive {:most, most}
    assert most in 1..2
  end

  test "a full queue refuses a module until its waiting callers die" do
    test = self()
    # Assembled before, so that the compilers cannot keep up with the callers.
    modules = for seed <- 1..100, do: slow(200 + seed)
    compiling = for wasm <- [slow(101, 5), slow(102, 5)], do: Task.async(fn -> Sandbox.load(wasm) end)
    eventually(fn -> threads() == 2 end)
    callers = for wasm <- modules, do: spawn(fn -> send(test, Sandbox.load(wasm)) end)

    assert_receive {:error, %Error{kind: :overloaded} = error}, @wait_ms
    assert Exception.message(error) =~ "64 modules wait to be compiled"

    for pid <- callers, do: Process.exit(pid, :kill)
    eventually(fn -> not Enum.any?(callers, &Process.alive?/1) end)
    # The killed processes had requested 64 slow modules.
    assert {:ok, _module} = Sandbox.load(quick(300))
    for answer <- Task.await_many(compiling, :infinity), do: assert({:ok, _module} = answer)
    eventually(fn -> threads() == 0 end)
  end

  test "a swap that times out removes its module from the compile queue" do
    name = __MODULE__.Swapped
    start_supervised!({Server, name: name, schema: [a: :integer]})
    compiling = for seed <- 401..402, do: Task.async(fn -> Sandbox.load(slow(seed, 5)) end)
    eventually(fn -> threads() == 2 end)
    Process.flag(:trap_exit, true)
    assert {:error, %Error{kind: :timeout}} = Server.swap(name, quick(400), timeout: 0)
    refute_received {:EXIT, _pid, _reason}
    for task <- compiling, do: assert({:ok, _module} = Task.await(task, :infinity))
    assert {:error, %Error{kind: :bad_module}} = Server.swap(name, quick(400), timeout: 60_000)
    assert BeTree.search!(name, %{a: 1}) == []
  end

  defp refused(function, text), do: assert(message(assemble(functions: [function], memory: {1, nil})) =~ text)

  defp message(wasm) do
    assert {:error, %Error{kind: :bad_module} = error} = Sandbox.load(wasm)
    Exception.message(error)
  end

  # A slow module within the bounds, different for each seed.
  defp slow(seed, functions \\ 1) do
    body = [i32_const(seed), drop(), loops(900, 550)]
    function = function(nil, [:i32], [:i32], body, List.duplicate(:i32, 900))
    assemble(functions: List.duplicate(function, functions))
  end

  defp quick(seed), do: assemble(functions: [function("f", [], [:i32], i32_const(seed))])

  # Each of these loops uses the parameter and all of these variables.
  defp loops(variables, count) do
    each = fn number ->
      variable = 1 + rem(number, variables)
      loop([local_get(variable), i32_const(1), i32_add(), local_set(variable), local_get(variable), branch_if(0)])
    end

    sum = for variable <- 1..variables, do: [local_get(variable), local_get(0), i32_add(), local_set(0)]
    [Enum.map(1..count, each), sum, local_get(0)]
  end

  defp u(number) when number < 128, do: number
  defp u(number), do: [Bitwise.bor(rem(number, 128), 128), u(div(number, 128))]

  defp most_threads(most) do
    receive do
      {:stop, asker} -> send(asker, {:most, most})
    after
      1 -> most_threads(max(most, threads()))
    end
  end

  # Returns how many threads of this process compile.
  defp threads do
    for path <- Path.wildcard("/proc/self/task/*/comm"),
        {:ok, "be_tree_compile" <> _} <- [File.read(path)],
        reduce: 0 do
      count -> count + 1
    end
  end
end

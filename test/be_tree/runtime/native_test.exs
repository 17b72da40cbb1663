defmodule BeTree.Runtime.NativeTest do
  # Counts what is alive in the whole VM.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  import BeTree.WasmModule

  alias BeTree.WasmModule
  alias BeTree.Runtime.Native
  alias BeTree.Runtime.Wasmtime

  @functions [
    function("three", [], [:i32], i32_const(3)),
    function("spin", [], [], loop(branch(0))),
    function("trap", [], [], unreachable())
  ]

  setup do
    :ok = Native.load()
    {:ok, module: compile(WasmModule.assemble(functions: @functions, memory: {1, nil}))}
  end

  defp compile(wasm) do
    reference = make_ref()

    case Native.compile(reference, :crypto.hash(:sha256, wasm), wasm, {nil, nil}) do
      {:ok, module} ->
        module

      :busy ->
        assert_receive {^reference, {:ok, module, :compiled, nil}}
        module
    end
  end

  defp instance(module) do
    {:ok, instance} = Native.instantiate(module, nil, 1_000_000, nil, nil, nil)
    instance
  end

  defp call(instance, ticket, export, slice \\ 1_000) do
    Native.call(instance, ticket, {export, [], nil, :none, 10_000_000, slice, false})
  end

  # Works in a separate process, whose terms are freed at its end, and waits until nothing is left.
  defp leaves_nothing(work) do
    {modules, instances, suspended} = Native.counts()
    {pid, monitor} = spawn_monitor(work)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :normal}, 60_000

    none_left = fn ->
      {modules_now, instances_now, suspended_now} = Native.counts()
      modules_now <= modules and instances_now <= instances and suspended_now <= suspended
    end

    eventually(none_left)
  end

  test "load/0 returns the system's message for a library that cannot be loaded" do
    folder = Path.join(System.tmp_dir!(), "be_tree_native_#{System.unique_integer([:positive])}/be_tree")
    on_exit(fn -> File.rm_rf!(Path.dirname(folder)) end)
    File.mkdir_p!(Path.join(folder, "priv/native"))
    File.write!(Path.join(folder, "priv/native/be_tree_host.so"), "no library")
    File.cp_r!(Application.app_dir(:be_tree, "ebin"), Path.join(folder, "ebin"))
    others = for path <- :code.get_path(), not String.contains?(List.to_string(path), "be_tree"), do: path
    {:ok, peer, _node} = :peer.start(%{wait_boot: 120_000, connection: :standard_io})
    :ok = :peer.call(peer, :code, :add_paths, [[String.to_charlist(Path.join(folder, "ebin")) | others]], :infinity)
    assert {:error, :bad_module, text} = :peer.call(peer, Native, :load, [], :infinity)
    assert text =~ "be_tree_host.so: "
    assert {:error, %{kind: :bad_module, message: message}} = :peer.call(peer, Wasmtime, :load, [""], :infinity)
    assert message =~ text
    :peer.stop(peer)
  end

  test "compile/3 compiles a binary once for concurrent callers" do
    wasm = assemble(functions: [function("once", [], [], [nop()])])
    {before, _instances, _suspended} = Native.counts()
    loads = 1..50 |> Enum.map(fn _ -> Task.async(fn -> Wasmtime.load(wasm) end) end) |> Task.await_many(60_000)
    {modules, _instances, _suspended} = Native.counts()
    assert Enum.all?(loads, &match?({:ok, _}, &1))
    # Modules of earlier tests may be freed meanwhile. No other test runs, so none is added.
    assert modules <= before + 1
  end

  describe "queue" do
    test "grants a free instance at once", %{module: module} do
      instance = instance(module)
      reference = make_ref()
      {:ok, ticket} = Native.queue(instance, reference)
      assert_receive {^reference, :ready}
      assert call(instance, nil, "three") == :busy
      assert {:done, [3], nil, _fuel} = call(instance, ticket, "three")
      assert {:done, [3], nil, _fuel} = call(instance, nil, "three")
      # The turn is kept for good.
      assert call(instance, ticket, "three") == :busy
    end

    test "passes on the turn of a process that dies before its call", %{module: module} do
      instance = instance(module)
      parent = self()

      {waiter, monitor} =
        spawn_monitor(fn ->
          reference = make_ref()
          {:ok, ticket} = Native.queue(instance, reference)
          receive(do: ({^reference, :ready} -> send(parent, :called)))
          receive(do: (:never -> call(instance, ticket, "three")))
        end)

      assert_receive :called
      reference = make_ref()
      {:ok, ticket} = Native.queue(instance, reference)
      refute_receive {^reference, :ready}, 50
      Process.exit(waiter, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^waiter, :killed}
      assert_receive {^reference, :ready}
      assert {:done, [3], nil, _fuel} = call(instance, ticket, "three")
    end

    test "delays reads and writes as well", %{module: module} do
      instance = instance(module)
      {:yield, suspended, 1_000} = call(instance, nil, "spin")

      Task.async(fn ->
        assert Native.read(instance, nil, 0, 1) == :busy
        assert Native.write(instance, nil, 0, "x") == :busy
        assert Native.change(instance, nil, {"three", [], nil, :none, :infinity, 5_000_000, true}) == :busy
      end)
      |> Task.await(:infinity)

      assert {:error, :overloaded, _message} = Native.read(instance, nil, 0, 1)
      :ok = Native.cancel(suspended)
    end
  end

  test "functions refuse resources of another kind", %{module: module} do
    instance = instance(module)
    assert_raise ArgumentError, fn -> call(module, nil, "three") end
    assert_raise ArgumentError, fn -> call(instance, instance, "three") end
    assert_raise ArgumentError, fn -> Native.resume(instance, 0) end
    assert_raise ArgumentError, fn -> Native.module_exports(make_ref()) end
    assert_raise ArgumentError, fn -> Native.instantiate(module, nil, -1, nil, nil, nil) end
  end

  describe "resources are freed" do
    test "of modules and instances" do
      leaves_nothing(fn ->
        for index <- 1..20 do
          module = compile(WasmModule.assemble(functions: [function("f#{index}", [], [], [])], memory: {1, nil}))
          for _ <- 1..20, do: instance(module)
        end
      end)
    end

    test "of suspended calls that are resumed, cancelled or dropped" do
      wasm = WasmModule.assemble(functions: @functions, memory: {1, nil})

      leaves_nothing(fn ->
        module = compile(wasm)

        for fate <- [:forget, :cancel, :finish, :trap], _ <- 1..50 do
          instance = instance(module)
          {:yield, suspended, _fuel} = call(instance, nil, "spin")

          case fate do
            :forget -> :ok
            :cancel -> Native.cancel(suspended)
            :finish -> finish(Native.resume(suspended, 0))
            :trap -> call(instance(module), nil, "trap")
          end
        end
      end)
    end

    test "of sliced changes that lose their process" do
      wasm = WasmModule.assemble(functions: @functions, memory: {1, nil})

      leaves_nothing(fn ->
        module = compile(wasm)

        for _ <- 1..3 do
          change = Native.call(instance(module), nil, {"spin", [], nil, :none, 10_000_000_000, 1_000, true})
          assert {:yield, _suspended, 1_000} = change
        end
      end)
    end

    test "of thousands of traps and killed callers" do
      wasm = WasmModule.assemble(functions: @functions, memory: {1, nil})

      leaves_nothing(fn ->
        module = compile(wasm)
        shared = for _ <- 1..10, do: instance(module)
        workers = for _ <- 1..200, do: spawn_monitor(fn -> for(_ <- 1..50, do: trap(Enum.random(shared))) end)
        for {pid, _monitor} <- Enum.take_every(workers, 3), do: Process.exit(pid, :kill)
        for {pid, monitor} <- workers, do: assert_receive({:DOWN, ^monitor, :process, ^pid, _reason}, 60_000)
        for instance <- shared, do: assert({:done, [3], nil, _fuel} = waited(instance, "three"))
      end)
    end

    defp finish({:yield, suspended, _fuel}), do: finish(Native.resume(suspended, 0))
    defp finish(outcome), do: assert({:error, :out_of_fuel, _message} = outcome)

    defp trap(instance), do: assert({:error, :trap, _message} = waited(instance, "trap"))

    defp waited(instance, export) do
      with :busy <- call(instance, nil, export) do
        reference = make_ref()
        {:ok, ticket} = Native.queue(instance, reference)
        receive(do: ({^reference, :ready} -> call(instance, ticket, export)))
      end
    end
  end

  test "unpack prepends a part of packed integers to a list, and refuses a range outside them" do
    packed = for integer <- 1..20_000, into: "", do: <<integer::little-64>>
    {list, left} = Native.unpack(packed, 20_000, [:behind])
    assert left < 20_000
    assert list == Enum.to_list((left + 1)..20_000) ++ [:behind]
    assert Native.unpack(packed, 2, []) == {[1, 2], 0}
    assert Native.unpack(packed, 0, []) == {[], 0}
    assert_raise ArgumentError, fn -> Native.unpack(packed, 20_001, []) end
    assert_raise ArgumentError, fn -> Native.unpack("1234567", 1, []) end
    assert_raise ArgumentError, fn -> Native.unpack(packed, -1, []) end
    assert_raise ArgumentError, fn -> Native.unpack(:packed, 1, []) end
  end
end

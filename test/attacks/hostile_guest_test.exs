defmodule BeTree.Attacks.HostileGuestTest do
  # Index modules with endless loops must not stop searches and changes of other trees, and a kill ends such a call.
  # Assertions look at which calls are still running, not at a clock.
  use ExUnit.Case, async: true

  import BeTree.WasmModule
  import BeTree.Test.Eventually

  alias BeTree.{Error, Guest}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.{Attack, WasmGuest}

  @moduletag timeout: :infinity
  @moduletag runtime: Wasmtime

  @long String.duplicate("x", 2_000)

  setup_all do
    insert = [WasmGuest.hang_when_long(), i32_const(0)]
    {:ok, inserting} = Guest.load(WasmGuest.assemble(nop(), insert: insert))
    {:ok, opening} = Guest.load(WasmGuest.assemble(nop(), inbox: WasmGuest.hang_when_long()))
    {:ok, inserting: inserting, opening: opening}
  end

  test "endless changes do not starve changes of other trees", %{inserting: guest} do
    hostile =
      for _ <- 1..Attack.size(4 * dirty_schedulers(), 100) do
        tree = tree(guest)
        task = Task.async(fn -> BeTree.insert(tree, 1, "s = '#{@long}'") end)
        {tree, task}
      end

    for {tree, _task} <- hostile, do: eventually(fn -> busy?(tree) end)
    innocent = BeTree.new!(a: :integer)
    for id <- 1..20, do: BeTree.insert!(innocent, id, "a = 1")
    assert length(BeTree.search!(innocent, %{a: 1})) == 20

    # None has ended by itself, as it would when its fuel is exhausted.
    for {tree, %Task{ref: ref} = task} <- hostile do
      assert busy?(tree)
      refute_received {^ref, _answer}
      Task.shutdown(task, :brutal_kill)
    end

    for {tree, _task} <- hostile do
      eventually(fn -> not busy?(tree) end)
      assert BeTree.search(tree, %{s: "x"}) == {:ok, WasmGuest.ids()}
    end
  end

  test "a change past its timeout ends", %{inserting: guest} do
    tree = tree(guest)
    request = %{input: @long, output: :binary, fuel: :infinity, slice: :infinity, scheduler: :dirty, timeout: 1}
    assert {:error, %Error{kind: :timeout}} = Wasmtime.call(tree.instance, "be_tree_insert", [2_000], request)
    assert BeTree.search(tree, %{s: "x"}) == {:ok, WasmGuest.ids()}
  end

  test "a large change completes when its process is killed" do
    tree = BeTree.new!(a: :integer)
    count = Attack.size(20_000, 200_000)
    many = for id <- 1..count, do: {id, "a = #{id}"}
    changer = spawn(fn -> BeTree.insert_all(tree, many) end)
    # On a loaded machine the change may end before it is observed.
    eventually(fn -> busy?(tree) or not Process.alive?(changer) end)
    Process.exit(changer, :kill)
    eventually(fn -> not busy?(tree) and not Process.alive?(changer) end)
    # Each part of a batch is a change.
    expressions = BeTree.info!(tree).expressions
    assert expressions in 0..count
    for id <- 1..expressions//997, do: assert(BeTree.search!(tree, %{a: id}) == [id])
  end

  test "killed searches that hang in their inbox do not block other trees", %{opening: guest} do
    hostile =
      for _ <- 1..Attack.size(20, 200) do
        tree = tree(guest)
        {tree, spawn(fn -> search_on(tree) end)}
      end

    innocent = BeTree.new!(a: :integer)
    BeTree.insert!(innocent, 1, "a = 1")
    {:yield, search} = BeTree.Search.start(innocent, %{a: 1}, slice: 100)
    waiting = Task.async(fn -> BeTree.search(innocent, %{a: 1}) end)
    eventually(fn -> Wasmtime.info(innocent.instance).waiting == 1 end)

    for {tree, _pid} <- hostile, do: eventually(fn -> busy?(tree) end)
    for {_tree, pid} <- hostile, do: Process.exit(pid, :kill)
    eventually(fn -> not Enum.any?(hostile, fn {_tree, pid} -> Process.alive?(pid) end) end)
    BeTree.Search.cancel(search)
    assert Task.await(waiting, :infinity) == {:ok, [1]}
    assert Enum.any?(hostile, fn {tree, _pid} -> busy?(tree) end)
    # Each gets its turns within about 0.1 seconds.
    for {tree, _pid} <- hostile, do: eventually(fn -> not busy?(tree) end)
  end

  defp tree(guest), do: BeTree.new!([s: {:string, optional: true}], guest: guest)

  defp search_on(tree) do
    BeTree.search(tree, %{s: @long})
    search_on(tree)
  end

  defp busy?(tree), do: Wasmtime.info(tree.instance).state != :free

  defp dirty_schedulers, do: :erlang.system_info(:dirty_cpu_schedulers_online)
end

defmodule BeTree.SchedulingTest do
  # Counts what is alive in the whole VM.
  use ExUnit.Case, async: false

  import BeTree.Test.Reductions
  import BeTree.WasmModule

  alias BeTree.{Error, Fuel, Search}
  alias BeTree.Runtime.Native
  alias BeTree.Test.{Language, WasmGuest}
  alias BeTree.Workload.{W1, W3}

  @slices [1_000, 20_000, 100_000, 1_000_000, :infinity]

  # More fuel a reduction than any search burns, so nothing is charged.
  @free 1_000_000_000_000

  defp tree(workload, parameters, options \\ []) do
    tree = BeTree.new!(workload.schema(parameters), options)
    BeTree.insert_all!(tree, parameters |> workload.expressions() |> Enum.with_index(&{&2 + 1, &1}))
    tree
  end

  describe "for every slice ids and fuel are the same, and fuel adds up," do
    test "over dense boolean trees" do
      parameters = Map.merge(W1.defaults(), %{expressions: 500, events: 30})
      check(fn -> tree(W1, parameters) end, W1.events(parameters))
    end

    test "over ad targeting" do
      parameters = Map.merge(W3.defaults(), %{expressions: 2_000, events: 100})
      check(fn -> tree(W3, parameters) end, W3.events(parameters))
    end

    test "over the whole language" do
      build = fn ->
        tree = BeTree.new!(Language.schema())
        BeTree.insert_all!(tree, Language.subscriptions())
        tree
      end

      check(build, for({_expression, event, _holds} <- Language.rows(), do: event))
    end

    # Each slice has a new tree first, then all share a used one. Leftovers of earlier searches make no difference.
    defp check(build, events) do
      events = Enum.to_list(events)
      first = walk(build.(), events, :infinity)
      for slice <- @slices, do: assert({slice, walk(build.(), events, slice)} == {slice, first})

      tree = build.()
      for slice <- @slices, do: assert({slice, walk(tree, events, slice)} == {slice, first})
    end

    defp walk(tree, events, slice),
      do: for(event <- events, do: steps(Search.start(tree, event, slice: slice), slice, 0))

    # The fuel so far never exceeds the final fuel, and grows by a slice each time.
    defp steps({:yield, search}, slice, before) do
      %{fuel: fuel} = search.slices
      assert fuel == before + slice
      steps(Search.resume(search), slice, fuel)
    end

    defp steps({:done, ids, stats}, _slice, before) do
      assert stats.fuel >= before
      assert stats.slices >= 1
      {ids, Map.delete(stats, :slices)}
    end
  end

  describe "reductions equal the fuel's worth" do
    # `search` returns the burned fuel of a tree; `build` makes a tree with a ratio. The overhead of the code around is
    # measured with uncharged fuel.
    defp check_charge(build, ratio, search) do
      charged = build.(ratio)
      free = build.(@free)
      fuel = search.(charged)
      assert search.(free) == fuel
      worth = fuel / ratio
      assert worth > 10_000
      assert_in_delta reductions(fn -> search.(charged) end) - reductions(fn -> search.(free) end), worth, worth / 10
    end

    for {title, ratio} <- [{"one by one", 1}, {"at the default ratio", Fuel.per_reduction()}] do
      @tag ratio: ratio
      test "over a thousand short searches, #{title}", %{ratio: ratio} do
        parameters = Map.merge(W3.defaults(), %{expressions: 500, events: 100})
        events = Enum.to_list(W3.events(parameters))

        search = fn tree ->
          for _ <- 1..10, event <- events, reduce: 0 do
            fuel ->
              {:ok, _ids, stats} = BeTree.search(tree, event, stats: true)
              fuel + stats.fuel
          end
        end

        build = fn ratio -> tree(W3, parameters, fuel_per_reduction: ratio) end
        check_charge(build, ratio, search)
      end
    end

    test "over a thousand searches of a tiny index, at the default ratio" do
      build = fn ratio ->
        tree = BeTree.new!([age: :integer], fuel_per_reduction: ratio)
        BeTree.insert!(tree, 1, "age >= 21")
        tree
      end

      check_charge(build, Fuel.per_reduction(), fn tree ->
        for _ <- 1..1_000, reduce: 0 do
          fuel ->
            {:ok, [1], stats} = BeTree.search(tree, %{age: 30}, stats: true)
            fuel + stats.fuel
        end
      end)
    end

    for {title, ratio, count} <- [{"of 40 ms, one by one", 1, 20_000_000}, {"of about a second", 50, 500_000_000}] do
      @tag ratio: ratio, count: count
      test "over a search #{title}", %{ratio: ratio, count: count} do
        guest = WasmGuest.spin(count)
        build = fn ratio -> BeTree.new!([], guest: guest, fuel_per_reduction: ratio) end

        check_charge(build, ratio, fn tree ->
          {:ok, _ids, stats} = BeTree.search(tree, %{}, stats: true)
          assert stats.slices > 100
          stats.fuel
        end)
      end
    end
  end

  describe "10,000 processes search one tree" do
    @processes 10_000
    @killed 1_000

    test "while 1,000 of them are killed, and leave nothing" do
      tree = BeTree.new!(a: :integer, b: {:boolean, optional: true})
      BeTree.insert_all!(tree, for(id <- 1..2_000, do: {id, "not (a > #{id} and b) or a = #{id}"}))
      expected = Enum.to_list(1_000..2_000)

      # The first round fills caches of the VM.
      stampede(tree, expected)
      settled(tree)
      before = footprint(tree)
      stampede(tree, expected)
      settled(tree)
      later = footprint(tree)

      assert later.counts == before.counts
      assert later.memory == before.memory

      # A leaked fiber stack takes two mappings, and a leaked waiter in the host half a kilobyte.
      assert_in_delta later.mappings, before.mappings, 100
      assert later.system - before.system < 500 * @killed
    end

    defp stampede(tree, expected) do
      workers =
        for _ <- 1..@processes do
          spawn_monitor(fn -> exit({:found, BeTree.search(tree, %{a: 1_000, b: true}, slice: 20_000)}) end)
        end

      for {{pid, _monitor}, number} <- workers |> Enum.take_random(@killed) |> Enum.with_index() do
        if rem(number, 4) == 0, do: Process.sleep(:rand.uniform(3))
        Process.exit(pid, :kill)
      end

      reasons = for {pid, monitor} <- workers, do: assert_down(pid, monitor)
      %{found: found} = outcome = Enum.frequencies_by(reasons, &outcome(&1, expected))
      assert found >= @processes - @killed
      # Some must have been killed while they waited or searched.
      assert outcome.killed > div(@killed, 10)
      assert outcome |> Map.keys() |> Enum.sort() == [:found, :killed]
    end

    defp assert_down(pid, monitor) do
      assert_receive {:DOWN, ^monitor, :process, ^pid, reason}, 60_000
      reason
    end

    defp outcome({:found, {:ok, ids}}, ids), do: :found
    defp outcome(:killed, _expected), do: :killed
    defp outcome(other, _expected), do: other

    defp settled(tree, attempts \\ 500) do
      %{state: state, waiting: waiting} = tree.runtime.info(tree.instance)
      {_modules, _instances, suspended} = Native.counts()

      unless {state, waiting, suspended} == {:free, 0, 0} do
        assert attempts > 0, "not free again: #{inspect({state, waiting, suspended})}"
        Process.sleep(10)
        settled(tree, attempts - 1)
      end
    end

    defp footprint(tree) do
      for pid <- Process.list(), do: :erlang.garbage_collect(pid)

      %{
        counts: counts(Native.counts()),
        memory: tree.runtime.info(tree.instance).memory,
        mappings: mappings(File.read("/proc/self/maps")),
        system: :erlang.memory(:system)
      }
    end

    # A thread of the host frees the trees of earlier tests.
    defp counts(before) do
      Process.sleep(50)

      case Native.counts() do
        ^before -> before
        later -> counts(later)
      end
    end

    defp mappings({:ok, text}), do: length(String.split(text, "\n"))
    # Only Linux has this file.
    defp mappings({:error, :enoent}), do: 0
  end

  describe "a misbehaving module ends within its budget, and the next search works:" do
    @budget 50_000_000

    for {title, kind, body} <- [
          {"it loops for ever", :out_of_fuel, loop(branch(0))},
          {"it recurses for ever", :trap, WasmGuest.recurse()},
          {"it grows its memory until it is refused, and stops", :out_of_memory,
           [loop([i32_const(16), memory_grow(), i32_const(-1), i32_ne(), branch_if(0)]), unreachable()]},
          {"it grows its memory for ever", :out_of_fuel, loop([i32_const(16), memory_grow(), drop(), branch(0)])},
          {"it traps", :trap, unreachable()},
          {"it writes beyond its memory", :trap, [i32_const(-4), i32_const(1), i32_store()]}
        ] do
      @tag kind: kind, body: body
      test title, %{kind: kind, body: body} do
        good = BeTree.new!(a: :integer)
        BeTree.insert!(good, 1, "a = 1")
        bad = BeTree.new!([], guest: WasmGuest.assemble(body, when_json: true), memory: 4_000_000)

        for slice <- [10_000, Fuel.default_slice(), :infinity] do
          assert {:error, %Error{kind: ^kind}} = BeTree.search(bad, {:json, "{}"}, fuel: @budget, slice: slice)
          assert BeTree.search(bad, %{}) == {:ok, WasmGuest.ids()}
          assert BeTree.search(good, %{a: 1}) == {:ok, [1]}
        end

        assert tree_memory(bad) <= 4_000_000
      end
    end

    test "an endless loop with a deadline" do
      bad = BeTree.new!([], guest: WasmGuest.assemble(loop(branch(0)), when_json: true))
      {microseconds, answer} = :timer.tc(fn -> BeTree.search(bad, {:json, "{}"}, timeout: 50) end)
      assert {:error, %Error{kind: :timeout}} = answer
      # Deadlines have a resolution of milliseconds. The delay depends on the machine.
      assert microseconds >= 49_000
      assert BeTree.search(bad, %{}) == {:ok, WasmGuest.ids()}
    end

    defp tree_memory(tree), do: tree.runtime.info(tree.instance).memory
  end
end

defmodule BeTree.SearchTest do
  use ExUnit.Case, async: true

  alias BeTree.{Error, Search}

  doctest Search

  @ratio 100
  @event %{a: 2_500, b: true}
  @matches Enum.to_list(2_500..5_000)

  setup do
    {:ok, tree: tree()}
  end

  # A tree whose search takes many slices.
  defp tree(ratio \\ @ratio) do
    tree = BeTree.new!([a: :integer, b: {:boolean, optional: true}], fuel_per_reduction: ratio)
    BeTree.insert_all!(tree, for(id <- 1..5_000, do: {id, "not (a > #{id} and b) or a = #{id}"}))
    tree
  end

  test "ids, fuel and counts are the same for every slice", %{tree: tree} do
    {:done, @matches, whole} = Search.run(tree, @event, slice: :infinity)
    assert whole.slices == 1
    assert whole.fuel > 50_000

    for slice <- [1_000, 1_001, 3_333, 10_000, 77_777, 1_000_000_000] do
      {:done, @matches, sliced} = Search.run(tree, @event, slice: slice)
      assert {slice, Map.put(sliced, :slices, 1)} == {slice, whole}
      # A slice ends with the block of instructions that exhausts its fuel.
      assert sliced.slices in div(whole.fuel, 2 * slice)..(div(whole.fuel, slice) + 1)
    end
  end

  test "a budget equal to the fuel of a search suffices, and a smaller one leaves the tree unchanged", %{tree: tree} do
    {:done, @matches, %{fuel: fuel}} = Search.run(tree, @event)

    for slice <- [1_000, 10_000, :infinity] do
      assert {:done, @matches, %{fuel: ^fuel}} = Search.run(tree, @event, fuel: fuel, slice: slice)
      assert {:error, %Error{kind: :out_of_fuel}} = Search.run(tree, @event, fuel: fuel - 1_000, slice: slice)
      assert {:error, %Error{kind: :out_of_fuel}} = Search.run(tree, @event, fuel: 1, slice: slice)
      assert {:done, @matches, %{fuel: ^fuel}} = Search.run(tree, @event, slice: slice)
    end
  end

  test "a step ends with its slice", %{tree: tree} do
    assert {:yield, search} = Search.start(tree, @event, slice: 10_000)
    assert inspect(search) =~ ~r/^#BeTree.Search<1 slice, \d+ fuel>$/
    assert {:yield, search} = Search.resume(search)
    assert inspect(search) =~ ~r/^#BeTree.Search<2 slices, \d+ fuel>$/
    assert Search.cancel(search) == :ok
    assert BeTree.search(tree, @event) == {:ok, @matches}
  end

  test "results of any length are complete" do
    tree = BeTree.new!(a: :integer)
    count = 20_000
    BeTree.insert_all!(tree, for(id <- 1..count, do: {2 * id, "a > #{id}"}))

    for a <- [1, 2, 8_000, 8_192, 8_193, 8_194, 16_385, 16_386, 20_001] do
      ids = for id <- 1..count, id < a, do: 2 * id
      assert BeTree.search(tree, %{a: a}) == {:ok, ids}
      assert {:ok, packed} = BeTree.search(tree, %{a: a}, as: :binary)
      assert for(<<id::little-64 <- packed>>, do: id) == ids
      assert BeTree.search_many(tree, [%{a: 3}, %{a: a}, %{a: 1}, %{a: a}]) == {:ok, [[2, 4], ids, [], ids]}
    end
  end

  test "a long search restores the heap settings of its caller, and leaves room in the heap", %{tree: tree} do
    test = self()

    spawn_link(fn ->
      settings = fn ->
        {:garbage_collection, settings} = Process.info(self(), :garbage_collection)
        Keyword.take(settings, [:min_heap_size, :min_bin_vheap_size])
      end

      before = settings.()
      {:done, @matches, %{slices: slices}} = Search.run(tree, @event, slice: 10_000)
      {:error, %Error{kind: :out_of_fuel}} = Search.run(tree, @event, slice: 10_000, fuel: 100_000)
      {:garbage_collection_info, info} = Process.info(self(), :garbage_collection_info)
      send(test, {:ran, slices, settings.() == before, info[:heap_block_size]})
    end)

    assert_receive {:ran, slices, true, words}
    assert slices > 4
    assert words > 40_000
  end

  test "another process may resume a search", %{tree: tree} do
    {:yield, search} = Search.start(tree, @event, slice: 10_000)

    finish = fn
      {:yield, search}, finish -> finish.(Search.resume(search), finish)
      answer, _ -> answer
    end

    assert {:done, @matches, _stats} = Task.await(Task.async(fn -> finish.({:yield, search}, finish) end), :infinity)
  end

  test "a cancelled or finished search cannot be resumed", %{tree: tree} do
    {:yield, search} = Search.start(tree, @event, slice: 10_000)
    assert Search.cancel(search) == :ok
    assert Search.cancel(search) == :ok
    assert {:error, %Error{kind: :not_found}} = Search.resume(search)

    {:yield, search} = Search.start(tree, @event, slice: 1_500_000)
    assert {:done, @matches, _stats} = Search.resume(search)
    assert {:error, %Error{kind: :not_found}} = Search.resume(search)
    assert BeTree.search(tree, @event) == {:ok, @matches}
  end

  test "a process that holds a search of a tree cannot start another one", %{tree: tree} do
    {:yield, search} = Search.start(tree, @event, slice: 10_000)
    assert {:error, %Error{kind: :overloaded}} = BeTree.search(tree, @event)
    assert inspect(tree) =~ ~r/^#BeTree<suspended, /
    assert Search.cancel(search) == :ok
    assert BeTree.search(tree, @event) == {:ok, @matches}
  end

  test "a search is cancelled at its timeout, and the tree stays usable", %{tree: tree} do
    assert {:error, %Error{kind: :timeout}} = BeTree.search(tree, @event, slice: 1_000, timeout: 0)
    assert BeTree.search(tree, @event, timeout: 60_000) == {:ok, @matches}
    assert BeTree.search(tree, @event, slice: :infinity, timeout: 0) == {:ok, @matches}
  end

  test "a killed process releases the tree" do
    tree = tree()
    parent = self()

    pid =
      spawn(fn ->
        {:yield, search} = Search.start(tree, @event, slice: 10_000)
        send(parent, :suspended)
        Process.sleep(:infinity)
        Search.resume(search)
      end)

    assert_receive :suspended
    Process.exit(pid, :kill)
    assert BeTree.search(tree, @event) == {:ok, @matches}
  end

  describe "reductions" do
    # Returns the reductions of the process after it ran `search`.
    defp charged(search) do
      parent = self()

      spawn_link(fn ->
        {:reductions, before} = Process.info(self(), :reductions)
        search.()
        {:reductions, later} = Process.info(self(), :reductions)
        send(parent, {:charged, later - before})
      end)

      assert_receive {:charged, reductions}
      reductions
    end

    test "are charged for the fuel of every slice size", %{tree: tree} do
      {:done, _ids, %{fuel: fuel}} = Search.run(tree, @event)
      expected = div(fuel, @ratio)
      assert expected > 5_000

      # A huge ratio charges nothing; the remaining reductions are the loop's own.
      free = tree(1_000_000_000_000)

      for slice <- [fuel, :infinity, 500_000, 50_000, 20_000] do
        own = charged(fn -> Search.run(free, @event, slice: slice) end)
        charged = charged(fn -> Search.run(tree, @event, slice: slice) end) - own
        assert_in_delta charged, expected, expected / 10, "slice #{slice}"
      end
    end

    test "are charged for an exhausted budget, and step by step", %{tree: tree} do
      {:done, _ids, %{fuel: fuel}} = Search.run(tree, @event)
      charged = charged(fn -> Search.run(tree, @event, fuel: fuel - 1) end)
      assert_in_delta charged, div(fuel, @ratio), div(fuel, @ratio) / 10

      charged =
        charged(fn ->
          {:yield, search} = Search.start(tree, @event, slice: 100_000)
          Search.cancel(search)
        end)

      assert_in_delta charged, 1_000, 300
    end

    test "let other processes run during a long search" do
      tree = tree()
      schedulers = System.schedulers_online()
      parent = self()
      stop = :atomics.new(1, [])

      for _ <- 1..(2 * schedulers) do
        spawn_link(fn ->
          own = tree()
          send(parent, :built)

          search = fn search ->
            if :atomics.get(stop, 1) == 0,
              do:
                (
                  BeTree.search!(own, @event)
                  search.(search)
                )
          end

          search.(search)
        end)
      end

      for _ <- 1..(2 * schedulers), do: assert_receive(:built, 30_000)

      late =
        for _ <- 1..100 do
          start = System.monotonic_time(:microsecond)
          Process.sleep(1)
          System.monotonic_time(:microsecond) - start - 1_000
        end

      :atomics.put(stop, 1, 1)
      assert late |> Enum.sort() |> Enum.at(50) < 30_000
      assert BeTree.search(tree, @event) == {:ok, @matches}
    end
  end
end

defmodule BeTree.Runtime.LogTest do
  # The log of replicas: a replica applies all complete entries before its next call.
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually

  alias BeTree.Error
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Server.Changes

  defp index(replicas) do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..100, do: {id, "a = #{rem(id, 10)}"}))
    BeTree.publish!(tree, replicas: replicas)
  end

  defp append(index, deleted, texts) do
    Wasmtime.append(index.instance, Changes.entry({1, deleted, for({id, text} <- texts, do: {id, text, []})}))
  end

  test "a log is applied before a call, in order" do
    index = index(2)
    assert Wasmtime.lag(index.instance) == {0, 0}
    assert append(index, [3], [{200, "a = 3"}]) == {:ok, 1}
    assert append(index, [200], [{3, "a = 3"}, {201, "a = 3"}]) == {:ok, 2}
    assert Wasmtime.lag(index.instance) == {2, 2}
    assert BeTree.search!(index, %{a: 3}) == Enum.to_list(3..93//10) ++ [201]
    assert Wasmtime.lag(index.instance) == {2, 0}
    assert BeTree.search_many!(index, [%{a: 3}, %{a: 4}]) |> Enum.map(&length/1) == [11, 10]
    assert BeTree.explain!(index, %{a: 3}, 201).match
    {:ok, snapshot} = Wasmtime.snapshot(index.instance)
    assert Wasmtime.snapshot_applied(snapshot) == 2
  end

  test "is applied to free replicas that lag far behind" do
    index = index(1)
    for id <- 201..250, do: append(index, [], [{id, "a = 1"}])
    assert Wasmtime.catch_up(index.instance, 51, 10) == {:ok, false}
    assert Wasmtime.catch_up(index.instance, 32, 10) == {:ok, true}
    assert Wasmtime.lag(index.instance) == {50, 40}
    assert Wasmtime.catch_up(index.instance, 32, 100) == {:ok, true}
    assert Wasmtime.lag(index.instance) == {50, 0}
    assert length(BeTree.search!(index, %{a: 1})) == 60
  end

  test "adds no fuel to a search" do
    [one, other] = [index(1), index(1)]
    for index <- [one, other], id <- 201..230, do: append(index, [], [{id, "a = 1"}])
    {:ok, ids, %{fuel: fuel}} = BeTree.search(one, %{a: 1}, stats: true)
    assert {:ok, ^ids, %{fuel: ^fuel}} = BeTree.search(one, %{a: 1}, stats: true)
    assert {:ok, ^ids, %{fuel: ^fuel}} = BeTree.search(other, %{a: 1}, stats: true, slice: 1_000)
    assert {:ok, ^ids} = BeTree.search(other, %{a: 1}, fuel: fuel)
  end

  test "survives processes that end while their replicas apply it" do
    index = index(3)

    for round <- 1..20 do
      # Each entry takes many slices.
      for part <- 1..3,
          do: append(index, [], for(id <- 1..100, do: {1_000 * round + 100 * part + id, "a = #{round} or a < -#{id}"}))

      searches = for _ <- 1..4, do: spawn_monitor(fn -> BeTree.search(index, %{a: round}) end)

      for {pid, _monitor} <- searches do
        for _ <- 1..:rand.uniform(30), do: :erlang.yield()
        Process.exit(pid, :kill)
      end

      for {pid, monitor} <- searches, do: assert_receive({:DOWN, ^monitor, :process, ^pid, _reason}, 30_000)
      assert Enum.count(BeTree.search!(index, %{a: round}), &(&1 > 1_000)) == 300
    end

    eventually(fn -> match?(%{state: :free, waiting: 0}, Wasmtime.info(index.instance)) end)
    # All replicas at once.
    results = for _ <- 1..3, do: Task.async(fn -> BeTree.search!(index, %{a: -50}, slice: 1_000) end)
    assert [ids, ids, ids] = Task.await_many(results, 60_000)
    assert length(ids) == 20 * 3 * 49
  end

  test "with an entry that a replica refuses fails calls of this index only" do
    index = index(2)
    append(index, [777], [])
    for _ <- 1..3, do: assert({:error, %Error{kind: :trap}} = BeTree.search(index, %{a: 1}))
    assert {:error, %Error{kind: :trap}} = Wasmtime.catch_up(index.instance, 1, 10) |> with_replica(index)
    assert {:error, %Error{kind: :trap}} = Wasmtime.snapshot(index.instance)
    assert length(BeTree.search!(index(1), %{a: 1})) == 10
  end

  # A failed replica is discarded, so none may be left to catch up.
  defp with_replica({:ok, false}, index), do: BeTree.search(index, %{a: 1})
  defp with_replica(outcome, _index), do: outcome

  # Some megabytes, so that replicas share pages.
  defp large_index(replicas) do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..30_000, do: {id, "a = #{rem(id, 1_000)} or a > #{id + 5_000}"}))
    BeTree.publish!(tree, replicas: replicas)
  end

  defp machines(index), do: Wasmtime.info(index.instance).machines

  test "is trimmed by a later base, which drops the replicas behind it" do
    index = index(2)
    {:yield, held} = BeTree.Search.start(index, %{a: 1}, slice: 1)
    for id <- 201..250, do: append(index, [], [{id, "a = 1"}])
    assert length(BeTree.search!(index, %{a: 1})) == 60
    {:ok, snapshot} = Wasmtime.snapshot(index.instance)
    assert Wasmtime.snapshot_applied(snapshot) == 50
    assert machines(index) == 2
    assert Wasmtime.rebase(index.instance, snapshot) == :ok
    append(index, [201], [])

    # A running search ends on its version. Its replica is dropped afterwards.
    assert length(finish(held)) == 10
    assert machines(index) == 1
    assert Wasmtime.lag(index.instance) == {51, 1}

    # The next replica starts from the base.
    {:yield, held} = BeTree.Search.start(index, %{a: 1}, slice: 1)
    assert length(BeTree.search!(index, %{a: 1})) == 59
    assert length(finish(held)) == 59
    assert machines(index) == 2

    # An older base is refused.
    {:ok, later} = Wasmtime.snapshot(index.instance)
    assert Wasmtime.rebase(index.instance, later) == :ok
    assert {:error, %Error{kind: :bad_module}} = Wasmtime.rebase(index.instance, snapshot)
    tree = BeTree.new!(a: :integer)
    assert {:error, %Error{kind: :bad_module}} = Wasmtime.rebase(tree.instance, later)
    assert length(BeTree.search!(index, %{a: 1})) == 59
  end

  defp finish(search) do
    case BeTree.Search.resume(search) do
      {:yield, search} -> finish(search)
      {:done, ids, _stats} -> ids
    end
  end

  test "is not applied to a replica that was idle for long" do
    index = index(2)
    {:yield, held} = BeTree.Search.start(index, %{a: 1}, slice: 1)
    BeTree.search!(index, %{a: 1})
    assert length(finish(held)) == 10

    for id <- 1..1_100 do
      append(index, [], [{1_000 + id, "a = 2"}])
      if rem(id, 100) == 0, do: BeTree.search!(index, %{a: 1})
    end

    # The other replica lags far behind and stays.
    assert Wasmtime.lag(index.instance) == {1_100, 1_100}
    assert Wasmtime.catch_up(index.instance, 32, 64) == {:ok, false}
    assert length(BeTree.search!(index, %{a: 2})) == 1_110
  end

  test "replicas and trees un-share their pages without a change of state" do
    index = large_index(2)
    {:ok, tree} = BeTree.Index.to_tree(index, 1_000_000_000)
    {:yield, held} = BeTree.Search.start(index, %{a: 7}, slice: 1)
    expected = BeTree.search!(index, %{a: 7})
    append(index, [7], [])
    BeTree.delete!(tree, 7)
    assert finish(held) == expected
    %{memory: before} = Wasmtime.info(index.instance)
    # Only Linux shares pages.
    count = if :os.type() == {:unix, :linux}, do: 2, else: 0

    assert for(_ <- 1..3, do: Wasmtime.settle(index.instance)) ==
             List.duplicate({:ok, true}, count) ++ List.duplicate({:ok, false}, 3 - count)

    assert Wasmtime.settle(tree.instance) == {:ok, count > 0}
    assert Wasmtime.settle(tree.instance) == {:ok, false}
    assert Wasmtime.info(index.instance).memory >= before + count * index.info.memory_bytes
    {:yield, held} = BeTree.Search.start(index, %{a: 7}, slice: 1)
    assert BeTree.search!(index, %{a: 7}) == expected -- [7]
    assert finish(held) == expected -- [7]
    assert BeTree.search!(tree, %{a: 7}) == expected -- [7]
    BeTree.insert!(tree, 7, "a = 7")
    assert BeTree.search!(tree, %{a: 7}) == expected
  end

  test "only replicas have logs" do
    tree = BeTree.new!(a: :integer)
    assert {:error, %Error{kind: :bad_module}} = Wasmtime.append(tree.instance, [{"be_tree_delete", [1], nil}])
    assert_raise ArgumentError, fn -> Wasmtime.append(index(1).instance, [:no_entry]) end
  end
end

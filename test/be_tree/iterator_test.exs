defmodule BeTree.IteratorTest do
  use ExUnit.Case, async: true

  alias BeTree.{Error, Iterator, Stats}

  doctest Iterator

  @event %{a: 500}
  @matches Enum.to_list(1..499)

  setup do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "a > #{id} or a < -#{id}"}))
    {:ok, tree: tree}
  end

  # All steps of an iterator: how many brought nothing, the ids, and what came last.
  defp walk(iterator, empty \\ 0) do
    case Iterator.next(iterator) do
      {:ok, [], iterator} -> walk(iterator, empty + 1)
      {:ok, ids, iterator} -> {empty, ids, Iterator.next(iterator)}
      other -> {empty, [], other}
    end
  end

  test "a step is a slice, the last one brings the ids, and then come the stats", %{tree: tree} do
    {:ok, @matches, stats} = BeTree.search(tree, @event, slice: 1_000, stats: true)
    assert stats.slices > 10
    assert walk(Iterator.new(tree, @event, slice: 1_000)) == {stats.slices - 1, @matches, {:done, stats}}

    {:ok, @matches, iterator} = Iterator.next(Iterator.new(tree, @event, slice: :infinity))
    for _ <- 1..3, do: assert({:done, %Stats{slices: 1}} = Iterator.next(iterator))
    assert inspect(iterator) == "#BeTree.Iterator<done>"
  end

  test "an event that nothing matches has no ids, and stats", %{tree: tree} do
    assert {:ok, [], iterator} = Iterator.next(Iterator.new(tree, %{a: 0}, slice: :infinity))
    assert {:done, %Stats{}} = Iterator.next(iterator)
  end

  test "nothing runs before the first step, but options are checked", %{tree: tree} do
    iterator = Iterator.new(tree, @event, slice: 1_000)
    assert BeTree.search(tree, @event) == {:ok, @matches}
    assert {:ok, [], _iterator} = Iterator.next(iterator)
    assert_raise ArgumentError, ~r/:slice takes a positive integer/, fn -> Iterator.new(tree, @event, slice: 0) end
    assert_raise ArgumentError, fn -> Iterator.stream(tree, @event, slices: 1) end
  end

  test "one that is cancelled lets go of its tree, and goes no further", %{tree: tree} do
    {:ok, [], iterator} = Iterator.next(Iterator.new(tree, @event, slice: 1_000))
    assert inspect(iterator) =~ ~r/^#BeTree.Iterator<#BeTree.Search<1 slice, \d+ fuel>>$/
    assert {:error, %Error{kind: :overloaded}} = BeTree.search(tree, @event)
    assert Iterator.cancel(iterator) == :ok
    assert BeTree.search(tree, @event) == {:ok, @matches}
    assert {:error, %Error{kind: :not_found}} = Iterator.next(iterator)
    assert Iterator.cancel(iterator) == :ok
  end

  test "one that is forgotten lets go of its tree", %{tree: tree} do
    holder =
      spawn_link(fn ->
        receive do
          {:forget, parent} ->
            {:ok, [], _iterator} = Iterator.next(Iterator.new(tree, @event, slice: 1_000))
            send(parent, :held)
        end

        receive(do: (:collect -> :erlang.garbage_collect()))
        receive(do: (:stop -> :ok))
      end)

    send(holder, {:forget, self()})
    assert_receive :held
    searching = Task.async(fn -> BeTree.search(tree, @event) end)
    send(holder, :collect)
    assert Task.await(searching, 30_000) == {:ok, @matches}
    assert Process.alive?(holder)
    send(holder, :stop)
  end

  test "budgets and deadlines end it", %{tree: tree} do
    assert {steps, [], {:error, %Error{kind: :out_of_fuel}}} =
             walk(Iterator.new(tree, @event, slice: 1_000, fuel: 10_000))

    assert steps in 5..10
    assert {1, [], {:error, %Error{kind: :timeout}}} = walk(Iterator.new(tree, @event, slice: 1_000, timeout: 0))
    assert BeTree.search(tree, @event) == {:ok, @matches}
  end

  describe "a stream" do
    test "has the ids, each time that it is enumerated", %{tree: tree} do
      stream = Iterator.stream(tree, @event, slice: 1_000)
      assert Enum.to_list(stream) == @matches
      assert Enum.count(stream) == 499
      assert Enum.take(stream, 2) == [1, 2]
      assert Enum.to_list(Iterator.stream(tree, %{a: 0})) == []
    end

    test "can be suspended, and holds nothing once its ids are there", %{tree: tree} do
      stream = Iterator.stream(tree, @event, slice: 1_000)
      suspend = fn id, _none -> {:suspend, id} end
      assert {:suspended, 1, continue} = Enumerable.reduce(stream, {:cont, nil}, suspend)
      assert BeTree.search(tree, @event) == {:ok, @matches}
      assert {:suspended, 2, continue} = continue.({:cont, nil})
      assert {:halted, :enough} = continue.({:halt, :enough})
      assert Enum.zip(stream, stream) == Enum.zip(@matches, @matches)
    end

    test "raises what goes wrong, and lets go of its tree", %{tree: tree} do
      for {event, options, kind} <- [
            {%{}, [], :missing_attribute},
            {@event, [slice: 1_000, timeout: 0], :timeout},
            {@event, [slice: 1_000, fuel: 5_000], :out_of_fuel}
          ] do
        error = assert_raise Error, fn -> tree |> Iterator.stream(event, options) |> Enum.to_list() end
        assert error.kind == kind
        assert BeTree.search(tree, @event) == {:ok, @matches}
      end
    end

    test "lets go of its tree where its process is killed", %{tree: tree} do
      stream = Iterator.stream(tree, @event, slice: 100)
      {pid, monitor} = spawn_monitor(fn -> Enum.each(Stream.cycle([1]), fn _ -> Enum.to_list(stream) end) end)
      Process.sleep(5)
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}
      assert BeTree.search(tree, @event) == {:ok, @matches}
    end
  end
end

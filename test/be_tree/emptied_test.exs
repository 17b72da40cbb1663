defmodule BeTree.EmptiedTest do
  # An emptied tree takes the memory of a new one and works like before.
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.WasmModule, except: [memory: 1]

  alias BeTree.{Error, Guest, Image, Index, Search, Server}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Test.{Attack, Holding, WasmGuest}

  @moduletag runtime: Wasmtime
  @moduletag timeout: :infinity

  @schema [a: :integer, s: {:string, optional: true}]
  @count 5_000

  # The built-in runtime, except that a process may refuse new instances to itself.
  defmodule Refusing do
    use BeTree.Test.Delegating, except: [instantiate: 2]

    alias BeTree.Runtime.Wasmtime

    def refuse(refuse? \\ true), do: Process.put(__MODULE__, refuse?)

    def instantiate(compiled, options) do
      if Process.get(__MODULE__),
        do: {:error, %BeTree.Error{kind: :overloaded, message: "no more"}},
        else: Wasmtime.instantiate(compiled, options)
    end
  end

  defp memory(tree), do: tree.runtime.info(tree.instance).memory

  defp fill(tree), do: BeTree.insert_all!(tree, for(id <- 1..@count, do: {id, "a = #{id} or s = 'value #{id}'"}))
  defp empty(tree), do: for(id <- 1..@count, do: :ok = BeTree.delete(tree, id))

  # An emptied tree keeps room for a few more changes and searches than a new one.
  defp new?(tree), do: memory(tree) <= 1.25 * memory(BeTree.new!(@schema))

  defp works?(tree) do
    BeTree.insert!(tree, 7, "a = 7 and s = 'text'")
    found = BeTree.search!(tree, %{a: 7, s: "text"})
    BeTree.delete!(tree, 7)
    found == [7]
  end

  test "an emptied tree takes the memory of a new one, repeatedly" do
    tree = BeTree.new!(@schema)

    for _ <- 1..3 do
      fill(tree)
      assert memory(tree) > 2 * memory(BeTree.new!(@schema))
      empty(tree)
      assert new?(tree)
      assert works?(tree)
    end
  end

  test "an emptied tree made from an index or image, and put and ids afterwards" do
    tree = BeTree.new!(@schema)
    fill(tree)
    {:ok, copy} = Index.to_tree(BeTree.publish!(tree), 100_000_000)
    {:ok, read} = Image.read_tree({:binary, Image.to_binary!(tree)})

    for tree <- [copy, read] do
      empty(tree)
      assert new?(tree)
      assert works?(tree)
      fill(tree)
      assert BeTree.search!(tree, %{a: 3, s: "value 4"}) == [3, 4]
    end
  end

  test "an emptied tree keeps its memory limit" do
    limit = 4_000_000
    tree = BeTree.new!(@schema, memory: limit)

    for _ <- 1..2 do
      full =
        Enum.find(Stream.iterate(1, &(&1 + 1)), fn id ->
          outcome = BeTree.insert(tree, id, "a = #{id} or s = '#{String.duplicate("x", 500)}#{id}'")
          if outcome != :ok, do: assert({:error, %Error{kind: :out_of_memory}} = outcome)
          outcome != :ok
        end)

      assert memory(tree) <= limit
      for id <- 1..(full - 1), do: BeTree.delete!(tree, id)
      assert new?(tree)
      assert %{limit: ^limit, state: :free} = Wasmtime.info(tree.instance)
    end
  end

  test "an emptied server publishes as little as a new one" do
    name = __MODULE__.Emptied
    start_supervised!({Server, name: name, schema: @schema})
    fresh = BeTree.info!(BeTree.publish!(BeTree.new!(@schema))).memory_bytes
    {:ok, @count} = Server.insert_all(name, for(id <- 1..@count, do: {id, "a = #{id} or s = 'value #{id}'"}))
    {:ok, index} = Server.index(name)
    assert BeTree.info!(index).memory_bytes > 2 * fresh
    for id <- 1..@count, do: :ok = Server.delete(name, id)
    {:ok, index} = Server.index(name)
    assert BeTree.info!(index).memory_bytes <= 1.25 * fresh
    assert BeTree.search!(name, %{a: 3}) == []
    :ok = Server.insert(name, 3, "a = 3")
    assert BeTree.search!(name, %{a: 3}) == [3]
  end

  test "concurrent insertions survive the emptying, and all searches succeed" do
    tree = BeTree.new!(@schema)
    rounds = Attack.size(20, 500)
    text = String.duplicate("x", 20_000)

    # A process empties the tree when no other has a subscription in it. Each subscription is large.
    changers =
      for id <- 1..4 do
        Task.async(fn ->
          for _ <- 1..rounds do
            :ok = BeTree.insert(tree, id, "a = #{id} or s in ('#{text}#{id}', '#{text}')")
            {:ok, [^id]} = BeTree.search(tree, %{a: id})
            :ok = BeTree.delete(tree, id)
            {:ok, []} = BeTree.search(tree, %{a: id})
          end
        end)
      end

    Task.await_many(changers, :infinity)
    assert BeTree.info!(tree).expressions == 0
    assert new?(tree)
  end

  test "a tree in use is replaced after that use, if it is empty then" do
    tree = BeTree.new!(@schema)
    fill(tree)
    before = memory(tree)
    renew = fn -> Wasmtime.renew(tree.instance, BeTree.new!(@schema).instance, "be_tree_spent") end

    # It is not empty.
    assert renew.() == :ok
    assert memory(tree) == before
    {:yield, search} = Search.start(tree, %{a: 1}, slice: 100)
    assert renew.() == :ok
    Search.cancel(search)
    assert BeTree.search!(tree, %{a: 3}) == [3]
    assert memory(tree) == before

    # Another process holds it.
    for id <- 1..(@count - 1), do: BeTree.delete!(tree, id)
    held = Holding.hold(tree, Enum.map(1..100, &{"a#{&1}", 1}) ++ [a: 1, s: String.duplicate("x", 10_000)])
    assert renew.() == :ok
    assert memory(tree) == before
    Holding.release(held)
    assert BeTree.search!(tree, %{a: @count}) == [@count]
    assert memory(tree) == before
    BeTree.delete!(tree, @count)
    assert new?(tree)
  end

  test "the deletion that empties a tree does not wait, and the memory returns" do
    for finish <- [&Search.cancel/1, &finish/1, fn _search -> :ok end] do
      tree = BeTree.new!(@schema)
      fill(tree)
      for id <- 2..@count, do: BeTree.delete!(tree, id)
      before = memory(tree)
      test = self()

      # The deletion queues first, then a search. So the search holds the tree when the deletion would replace it.
      {:yield, first} = Search.start(tree, %{a: 1}, slice: 100)
      deletion = Task.async(fn -> BeTree.delete(tree, 1) end)
      eventually(fn -> Wasmtime.info(tree.instance).waiting == 1 end)

      {searcher, monitor} =
        spawn_monitor(fn ->
          {:yield, search} = Search.start(tree, %{a: 2}, slice: 100)
          send(test, :searching)
          receive(do: (:finish -> finish.(search)))
        end)

      eventually(fn -> Wasmtime.info(tree.instance).waiting == 2 end)
      Search.cancel(first)
      assert_receive :searching, 60_000
      assert Task.await(deletion, :infinity) == :ok
      assert memory(tree) >= before

      # The search is cancelled or ends, or its process does.
      send(searcher, :finish)
      assert_receive {:DOWN, ^monitor, :process, ^searcher, :normal}, 60_000
      eventually(fn -> new?(tree) end)
      assert works?(tree)
    end
  end

  defp finish(search) do
    case Search.resume(search) do
      {:yield, search} -> finish(search)
      {:done, [], _stats} -> :ok
    end
  end

  test "an instance replaces another only of the same module and options, with no other user" do
    tree = BeTree.new!(@schema)
    renew = fn other -> Wasmtime.renew(tree.instance, other.instance, "be_tree_abi") end
    scan = BeTree.new!(@schema, guest: WasmGuest.spin(1))

    for other <- [scan, BeTree.new!(@schema, memory: 1_000_000), BeTree.publish!(tree), tree] do
      assert {:error, %Error{kind: :bad_module}} = renew.(other)
    end

    other = BeTree.new!(@schema)
    {:yield, search} = Search.start(other, %{a: 1}, slice: 100)
    assert {:error, %Error{kind: :overloaded}} = renew.(other)
    Search.cancel(search)
    eventually(fn -> Wasmtime.info(other.instance).state == :free end)
    BeTree.insert!(other, 1, "a = 1")
    assert renew.(other) == :ok
    assert {:error, %Error{kind: :trap}} = BeTree.info(other)
    assert BeTree.search!(tree, %{a: 1}) == [1]
    assert %{machines: 1, state: :free} = Wasmtime.info(tree.instance)
  end

  test "without a second instance the tree stays until a later deletion" do
    wasm = File.read!(Application.app_dir(:be_tree, "priv/be_tree.wasm"))
    {:ok, guest} = Guest.load(wasm, Refusing)
    tree = BeTree.new!(@schema, guest: guest)
    fill(tree)
    before = memory(tree)
    Refusing.refuse()
    empty(tree)
    assert memory(tree) == before
    assert works?(tree)
    assert memory(tree) == before
    Refusing.refuse(false)
    assert works?(tree)
    assert new?(tree)
  end

  test "guests with a false or endless reply delete all the same" do
    spent = WasmGuest.deletes_and_is_spent()

    for options <- [[], [spent: i32_const(1)], [spent: unreachable()], [spent: [loop(branch(0)), i32_const(0)]]] do
      tree = BeTree.new!(@schema, guest: WasmGuest.assemble(nop(), [delete: spent] ++ options))
      for _ <- 1..3, do: assert(BeTree.delete(tree, 1) == :ok)
      assert BeTree.search!(tree, %{a: 1}) == WasmGuest.ids()
    end
  end
end

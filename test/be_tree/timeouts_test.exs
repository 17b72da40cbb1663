defmodule BeTree.TimeoutsTest do
  # Each call that may wait for its turn ends at its timeout without a change.
  use ExUnit.Case, async: true

  alias BeTree.{Error, Event, Image, Sandbox, Search, Server, WasmModule}
  alias BeTree.Test.{Holding, Servers}

  # More than a slice of 10,000 fuel takes.
  @event %{a: 1, s: String.duplicate("x", 10_000)}

  defp filled(options \\ []) do
    tree = BeTree.new!([a: :integer, s: {:string, optional: true}], options)
    BeTree.insert_all!(tree, for(id <- 1..2_000, do: {id, "a = #{id} or contains(s, 'y#{id}')"}))
    tree
  end

  for runtime <- BeTree.Runtime.available() do
    @tag runtime: runtime
    test "a timeout on a tree held by a search, #{inspect(runtime)}" do
      tree = filled(runtime: unquote(runtime))
      held = Holding.hold(tree, @event)
      path = Path.join(System.tmp_dir!(), "be_tree_timeouts_#{System.unique_integer([:positive])}")

      for timeout <- [0, 1],
          call <- [
            &BeTree.insert(tree, 9_999, "a = 1", timeout: &1),
            &BeTree.insert_all(tree, [{9_999, "a = 1"}], timeout: &1),
            &BeTree.delete(tree, 1, timeout: &1),
            &BeTree.publish(tree, timeout: &1),
            &BeTree.explain(tree, @event, 1, timeout: &1),
            &BeTree.info(tree, timeout: &1),
            &BeTree.search(tree, @event, timeout: &1),
            &BeTree.search_many(tree, [@event], timeout: &1),
            &(tree |> BeTree.stream([@event], timeout: &1) |> Enum.to_list() |> hd() |> elem(1)),
            &Search.start(tree, @event, timeout: &1),
            &Event.prepare(tree, @event, timeout: &1),
            &Image.write(tree, path, timeout: &1),
            &Image.to_binary(tree, timeout: &1)
          ] do
        assert {:error, %Error{kind: :timeout}} = call.(timeout)
      end

      assert inspect(tree) =~ "#BeTree<suspended, "
      refute File.exists?(path)
      Holding.release(held)
      # Each waits for the end of the search, then runs.
      assert BeTree.info!(tree, timeout: 60_000).expressions == 2_000
      assert BeTree.insert(tree, 9_999, "a = 1", timeout: 60_000) == :ok
      assert BeTree.search(tree, %{a: 1}, timeout: 60_000) == {:ok, [1, 9_999]}
      assert BeTree.delete(tree, 9_999, timeout: 60_000) == :ok
    end
  end

  test "a timeout on an index with all replicas held" do
    index = BeTree.publish!(filled(), replicas: 1)
    held = Holding.hold(index, @event)
    assert {:error, %Error{kind: :timeout}} = BeTree.explain(index, @event, 1, timeout: 0)
    assert {:error, %Error{kind: :timeout}} = Event.prepare(index, @event, timeout: 0)
    assert [{@event, {:error, %Error{kind: :timeout}}}] = Enum.to_list(BeTree.stream(index, [@event], timeout: 0))
    Holding.release(held)
  end

  test "a timeout on a sandbox held by a call" do
    count = WasmModule.function("count", [:i32], [], WasmModule.count_down(0, []))
    module = Sandbox.load!(WasmModule.assemble(memory: {1, nil}, functions: [count]))
    sandbox = Sandbox.new!(module)
    {:yield, call} = Task.await(Task.async(fn -> Sandbox.start(sandbox, "count", [1_000], slice: 100) end))
    assert {:error, %Error{kind: :timeout}} = Sandbox.read(sandbox, 0, 4, timeout: 0)
    assert {:error, %Error{kind: :timeout}} = Sandbox.write(sandbox, 0, "text", timeout: 0)
    assert {:error, %Error{kind: :timeout}} = Sandbox.call(sandbox, "count", [1], timeout: 0)
    Sandbox.cancel(call)
    assert Sandbox.read(sandbox, 0, 4, timeout: 60_000) == {:ok, <<0, 0, 0, 0>>}
  end

  test "a timeout on a busy server, which still makes the change" do
    name = :"server_#{System.unique_integer([:positive])}"
    start_supervised!({Server, name: name, schema: [a: :integer]})
    :sys.suspend(Servers.process(name))
    index = BeTree.publish!(filled())
    image = {:image, {:binary, Image.to_binary!(index)}}

    for timeout <- [0, 1],
        call <- [
          &Server.info(name, timeout: &1),
          &Server.swap(name, image, timeout: &1),
          &Server.version(name, timeout: &1),
          &Server.change(name, delete: [9], timeout: &1),
          &Server.delete(name, 9, timeout: &1)
        ] do
      assert {:error, %Error{kind: :timeout} = error} = call.(timeout)
      # Some calls prepare their request within the timeout.
      assert error.message =~ ~r/did not reply within [0-#{timeout}] ms/
    end

    assert {:error, %Error{kind: :timeout}} = Server.insert(name, 1, "a = 1", timeout: 0)
    assert {:error, %Error{kind: :timeout}} = Server.insert_all(name, [{2, "a = 1"}], timeout: 0)
    assert_raise Error, fn -> Server.info!(name, timeout: 0) end
    :sys.resume(Servers.process(name))
    assert Server.info!(name, timeout: 60_000).expressions == 2
    assert {:error, %Error{kind: :timeout}} = swap_while_suspended(name, index)
    assert Server.info!(name).expressions == 2_000
  end

  defp swap_while_suspended(name, index) do
    :sys.suspend(Servers.process(name))
    outcome = Server.swap(name, index, timeout: 0)
    :sys.resume(Servers.process(name))
    outcome
  end

  test "a batch rolls back at its timeout" do
    tree = filled()
    before = BeTree.info!(tree)
    many = for id <- 10_000..59_999, do: {id, "a = #{id}"}
    assert {:error, %Error{kind: :timeout, position: nil} = error} = BeTree.insert_all(tree, many, timeout: 0)
    assert error.message == "the change passed its timeout and was rolled back"
    assert Map.delete(BeTree.info!(tree), :memory_bytes) == Map.delete(before, :memory_bytes)
    assert BeTree.search(tree, %{a: 10_000}) == {:ok, []}
    assert BeTree.insert_all(tree, many) == {:ok, 50_000}
    assert BeTree.search(tree, %{a: 59_999}) == {:ok, [59_999]}
  end
end

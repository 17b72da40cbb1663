Code.require_file("examples/scan/scan.ex")

defmodule BeTree.Server.SwapTest do
  # Measures the memory of the whole VM.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  alias BeTree.{Error, Guest, Server}
  alias BeTree.Call.Instance
  alias BeTree.Runtime.Native
  alias BeTree.Test.{Attack, WasmGuest}
  alias BeTree.Workload.W3

  setup_all do
    {:ok, scan} = Guest.load(Scan.wasm!())
    {:ok, scan: scan}
  end

  defp start(options) do
    name = :"server_#{System.unique_integer([:positive])}"
    start_supervised!({Server, [name: name] ++ options}, id: name)
    name
  end

  defp subscriptions(count) do
    %{W3.defaults() | expressions: count} |> W3.expressions() |> Enum.with_index(&{&2 + 1, &1})
  end

  defp domains, do: W3.schema(W3.defaults())
  defp events(count), do: %{W3.defaults() | events: count} |> W3.events() |> Enum.to_list()

  # Searches for the events in `count` processes. Each result must be one of `allowed` for its event. The returned function
  # stops the processes and returns the number of searches.
  defp searching(name, allowed, count) do
    stop = :atomics.new(1, [])
    events = List.to_tuple(allowed)
    tasks = for number <- 1..count, do: Task.async(fn -> search(name, events, stop, number, 0) end)

    fn ->
      :atomics.put(stop, 1, 1)
      tasks |> Task.await_many(:infinity) |> Enum.sum()
    end
  end

  defp search(name, events, stop, number, done) do
    {event, allowed} = elem(events, rem(number + done, tuple_size(events)))
    {:ok, ids} = BeTree.search(name, event)
    assert ids in allowed
    if :atomics.get(stop, 1) == 1, do: done + 1, else: search(name, events, stop, number, done + 1)
  end

  # Swaps the indexes in by turns while processes search. Afterwards no process holds an index that was swapped out.
  defp swap_under_load(name, versions, allowed, swaps) do
    searched = searching(name, allowed, System.schedulers_online())
    for index <- versions |> Stream.cycle() |> Enum.take(swaps), do: :ok = Server.swap(name, index)
    assert searched.() > swaps
    for pid <- Process.list(), do: :erlang.garbage_collect(pid)
  end

  # Returns the instances of modules, and the VM's resident bytes, mappings and files.
  defp footprint do
    {_modules, instances, _calls} = Native.counts()
    [_size, resident | _] = "/proc/self/statm" |> File.read!() |> String.split()
    bytes = 4_096 * String.to_integer(resident)
    mappings = "/proc/self/maps" |> File.stream!() |> Enum.count()
    %{instances: instances, bytes: bytes, mappings: mappings, files: length(File.ls!("/proc/self/fd"))}
  end

  test "repeated swaps under load return results of one index and keep memory flat" do
    subscriptions = subscriptions(2_000)
    {half, _rest} = Enum.split(subscriptions, 1_000)
    versions = for part <- [subscriptions, half], do: domains() |> BeTree.new!() |> fill(part) |> BeTree.publish!()
    events = events(50)
    allowed = for event <- events, do: {event, for(index <- versions, do: BeTree.search!(index, event))}
    assert Enum.count(allowed, fn {_event, [all, some]} -> all != some end) > 20

    name = start(schema: domains())
    Server.swap!(name, hd(versions))
    swaps = Attack.size(300, 1_000)
    swap_under_load(name, versions, allowed, 50)
    first = footprint()
    swap_under_load(name, versions, allowed, swaps)

    eventually(fn -> footprint().instances <= first.instances end)
    # The VM keeps some freed memory, but less than if one index in eight leaked.
    one = List.last(versions).info.memory_bytes
    eventually(fn -> footprint().bytes < first.bytes + div(swaps * one, 8) end)
    eventually(fn -> footprint().mappings < first.mappings + 100 end)
    eventually(fn -> footprint().files < first.files + 20 end)
  end

  defp fill(tree, subscriptions) do
    BeTree.insert_all!(tree, subscriptions)
    tree
  end

  test "changes while an index is swapped in and out are all in the results" do
    subscriptions = subscriptions(1_000)
    other = domains() |> BeTree.new!() |> fill([{5_000, "true"}]) |> BeTree.publish!()
    events = events(20)
    name = start(schema: domains())

    # The result is that of the other index, or of a prefix of this one's changes.
    tree = fill(BeTree.new!(domains()), subscriptions)
    allowed = for event <- events, do: {event, [[] | prefixes(BeTree.search!(tree, event))] ++ [[5_000]]}
    searched = searching(name, allowed, 4)

    for _ <- 1..10 do
      Server.swap!(name, BeTree.publish!(BeTree.new!(domains())))
      for {id, text} <- Enum.take(subscriptions, 20), do: Server.insert!(name, id, text)
      Server.insert_all!(name, Enum.drop(subscriptions, 20))
      assert BeTree.search(name, hd(events)) == BeTree.search(tree, hd(events))
      Server.swap!(name, other)
    end

    assert searched.() > 20
  end

  defp prefixes(ids), do: for(length <- 1..length(ids)//1, do: Enum.take(ids, length))

  describe "swapping in a third-party module" do
    test "under load returns the same results, with changes made meanwhile", %{scan: scan} do
      {:ok, built_in} = Instance.built_in(BeTree.Runtime.default())
      subscriptions = subscriptions(500)
      name = start(schema: domains())
      Server.insert_all!(name, subscriptions)
      tree = fill(BeTree.new!(domains()), subscriptions)
      allowed = for event <- events(50), do: {event, [BeTree.search!(tree, event)]}
      searched = searching(name, allowed, 4)

      # An expression that comes and goes unmatched.
      changer =
        Task.async(fn ->
          for id <- 10_000..10_100 do
            Server.insert!(name, id, "false")
            if rem(id, 2) == 0, do: Server.delete!(name, id)
          end
        end)

      for guest <- [scan, built_in, scan] do
        assert Server.swap(name, guest) == :ok
        Process.sleep(100)
      end

      Task.await(changer, :infinity)
      assert searched.() > 50
      assert {:ok, %{guest: ^scan}} = Server.index(name)
      assert Server.info!(name).expressions == 500 + 50
      assert {:error, %Error{kind: :not_found}} = BeTree.explain(name, elem(hd(allowed), 0), 10_000)
      assert BeTree.explain!(name, elem(hd(allowed), 0), 10_001).match == false
    end

    test "by its bytes works, and a refused one changes nothing" do
      name = start(schema: [a: :integer])
      Server.insert_all!(name, [{1, "a = 1"}, {2, "a in (1, 2)"}])
      assert {:error, %Error{kind: :bad_module}} = Server.swap(name, "no module")
      # A module that accepts everything and stores nothing.
      assert {:error, %Error{kind: :bad_module}} = Server.swap(name, WasmGuest.spin(10))
      assert BeTree.search(name, %{a: 1}) == {:ok, [1, 2]}
      assert Server.swap(name, Scan.wasm!()) == :ok
      assert BeTree.search(name, %{a: 2}) == {:ok, [2]}
      # It has no tree.
      assert BeTree.info!(name).nodes == 0
    end

    test "needs an index with the texts of its expressions", %{scan: scan} do
      name = start(schema: [a: :integer])
      index = [a: :integer] |> BeTree.new!() |> fill([{1, "a = 1"}]) |> BeTree.publish!()
      Server.swap!(name, index)
      Server.insert!(name, 2, "a = 1")
      assert {:error, %Error{kind: :not_found}} = Server.swap(name, scan)
      assert {:error, %Error{kind: :duplicate_id}} = Server.insert(name, 1, "a = 1")
      assert BeTree.search(name, %{a: 1}) == {:ok, [1, 2]}
      Server.delete!(name, 1)
      assert BeTree.search(name, %{a: 1}) == {:ok, [2]}
    end
  end

  test "an index of other domains can be swapped in repeatedly" do
    name = start(schema: [a: :integer])
    Server.insert!(name, 1, "a = 1")

    for type <- [:string, :float] do
      tree = BeTree.new!([{:b, type}])
      BeTree.insert!(tree, 7, "b is not null")
      Server.swap!(name, BeTree.publish!(tree))
      value = if type == :string, do: "x", else: 1.5
      assert BeTree.search(name, %{b: value}) == {:ok, [7]}
      assert {:error, %Error{kind: :unknown_attribute}} = Server.insert(name, 1, "a = 1")
      Server.insert!(name, 8, "b is not null")
      assert BeTree.search(name, %{b: value}) == {:ok, [7, 8]}
    end
  end

  @tag :tmp_dir
  test "an image is swapped in from a file or a binary, a damaged one refused", %{tmp_dir: folder} do
    name = start(schema: [a: :integer], replicas: 3)
    Server.insert!(name, 1, "a = 1")
    path = Path.join(folder, "index.wasm")
    tree = fill(BeTree.new!(a: :integer), [{2, "a = 1"}, {3, "a = 2"}])
    BeTree.Image.write!(tree, path)
    assert Server.swap(name, {:image, path}) == :ok
    assert BeTree.search(name, %{a: 1}) == {:ok, [2]}
    Server.insert!(name, 4, "a = 1")

    image = BeTree.Image.to_binary!(tree)
    {most, <<byte>>} = :erlang.split_binary(image, byte_size(image) - 1)
    assert {:error, %Error{kind: :bad_module}} = Server.swap(name, {:image, {:binary, <<most::binary, byte + 1>>}})
    assert {:error, %Error{kind: :file}} = Server.swap(name, {:image, path <> ".missing"})
    assert BeTree.search(name, %{a: 1}) == {:ok, [2, 4]}
    assert Server.swap(name, {:image, {:binary, image}}) == :ok
    assert BeTree.search(name, %{a: 1}) == {:ok, [2]}
  end

  test "a swapped-out index is freed" do
    {_modules, before, _calls} = Native.counts()
    name = start(schema: [a: :integer])

    for id <- 1..50 do
      tree = BeTree.new!(a: :integer)
      BeTree.insert!(tree, id, "a = 1")
      Server.swap!(name, BeTree.publish!(tree))
      assert BeTree.search(name, %{a: 1}) == {:ok, [id]}
    end

    eventually(fn ->
      :erlang.garbage_collect()
      for process <- Process.list(), do: :erlang.garbage_collect(process)
      {_modules, now, _calls} = Native.counts()
      # The tree and its index's replicas.
      now <= before + 4
    end)
  end
end

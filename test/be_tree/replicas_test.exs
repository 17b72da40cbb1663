defmodule BeTree.ReplicasTest do
  # Counts what is alive in the whole VM, and measures its memory.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  alias BeTree.Search
  alias BeTree.Runtime.Native
  alias BeTree.Workload.W3

  @parameters Map.merge(W3.defaults(), %{expressions: 20_000, events: 30})

  defp tree do
    tree = BeTree.new!(W3.schema(@parameters))
    texts = @parameters |> W3.expressions() |> Enum.with_index(&{&2 + 1, &1})
    BeTree.insert_all!(tree, texts)
    tree
  end

  # Runs each event in `count` replicas at once.
  defp search_in(index, count, events) do
    for event <- events do
      searches = for _ <- 1..count, do: Search.start(index, event, slice: 1)
      assert [_one] = searches |> Enum.map(&finish/1) |> Enum.uniq()
    end
  end

  defp finish({:yield, search}), do: finish(Search.resume(search))
  defp finish({:done, ids, _stats}), do: ids

  # Returns the memory mapped from files in memory (this library's or wasmtime's) and the number of open files.
  defp footprint do
    for pid <- Process.list(), do: :erlang.garbage_collect(pid)
    maps = if File.exists?("/proc/self/maps"), do: File.read!("/proc/self/maps"), else: ""
    files = with {:ok, files} <- File.ls("/proc/self/fd"), do: for(f <- files, link?(f), do: f), else: (_ -> [])

    %{
      counts: Native.counts(),
      mapped: length(Regex.scan(~r/memfd:be_tree/, maps)),
      mappings: length(String.split(maps, "\n")),
      files: length(files)
    }
  end

  defp link?(file), do: match?({:ok, "/memfd:be_tree" <> _}, File.read_link("/proc/self/fd/#{file}"))

  defp in_process(work), do: work |> Task.async() |> Task.await(120_000)

  test "indexes, their replicas and their files are freed" do
    in_process(fn -> index_and_forget(2) end)
    eventually(fn -> footprint().mapped == 0 end)
    before = footprint()
    in_process(fn -> index_and_forget(20) end)

    eventually(fn ->
      later = footprint()
      later.counts == before.counts and later.mapped == 0 and later.files == 0
    end)

    assert_in_delta footprint().mappings, before.mappings, 20
  end

  defp index_and_forget(count) do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "a > #{id}"}))

    for _ <- 1..count do
      index = BeTree.publish!(tree, replicas: 4)
      searches = for _ <- 1..4, do: Search.start(index, %{a: 500}, slice: 1)
      for {:yield, search} <- Enum.take(searches, 2), do: Search.cancel(search)
    end
  end

  test "a search ends on its index after the last reference to it" do
    {:yield, search} =
      in_process(fn ->
        tree = BeTree.new!(a: :integer)
        BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "a > #{id}"}))
        Search.start(BeTree.publish!(tree), %{a: 500}, slice: 1)
      end)

    for pid <- Process.list(), do: :erlang.garbage_collect(pid)
    assert finish({:yield, search}) == Enum.to_list(1..499)
  end

  # Only Linux has this file, and only there replicas share pages.
  if File.exists?("/proc/self/smaps") do
    # Kilobytes of the replicas' memories: private pages, their share of shared pages, and growth beyond the snapshot, which
    # has a mapping of its own.
    defp taken(index) do
      [_others | ours] = String.split(File.read!("/proc/self/smaps"), ~r/^.* \/memfd:be_tree.*$/m)
      shares = for mapping <- ours, do: Regex.run(~r/^Pss: +(\d+) kB$/m, mapping, capture: :all_but_first)
      grown = index.runtime.info(index.instance).memory - index.info.memory_bytes
      (shares |> List.flatten() |> Enum.map(&String.to_integer/1) |> Enum.sum()) + div(grown, 1_024)
    end

    test "eight replicas take less than 1.3 times the memory of one" do
      tree = tree()
      events = Enum.to_list(W3.events(@parameters))
      index = BeTree.publish!(tree, replicas: 8)
      search_in(index, 1, events)
      assert index.runtime.info(index.instance).machines == 1
      one = taken(index)
      search_in(index, 8, events)
      assert index.runtime.info(index.instance).machines == 8
      eight = taken(index)

      # A search reads much of the index, but not all.
      assert one in div(index.info.memory_bytes, 4 * 1_024)..div(index.info.memory_bytes, 1_000)
      assert eight > one
      assert eight < 1.3 * one
      assert BeTree.search_many!(index, events) == BeTree.search_many!(tree, events)
    end

    test "a pool keeps its memory flat for every outcome of searches" do
      index = BeTree.publish!(tree(), replicas: 4)
      events = Enum.to_list(W3.events(@parameters))
      for _ <- 1..2, do: search_in(index, 4, events)
      before = taken(index)
      for _ <- 1..20, do: in_process(fn -> mistreat(index, events) end)
      eventually(fn -> index.runtime.info(index.instance).state == :free end)
      assert taken(index) - before < div(before, 100)
    end

    defp mistreat(index, events) do
      for event <- events do
        {:error, %{kind: :out_of_fuel}} = BeTree.search(index, event, fuel: 1_000)
        {:error, %{kind: :timeout}} = BeTree.search(index, event, slice: 1_000, timeout: 0)
        {:yield, search} = Search.start(index, event, slice: 1_000)
        Search.cancel(search)
        {pid, monitor} = spawn_monitor(fn -> BeTree.search(index, event, slice: 1_000) end)
        Process.exit(pid, :kill)
        assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}
      end
    end
  end
end

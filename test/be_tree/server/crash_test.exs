defmodule BeTree.Server.CrashTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Server}
  alias BeTree.Server.Table
  alias BeTree.Test.{Servers, WasmGuest}

  setup :quiet

  # Logs are silent for any number of kills.
  defp start(options \\ []) do
    name = :"server_#{System.unique_integer([:positive])}"
    fixed = [name: name, schema: [a: :integer], max_restarts: 1_000_000_000]
    start_supervised!({Server, Keyword.merge(fixed, options)}, id: name)
    name
  end

  # Each process inserts and deletes ids of its own until it is stopped. Returns the acknowledged ids and those with an
  # unknown outcome.
  defp change(name, ids, stop, acknowledged) do
    Enum.reduce_while(ids, {MapSet.new(), MapSet.new()}, fn id, {present, unknown} = state ->
      cond do
        :atomics.get(stop, 1) == 1 -> {:halt, state}
        rem(id, 3) == 0 and MapSet.size(present) > 0 -> {:cont, delete(name, Enum.random(present), state, acknowledged)}
        rem(id, 10) == 0 -> {:cont, insert(name, for(number <- 1..20, do: id * 100 + number), state, acknowledged)}
        true -> {:cont, insert(name, [id], {present, unknown}, acknowledged)}
      end
    end)
  end

  defp insert(name, ids, {present, unknown}, acknowledged) do
    case Server.insert_all(name, for(id <- ids, do: {id, "true"})) do
      {:ok, _count} ->
        :counters.add(acknowledged, 1, 1)
        {MapSet.union(present, MapSet.new(ids)), unknown}

      {:error, %Error{kind: :no_server} = error} ->
        {present, if(asked?(error), do: MapSet.union(unknown, MapSet.new(ids)), else: unknown)}
    end
  end

  defp delete(name, id, {present, unknown}, acknowledged) do
    case Server.delete(name, id) do
      :ok ->
        :counters.add(acknowledged, 1, 1)
        {MapSet.delete(present, id), unknown}

      {:error, %Error{kind: :no_server} = error} ->
        if asked?(error), do: {MapSet.delete(present, id), MapSet.put(unknown, id)}, else: {present, unknown}
    end
  end

  # Without a running server nothing was done. A new one starts shortly.
  defp asked?(%{message: message}) do
    Process.sleep(1)
    not (message =~ "it may be starting again")
  end

  # These ids are always present.
  @constant for id <- 1..3_000, do: 0x1_0000_0000 + id

  for round <- 1..2 do
    test "a writer killed under load loses no acknowledged change, round #{round}" do
      name = start([])
      Server.insert_all!(name, for(id <- @constant, do: {id, "true"}))
      stop = :atomics.new(1, [])
      acknowledged = :counters.new(1, [])

      changers =
        for number <- 1..4 do
          ids = (number * 1_000_000)..(number * 1_000_000 + 900_000)
          Task.async(fn -> change(name, ids, stop, acknowledged) end)
        end

      searched = :counters.new(1, [])
      searcher = Task.async(fn -> search(name, stop, searched) end)
      kill_often(name, acknowledged, searched, 0)
      :atomics.put(stop, 1, 1)
      assert Task.await(searcher, 60_000) == :ok
      answers = Task.await_many(changers, 60_000)
      eventually(fn -> match?({:ok, _info}, Server.info(name)) end)

      present = for {present, _unknown} <- answers, id <- present, into: MapSet.new(), do: id
      unknown = for {_present, unknown} <- answers, id <- unknown, into: MapSet.new(), do: id
      all = BeTree.search!(name, %{a: 1})
      assert Enum.filter(all, &(&1 > 0x1_0000_0000)) == @constant
      found = all |> Enum.reject(&(&1 > 0x1_0000_0000)) |> MapSet.new()
      assert MapSet.subset?(MapSet.difference(present, unknown), found)
      assert MapSet.subset?(found, MapSet.union(present, unknown))
      assert Server.info!(name).expressions == length(all)

      # Another base, built from the present content, is the same.
      {:ok, index} = Server.index(name)
      assert BeTree.search(index, %{a: 1}) == {:ok, all}
    end
  end

  # Until many changes and searches were made.
  defp kill_often(name, acknowledged, searched, kills) do
    if kills < 25 or :counters.get(acknowledged, 1) < 500 or :counters.get(searched, 1) < 10 do
      Process.sleep(:rand.uniform(60))
      if pid = Servers.process(name), do: Process.exit(pid, :kill)
      kill_often(name, acknowledged, searched, kills + 1)
    end
  end

  # Searches never fail, even if the writer is killed.
  defp search(name, stop, searched) do
    {:ok, _ids} = BeTree.search(name, %{a: 1})
    :counters.add(searched, 1, 1)
    if :atomics.get(stop, 1) == 1, do: :ok, else: search(name, stop, searched)
  end

  # A writer spends the most time on building the base.
  for {title, options} <- [{"without a folder", []}, {"with a folder", [dir: true]}, {"with terms", [ids: :term]}] do
    @options options
    test "the text of a large change appears only when searches see the change, #{title}" do
      folder = Path.join(System.tmp_dir!(), "be_tree_crash_#{System.unique_integer([:positive])}_#{System.pid()}")
      on_exit(fn -> File.rm_rf!(folder) end)
      options = if @options[:dir], do: [dir: folder, durability: :none], else: @options
      name = start(options)
      {:ok, table} = Table.fetch(name)
      {:ok, _count} = Server.insert_all(name, for(id <- 1..20, do: {id, "true"}))

      for round <- 1..4 do
        ids = Enum.to_list((round * 10_000)..(round * 10_000 + 2_999))
        version = Server.info!(name).version
        writer = Servers.process(name)

        spawn(fn ->
          Server.change(name, put: for(id <- [round | ids], do: {id, "a < 9 or a = #{id}"}), delete: [round + 10])
        end)

        # The change was made. Either it is not visible yet, or it is visible without texts.
        spin(fn -> Table.later(table, version) != [] end)
        if rem(round, 2) == 0, do: spin(fn -> Table.base(table).version > version end)
        monitor = Process.monitor(writer)
        Process.exit(writer, :kill)
        assert_receive {:DOWN, ^monitor, :process, ^writer, _reason}, 60_000
        spin(fn -> agree(name, hd(ids), round, round + 10) end)
        eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
        assert Enum.sort(BeTree.search!(name, %{a: 1})) == Server.ids!(name)
        assert length(Server.ids!(name)) == 20 - round + 3_000 * round
      end
    end
  end

  defp spin(function), do: function.() || spin(function)

  # Returns whether the change is visible. A search sees every change whose texts were visible before it began.
  defp agree(name, put, replaced, deleted) do
    texts = {Server.fetch(name, put), Server.fetch(name, replaced), Server.member?(name, deleted)}
    found = BeTree.search!(name, %{a: 1})

    case texts do
      {{:ok, _text}, {:ok, "a < 9" <> _}, false} ->
        assert put in found and deleted not in found
        true

      {fetched, replacing, member} ->
        # Each of these shows the change.
        if match?({:ok, _}, fetched) or match?({:ok, "a < 9" <> _}, replacing) or not member,
          do: assert(put in found and deleted not in found)

        false
    end
  end

  test "a swapped index and later changes survive a kill" do
    tree = BeTree.new!(b: :string)
    BeTree.insert_all!(tree, [{1, "b = 'x'"}, {2, "b = 'x'"}])
    name = start()
    Server.insert!(name, 5, "a = 1")
    Server.swap!(name, BeTree.publish!(tree))
    Server.insert!(name, 3, "b = 'x'")
    Server.delete!(name, 1)
    kill(name)
    eventually(fn -> BeTree.search(name, %{b: "x"}) == {:ok, [2, 3]} end)
    assert {:error, %Error{kind: :duplicate_id}} = Server.insert(name, 3, "b = 'x'")
    assert Server.insert(name, 1, "b = 'x'") == :ok
  end

  defp kill(name) do
    pid = Servers.process(name)
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}
    eventually(fn -> Servers.process(name) not in [nil, pid] end)
    # It replies once it is ready.
    eventually(fn -> match?({:ok, _}, Server.info(name)) end)
  end

  test "a process that outlives its keeper is killed before the next one uses the tables" do
    name = start([])
    Server.insert!(name, 1, "a = 1")
    [orphan, keeper] = [Servers.process(name), Servers.keeper(name)]
    monitor = Process.monitor(orphan)
    # It does not notice the end of its keeper.
    :erlang.suspend_process(orphan)
    Process.exit(keeper, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^orphan, :killed}, 30_000
    eventually(fn -> Server.insert(name, 2, "a = 1") == :ok end)
    assert BeTree.search(name, %{a: 1}) == {:ok, [1, 2]}
  end

  test "the server rebuilds a base whose builder is killed, and restarts its other processes" do
    name = start([])
    Server.insert_all!(name, for(id <- 1..900, do: {id, "a = #{id}"}))
    # The builder waits for the replica that a search holds.
    stop = :atomics.new(1, [])
    killer = Task.async(fn -> kill_helpers(name, stop, 0) end)
    for id <- 1..3_000, do: Server.put!(name, 1_000 + rem(id, 100), "a = #{rem(id, 7)}")
    :atomics.put(stop, 1, 1)
    assert Task.await(killer, 60_000) > 0
    eventually(fn -> Server.info!(name).bases > 1 and not Server.info!(name).building end)
    expected = for id <- 2_901..3_000, rem(id, 7) == 3, do: 1_000 + rem(id, 100)
    assert BeTree.search(name, %{a: 3}) == {:ok, Enum.sort([3 | expected])}
  end

  # Kills the processes linked to the server's process, except its keeper.
  defp kill_helpers(name, stop, kills) do
    if :atomics.get(stop, 1) == 1 do
      kills
    else
      {:links, links} = Process.info(Servers.process(name), :links)
      helpers = for pid <- links, is_pid(pid), pid != Servers.keeper(name), do: Process.exit(pid, :kill)
      Process.sleep(1)
      kill_helpers(name, stop, kills + length(helpers))
    end
  end

  test "a tree that traps in a change is rebuilt with all subscriptions" do
    name = start(schema: [], guest: WasmGuest.trapping_insert())

    for id <- 1..3 do
      assert {:error, %Error{kind: :trap}} = Server.insert(name, id, String.duplicate(" ", 6_000))
      assert Server.insert(name, id, "true") == :ok
    end

    # This module finds its one id whatever it holds, so only complete searches are compared.
    {:ok, _index} = Server.index(name)
    assert BeTree.search(name, %{}) == {:ok, WasmGuest.ids()}
  end
end

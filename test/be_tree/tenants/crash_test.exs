defmodule BeTree.Tenants.CrashTest do
  @moduledoc "Processes of the tenants are killed, shards trap, and tenants are restarted: nothing acknowledged is lost, and each event counts once."
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.{Eventually, Kill, Quiet, Tenants}

  alias BeTree.Tenants
  alias BeTree.Tenants.{Directory, Shard, Shards}
  alias BeTree.Test.{Attack, Tmpfs}

  setup [:quiet, :folder]

  @wait_ms 300_000
  @day 86_400

  defp events(name, tenants \\ :all) do
    [[entry]] = Tenants.report!(name, tenants: tenants)
    {entry.events, entry.matches}
  end

  test "a partition that is killed loses no tenant, no event and no fuel" do
    name = start([], %{partitions: 2})
    for tenant <- 1..20, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}, {2, "a > 5"}])
    for tenant <- 1..20, do: Tenants.match!(name, tenant, %{a: tenant})
    usage = for tenant <- 1..20, do: Tenants.usage(name, tenant)
    for pid <- partitions(name), do: kill(pid)
    for tenant <- 1..20, do: Tenants.match!(name, tenant, %{a: tenant})
    assert events(name) == {40, 40 + 30}
    eventually(fn -> Enum.all?(partitions(name), &(is_pid(&1) and Process.alive?(&1))) end)
    assert %{hot: 20, loads: 0} = Tenants.info!(name)

    for {{:ok, before}, tenant} <- Enum.zip(usage, 1..20),
        do: assert(before.quota == nil and totals(name, tenant).events == 2)

    assert %{intents: 0} = sizes(name)
  end

  defp totals(name, tenant) do
    {:ok, usage} = Tenants.usage(name, tenant)
    usage.days |> Map.values() |> Enum.reduce(&BeTree.Tenants.Usage.sum/2)
  end

  test "partitions and the store are killed during changes, matches and evictions, and nothing acknowledged is lost", %{
    folder: folder
  } do
    for dir <- [nil, Path.join(folder, "tenants")] do
      name = start([hot: 6, dir: dir], %{partitions: 2})
      for tenant <- 1..12, do: Tenants.change!(name, tenant, put: [{0, "a >= 0"}])

      changers =
        for tenant <- 1..12 do
          Task.async(fn ->
            for id <- 1..Attack.size(15, 200), reduce: MapSet.new([0]) do
              acknowledged ->
                case Tenants.change(name, tenant, put: [{id, "a >= #{id}"}]) do
                  {:ok, _counts} -> MapSet.put(acknowledged, id)
                  {:error, error} -> assert(error.kind == :no_server) && acknowledged
                end
            end
          end)
        end

      matchers =
        for _process <- 1..4 do
          Task.async(fn ->
            for number <- 1..Attack.size(150, 3_000), reduce: 0 do
              count ->
                case Tenants.match(name, rem(number, 12) + 1, %{a: 1_000}) do
                  {:ok, [0 | _ids]} -> count + 1
                  {:error, error} -> assert(error.kind in [:no_server, :overloaded]) && count
                end
            end
          end)
        end

      killer = Task.async(fn -> kill_until_told(name) end)
      acknowledged = Task.await_many(changers, @wait_ms)
      matched = matchers |> Task.await_many(@wait_ms) |> Enum.sum()
      send(killer.pid, :done)
      kills = Task.await(killer, @wait_ms)
      assert kills > 0

      # A change that was not acknowledged may have been made.
      for {ids, tenant} <- Enum.zip(acknowledged, 1..12) do
        found = MapSet.new(Tenants.match!(name, tenant, %{a: 1_000}))
        assert MapSet.subset?(ids, found)
      end

      {count, _matches} = events(name)
      assert count == matched + 12
      assert Enum.sum(for(tenant <- 1..12, do: totals(name, tenant).events)) == count
      eventually(fn -> sizes(name).intents == 0 end)
      stop(name)
    end
  end

  defp kill_until_told(name, count \\ 0) do
    receive do
      :done -> count
    after
      5 ->
        processes = partitions(name) ++ [Tenants.Store.Table.get(directory(name).store, :process)]
        pid = Enum.random(processes)
        if pid && Process.alive?(pid), do: kill(pid)
        kill_until_told(name, count + 1)
    end
  end

  test "tenants that are stopped and started with their folder have everything", %{folder: folder} do
    clocks = clocks()

    options = [
      name: :"restarted_#{System.unique_integer([:positive])}",
      dir: folder,
      quota: [rate: 1, burst: 1_000_000_000]
    ]

    name = start(options, %{clock: clock(clocks)})

    for tenant <- 1..10,
        do:
          Tenants.change!(name, {:tenant, tenant},
            put: [{tenant, "a > 0"}, {99, "a > 10"}],
            quota: [rate: 10_000_000_000, memory: 1_000_000]
          )

    for tenant <- 1..10, number <- 1..tenant, do: Tenants.match(name, {:tenant, tenant}, %{a: number})
    first = today(clocks)
    pass(clocks, @day)
    for tenant <- 1..10, do: Tenants.match(name, {:tenant, tenant}, %{a: 100})
    usage = for tenant <- 1..10, do: Tenants.usage(name, {:tenant, tenant})
    report = Tenants.report!(name, tenants: :all, sections: [[:tenant, :day], [:day], [:id]])
    stop(name)

    ^name = start(options, %{clock: clock(clocks)})
    assert %{tenants: 10, hot: 0} = Tenants.info!(name)
    [by_tenant, by_day, by_id] = Tenants.report!(name, tenants: :all, sections: [[:tenant, :day], [:day], [:id]])
    assert [Enum.sort(by_tenant), by_day, by_id] == List.update_at(report, 0, &Enum.sort/1)
    assert Enum.find(by_day, &(&1.day == first)).events > 0

    for {{:ok, before}, tenant} <- Enum.zip(usage, 1..10) do
      assert {:ok, later} = Tenants.usage(name, {:tenant, tenant})
      assert later.days == before.days
      assert Map.delete(later.quota, :left) == Map.delete(before.quota, :left)
      assert Tenants.match!(name, {:tenant, tenant}, %{a: 20}) == Enum.sort([tenant, 99])
    end
  end

  test "tenants keep what was written when their node is killed", %{folder: folder} do
    clocks = clocks()
    options = [name: :"killed_#{System.unique_integer([:positive])}", dir: folder]
    name = start(options, %{clock: clock(clocks)})
    for tenant <- 1..5, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
    for tenant <- 1..5, do: Tenants.match!(name, tenant, %{a: 1})
    write(name)
    assert Tenants.snapshot_many(name, [3, 4]) == {:ok, [:ok, :ok]}
    for tenant <- 1..5, do: Tenants.match!(name, tenant, %{a: 1})
    assert Tenants.snapshot_many(name, [5]) == {:ok, [:ok]}
    Tenants.change!(name, 1, put: [{2, "a > 0"}])

    # As when the node ends: nothing is written any more.
    pid = Process.whereis(name)
    partitions = partitions(name)
    store = Tenants.Store.Table.get(directory(name).store, :process)
    monitor = Process.monitor(pid)
    for process <- partitions, do: :sys.suspend(process)
    for process <- [pid, store | partitions], do: Process.exit(process, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, @wait_ms
    stop_killed(name)

    ^name = start(options, %{clock: clock(clocks)})
    assert events(name) == {6, 6}
    assert Tenants.match!(name, 1, %{a: 1}) == [1, 2]
    assert for(tenant <- 2..5, do: totals(name, tenant).events) == [1, 1, 1, 2]
  end

  defp stop_killed(name) do
    # A restart of a temporary child does not happen.
    eventually(fn -> Process.whereis(name) == nil end)
    with {:error, :not_found} <- ExUnit.Callbacks.stop_supervised(name), do: :ok
  end

  test "a shard that traps is rebuilt, and other shards go on", %{folder: folder} do
    name = start([dir: folder], %{partitions: 2})
    for tenant <- 1..20, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
    for tenant <- 1..20, do: Tenants.match!(name, tenant, %{a: 1})
    write(name)
    for tenant <- 1..20, do: Tenants.match!(name, tenant, %{a: 1})
    {_key, shard, id, number, day, _counters, _slots, _bucket, _clock} = Directory.row(name, 1)
    lost = for tenant <- 1..20, elem(Directory.row(name, tenant), 2) == id, do: tenant
    assert length(lost) in 1..19
    damage({shard, number, day})

    for tenant <- 1..20, do: assert(Tenants.match(name, tenant, %{a: 1}) == {:ok, [1]})
    assert %{rebuilds: 1} = Tenants.info!(name)
    # Each lost tenant has its first event, which was written, and the last.
    assert events(name) == {3 * 20 - length(lost), 3 * 20 - length(lost)}
    refute Shards.shard(directory(name), id)
  end

  # Cuts a match off while it counts: with every budget from its fuel on, until one falls into the counting.
  defp damage({shard, number, day}) do
    event = :erlang.term_to_binary(%{a: -1}, minor_version: 2)
    runtime = shard.guest.runtime

    call = fn fuel ->
      request = %{input: event, output: :u64s, fuel: fuel, slice: :infinity, scheduler: :normal}
      runtime.call(shard.instance, "be_tree_tenant_match", [number, day, 0, byte_size(event), 0], request)
    end

    {:done, 0, _found, fuel} = call.(:infinity)

    assert Enum.find(fuel..1//-1, fn fuel ->
             call.(fuel)
             match?({:error, %{kind: :trap}}, Shard.info(shard, number))
           end)
  end

  @tag :tmp_dir
  test "a full disk refuses changes and evictions, and loses nothing", %{tmp_dir: folder} do
    Tmpfs.with_room(folder, "2m", fn folder ->
      name = start([dir: folder], %{partitions: 2})
      for tenant <- 1..4, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
      for tenant <- 1..4, do: Tenants.match!(name, tenant, %{a: 1})
      rest = Path.join(folder, "rest")
      fill(rest)
      long = "a in (#{Enum.map_join(1..20_000, ", ", &Integer.to_string/1)})"

      assert {:error, %{kind: :file}} = refused(name, long)
      # The last block of a file may still have room.
      for tenant <- 1..4, do: assert(evicted(Tenants.evict(name, tenant)))
      for tenant <- 1..4, do: assert(Tenants.match(name, tenant, %{a: 1}) == {:ok, [1]})
      {:ok, results} = Tenants.snapshot_many(name, [1, 2, 3, 4])
      for result <- results, do: assert(evicted(result))
      File.rm!(rest)
      eventually(fn -> match?({:ok, _counts}, Tenants.change(name, 1, put: [{3, "a > 0"}])) end)
      assert Tenants.match(name, 1, %{a: 1}) == {:ok, [1, 3]}
      eventually(fn -> Tenants.evict(name, 1) == :ok end)
      assert Tenants.match(name, 1, %{a: 1}) == {:ok, [1, 3]}
      assert events(name) == {10, 12}
      stop(name)
    end)
  end

  defp evicted(:ok), do: true
  defp evicted({:error, error}), do: error.kind == :file

  # Until the folder has no room, however large its blocks are.
  defp refused(name, long) do
    with {:ok, _counts} <- Tenants.change(name, 1, put: [{2, long}], delete: []) do
      Tenants.change!(name, 1, delete: [2])
      refused(name, long)
    end
  end

  defp fill(path) do
    {:ok, file} = :file.open(path, [:write, :raw])
    write_until_full(file)
    :file.close(file)
  end

  defp write_until_full(file) do
    with :ok <- :file.write(file, :binary.copy(<<0>>, 4_096)), do: write_until_full(file)
  end
end

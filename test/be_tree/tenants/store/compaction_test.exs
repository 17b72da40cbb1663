defmodule BeTree.Tenants.Store.CompactionTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet, Stores}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.Tenants.Store
  alias BeTree.Test.Attack

  setup [:quiet, :folder]

  defp files(folder, name), do: folder |> Path.join(name) |> File.ls!() |> Enum.sort()
  # Bytes that do not compress.
  defp bytes(count), do: :rand.bytes(count)

  test "bodies that are replaced many times take a bounded space", %{folder: folder} do
    {store, pid} = start(folder, segment_bytes: 20_000, garbage_bytes: 50_000)

    bodies =
      for _round <- 1..40, tenant <- 1..10, reduce: %{} do
        bodies ->
          body = bytes(1_000)
          {:ok, _place} = Store.put_body(store, tenant, body)
          Map.put(bodies, tenant, body)
      end

    # 400 KB were written.
    eventually(fn -> match?({:ok, %{bodies_bytes: bytes}} when bytes < 120_000, Store.info(store)) end)
    for {tenant, body} <- bodies, do: assert(found(store, tenant).body == body)
    GenServer.stop(pid)
    {store, pid} = start(folder, [])
    for {tenant, body} <- bodies, do: assert(found(store, tenant).body == body)
    GenServer.stop(pid)
  end

  test "live records move, and reads meanwhile find them", %{folder: folder} do
    {store, pid} = start(folder, segment_bytes: 5_000, garbage_bytes: 1_000_000)

    # Several runs copy the live bodies.
    for tenant <- 1..400 do
      {:ok, _place} = Store.put_body(store, tenant, "body #{tenant} " <> bytes(500))
      :ok = Store.put_statistics(store, tenant, 20_010, "present #{tenant}")
      for day <- 20_000..20_002, do: :ok = Store.put_day(store, tenant, day, "#{day} of #{tenant} " <> bytes(100))
    end

    before = content(store)
    for tenant <- 1..400, rem(tenant, 4) != 0, do: :ok = drop(store, tenant)
    kept = Map.filter(before, fn {tenant, _found} -> rem(tenant, 4) == 0 end)
    {:ok, %{bodies_bytes: bodies, days_bytes: days}} = Store.info(store)

    reader =
      Task.async(fn ->
        Enum.reduce_while(Stream.cycle([1]), 0, fn _one, count ->
          assert content(store) == kept
          receive(do: (:enough -> {:halt, count}), after: (0 -> {:cont, count + 1}))
        end)
      end)

    :ok = Store.expire(store, 20_003)
    settle(pid)
    send(reader.pid, :enough)
    Task.await(reader, :infinity)
    {:ok, info} = Store.info(store)
    assert info.bodies_bytes < div(bodies, 2) and info.days_bytes < days
    assert content(store) == kept
    GenServer.stop(pid)
    {store, pid} = start(folder, [])
    assert content(store) == kept
    GenServer.stop(pid)
  end

  test "small segments of many starts are merged", %{folder: folder} do
    for number <- 1..30 do
      {store, pid} = start(folder, [])
      {:ok, _place} = Store.put_body(store, number, "body #{number}")
      :ok = Store.put_day(store, number, 20_000, "day #{number}")
      settle(pid)
      GenServer.stop(pid)
    end

    {store, pid} = start(folder, [])
    settle(pid)
    assert length(files(folder, "bodies")) <= 10 and length(files(folder, "days")) <= 10
    for number <- 1..30, do: assert(found(store, number).body == "body #{number}")
    GenServer.stop(pid)
  end

  test "a start removes segments that nothing refers to, and leaves foreign files", %{folder: folder} do
    {store, pid} = start(folder, [])
    {:ok, _place} = Store.put_body(store, :a, "body")
    settle(pid)
    GenServer.stop(pid)
    [name] = files(folder, "bodies")

    for other <- ["0000000000000007.body", "0000000000000005.body.new", "notes.txt"],
        do: File.cp!(Path.join([folder, "bodies", name]), Path.join([folder, "bodies", other]))

    {store, pid} = start(folder, [])
    {:ok, _place} = Store.put_body(store, :b, "body")
    settle(pid)
    assert files(folder, "bodies") == [name, "0000000000000009.body", "notes.txt"]
    assert found(store, :a).body == "body"
    GenServer.stop(pid)
  end

  test "names that come once and are dropped leave nothing", %{folder: folder} do
    count = Attack.size(20_000, 1_000_000)

    for dir <- [nil, folder] do
      {store, pid} = start(dir, durability: {:interval, 10}, segment_bytes: 0x10_0000, garbage_bytes: 0x10_0000)

      for part <- Enum.chunk_every(1..count, 1_000) do
        for number <- part, do: :ok = Store.append(store, {"once", number}, {:put, number, "a = 1"}, nil)
        results = Store.put(store, for(number <- part, do: {:body, {"once", number}, "body #{number}"}))
        assert Enum.all?(results, &match?({:ok, _place}, &1))
        results = Store.put(store, for(number <- part, do: {:day, {"once", number}, 20_000, "day"}))
        assert Enum.all?(results, &(&1 == :ok))
        for number <- part, do: :ok = Store.drop(store, {"once", number}, nil)
      end

      eventually(fn -> match?({:ok, %{waiting: 0}}, Store.info(store)) end)
      assert Enum.to_list(Store.tenants(store)) == []
      for table <- [store.tails, store.blobs, store.queue], do: assert(:ets.info(table, :size) == 0)
      if dir, do: GenServer.stop(pid)

      if dir do
        {store, pid} = start(dir, [])
        settle(pid)
        assert Enum.to_list(Store.tenants(store)) == []
        assert {:ok, %{bodies_bytes: 0, days_bytes: 0}} = Store.info(store)
        GenServer.stop(pid)
      end
    end
  end
end

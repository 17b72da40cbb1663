defmodule BeTree.Tenants.StoreTest do
  # The store of tenants in memory and in a folder. test/be_tree/tenants/store/ has kills, faults and compaction.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet, Stores}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.Error
  alias BeTree.Tenants.Store

  @wait_ms 300_000

  setup [:quiet, :folder]

  # Both kinds of stores have the same interface.
  defp each_kind(folder, function) do
    for {dir, durability} <- [
          {nil, :sync},
          {Path.join(folder, "sync"), :sync},
          {Path.join(folder, "interval"), {:interval, 5}}
        ] do
      {store, pid} = start(dir, durability: durability)
      function.(store, dir)
      if Process.alive?(pid), do: GenServer.stop(pid)
    end
  end

  describe "append/4 and read/2" do
    test "keep changes in order, each tenant apart", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        for tenant <- [:a, "a", {:a, 1}, 1, 1.0], change <- [1, {:two, "b"}] do
          assert append(store, tenant, {tenant, change}) == :ok
        end

        for tenant <- [:a, "a", {:a, 1}, 1, 1.0] do
          assert Store.read(store, tenant) ==
                   {:ok, %{body: nil, statistics: nil, tail: [{tenant, 1}, {tenant, {:two, "b"}}]}}
        end

        assert Enum.sort(Store.tenants(store)) == Enum.sort([:a, "a", {:a, 1}, 1, 1.0])
      end)
    end

    test "read/2 refuses an unknown tenant", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        assert {:error, %Error{kind: :not_found}} = Store.read(store, :unknown)
        refute Store.known?(store, :unknown)
        assert Store.days(store, :unknown, 0..100) == {:ok, []}
      end)
    end

    test "read/2 sees changes that the caller has appended and not waited for", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        for number <- 1..100, do: :ok = Store.append(store, :a, number, nil)
        assert found(store, :a).tail == Enum.to_list(1..100)
      end)
    end
  end

  describe "put_body/3 and put_statistics/4" do
    test "a body replaces the changes and the statistics before it", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        :ok = append(store, :a, 1)
        assert Store.put_statistics(store, :a, 20_000, "early") == :ok
        assert Store.put_statistics(store, :a, 20_001, "late") == :ok
        assert found(store, :a) == %{body: nil, statistics: {20_001, "late"}, tail: [1]}
        tag = make_ref()
        assert Store.put_statistics(store, :a, 20_001, "later", {self(), tag}) == :ok
        assert_receive {^tag, :ok}, @wait_ms
        assert found(store, :a).statistics == {20_001, "later"}
        assert {:ok, _place} = Store.put_body(store, :a, "body")
        assert found(store, :a) == %{body: "body", statistics: nil, tail: []}
        assert Store.tail_bytes(store, :a) == 0
        :ok = append(store, :a, 2)
        assert Store.tail_bytes(store, :a) > 0
        assert found(store, :a) == %{body: "body", statistics: nil, tail: [2]}
        large = String.duplicate("large ", 100_000)
        assert {:ok, _place} = Store.put_body(store, :a, large)
        assert found(store, :a).body == large
      end)
    end

    test "put/2 stores blobs of many tenants", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        results = Store.put(store, for(tenant <- 1..50, do: {:body, tenant, "body #{tenant}"}))
        assert length(results) == 50 and Enum.all?(results, &match?({:ok, _place}, &1))
        for tenant <- 1..50, do: assert(found(store, tenant).body == "body #{tenant}")
        assert {:ok, %{tenants: 50, waiting: 0}} = Store.info(store)
      end)
    end
  end

  describe "put_all/5" do
    test "stores a body and days together", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        :ok = append(store, :a, 1)
        :ok = Store.put_day(store, :a, 20_000, "before")
        assert put_all(store, :a, "body", for(day <- 20_000..20_010, do: {day, "day #{day}"})) == :ok
        assert found(store, :a) == %{body: "body", statistics: nil, tail: []}
        assert Store.days(store, :a, 0..30_000) == {:ok, for(day <- 20_000..20_010, do: {day, "day #{day}"})}
        :ok = append(store, :a, 2)
        assert put_all(store, :a, nil, [{20_001, "other"}]) == :ok
        assert found(store, :a) == %{body: "body", statistics: nil, tail: [2]}
        assert Store.days(store, :a, 20_001..20_001) == {:ok, [{20_001, "other"}]}
        assert put_all(store, :b, "alone", []) == :ok
        assert found(store, :b).body == "alone"
      end)
    end
  end

  describe "put_day/4 and days/3" do
    test "keep one blob of each day, in order", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        for day <- [20_003, 20_001, -5, 20_002], do: assert(Store.put_day(store, :a, day, "day #{day}") == :ok)
        assert Store.put_day(store, :a, 20_001, "again") == :ok
        days = [{-5, "day -5"}, {20_001, "again"}, {20_002, "day 20002"}, {20_003, "day 20003"}]
        assert Store.days(store, :a, -100..30_000) == {:ok, days}
        assert Store.days(store, :a, 20_002..20_002) == {:ok, [{20_002, "day 20002"}]}
        assert Store.days(store, :a, 20_004..20_009) == {:ok, []}
      end)
    end

    test "expire/2 removes days before the retention, and no days after the last sealed one", %{folder: folder} do
      each_kind(folder, fn store, dir ->
        for day <- 100..140, do: :ok = Store.put_day(store, :a, day, "#{day}")
        :ok = Store.expire(store, 131)
        assert store |> days() == Enum.to_list(101..140)
        # A wrong clock.
        :ok = Store.expire(store, 1_000_000)
        assert store |> days() == Enum.to_list(111..140)
        :ok = Store.expire(store, 1)
        assert store |> days() == Enum.to_list(111..140)
        assert Store.put_day(store, :a, 110, "late") == :ok
        assert store |> days() == Enum.to_list(111..140)
        if dir, do: eventually(fn -> length(File.ls!(Path.join(dir, "days"))) == 30 end)
      end)
    end
  end

  defp days(store) do
    {:ok, days} = Store.days(store, :a, 0..1_000)
    for {day, _blob} <- days, do: day
  end

  describe "drop/3" do
    test "forgets a tenant, which may come back", %{folder: folder} do
      each_kind(folder, fn store, _dir ->
        :ok = append(store, :a, 1)
        {:ok, _place} = Store.put_body(store, :a, "body")
        :ok = Store.put_day(store, :a, 20_000, "day")
        :ok = append(store, :a, 2)
        assert drop(store, :a) == :ok
        assert {:error, %Error{kind: :not_found}} = Store.read(store, :a)
        assert Store.days(store, :a, 0..30_000) == {:ok, []}
        assert Enum.to_list(Store.tenants(store)) == []
        assert drop(store, :a) == :ok
        :ok = append(store, :a, 3)
        assert found(store, :a) == %{body: nil, statistics: nil, tail: [3]}
      end)
    end
  end

  describe "a restart" do
    test "finds all that was stored", %{folder: folder} do
      for durability <- [:sync, {:interval, 5}], base_bytes <- [1, 0x100_0000] do
        dir = Path.join(folder, "#{inspect(durability)} #{base_bytes}")
        {store, pid} = start(dir, durability: durability, base_bytes: base_bytes)

        for tenant <- 1..20 do
          :ok = append(store, tenant, 1)
          {:ok, _place} = Store.put_body(store, tenant, "body #{tenant}")
          :ok = append(store, tenant, 2)
          :ok = Store.put_statistics(store, tenant, 20_000, "present")
          for day <- 19_990..19_999, do: :ok = Store.put_day(store, tenant, day, "#{tenant} on #{day}")
          if rem(tenant, 5) == 0, do: :ok = drop(store, tenant)
        end

        GenServer.stop(pid)
        {store, pid} = start(dir, durability: durability)
        assert Enum.sort(Store.tenants(store)) == Enum.reject(1..20, &(rem(&1, 5) == 0))

        for tenant <- Store.tenants(store) do
          assert found(store, tenant) == %{body: "body #{tenant}", statistics: {20_000, "present"}, tail: [2]}

          assert Store.days(store, tenant, 0..30_000) ==
                   {:ok, for(day <- 19_990..19_999, do: {day, "#{tenant} on #{day}"})}
        end

        :ok = append(store, 1, 3)
        assert found(store, 1).tail == [2, 3]
        GenServer.stop(pid)
      end
    end

    test "refuses the folder of tenants with another identity", %{folder: folder} do
      Process.flag(:trap_exit, true)
      {store, pid} = start(folder, identity: "schema")
      :ok = append(store, :a, 1)
      GenServer.stop(pid)
      options = %{table: Store.table(), dir: folder, durability: :sync, retention: 30, identity: "other"}
      assert {:error, %Error{kind: :other_schema}} = Store.start_link(options)
    end
  end
end

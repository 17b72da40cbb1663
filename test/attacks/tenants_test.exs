defmodule BeTree.Attacks.TenantsTest do
  # Tenants whose names come once, and a hostile tenant beside honest ones. `make attack` uses more of both.
  use ExUnit.Case, async: false

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.{Eventually, Quiet, Tenants}

  alias BeTree.Tenants
  alias BeTree.Tenants.Usage
  alias BeTree.Test.Attack

  setup [:quiet, :folder]

  @wait_ms 3_000_000

  test "names that come once leave no atom, no row and no place", %{folder: folder} do
    for {dir, count} <- [
          {nil, Attack.size(20_000, 1_000_000)},
          {Path.join(folder, "tenants"), Attack.size(2_000, 50_000)}
        ] do
      name = start([dir: dir, hot: 100, durability: {:interval, 1_000}], %{partitions: 4})
      once(name, 1..200)
      atoms = :erlang.system_info(:atom_count)

      1..count
      |> Enum.chunk_every(div(count, 4))
      |> Enum.map(&Task.async(fn -> once(name, &1) end))
      |> Task.await_many(@wait_ms)

      assert %{tenants: 0, hot: 0, bytes: 0, dearest: []} = Tenants.info!(name)
      assert %{rows: 0, usage: 0, intents: 0, tails: 0, blobs: 0} = sizes(name)
      # Other modules may be loaded meanwhile.
      assert :erlang.system_info(:atom_count) - atoms < div(count, 10)
      assert {:ok, []} = Tenants.match_many(name, [])
      # A shard gives each number once, so shards were replaced.
      assert Tenants.info!(name).shards <= 8
      stop(name)
    end
  end

  defp once(name, numbers) do
    for number <- numbers do
      tenant = {"tenant", number, :erlang.unique_integer()}
      Tenants.change!(name, tenant, put: [{1, "a > 0"}])
      [1] = Tenants.match!(name, tenant, %{a: 1})
      :ok = Tenants.drop(name, tenant)
    end
  end

  test "names of tenants that do not exist leave nothing" do
    name = start()

    for number <- 1..Attack.size(20_000, 1_000_000),
        do: {:error, %{kind: :not_found}} = Tenants.match(name, number, %{a: 1})

    assert %{rows: 0, usage: 0, intents: 0, tails: 0, blobs: 0} = sizes(name)
    assert %{tenants: 0, shards: 0} = Tenants.info!(name)
  end

  test "a hostile tenant changes neither results nor bills of honest ones" do
    schema = [a: :integer, text: {:string, optional: true}]

    bill = fn hostile? ->
      name = start([schema: schema], %{partitions: 1})
      for tenant <- 1..5, do: Tenants.change!(name, tenant, put: for(id <- 1..30, do: {id, "a > #{id}"}))

      # The first match of an expression makes room for its counts, and the fuel of that depends on the memory of the shard.
      for tenant <- 1..5, do: Tenants.match!(name, tenant, %{a: 40})
      before = for tenant <- 1..5, do: search(name, tenant)

      enemy =
        if hostile? do
          patterns =
            for id <- 1..Attack.size(100, 1_000),
                do: {id, "text matches '(a+)+#{id}b*[c-z]{1,9}' or text like '%#{id}%'"}

          Tenants.change!(name, :enemy,
            put: patterns,
            quota: [rate: 1_000_000_000, burst: 1_000_000_000, memory: 100_000_000]
          )

          test = self()
          spawn_link(fn -> attack(name, test, String.duplicate("a", Attack.size(100_000, 1_000_000))) end)
        end

      if enemy, do: assert_receive(:attacking, @wait_ms)
      found = for number <- 1..100, tenant <- 1..5, do: Tenants.match(name, tenant, %{a: rem(number, 40)})

      if enemy do
        monitor = Process.monitor(enemy)
        send(enemy, :stop)
        assert_receive {:DOWN, ^monitor, :process, ^enemy, _reason}, @wait_ms
      end

      bills = for {tenant, fuel} <- Enum.zip(1..5, before), do: search(name, tenant) - fuel
      [entries] = Tenants.report!(name, tenants: Enum.to_list(1..5), sections: [[:tenant, :id]])
      stop(name)
      {found, bills, entries}
    end

    {found, bills, entries} = bill.(true)
    {found_alone, bills_alone, entries_alone} = bill.(false)
    assert bills == bills_alone
    assert {found, entries} == {found_alone, entries_alone}
  end

  defp search(name, tenant) do
    {:ok, usage} = Tenants.usage(name, tenant)
    (usage.days |> Map.values() |> Enum.reduce(&Usage.sum/2)).search
  end

  defp attack(name, test, text) do
    case Tenants.match(name, :enemy, %{a: 1, text: text}, fuel: 50_000_000) do
      {:ok, _ids} -> :ok
      {:error, error} -> true = error.kind in [:out_of_fuel, :quota]
    end

    send(test, :attacking)

    receive do
      :stop -> :ok
    after
      0 -> attack(name, test, text)
    end
  end

  test "tenants of one shard are spread when their number grows" do
    name = start([], %{partitions: 1})
    for tenant <- 1..600, do: Tenants.change!(name, tenant, put: [{1, "a > #{tenant}"}])
    assert %{shards: 3, hot: 600} = Tenants.info!(name)
    for tenant <- 1..600, do: :ok = Tenants.evict(name, tenant)
    eventually(fn -> Tenants.info!(name).hot == 0 end)
    for tenant <- 1..600, do: assert(Tenants.match(name, tenant, %{a: tenant + 1}) == {:ok, [1]})
    assert %{shards: 3, hot: 600, loads: 600} = Tenants.info!(name)
  end
end

defmodule BeTree.Tenants.OracleTest do
  @moduledoc """
  Random tenants in two places, with changes, events, evictions, kills, dumps, restores and moves: matches, counts and bills are those of a
  naive evaluator for each tenant alone.
  """
  use ExUnit.Case, async: true

  import BeTree.Test.{Kill, Quiet, Tenants}

  alias BeTree.Tenants
  alias BeTree.Test.{Attack, Nested, Random}

  @schemas Attack.size(4, 40)
  @tenants 8
  @rounds 6
  @transfers 6
  @day 86_400

  setup :quiet

  for number <- 1..@schemas do
    test "matches, counts and bills are what the oracle says, schema #{number}" do
      :rand.seed(:exsss, unquote(number))
      domains = Random.nested_schema()
      clocks = clocks()
      places = for hot <- [3, 100], do: start([schema: domains, hot: hot], %{partitions: 2, clock: clock(clocks)})
      # The expressions of the tenants in each place.
      model = for tenant <- 1..@tenants, into: %{}, do: {{hd(places), tenant}, %{}}

      {model, counts} =
        Enum.reduce(1..@rounds, {model, %{}}, fn round, {model, counts} ->
          model = Map.new(model, fn {where, expressions} -> {where, change(where, expressions, domains)} end)
          if rem(round, 2) == 0, do: model |> Map.keys() |> Enum.random() |> evict()
          if rem(round, 3) == 0, do: model |> Map.keys() |> Enum.random() |> kill_partition()
          counts = events(places, model, counts, domains, today(clocks))
          model = Enum.reduce(1..@transfers, model, fn _number, model -> transfer(places, model) end)
          counts = events(places, model, counts, domains, today(clocks))
          if rem(round, 2) == 1, do: pass(clocks, @day)
          {model, counts}
        end)

      gather(places, model)
      compare(hd(places), counts)
    end
  end

  defp evict({place, tenant}), do: :ok = Tenants.evict(place, tenant)
  defp kill_partition({place, tenant}), do: kill(partition(place, tenant))

  # A kill may interrupt a change, which is then made once more.
  defp change({place, tenant}, expressions, domains) do
    deleted = expressions |> Map.keys() |> Enum.filter(fn _id -> :rand.uniform() < 0.3 end)
    ids = Enum.uniq(for(_ <- 1..Enum.random(1..12), do: Enum.random(1..30)))
    put = for id <- ids, do: {id, Random.expression(domains)}
    instance = Enum.random([:shared, :own])
    parts = [put: Random.subscriptions(put), delete: deleted, instance: instance]
    assert {:ok, _counts} = until_running(fn -> Tenants.change(place, tenant, parts) end)
    expressions |> Map.drop(deleted) |> Map.merge(Map.new(put))
  end

  # A partition that was killed may not run again yet.
  defp until_running(fun) do
    with {:error, %{kind: :no_server}} <- fun.(), do: until_running(fun)
  end

  # Dumps a tenant into the other place, or moves it there.
  defp transfer(places, model) do
    {from, tenant} = model |> Map.keys() |> Enum.random()
    [to] = List.delete(places, from)
    expressions = Map.fetch!(model, {from, tenant})

    case Enum.random([:keep, :replace, :move]) do
      :move ->
        assert {:ok, _counts} = until_running(fn -> Tenants.move(from, tenant, {to, node()}) end)
        model |> Map.delete({from, tenant}) |> Map.put({to, tenant}, expressions)

      existing ->
        dump = Tenants.dump!(from, tenant)
        count = Enum.random(1..2)

        for _time <- 1..count,
            do: assert({:ok, _} = until_running(fn -> Tenants.restore(to, dump, existing: existing) end))

        if existing == :replace,
          do: Map.put(model, {to, tenant}, expressions),
          else: Map.put_new(model, {to, tenant}, expressions)
    end
  end

  # Brings all that the tenants counted into the first place.
  defp gather([first, other], model) do
    for {{^other, tenant}, _expressions} <- model do
      assert {:ok, _counts} = until_running(fn -> Tenants.move(other, tenant, {first, node()}) end)
    end

    assert {:ok, []} = Tenants.tenants(other)
    assert {:ok, tenants} = Tenants.tenants(first)
    assert Enum.sort(tenants) == Enum.to_list(1..@tenants)
  end

  defp events(places, model, counts, domains, day) do
    places
    |> Enum.map(fn place -> for {{^place, tenant}, _expressions} <- model, do: {place, tenant} end)
    |> Enum.reject(&(&1 == []))
    |> Enum.reduce(counts, &events_in(&1, model, &2, domains, day))
  end

  defp events_in([{place, _tenant} | _others] = tenants, model, counts, domains, day) do
    events =
      for _number <- 1..30 do
        {_place, tenant} = Enum.random(tenants)
        {tenant, Random.event(domains)}
      end

    terms =
      for {tenant, event} <- events,
          do: {tenant, for({attribute, value} <- Random.dress(event, domains), do: {attribute, Nested.loosen(value)})}

    expected =
      for {tenant, event} <- events, do: {:ok, model[{place, tenant}] |> Enum.sort() |> Random.matches(Map.new(event))}

    {single, batch} = Enum.split(terms, 15)
    found = for({tenant, event} <- single, do: Tenants.match(place, tenant, event)) ++ Tenants.match_many!(place, batch)
    assert found == expected

    for {{tenant, _event}, {:ok, ids}} <- Enum.zip(events, expected), reduce: counts do
      counts ->
        keys = [{tenant, day, :events} | for(id <- ids, do: {tenant, day, id})]
        keys = if ids == [], do: keys, else: [{tenant, day, :matched} | keys]
        Enum.reduce(keys, counts, fn key, counts -> Map.update(counts, key, 1, &(&1 + 1)) end)
    end
  end

  defp compare(name, counts) do
    [by_day, by_id] = Tenants.report!(name, tenants: :all, sections: [[:tenant, :day], [:tenant, :day, :id]])

    totals =
      for entry <- by_day, {key, count} <- [events: entry.events, matched: entry.matched], count > 0, into: %{} do
        {{entry.tenant, entry.day, key}, count}
      end

    matches = for entry <- by_id, entry.matches > 0, into: %{}, do: {{entry.tenant, entry.day, entry.id}, entry.matches}
    reported = Map.merge(totals, matches)
    assert Enum.reject(reported, &(&1 in counts)) == Enum.reject(counts, &(&1 in reported))

    billed =
      for tenant <- 1..@tenants,
          {:ok, %{days: days}} = Tenants.usage(name, tenant),
          {day, %{events: events}} when events > 0 <- days,
          into: %{},
          do: {{tenant, day, :events}, events}

    assert billed == Map.filter(counts, &match?({{_tenant, _day, :events}, _count}, &1))
  end
end

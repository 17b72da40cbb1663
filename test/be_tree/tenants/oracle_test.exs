defmodule BeTree.Tenants.OracleTest do
  @moduledoc "Random tenants, changes, events, evictions and kills: matches and counts are those of a naive evaluator for each tenant alone."
  use ExUnit.Case, async: true

  import BeTree.Test.{Kill, Quiet, Tenants}

  alias BeTree.Tenants
  alias BeTree.Test.{Attack, Nested, Random}

  @schemas Attack.size(4, 40)
  @tenants 8
  @rounds 6
  @day 86_400

  setup :quiet

  for number <- 1..@schemas do
    test "matches and counts are what the oracle says, schema #{number}" do
      :rand.seed(:exsss, unquote(number))
      domains = Random.nested_schema()
      clocks = clocks()
      name = start([schema: domains, hot: 3], %{partitions: 2, clock: clock(clocks)})
      model = for tenant <- 1..@tenants, into: %{}, do: {tenant, %{}}

      {model, counts, _clocks} =
        Enum.reduce(1..@rounds, {model, %{}, clocks}, fn round, {model, counts, clocks} ->
          model = Map.new(model, fn {tenant, expressions} -> {tenant, change(name, tenant, expressions, domains)} end)
          if rem(round, 2) == 0, do: Tenants.evict(name, Enum.random(1..@tenants))
          if rem(round, 3) == 0, do: kill(partition(name, Enum.random(1..@tenants)))
          counts = events(name, model, counts, domains, today(clocks))
          if rem(round, 2) == 1, do: pass(clocks, @day)
          {model, counts, clocks}
        end)

      compare(name, counts)
      assert map_size(model) == @tenants
    end
  end

  # A kill may interrupt a change, which is then made once more.
  defp change(name, tenant, expressions, domains) do
    deleted = expressions |> Map.keys() |> Enum.filter(fn _id -> :rand.uniform() < 0.3 end)
    ids = Enum.uniq(for(_ <- 1..Enum.random(1..12), do: Enum.random(1..30)))
    put = for id <- ids, do: {id, Random.expression(domains)}
    instance = Enum.random([:shared, :own])
    parts = [put: Random.subscriptions(put), delete: deleted, instance: instance]
    assert {:ok, _counts} = Tenants.change(name, tenant, parts)
    expressions |> Map.drop(deleted) |> Map.merge(Map.new(put))
  end

  defp events(name, model, counts, domains, day) do
    events = for _number <- 1..40, do: {Enum.random(1..@tenants), Random.event(domains)}

    terms =
      for {tenant, event} <- events,
          do: {tenant, for({attribute, value} <- Random.dress(event, domains), do: {attribute, Nested.loosen(value)})}

    expected = for {tenant, event} <- events, do: {:ok, model[tenant] |> Enum.sort() |> Random.matches(Map.new(event))}
    {single, batch} = Enum.split(terms, 20)
    found = for({tenant, event} <- single, do: Tenants.match(name, tenant, event)) ++ Tenants.match_many!(name, batch)
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
  end
end

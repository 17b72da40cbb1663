defmodule BeTree.Bench.Tenants.Shards do
  @moduledoc false
  # What a shard alone costs: searches of 1,000 tenants in turn, the statistics' share, and the fuel beside hostile tenants.

  import BeTree.Bench.Run

  alias BeTree.Bench.Tenants.{Turns, Workload}
  alias BeTree.{Domain, Event, Guest}
  alias BeTree.Tenants.Shard
  alias BeTree.Input.Describe

  @memory 1_000_000_000
  @limits %{fuel: 1_000_000_000, timeout: :infinity}
  @day 20_000
  @tenants 1_000

  ## In turn

  def turn(options) do
    shard = filled(nil)
    trees = for tenant <- 0..(@tenants - 1), do: tree(tenant)
    {events, ids} = {Workload.events(), Workload.ids()}
    rounds = if options.quick, do: 20, else: 50
    inputs = inputs(events, rounds)
    plain = for {tenant, event, _format, _bytes} <- inputs, do: {tenant, elem(events, event)}
    trees = List.to_tuple(trees)

    for {tenant, event, format, bytes} <- Enum.take(inputs, 2 * @tenants) do
      {:ok, found, _fuel} = Shard.search(shard, tenant, format, bytes, @limits)
      expected = elem(elem(ids, Workload.kind(tenant)), event)
      equal!("ids of tenant #{tenant} in a shard", Enum.sort(found), expected)
      {:ok, found} = BeTree.search(elem(trees, tenant), elem(events, event))
      equal!("ids of tenant #{tenant} in a tree", Enum.sort(found), expected)
    end

    hot = for {_tenant, event, format, bytes} <- inputs, do: {1, event, format, bytes}
    hot_plain = for {_tenant, event} <- plain, do: {1, event}
    count = length(inputs)
    search = fn inputs -> fn _number -> search_loop(inputs, shard) end end
    in_tree = fn inputs -> fn _number -> tree_loop(inputs, trees) end end

    results =
      Turns.in_turns(
        [
          Turns.way("a shard, in turn", :shard, count, search.(inputs)),
          Turns.way("a shard, one tenant", :shard_hot, count, search.(hot)),
          Turns.way("a tree each, in turn", :tree, count, in_tree.(plain)),
          Turns.way("a tree each, one tree", :tree_hot, count, in_tree.(hot_plain))
        ],
        options.turns
      )

    Turns.compare(
      "Searches of #{Describe.grouped(@tenants)} tenants in turn, without counting (a shard: an encoded event)",
      results
    )

    [
      {"a search over 1,000 tenants in turn, in a shard", :at_most, Turns.cpu(results, :shard), 4, "us"},
      {"a search over 1,000 trees in turn", :at_most, Turns.cpu(results, :tree), 8, "us"}
    ]
  end

  # `rounds` events of each tenant, encoded: consecutive events are of different tenants.
  defp inputs(events, rounds) do
    for round <- 0..(rounds - 1), tenant <- 0..(@tenants - 1) do
      event = rem(tenant * 7 + round * 131, tuple_size(events))
      {format, bytes} = encode(elem(events, event))
      {tenant, event, format, bytes}
    end
  end

  defp search_loop([], _shard), do: :ok

  defp search_loop([{tenant, _event, format, bytes} | inputs], shard) do
    {:ok, _ids, _fuel} = Shard.search(shard, tenant, format, bytes, @limits)
    search_loop(inputs, shard)
  end

  defp tree_loop([], _trees), do: :ok

  defp tree_loop([{tenant, event} | inputs], trees) do
    {:ok, _ids} = BeTree.search(elem(trees, tenant), event)
    tree_loop(inputs, trees)
  end

  ## Statistics

  def statistics(options) do
    plain = filled(nil)
    declared = filled([{"devices", :uniques, "device", 0}])
    {events, ids} = {Workload.events(), Workload.ids()}
    count = if options.quick, do: 10_000, else: 50_000
    run = Workload.uniform([1], count)

    # Devices differ between runs, so encoding belongs to each run, and every way does it.
    loop = fn call -> fn number -> counted_loop(run, events, Workload.shift(number), call) end end
    search = fn shard -> fn format, bytes -> Shard.search(shard, 1, format, bytes, @limits) end end
    match = fn shard -> fn format, bytes -> Shard.match(shard, 1, @day, format, bytes, @limits) end end

    results =
      Turns.in_turns(
        [
          Turns.way("search", :search, count, loop.(search.(plain))),
          Turns.way("match, no statistics declared", :plain, count, loop.(match.(plain))),
          Turns.way("match, unique devices", :declared, count, loop.(match.(declared)))
        ],
        options.turns
      )

    Turns.compare("Statistics: one tenant of a shard, 10 matches", results)

    fuels =
      for {way, call} <- [search: search.(plain), plain: match.(plain), declared: match.(declared)] do
        {way, Enum.sum(for {1, event, device} <- Enum.take(run, 1_000), do: fuel(call, events, ids, event, device))}
      end

    [search, plain, declared] = Keyword.values(fuels)
    share = fn more, base -> 100 * (more - base) / more end

    say(
      "fuel of an event: search #{div(search, 1_000)}, counting #{decimal(share.(plain, search), 1)} % of the match, " <>
        "with unique devices #{decimal(share.(declared, search), 1)} %"
    )

    base = Turns.cpu(results, :search)

    [
      {"the statistics' share of a search with 10 matches", :at_most, share.(Turns.cpu(results, :declared), base), 30,
       "%"}
    ]
  end

  defp counted_loop([], _events, _shift, _call), do: :ok

  defp counted_loop([{_tenant, event, device} | run], events, shift, call) do
    {format, bytes} = encode(%{elem(events, event) | device: device + shift})
    {:ok, [_, _, _, _, _, _, _, _, _, _], _fuel} = call.(format, bytes)
    counted_loop(run, events, shift, call)
  end

  defp fuel(call, events, ids, event, device) do
    {format, bytes} = encode(%{elem(events, event) | device: device})
    {:ok, found, fuel} = call.(format, bytes)
    equal!("ids of event #{event}", Enum.sort(found), elem(elem(ids, Workload.kind(1)), event))
    fuel
  end

  ## Fuel

  @doc "The fuel of a tenant alone, and beside 999 tenants whose expressions have costly patterns, must be equal."
  def fuel(options) do
    {:ok, schema} = Domain.parse(text: :string, number: :integer, place: :string_list)
    alone = shard(schema)
    beside = shard(schema)

    honest =
      for id <- 1..100,
          do: {id, "number = #{rem(id, 10)} and text matches 'order-[0-9]+' and 'p#{rem(id, 7)}' in place"}

    put(alone, 7, honest)
    neighbours = if options.quick, do: 99, else: 999

    for tenant <- [7 | Enum.reject(0..neighbours, &(&1 == 7))] do
      put(beside, tenant, if(tenant == 7, do: honest, else: hostile(tenant)))
    end

    events =
      for number <- 1..500 do
        %{
          text: "order-#{number}#{String.duplicate("a", rem(number, 50))}",
          number: rem(number, 10),
          place: ["p#{rem(number, 7)}"]
        }
      end

    found =
      for event <- events do
        {format, bytes} = encode(event)
        {:ok, ids, fuel} = Shard.search(alone, 7, format, bytes, @limits)
        {:ok, same, again} = Shard.search(beside, 7, format, bytes, @limits)
        equal!("ids beside hostile tenants", same, ids)
        equal!("fuel of a search beside #{neighbours} hostile tenants", again, fuel)
        {:ok, ^ids, fuel_alone} = Shard.match(alone, 7, @day, format, bytes, @limits)
        {:ok, ^ids, fuel_beside} = Shard.match(beside, 7, @day, format, bytes, @limits)
        {fuel, fuel_beside - fuel_alone}
      end

    total = Enum.sum(Enum.map(found, &elem(&1, 0)))
    # Counting may take memory, and what the allocator does for it depends on the heap that the tenants share.
    other = for {_fuel, difference} <- found, difference != 0, do: abs(difference)

    say(
      "\nFuel: #{Describe.grouped(length(events))} searches of a tenant took #{Describe.grouped(total)}, alone and beside " <>
        "#{neighbours} tenants with hostile patterns, equal to the unit for each event. Of as many matches #{length(other)} differed, " <>
        "by #{Enum.max(other, fn -> 0 end)} at most"
    )

    [{"matches whose fuel differs beside hostile tenants", :at_most, length(other), 0, "events"}]
  end

  # Patterns that every text of an event nearly matches, long parts, and none of them shared with another tenant.
  defp hostile(tenant) do
    for id <- 1..20 do
      {id,
       Enum.at(
         [
           "text matches '(a|aa|aaa)*b#{tenant}#{id}'",
           "contains(text, 'aaaaaaaaaaaaaaaa#{tenant}x#{id}')",
           "text matches '.*o.*r.*d.*e.*r.*#{tenant}#{id}'",
           "starts_with(text, 'order-#{id}') and number <> #{tenant}"
         ],
         rem(id, 4)
       )}
    end
  end

  ## Shards

  defp filled(declaration) do
    {:ok, schema} = Domain.parse(Workload.schema())
    shard = shard(schema)
    for tenant <- 0..(@tenants - 1), do: put(shard, tenant, Workload.expressions(tenant), declaration)
    shard
  end

  defp shard(schema) do
    {:ok, guest} = :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read!() |> Guest.load()
    {:ok, shard} = Shard.start(guest, schema, @memory)
    shard
  end

  defp put(shard, tenant, expressions, declaration \\ nil) do
    puts = for {id, text} <- expressions, do: {id, text, [], nil}
    {:ok, _sizes} = Shard.change(shard, tenant, @day, declaration, [], puts)
  end

  defp tree(tenant) do
    tree = BeTree.new!(Workload.schema())
    BeTree.insert_all!(tree, Workload.expressions(tenant))
    tree
  end

  defp encode(event) do
    {:ok, format, bytes} = Event.encode(event)
    {format, bytes}
  end
end

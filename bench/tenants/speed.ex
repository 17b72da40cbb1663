defmodule BeTree.Bench.Tenants.Speed do
  @moduledoc false
  # What an event costs: with many hot tenants, with one, and with tenants that follow Zipf's law.

  alias BeTree.Bench.Tenants.{Ours, Peer, Turns, Workload}
  alias BeTree.Input.Describe

  @batch 64
  @large_batch 1_024
  # The peer takes up to 150 us by the clock for an event, so its runs are shorter.
  @peer_bounds %{exact: 0, rms: 0.03, worst: 0.2}
  @sampled 20

  ## 2,000 tenants

  def hot(options) do
    count = if options.quick, do: 500, else: 2_000
    tenants = Workload.tenants(count)
    each = if options.quick, do: @batch, else: 2 * @batch
    run = Workload.uniform(tenants, each)

    results =
      compare(
        "#{Describe.grouped(count)} hot tenants, uniform, 10 matches with counts and unique devices",
        tenants,
        run,
        each,
        options
      )

    [
      bar("#{Describe.grouped(count)} hot tenants one by one, of the peer", results, :one, 3),
      bar("#{Describe.grouped(count)} hot tenants in batches of 64 of a tenant, of the peer", results, :batches, 8)
    ]
  end

  ## One tenant

  def one(options) do
    run = Workload.uniform([1], if(options.quick, do: 10_000, else: 100_000))
    peer_events = div(length(run), 2)

    results =
      compare("One hot tenant, two callers, 10 matches with counts and unique devices", [1], run, peer_events, options)

    [
      bar("one hot tenant one by one, of the peer", results, :one, 5),
      bar("one hot tenant in batches of 64, of the peer", results, :batches, 10)
    ]
  end

  ## 30,000 tenants

  def zipf(options) do
    count = if options.quick, do: 3_000, else: 30_000
    tenants = Workload.tenants(count)
    run = Workload.zipf(tenants, if(options.quick, do: 60_000, else: 300_000))
    title = "#{Describe.grouped(count)} tenants by Zipf's law, 10 matches with counts and unique devices"
    results = compare(title, tenants, run, div(length(run), 10), options)
    rate = 1_000_000 / Turns.cpu(results, :mixed)

    [
      {"#{Describe.grouped(count)} by Zipf's law in batches of 64, a second of processor time", :at_least, rate,
       400_000, "events"}
    ]
  end

  # Runs all ways with the same tenants. `peer_events` bounds the runs of the peer.
  defp compare(title, tenants, run, peer_events, options) do
    {events, ids} = {Workload.events(), Workload.ids()}
    peer_run = Enum.take(run, max(peer_events, if(options.quick, do: 5_000, else: 20_000)))
    {ours, our_ways} = our_ways(tenants, run, events)
    {peers, peer_ways} = peer_ways(peer_run, ids)
    results = Turns.in_turns(our_ways ++ peer_ways, options.turns)
    Turns.compare(title, results)
    sampled = Enum.take_random(tenants, @sampled)

    our_runs = for _way <- our_ways, do: {run, Turns.runs(options.turns)}
    Ours.check!("BeTree.Tenants", our_runs, ids, sampled)
    Ours.stop(ours)

    for {registry, way} <- Enum.zip(peers, peer_ways) do
      figures = fn tenant ->
        uniques = Peer.uniques(registry, tenant)
        Map.new(Peer.counts(registry, tenant), fn {id, count} -> {id, {count, uniques[id]}} end)
      end

      present = peer_run |> Enum.map(&elem(&1, 0)) |> Enum.uniq()
      runs = [{peer_run, Turns.runs(options.turns)}]
      Turns.check!(way.name, figures, runs, ids, Enum.filter(sampled, &(&1 in present)), @peer_bounds)
      Peer.stop(registry)
    end

    results
  end

  defp our_ways(tenants, run, events) do
    pid = Ours.start()
    Ours.fill(tenants)
    count = length(run)
    mixed = Enum.chunk_every(run, @batch)
    large = Enum.chunk_every(run, @large_batch)
    together = run |> Workload.by_tenant(@batch) |> Enum.shuffle()
    batches = fn batches -> fn number -> Ours.batches(batches, events, number) end end

    {pid,
     [
       Turns.way("match", :one, count, &Ours.one_by_one(run, events, &1)),
       Turns.way("match_many, #{@batch} events", :mixed, count, batches.(mixed)),
       Turns.way("match_many, #{Describe.grouped(@large_batch)} events", :large, count, batches.(large)),
       Turns.way("match_many, up to #{@batch} events of a tenant", :batches, count, batches.(together))
     ]}
  end

  # Each way has a registry of its own, so that each runs with the same tables.
  defp peer_ways(run, ids) do
    ways = [
      {"LDB on ETS, a call a sketch", :peer, &Peer.update/5},
      {"LDB on ETS, a call an event", :peer_together, &Peer.update_together/5}
    ]

    Enum.unzip(
      for {name, role, update} <- ways do
        registry = Peer.start()

        work = fn number ->
          Turns.share(run, &peer_loop(&1, update, registry, ids, Workload.shift(number)))
        end

        {registry, Turns.way(name, role, length(run), work)}
      end
    )
  end

  defp peer_loop([], _update, _registry, _ids, _shift), do: :ok

  defp peer_loop([{tenant, event, device} | run], update, registry, ids, shift) do
    update.(registry, tenant, elem(elem(ids, Workload.kind(tenant)), event), device + shift, 0)
    peer_loop(run, update, registry, ids, shift)
  end

  defp bar(title, results, role, limit),
    do: {title, :at_least, Turns.cpu(results, :peer) / Turns.cpu(results, role), limit, "times"}
end

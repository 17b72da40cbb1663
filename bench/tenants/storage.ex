defmodule BeTree.Bench.Tenants.Storage do
  @moduledoc false
  # Memory, cold tenants, restarts and snapshots.
  #
  # Memory is measured in a VM of its own for each side, because memory that a VM once had it rarely gives back.

  import BeTree.Bench.Run

  alias BeTree.Bench.Tenants.{Child, Ours, Peer, Turns, Workload}
  alias BeTree.Input.Describe
  alias BeTree.Tenants

  @megabyte 1_000_000
  # Events of a tenant on the day whose memory is measured.
  @events 8
  @figures 10

  ## Memory

  def memory(options) do
    count = tenants(options)
    ours = Child.run("memory_ours", options)
    peer = Child.run("memory_peer", options)

    row = fn name, found ->
      [
        name,
        megabytes(found.resident),
        megabytes(found.vm),
        decimal(found.resident / count / 1_000, 1),
        decimal(found.seconds, 1)
      ]
    end

    table(
      "Memory of #{Describe.grouped(count)} tenants of #{Workload.expressions()} expressions, all hot, #{@events} events a tenant on one day",
      ["", "resident, MB more than before", "of it the VM's, MB", "KB a tenant", "seconds"],
      [row.("BeTree.Tenants", ours), row.("LDB on ETS, without expressions", peer)]
    )

    share = ours.resident / peer.resident
    [{"memory of #{Describe.grouped(count)} hot tenants, of the peer's", :at_most, share, 0.5, "times"}]
  end

  @doc "Runs in a child VM."
  def memory_of(side, options) do
    tenants = Workload.tenants(tenants(options))
    run = Workload.uniform(tenants, @events)
    {events, ids} = {Workload.events(), Workload.ids()}
    sampled = Enum.take_random(tenants, @figures)
    :erlang.garbage_collect()
    before = {resident(), :erlang.memory(:total)}

    {clock, :ok} =
      :timer.tc(fn ->
        case side do
          :ours ->
            Ours.start()
            Ours.fill(tenants)
            Ours.one_by_one(run, events, 0)

          :peer ->
            registry = Peer.start()
            :persistent_term.put(__MODULE__, registry)
            Turns.share(run, &peer(&1, registry, ids))
        end
      end)

    for process <- Process.list(), do: :erlang.garbage_collect(process)
    {resident, vm} = before
    found = %{resident: resident() - resident, vm: :erlang.memory(:total) - vm, seconds: clock / 1_000_000}
    if side == :ours, do: Ours.check!("BeTree.Tenants", [{run, 1}], ids, sampled)
    found
  end

  defp peer(run, registry, ids) do
    for {tenant, event, device} <- run,
        do: Peer.update(registry, tenant, elem(elem(ids, Workload.kind(tenant)), event), device, 0)
  end

  defp tenants(options), do: if(options.quick, do: 3_000, else: 30_000)
  defp megabytes(bytes), do: decimal(bytes / @megabyte, 0)

  ## Cold tenants

  @doc "The first event of a tenant that is not in memory."
  def cold(options) do
    count = if options.quick, do: 300, else: 3_000
    tenants = Workload.tenants(count)
    path = Ours.new_folder("cold")
    pid = Ours.start(dir: path)
    Ours.fill(tenants)
    {events, ids} = {Workload.events(), Workload.ids()}
    run = Workload.uniform(tenants, 20)
    Ours.one_by_one(run, events, 0)

    times =
      for turn <- 1..options.turns do
        for tenant <- tenants, do: :ok = Tenants.evict(Ours.name(), tenant)
        first = Workload.uniform(tenants, 1)

        times =
          for event <- first do
            {time, :ok} = :timer.tc(fn -> Ours.one_by_one_loop([event], events, Workload.shift(turn)) end)
            time / 1_000
          end

        {first, times}
      end

    runs = [{run, 1} | for({first, _times} <- times, do: {first, 1})]
    Ours.check!("BeTree.Tenants, evicted between events", runs, ids, Enum.take_random(tenants, @figures))
    Ours.stop(pid)
    times = Enum.map(times, &elem(&1, 1))
    [half, most] = for share <- [0.5, 0.99], do: median(Enum.map(times, &percentile(&1, share)))
    loads = peer_loads(Enum.take(tenants, 100), ids)

    table(
      "The first event of #{Describe.grouped(count)} cold tenants in a folder, milliseconds by the clock",
      ["", "p50", "p99"],
      [
        ["BeTree.Tenants, read and matched", decimal(half, 3), decimal(most, 3)],
        ["LDB on ETS, file2tab of three tables", decimal(median(loads), 3), decimal(percentile(loads, 0.99), 3)]
      ]
    )

    [
      {"the first event of a cold tenant, p50", :at_most, half, 0.3, "ms"},
      {"the first event of a cold tenant, p99", :at_most, most, 2, "ms"}
    ]
  end

  # The milliseconds in which the peer reads the snapshots of tenants with 28 events each.
  defp peer_loads(tenants, ids) do
    folder = Ours.new_folder("peer")
    File.mkdir_p!(folder)
    registry = Peer.start()
    peer(Workload.uniform(tenants, 28), registry, ids)

    times =
      for tenant <- tenants do
        path = Path.join(folder, "#{tenant}")
        Peer.snapshot(registry, tenant, path)
        {time, _tables} = :timer.tc(fn -> Peer.load(path) end)
        time / 1_000
      end

    Peer.stop(registry)
    times
  end

  ## Restarts

  @doc "How long after a start all tenants of a folder are known, and what a cold tenant takes."
  def restart(options) do
    count = tenants(options)
    tenants = Workload.tenants(count)
    path = Ours.new_folder("restart")
    {events, ids} = {Workload.events(), Workload.ids()}
    run = Workload.uniform(tenants, 2)
    pid = Ours.start(dir: path)
    Ours.fill(tenants)
    Ours.one_by_one(run, events, 0)
    Ours.stop(pid)
    disk = Ours.folder_bytes(path)
    found = Child.run("restart", options, [path])
    equal!("tenants after a restart", found.tenants, count)

    sampled = Enum.take_random(tenants, @figures)
    pid = Ours.start(dir: path)
    Ours.check!("BeTree.Tenants, after a restart", [{run, 1}], ids, sampled)
    Ours.stop(pid)

    table(
      "A restart with #{Describe.grouped(count)} tenants in a folder",
      [
        "a start of the VM with an empty folder, s",
        "until all are known, s",
        "memory of a cold tenant, bytes",
        "in the folder, KB a tenant"
      ],
      [
        [
          decimal(found.first, 3),
          decimal(found.seconds, 3),
          decimal(found.bytes / count, 0),
          decimal(disk / count / 1_000, 1)
        ]
      ]
    )

    [
      {"#{Describe.grouped(count)} tenants known after a restart", :at_most, found.seconds, 0.5, "s"},
      {"a cold tenant in the folder", :at_most, disk / count / 1_000, 16, "KB"},
      {"a cold tenant in memory", :at_most, found.bytes / count / 1_000, 1, "KB"}
    ]
  end

  @doc "Runs in a child VM."
  def restart_of([path], _options) do
    # The first start compiles the index module.
    {first, pid} = :timer.tc(fn -> Ours.start(dir: Ours.new_folder("empty")) end)
    Ours.stop(pid)
    :erlang.garbage_collect()
    before = resident()
    {time, _pid} = :timer.tc(fn -> Ours.start(dir: path) end)
    tenants = Ours.known()
    for process <- Process.list(), do: :erlang.garbage_collect(process)
    %{first: first / 1_000_000, seconds: time / 1_000_000, tenants: tenants, bytes: resident() - before}
  end

  ## Snapshots

  @doc "The longest match of a tenant while it is written to the store, beside the longest of spans without a snapshot."
  def pause(options) do
    path = Ours.new_folder("pause")
    pid = Ours.start(dir: path)
    Ours.fill([1])
    {events, ids} = {Workload.events(), Workload.ids()}
    # The statistics of a busy tenant: dense sketches.
    run = Workload.uniform([1], if(options.quick, do: 5_000, else: 50_000))
    Ours.one_by_one(run, events, 0)
    spans = if options.quick, do: 40, else: 200

    longest =
      for number <- 1..spans, kind <- [:snapshot, :nothing] do
        span = Workload.uniform([1], 200)
        task = Task.async(fn -> if kind == :snapshot, do: snapshot(number), else: {0, 0} end)
        times = for event <- span, do: timed_match(event, events, number)
        {began, ended} = Task.await(task, :infinity)
        within = for {start, stop} <- times, kind == :nothing or (stop >= began and start <= ended), do: stop - start
        {kind, Enum.max(within, fn -> 0 end)}
      end

    by = fn kind -> for {^kind, time} <- longest, do: time / 1_000 end
    pause = max(median(by.(:snapshot)) - median(by.(:nothing)), 0)
    held = for _number <- 1..spans, do: elem(:timer.tc(fn -> Ours.figures(1) end), 0) / 1_000
    Ours.stop(pid)
    peer = peer_snapshots(run, ids, spans)

    table(
      "A tenant beside its snapshot: the longest match of a span, milliseconds by the clock, medians of #{spans} spans",
      ["", "ms"],
      [
        ["beside a snapshot", decimal(median(by.(:snapshot)), 3)],
        ["beside nothing", decimal(median(by.(:nothing)), 3)],
        ["a report of the tenant", decimal(median(held), 3)],
        ["LDB on ETS: tab2file, while the owner does nothing else", decimal(median(peer), 3)]
      ]
    )

    [{"the pause of a tenant for its snapshot", :at_most, pause, 0.2, "ms"}]
  end

  defp snapshot(_number) do
    began = System.monotonic_time(:microsecond)
    :ok = Tenants.snapshot(Ours.name(), 1)
    {began, System.monotonic_time(:microsecond)}
  end

  defp timed_match(event, events, number) do
    began = System.monotonic_time(:microsecond)
    Ours.one_by_one_loop([event], events, Workload.shift(number))
    {began, System.monotonic_time(:microsecond)}
  end

  defp peer_snapshots(run, ids, spans) do
    folder = Ours.new_folder("peer")
    File.mkdir_p!(folder)
    registry = Peer.start()

    for {1, event, device} <- run,
        do: Peer.update_together(registry, 1, elem(elem(ids, Workload.kind(1)), event), device, 0)

    path = Path.join(folder, "1")
    times = for _span <- 1..min(spans, 50), do: elem(:timer.tc(fn -> Peer.snapshot(registry, 1, path) end), 0) / 1_000
    Peer.stop(registry)
    times
  end
end

defmodule BeTree.Bench.Tenants.Isolation do
  @moduledoc false
  # What tenants do to each other: neighbours of one over its quota, tenants that come and go, and a node that is killed.

  import BeTree.Bench.Run

  alias BeTree.Bench.Tenants.{Child, Ours, Workload}
  alias BeTree.Input.Describe
  alias BeTree.Tenants

  ## Neighbours

  # Events a second of each of the two processes that match neighbours.
  @pace 500
  # The events a second that the quota of the greedy tenant admits, and how many times as many it sends.
  @admitted 50
  @times 100
  @greedy 0
  # The errors of the clock within a turn are larger than this.
  @neighbours 100

  def neighbours(options) do
    {events, ids} = {Workload.events(), Workload.ids()}
    tenants = Workload.tenants(@neighbours)
    fuel = fuel_of_an_event()
    pid = Ours.start()
    Ours.fill([@greedy | tenants])
    {:ok, _result} = Tenants.change(Ours.name(), @greedy, quota: [rate: @admitted * fuel])
    seconds = if options.quick, do: 2, else: 5
    turns = max(options.turns, 3)

    results =
      for turn <- 1..turns, beside <- [:nothing, :greedy] do
        greedy = if beside == :greedy, do: Task.async(fn -> greed(events, seconds) end)

        runs =
          for half <- Enum.chunk_every(tenants, div(@neighbours, 2)) do
            Task.async(fn ->
              run = Workload.uniform(half, div(seconds * @pace * 2, @neighbours))
              {run, paced(run, events, turn)}
            end)
          end
          |> Task.await_many(:infinity)

        sent = if greedy, do: Task.await(greedy, :infinity)
        times = Enum.flat_map(runs, &elem(&1, 1))
        {beside, percentile(times, 0.5), percentile(times, 0.99), sent, for({run, _times} <- runs, do: {run, 1})}
      end

    runs = Enum.flat_map(results, &elem(&1, 4))
    figures = fn tenant -> if tenant == @greedy, do: %{}, else: Ours.figures(tenant) end
    BeTree.Bench.Tenants.Turns.check!("neighbours", figures, runs, ids, [], Ours.bounds())
    found = Ours.figures(@greedy)
    admitted = results |> Enum.map(&elem(&1, 3)) |> Enum.filter(& &1) |> Enum.map(&elem(&1, 1)) |> Enum.sum()
    matches = Enum.sum(for {_id, {matches, _uniques}} <- found, do: matches)
    equal!("matches of the greedy tenant", matches, admitted * Workload.matches())
    Ours.stop(pid)

    column = fn beside, position ->
      median(for result <- results, elem(result, 0) == beside, do: elem(result, position))
    end

    {sent, _admitted} = results |> Enum.map(&elem(&1, 3)) |> Enum.filter(& &1) |> hd()

    table(
      "#{@neighbours} neighbours of one tenant that sends #{@times} times its quota, microseconds a match by the clock",
      ["", "p50", "p99"],
      for beside <- [:nothing, :greedy] do
        title =
          if beside == :greedy, do: "beside #{Describe.grouped(div(sent, seconds))} events a second", else: "alone"

        [title, us(column.(beside, 1)), us(column.(beside, 2))]
      end
    )

    [
      {"neighbours' p99 beside a tenant at #{@times} times its quota", :at_most,
       column.(:greedy, 2) / column.(:nothing, 2), 1.2, "times"}
    ]
  end

  defp fuel_of_an_event do
    pid = Ours.start()
    Ours.fill([1])
    Ours.one_by_one_loop(Workload.uniform([1], 100), Workload.events(), 0)
    {:ok, usage} = Tenants.usage(Ours.name(), 1)
    Ours.stop(pid)
    div(Ours.searched(usage), 100)
  end

  # Sends the events of the greedy tenant that are due, and looks again after a millisecond. Returns how many it sent and how many were
  # admitted.
  defp greed(events, seconds), do: greed(events, System.monotonic_time(:millisecond), 1_000 * seconds, 0, 0)

  defp greed(events, started, length, sent, admitted) do
    elapsed = System.monotonic_time(:millisecond) - started

    if elapsed < length do
      due = div(@times * @admitted * elapsed, 1_000)
      more = Enum.count((sent + 1)..due//1, &admitted?(elem(events, rem(&1, tuple_size(events)))))
      Process.sleep(1)
      greed(events, started, length, max(due, sent), admitted + more)
    else
      {sent, admitted}
    end
  end

  defp admitted?(event) do
    case Tenants.match(Ours.name(), @greedy, event) do
      {:ok, _ids} -> true
      {:error, %{kind: :quota}} -> false
    end
  end

  # Matches at the pace of the neighbours. Returns the times.
  defp paced(run, events, turn) do
    interval = div(1_000, @pace)

    for event <- run do
      {time, :ok} = :timer.tc(fn -> Ours.one_by_one_loop([event], events, Workload.shift(turn)) end)
      Process.sleep(interval)
      time
    end
  end

  ## Names that come and go

  @doc "Tenants that come once and are dropped leave nothing, and tenants beyond `hot:` leave memory."
  def churn(options) do
    names = if options.quick, do: 5_000, else: 100_000
    hot = 1_000
    pid = Ours.start(hot: hot)
    {events, ids} = {Workload.events(), Workload.ids()}
    stay = Workload.tenants(2 * hot)
    Ours.fill(stay)
    run = Workload.uniform(stay, 5)
    Ours.one_by_one(run, events, 0)
    come_and_go(1..hot, events)
    before = {resident(), :erlang.memory(:total)}
    {clock, cpu} = timed(fn -> come_and_go(1..names, events) end)
    for process <- Process.list(), do: :erlang.garbage_collect(process)
    {resident, vm} = before
    grown = %{resident: resident() - resident, vm: :erlang.memory(:total) - vm}
    equal!("tenants after #{names} that came and went", Ours.known(), length(stay))

    Ours.check!(
      "BeTree.Tenants, #{Describe.grouped(length(stay))} tenants, #{Describe.grouped(hot)} hot",
      [{run, 1}],
      ids,
      Enum.take(stay, 20)
    )

    Ours.stop(pid)

    table(
      "#{Describe.grouped(names)} tenants that come, match an event and are dropped, beside #{Describe.grouped(length(stay))} that stay",
      ["clock, us a tenant", "processor, us", "resident memory more than before, MB", "of it the VM's, MB"],
      [
        [
          decimal(clock / names, 0),
          decimal(cpu / names, 0),
          decimal(grown.resident / 1.0e6, 1),
          decimal(grown.vm / 1.0e6, 1)
        ]
      ]
    )

    [
      {"memory that #{Describe.grouped(names)} tenants leave that came once", :at_most, grown.resident / 1.0e6, 16,
       "MB"}
    ]
  end

  defp come_and_go(numbers, events) do
    BeTree.Bench.Tenants.Turns.share(Enum.to_list(numbers), fn numbers ->
      for number <- numbers do
        tenant = {:once, number}
        {:ok, _result} = Tenants.change(Ours.name(), tenant, put: [{1, "plan = 1"}, {2, "plan <> 1"}])
        {:ok, [_id]} = Tenants.match(Ours.name(), tenant, elem(events, rem(number, tuple_size(events))))
        :ok = Tenants.drop(Ours.name(), tenant)
      end
    end)
  end

  ## A killed node

  # Above the number of every change.
  @last_number 1_000_000_000_000

  @doc "A node is killed with -9 while it changes and matches tenants. What it acknowledged must be there."
  def kill(options) do
    kills = if options.quick, do: 2, else: 20
    path = Ours.new_folder("kill")

    # The tenants go on after each kill: `acknowledged` has the expressions of each.
    acknowledged =
      for kill <- 1..kills, reduce: %{} do
        acknowledged ->
          {port, process} = Child.open("kill", options, [path, "#{kill}"])
          acknowledged = follow(port, process, 200 + 150 * kill, acknowledged)
          check_killed(path, acknowledged, kill)
          acknowledged
      end

    changes = acknowledged |> Map.values() |> Enum.map(&map_size/1) |> Enum.sum()

    say(
      "\n#{kills} kills with -9: all of #{Describe.grouped(changes)} acknowledged expressions of " <>
        "#{Describe.grouped(map_size(acknowledged))} tenants are there, with the last text of each"
    )

    []
  end

  # Lines are "TENANT ID NUMBER", each for an acknowledged change. After `count` of them the node is killed, at any moment.
  defp follow(port, process, count, acknowledged) do
    receive do
      {^port, {:data, {:eol, "acknowledged " <> line}}} ->
        [tenant, id, number] = line |> String.split() |> Enum.map(&String.to_integer/1)
        acknowledged = Map.update(acknowledged, tenant, %{id => number}, &Map.put(&1, id, number))
        if count == 0, do: {_output, 0} = System.cmd("kill", ["-9", "#{process}"])
        follow(port, process, count - 1, acknowledged)

      {^port, {:data, {_end, _other}}} ->
        follow(port, process, count, acknowledged)

      {^port, {:exit_status, 137}} ->
        acknowledged

      {^port, {:exit_status, status}} ->
        Mix.raise("the node ended with status #{status} before it was killed")
    end
  end

  # The expression of a change is true from the number of the change on. A change that was not acknowledged may have been made.
  defp check_killed(path, acknowledged, kill) do
    pid = Ours.start(dir: path)

    ids = fn tenant, device ->
      {:ok, ids} = Tenants.match(Ours.name(), tenant, %{elem(Workload.events(), 0) | device: device})
      ids
    end

    for {tenant, expressions} <- acknowledged do
      present = ids.(tenant, @last_number)

      for {id, number} <- expressions, id not in present or id in ids.(tenant, number - 1) do
        Mix.raise("kill #{kill}: expression #{id} of tenant #{tenant} is not the acknowledged one, number #{number}")
      end
    end

    Ours.stop(pid)
  end

  @doc "Runs in a child VM until it is killed."
  def kill_of([path, kill], _options) do
    pid = Ours.start(dir: path)
    Process.link(pid)
    seed = String.to_integer(kill)

    # Each process changes tenants of its own, so that the last change of an expression is known.
    for worker <- 0..3 do
      spawn_link(fn ->
        :rand.seed(:exsss, {seed, worker, 1})
        change_until_killed(worker, seed * 1_000_000)
      end)
    end

    Process.sleep(:infinity)
  end

  defp change_until_killed(worker, number) do
    tenant = 4 * :rand.uniform(25) + worker
    id = :rand.uniform(20)
    {:ok, _result} = Tenants.change(Ours.name(), tenant, put: [{id, "device >= #{number}"}])
    IO.puts("acknowledged #{tenant} #{id} #{number}")
    {:ok, ids} = Tenants.match(Ours.name(), tenant, %{elem(Workload.events(), 0) | device: number})
    true = id in ids
    change_until_killed(worker, number + 1)
  end
end

# Measures a server of 100,000 ad-targeting expressions (BeTree.Workload.W3) under searches on all schedulers, with 1,000
# and then 5,000 insertions and deletions a second. Prints the rate and the times of searches with and without changes, the
# time of a change, and the memory. A search right after a change must see it. At the end the server must find the same ids
# as a new tree.
#
#     mix run bench/live.exs [--seconds 8] [--expressions 100000]
#
# With --minutes, it instead changes and searches a server of constant size, with 1,000 changes a second, and prints the
# memory.
#
#     mix run bench/live.exs --minutes 10
#
# With --ids, it compares a server with terms as ids with one with integers, and prints the cost of an id.
#
#     mix run bench/live.exs --ids [--expressions 20000]

defmodule BeTree.Bench.Live do
  @moduledoc false

  alias BeTree.Server
  alias BeTree.Input.Describe
  alias BeTree.Workload.W3

  # Changes a second, half of them insertions, with the minimum rate of searches relative to the rate without changes.
  @rates [{1_000, 0.9}, {5_000, 0.6}]
  # Bars at the first of these rates: the p99 of a search relative to the one without changes, and p50 and p99 of the
  # microseconds until acknowledgement.
  @p99 3
  @acknowledged {200, 3_000}

  @events 500
  @searchers_a_scheduler 2
  @changers 20
  @chunk 10_000
  @memory 4_000_000_000
  # Ids above all others.
  @probes 0x1_0000_0000

  def run(%{expressions: expressions, seconds: seconds}) do
    room = div(Enum.sum(for {rate, _share} <- @rates, do: rate) * seconds, 2)
    parameters = %{W3.defaults() | expressions: expressions + room, events: @events}
    {there, later} = parameters |> W3.expressions() |> Enum.with_index(&{&2 + 1, &1}) |> Enum.split(expressions)
    events = parameters |> W3.events() |> Enum.to_list() |> List.to_tuple()
    {:ok, _pid} = Server.start_link(name: Ads, schema: W3.schema(parameters), memory: @memory)
    for part <- Enum.chunk_every(there, @chunk), do: Server.insert_all!(Ads, part)
    %{memory: memory} = Server.info!(Ads)

    say("""
    W3, #{Describe.grouped(expressions)} expressions, #{megabytes(memory)}; \
    #{@searchers_a_scheduler} processes search on each of #{System.schedulers_online()} schedulers; \
    times in microseconds
    """)

    say(columns(["", "a second", "p50", "p99", "max"]))
    search(events, 1)
    {alone, asleep} = searched(events, seconds)
    row("searches alone", alone, seconds)
    say("memory of the VM: #{resident()}; schedulers asleep #{decimal(100 * asleep)} %\n")

    # New expressions replace the present ones, oldest first.
    Enum.reduce(@rates, {there, later}, fn rate, {there, later} ->
      changed(rate, seconds, events, alone, there, later)
    end)
    |> alone_again(events, seconds)
    |> check(events, parameters)
  end

  # Ids no longer ascend with slots, and replicas share fewer pages, so searches of a changed server take longer.
  defp alone_again(there, events, seconds) do
    row("searches alone, after all changes", search(events, seconds), seconds)
    there
  end

  defp changed({rate, least}, seconds, events, alone, there, later) do
    before = Server.info!(Ads)
    deadline = System.monotonic_time(:millisecond) + 1_000 * seconds
    # Each changer owns a part of the old and of the new expressions.
    stride = fn list, number -> list |> Enum.drop(number) |> Enum.take_every(@changers) end

    changers =
      for number <- 0..(@changers - 1) do
        {old, new} = {stride.(there, number), stride.(later, number)}
        Task.async(fn -> change(old, new, rate / 2 / @changers, deadline) end)
      end

    probe = Task.async(fn -> probe(elem(events, 0), deadline, 0) end)
    {latencies, asleep} = searched(events, seconds)
    {changed, calls} = changers |> Task.await_many(:infinity) |> Enum.unzip()
    calls = Enum.concat(calls)
    probes = Task.await(probe, :infinity)
    info = Server.info!(Ads)
    share = length(latencies) / length(alone)
    {p99_alone, p99} = {at(alone, 0.99), at(latencies, 0.99)}

    row("searches beside #{Describe.grouped(rate)} changes a second", latencies, seconds)
    row("a change, until it is acknowledged", calls, seconds)

    say(
      "#{info.bases - before.bases} bases; memory of the VM: #{resident()}; schedulers asleep #{decimal(100 * asleep)} %"
    )

    say("#{round(100 * share)} % of the searches alone#{bar("#{round(100 * least)} %", share >= least)}")

    if {rate, least} == hd(@rates) do
      {half, most} = @acknowledged
      say("p99 of a search: #{decimal(p99 / p99_alone)} times the one alone#{bar("#{@p99}", p99 <= @p99 * p99_alone)}")
      fits? = at(calls, 0.5) <= half and at(calls, 0.99) <= most
      say("acknowledgement#{bar("p50 #{half}, p99 #{most}", fits?)}")
    end

    say("each of #{Describe.grouped(probes)} insertions and deletions was seen by the search right after it\n")

    shares = Enum.with_index(changed)
    take = fn list -> for {count, number} <- shares, item <- share(list, number, count), do: item end
    {gone, come} = {MapSet.new(take.(there)), take.(later)}
    rest = MapSet.new(come)
    {Enum.reject(there, &(&1 in gone)) ++ come, Enum.reject(later, &(&1 in rest))}
  end

  defp bar(bar, holds?), do: " (bar: #{bar}, #{if holds?, do: "holds", else: "DOES NOT HOLD"})"

  defp share(list, number, count), do: list |> Enum.drop(number) |> Enum.take_every(@changers) |> Enum.take(count)

  # Returns the microseconds of each search, and the share of the time in which schedulers slept.
  defp searched(events, seconds) do
    :erlang.system_flag(:microstate_accounting, :reset)
    :erlang.system_flag(:microstate_accounting, true)
    latencies = search(events, seconds)
    threads = for %{type: :scheduler, counters: counters} <- :erlang.statistics(:microstate_accounting), do: counters
    :erlang.system_flag(:microstate_accounting, false)
    asleep = threads |> Enum.map(& &1.sleep) |> Enum.sum()
    {latencies, asleep / (threads |> Enum.flat_map(&Map.values/1) |> Enum.sum())}
  end

  # Returns the microseconds of each search.
  defp search(events, seconds) do
    deadline = System.monotonic_time(:millisecond) + 1_000 * seconds

    for number <- 1..(@searchers_a_scheduler * System.schedulers_online()) do
      Task.async(fn -> search_on(events, 97 * number, deadline, []) end)
    end
    |> Task.await_many(:infinity)
    |> Enum.concat()
  end

  defp search_on(events, number, deadline, latencies) do
    if System.monotonic_time(:millisecond) >= deadline do
      latencies
    else
      event = elem(events, rem(number, tuple_size(events)))
      {microseconds, {:ok, _ids}} = :timer.tc(fn -> BeTree.search(Ads, event) end)
      search_on(events, number + 1, deadline, [microseconds | latencies])
    end
  end

  # Replaces expressions one by one at an even rate. Returns their number, and the microseconds of each call.
  defp change(old, new, rate, deadline) do
    started = System.monotonic_time(:microsecond)
    Process.sleep(:rand.uniform(max(round(1_000 / rate), 1)))

    Enum.zip(old, new)
    |> Enum.reduce_while({0, []}, fn {{gone, _text}, {id, text}}, {count, calls} ->
      due = started + round(count * 1_000_000 / rate)
      wait = div(due - System.monotonic_time(:microsecond), 1_000)
      if wait > 0, do: Process.sleep(wait)

      if System.monotonic_time(:millisecond) >= deadline do
        {:halt, {count, calls}}
      else
        {insertion, :ok} = :timer.tc(fn -> Server.insert(Ads, id, text) end)
        {deletion, :ok} = :timer.tc(fn -> Server.delete(Ads, gone) end)
        {:cont, {count + 1, [insertion, deletion | calls]}}
      end
    end)
  end

  # Checks that a search right after an acknowledged change sees it. Returns the number of changes.
  defp probe(event, deadline, count) do
    if System.monotonic_time(:millisecond) >= deadline do
      2 * count
    else
      id = @probes + count
      Server.insert!(Ads, id, "true")
      [^id] = BeTree.search!(Ads, event, ids: [id])
      Server.delete!(Ads, id)
      [] = BeTree.search!(Ads, event, ids: [id])
      Process.sleep(:rand.uniform(30))
      probe(event, deadline, count + 1)
    end
  end

  # Checks that the server finds the same ids as a new tree of the same expressions.
  defp check({present, _later}, events, parameters) do
    tree = BeTree.new!(W3.schema(parameters), memory: @memory)
    for part <- Enum.chunk_every(present, @chunk), do: BeTree.insert_all!(tree, part)
    found = for event <- Tuple.to_list(events), do: BeTree.search!(Ads, event)
    true = found == for(event <- Tuple.to_list(events), do: BeTree.search!(tree, event))

    say(
      "#{Describe.grouped(found |> Enum.map(&length/1) |> Enum.sum())} ids for #{tuple_size(events)} events, " <>
        "the same as in a new tree of the #{Describe.grouped(length(present))} expressions"
    )
  end

  # Integers and terms take turns, so that other work of the machine affects both. Results must be the same rules.
  @turns 10

  def ids(%{expressions: expressions}) do
    parameters = %{W3.defaults() | expressions: expressions, events: @events}
    texts = parameters |> W3.expressions() |> Enum.with_index(1)
    events = parameters |> W3.events() |> Enum.to_list()

    kinds =
      for {name, kind, id} <- [
            {Integers, :integer, & &1},
            {Strings, :term, &"rule #{&1}"},
            {Tuples, :term, &{:rule, &1}}
          ] do
        {:ok, _pid} = Server.start_link(name: name, schema: W3.schema(parameters), memory: @memory, ids: kind)
        parts = texts |> Enum.map(fn {text, number} -> {id.(number), text} end) |> Enum.chunk_every(500)
        filling = microseconds(fn -> for part <- parts, do: Server.insert_all!(name, part) end)
        {name, id, filling}
      end

    ids = for event <- events, do: BeTree.search!(Integers, event)
    count = ids |> Enum.map(&length/1) |> Enum.sum()

    for {name, id, _filling} <- kinds, {event, numbers} <- Enum.zip(events, ids) do
      true = BeTree.search!(name, event) == numbers |> Enum.map(id) |> Enum.sort()
    end

    searching =
      for _turn <- 1..@turns, {name, _id, _filling} <- kinds, reduce: %{} do
        times ->
          time = microseconds(fn -> for event <- events, do: BeTree.search!(name, event) end)
          Map.update(times, name, time, &min(&1, time))
      end

    say(
      "W3, #{Describe.grouped(expressions)} expressions, #{@events} events, #{Describe.grouped(count)} ids, one process; " <>
        "the ids are the same rules\n"
    )

    say(columns(["", "us a search", "ns an id", "us inserted", "bytes an id"]))
    {_name, _id, filling_integers} = hd(kinds)

    for {name, _id, filling} <- kinds do
      per_id = 1_000 * (searching[name] - searching[Integers]) / max(count, 1)
      per_insertion = (filling - filling_integers) / expressions
      bytes = if ids = Server.info!(name).ids, do: div(ids.bytes, expressions), else: 0
      numbers = [searching[name] / @events, per_id, per_insertion]
      say(columns([inspect(name) | Enum.map(numbers, &decimal/1)] ++ [Describe.grouped(bytes)]))
    end
  end

  defp microseconds(fun), do: fun |> :timer.tc() |> elem(0)

  # Maximum memory of a changed server, relative to one that was filled and searched.
  @memory_bar 2
  @interval 10

  # Replaces expressions for minutes beside searches, each by its own text under another id.
  def long(%{expressions: expressions, minutes: minutes}) do
    parameters = %{W3.defaults() | expressions: expressions, events: @events}
    texts = parameters |> W3.expressions() |> Enum.to_list() |> List.to_tuple()
    events = parameters |> W3.events() |> Enum.to_list() |> List.to_tuple()
    before = resident_bytes()
    if before == 0, do: Mix.raise("the memory of the VM is unknown on this system")
    {:ok, _pid} = Server.start_link(name: Ads, schema: W3.schema(parameters), memory: @memory)

    for part <- Enum.chunk_every(0..(expressions - 1), @chunk),
        do: Server.insert_all!(Ads, for(number <- part, do: {number, elem(texts, number)}))

    search(events, 2)
    collect()
    fresh = resident_bytes() - before
    {rate, _share} = hd(@rates)

    say(
      "W3, #{Describe.grouped(expressions)} expressions, #{Describe.grouped(rate)} changes a second, four searching processes"
    )

    say("the server's memory, filled and searched: #{megabytes(fresh)}\n")
    say(columns(["after", "searches/s", "changes", "bases", "replicas MB", "memory MB"]))
    deadline = System.monotonic_time(:millisecond) + 60_000 * minutes

    changers =
      for number <- 0..(@changers - 1),
          do:
            Task.async(fn ->
              replace(texts, number, rate / 2 / @changers, System.monotonic_time(:microsecond), deadline)
            end)

    greatest = watch(events, before, deadline, 0, 0)
    Task.await_many(changers, :infinity)
    times = greatest / fresh

    say(
      "the greatest memory is #{decimal(times)} times that of the server without changes" <>
        bar("#{@memory_bar}", times <= @memory_bar)
    )
  end

  defp watch(events, before, deadline, elapsed, greatest) do
    if System.monotonic_time(:millisecond) >= deadline do
      greatest
    else
      searches = search(events, @interval) |> length()
      collect()
      memory = resident_bytes() - before
      info = Server.info!(Ads)
      elapsed = elapsed + @interval

      numbers = [
        div(searches, @interval),
        info.version,
        info.bases,
        div(info.replicas.bytes, 1_000_000),
        div(memory, 1_000_000)
      ]

      say(columns(["#{elapsed} s" | Enum.map(numbers, &Describe.grouped/1)]))
      watch(events, before, deadline, elapsed, max(greatest, memory))
    end
  end

  # This benchmark's own garbage is excluded.
  defp collect, do: for(process <- Process.list(), do: :erlang.garbage_collect(process))

  # Replaces one changer's expressions round-robin at an even rate.
  defp replace(texts, id, rate, due, deadline) do
    wait = div(due - System.monotonic_time(:microsecond), 1_000)
    if wait > 0, do: Process.sleep(wait)

    if System.monotonic_time(:millisecond) < deadline do
      text = elem(texts, rem(id, tuple_size(texts)))
      Server.delete!(Ads, id)
      Server.insert!(Ads, id + tuple_size(texts), text)
      replace(texts, id + @changers, rate, due + round(1_000_000 / rate), deadline)
    end
  end

  # Times of changes with a folder and one caller, and of a start with the folder after 10,000 changes.
  @durable_changes 10_000

  def durable(%{expressions: expressions}) do
    parameters = %{W3.defaults() | expressions: expressions + @durable_changes, events: 1}
    {there, later} = parameters |> W3.expressions() |> Enum.with_index(&{&2 + 1, &1}) |> Enum.split(expressions)
    dir = Path.join(System.tmp_dir!(), "be_tree_bench_live_#{System.pid()}")

    start = fn durability ->
      {:ok, _pid} =
        Server.start_link(name: Kept, schema: W3.schema(parameters), memory: @memory, dir: dir, durability: durability)
    end

    start.(:none)
    for part <- Enum.chunk_every(there, @chunk), do: Server.insert_all!(Kept, part)
    wait_for_base(dir)
    :ok = Server.stop(Kept)
    say("\n" <> String.pad_trailing("an insertion with a folder, microseconds", 52) <> "         p50         p99")

    later
    |> Enum.chunk_every(div(@durable_changes, 5))
    |> Enum.zip([:none, :none, {:interval, 10}, {:interval, 10}, :sync])
    |> Enum.each(fn {part, durability} ->
      {recovery, _started} = :timer.tc(fn -> start.(durability) end)
      times = for {id, text} <- part, do: fn -> Server.insert!(Kept, id, text) end |> :timer.tc() |> elem(0)
      [half, most] = for share <- [0.5, 0.99], do: Describe.grouped(at(times, share))
      title = "#{inspect(durability)}, after a start in #{div(recovery, 1_000)} ms"
      say(String.pad_trailing(title, 52) <> String.pad_leading(half, 12) <> String.pad_leading(most, 12))
      :ok = Server.stop(Kept)
    end)

    {recovery, _started} = :timer.tc(fn -> start.(:sync) end)
    fits? = recovery < 1_000_000

    say(
      "recovery of #{Describe.grouped(Server.count!(Kept))} expressions, #{Describe.grouped(@durable_changes)} of them changes: " <>
        "#{div(recovery, 1_000)} ms#{bar("1,000", fits?)}"
    )

    :ok = Server.stop(Kept)
    File.rm_rf!(dir)
  end

  defp wait_for_base(dir) do
    if Path.wildcard(Path.join(dir, "*.base")) == [] do
      Process.sleep(100)
      wait_for_base(dir)
    end
  end

  defp row(title, latencies, seconds) do
    rate = Describe.grouped(div(length(latencies), seconds))
    say(columns([title, rate | for(share <- [0.5, 0.99, 1.0], do: Describe.grouped(at(latencies, share)))]))
  end

  defp at(latencies, share) do
    sorted = Enum.sort(latencies)
    count = length(sorted)
    Enum.at(sorted, min(trunc(share * count), count - 1))
  end

  defp columns([title | numbers]) do
    String.pad_trailing(title, 40) <> Enum.map_join(numbers, &String.pad_leading(&1, 12))
  end

  defp resident do
    case resident_bytes() do
      0 -> "unknown on this system"
      bytes -> megabytes(bytes)
    end
  end

  # Returns the VM's resident bytes, or 0 where the system does not report them. Shared pages count once.
  defp resident_bytes do
    with {:ok, rollup} <- File.read("/proc/self/smaps_rollup"),
         [kilobytes] <- Regex.run(~r/^Pss: +(\d+) kB$/m, rollup, capture: :all_but_first) do
      1_024 * String.to_integer(kilobytes)
    else
      _elsewhere -> 0
    end
  end

  defp megabytes(bytes), do: "#{decimal(bytes / 1_000_000)} MB"
  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: 1)
  defp say(text), do: IO.puts(text)
end

{options, rest} =
  Mix.BeTree.Command.parse!(System.argv(), seconds: :integer, expressions: :integer, minutes: :integer, ids: :boolean)

if rest != [],
  do: Mix.raise("Usage: mix run bench/live.exs [--seconds 8] [--expressions 100000] [--minutes 10] [--ids]")

options = Map.merge(%{seconds: 8, expressions: 100_000}, Map.new(options))

case options do
  %{minutes: _minutes} ->
    BeTree.Bench.Live.long(options)

  %{ids: true} ->
    BeTree.Bench.Live.ids(options)

  _searches_and_changes ->
    BeTree.Bench.Live.run(options)
    BeTree.Bench.Live.durable(options)
end

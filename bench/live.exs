# Measures a server of 100,000 ad-targeting expressions (BeTree.Workload.W3) that is searched on all schedulers while
# expressions are inserted and deleted, with 1,000 changes a second and then 5,000. Prints the rate and the times of searches
# with and without changes, the time of a change, and the memory. Each change of a probe must be seen by the search right after
# it, and at the end the server must find the same ids as a new tree of the same expressions.
#
#     mix run bench/live.exs [--seconds 8] [--expressions 100000]

defmodule BeTree.Bench.Live do
  @moduledoc false

  alias BeTree.Server
  alias Mix.BeTree.Command
  alias BeTree.Workload.W3

  # Changes a second, half of them insertions, and the rate of searches relative to the rate without changes that they leave.
  @rates [{1_000, 0.9}, {5_000, 0.6}]
  # The bars at the first of these rates: the p99 of a search relative to the one without changes, and the microseconds until a
  # change is acknowledged, p50 and p99.
  @p99 3
  @acknowledged {200, 3_000}

  @events 500
  @searchers_a_scheduler 2
  @changers 20
  @chunk 10_000
  @memory 4_000_000_000
  # An id above all others.
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
    W3, #{Command.grouped(expressions)} expressions, #{megabytes(memory)}; \
    #{@searchers_a_scheduler} processes search on each of #{System.schedulers_online()} schedulers; \
    times in microseconds
    """)

    say(columns(["", "a second", "p50", "p99", "max"]))
    search(events, 1)
    alone = search(events, seconds)
    row("searches alone", alone, seconds)
    say("memory of the VM: #{resident()}\n")

    # New expressions replace the present ones, oldest first.
    Enum.reduce(@rates, {there, later}, fn rate, {there, later} ->
      changed(rate, seconds, events, alone, there, later)
    end)
    |> check(events, parameters)
  end

  defp changed({rate, least}, seconds, events, alone, there, later) do
    before = Server.info!(Ads)
    deadline = System.monotonic_time(:millisecond) + 1_000 * seconds
    # Each changer has a share of the old and of the new expressions.
    stride = fn list, number -> list |> Enum.drop(number) |> Enum.take_every(@changers) end

    changers =
      for number <- 0..(@changers - 1) do
        {old, new} = {stride.(there, number), stride.(later, number)}
        Task.async(fn -> change(old, new, rate / 2 / @changers, deadline) end)
      end

    probe = Task.async(fn -> probe(elem(events, 0), deadline, 0) end)
    latencies = search(events, seconds)
    {changed, calls} = changers |> Task.await_many(:infinity) |> Enum.unzip()
    calls = Enum.concat(calls)
    probes = Task.await(probe, :infinity)
    info = Server.info!(Ads)
    share = length(latencies) / length(alone)
    {p99_alone, p99} = {at(alone, 0.99), at(latencies, 0.99)}

    row("searches beside #{Command.grouped(rate)} changes a second", latencies, seconds)
    row("a change, until it is acknowledged", calls, seconds)
    say("#{info.bases - before.bases} bases; memory of the VM: #{resident()}")
    say("#{round(100 * share)} % of the searches alone#{bar("#{round(100 * least)} %", share >= least)}")

    if {rate, least} == hd(@rates) do
      {half, most} = @acknowledged
      say("p99 of a search: #{decimal(p99 / p99_alone)} times the one alone#{bar("#{@p99}", p99 <= @p99 * p99_alone)}")
      fits? = at(calls, 0.5) <= half and at(calls, 0.99) <= most
      say("acknowledgement#{bar("p50 #{half}, p99 #{most}", fits?)}")
    end

    say("each of #{Command.grouped(probes)} insertions and deletions was seen by the search right after it\n")

    shares = Enum.with_index(changed)
    take = fn list -> for {count, number} <- shares, item <- share(list, number, count), do: item end
    {gone, come} = {MapSet.new(take.(there)), take.(later)}
    rest = MapSet.new(come)
    {Enum.reject(there, &(&1 in gone)) ++ come, Enum.reject(later, &(&1 in rest))}
  end

  defp bar(bar, holds?), do: " (bar: #{bar}, #{if holds?, do: "holds", else: "DOES NOT HOLD"})"

  defp share(list, number, count), do: list |> Enum.drop(number) |> Enum.take_every(@changers) |> Enum.take(count)

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

  # Replaces one expression after the other at an even rate. Returns their number, and the microseconds of each call.
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

  # Checks that a search right after the acknowledgement of a change sees it. Returns the number of changes.
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
      "#{Command.grouped(found |> Enum.map(&length/1) |> Enum.sum())} ids for #{tuple_size(events)} events, " <>
        "the same as in a new tree of the #{Command.grouped(length(present))} expressions"
    )
  end

  defp row(title, latencies, seconds) do
    rate = Command.grouped(div(length(latencies), seconds))
    say(columns([title, rate | for(share <- [0.5, 0.99, 1.0], do: Command.grouped(at(latencies, share)))]))
  end

  defp at(latencies, share) do
    sorted = Enum.sort(latencies)
    count = length(sorted)
    Enum.at(sorted, min(trunc(share * count), count - 1))
  end

  defp columns([title | numbers]) do
    String.pad_trailing(title, 40) <> Enum.map_join(numbers, &String.pad_leading(&1, 12))
  end

  # Returns the resident memory of the VM. Pages that replicas share count once.
  defp resident do
    with {:ok, rollup} <- File.read("/proc/self/smaps_rollup"),
         [kilobytes] <- Regex.run(~r/^Pss: +(\d+) kB$/m, rollup, capture: :all_but_first) do
      megabytes(1_024 * String.to_integer(kilobytes))
    else
      _elsewhere -> "unknown on this system"
    end
  end

  defp megabytes(bytes), do: "#{decimal(bytes / 1_000_000)} MB"
  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: 1)
  defp say(text), do: IO.puts(text)
end

{options, rest} = Mix.BeTree.Command.parse!(System.argv(), seconds: :integer, expressions: :integer)
if rest != [], do: Mix.raise("Usage: mix run bench/live.exs [--seconds 8] [--expressions 100000]")
BeTree.Bench.Live.run(Map.merge(%{seconds: 8, expressions: 100_000}, Map.new(options)))

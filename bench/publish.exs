# Measures published indexes: the time of publishing, the cost of a search compared with the tree's, the memory of replicas,
# and the rate of searches on more schedulers.
#
#     mix run bench/publish.exs [--quick]
#
# The workload is ad targeting (BeTree.Workload.W3), with 100,000 expressions, and without --quick also with 1,000,000.

defmodule BeTree.Bench.Publish do
  @moduledoc false

  alias BeTree.Search
  alias BeTree.Input.Describe
  alias BeTree.Workload.W3

  # Maximum milliseconds of publishing, by number of expressions.
  @bars %{100_000 => 50, 1_000_000 => 500}

  # Minimum speedup of two schedulers over one.
  @growth 1.8

  # Maximum memory of eight replicas, relative to one.
  @share 1.3
  @replicas 8

  # A memory limit for a million expressions.
  @memory 4_000_000_000
  @chunk 1_000

  @publications 9
  @events 500

  # The length of a turn in milliseconds, and the number of turns for each number of schedulers.
  @turn 1_000
  @turns 5

  def run(sizes) do
    say("#{System.schedulers_online()} schedulers\n")
    call()

    for size <- sizes do
      parameters = Map.merge(W3.defaults(), %{expressions: size, events: @events})
      tree = tree(parameters)
      events = Enum.to_list(W3.events(parameters))
      say("W3, #{Describe.grouped(size)} expressions, #{megabytes(BeTree.info!(tree).memory_bytes)}")
      publish(tree, @bars[size], events)
      compare("a search of the tree / the index", tree, BeTree.publish!(tree), events)
      memory(BeTree.publish!(tree, replicas: @replicas), Enum.take(events, 100))
      throughput(BeTree.publish!(tree), List.to_tuple(events))
    end
  end

  defp tree(parameters) do
    tree = BeTree.new!(W3.schema(parameters), memory: @memory)

    parameters
    |> W3.expressions()
    |> Stream.with_index(1)
    |> Stream.map(fn {text, id} -> {id, text} end)
    |> Stream.chunk_every(@chunk)
    |> Enum.each(&BeTree.insert_all!(tree, &1))

    tree
  end

  defp call do
    tree = BeTree.new!(age: :integer, country: {:string, optional: true})
    BeTree.insert_all!(tree, [{1, "age >= 21 and country in ('CA', 'US')"}, {2, "age = 3"}, {3, "not (age < 65)"}])
    compare("3 expressions: a search of the tree / the index", tree, BeTree.publish!(tree), [%{age: 30, country: "CA"}])
    say("")
  end

  defp publish(tree, bar, events) do
    event = hd(events)

    {published, first, second} =
      for _ <- 1..@publications, reduce: {[], [], []} do
        {published, first, second} ->
          {microseconds, index} = :timer.tc(fn -> BeTree.publish!(tree) end)
          {one, _ids} = :timer.tc(fn -> BeTree.search!(index, event) end)
          {two, _ids} = :timer.tc(fn -> BeTree.search!(index, event) end)
          {[microseconds | published], [one | first], [two | second]}
      end
      |> Tuple.to_list()
      |> Enum.map(&Enum.sort/1)
      |> List.to_tuple()

    median = Enum.at(published, div(@publications, 2)) / 1_000
    spread = "#{decimal(hd(published) / 1_000)} to #{decimal(List.last(published) / 1_000)}"
    say("  publish: #{decimal(median)} ms, #{spread}#{held(bar && {bar, median <= bar}, "ms")}")
    say("  the first search of a replica: #{hd(first)} us, the same again: #{hd(second)} us")
  end

  # Prints the minimum time of many alternating rounds.
  defp compare(title, tree, index, events) do
    for event <- events, do: true = BeTree.search!(tree, event) == BeTree.search!(index, event)
    events = if match?([_], events), do: List.duplicate(hd(events), @events), else: events
    rounds = for _ <- 1..20, do: {round(tree, events), round(index, events)}
    {trees, indexes} = Enum.unzip(rounds)
    say("  #{title}: #{decimal(Enum.min(trees))} / #{decimal(Enum.min(indexes))} us")
  end

  defp round(target, events) do
    {microseconds, _ids} = :timer.tc(fn -> Enum.each(events, &BeTree.search(target, &1)) end)
    microseconds / length(events)
  end

  defp memory(index, events) do
    one = taken(index, 1, events)
    all = taken(index, @replicas, events)

    if one do
      bar = {@share, all < @share * one}

      say(
        "  1 replica: #{megabytes(one)}, #{@replicas}: #{megabytes(all)}, #{decimal(all / one)} times#{held(bar, "")}"
      )
    else
      say("  the memory of replicas is unknown on this system")
    end
  end

  # Returns the bytes of an index after `count` parallel replicas have searched for each event.
  defp taken(index, count, events) do
    for event <- events do
      for(_ <- 1..count, do: Search.start(index, event, slice: 1)) |> Enum.each(&finish/1)
    end

    with {:ok, text} <- File.read("/proc/self/smaps") do
      [_others | ours] = String.split(text, ~r/^.* \/memfd:be_tree.*$/m)
      shares = for mapping <- ours, do: Regex.run(~r/^Pss: +(\d+) kB$/m, mapping, capture: :all_but_first)
      shares |> List.flatten() |> Enum.map(&String.to_integer/1) |> Enum.sum() |> Kernel.*(1_024)
    else
      {:error, _reason} -> nil
    end
  end

  defp finish({:yield, search}), do: finish(Search.resume(search))
  defp finish({:done, _ids, _stats}), do: :ok

  defp throughput(index, events) do
    schedulers = System.schedulers_online()
    turns = for _ <- 1..@turns, online <- 1..schedulers, do: {online, turn(index, events, online)}
    :erlang.system_flag(:schedulers_online, schedulers)
    best = for online <- 1..schedulers, into: %{}, do: {online, Enum.max(for {^online, count} <- turns, do: count)}

    for online <- 1..schedulers do
      growth = best[online] / best[1]
      bar = if online == 2, do: {@growth, growth > @growth}
      ratio = if online > 1, do: ", #{decimal(growth)} times one#{held(bar, "")}", else: ""
      say("  #{count(online)} scheduler#{if online > 1, do: "s"}: #{Describe.grouped(best[online])} searches/s#{ratio}")
    end

    say("")
  end

  defp count(number), do: Integer.to_string(number)

  # Returns the searches a second of four processes per scheduler.
  defp turn(index, events, online) do
    :erlang.system_flag(:schedulers_online, online)
    counter = :counters.new(1, [:write_concurrency])
    size = tuple_size(events)

    workers =
      for number <- 1..(4 * online), do: spawn_monitor(fn -> search(index, events, rem(number * 97, size), counter) end)

    started = System.monotonic_time(:microsecond)
    Process.sleep(@turn)
    found = :counters.get(counter, 1)
    elapsed = System.monotonic_time(:microsecond) - started
    for {pid, _monitor} <- workers, do: Process.exit(pid, :kill)
    for {pid, monitor} <- workers, do: receive(do: ({:DOWN, ^monitor, :process, ^pid, :killed} -> :ok))
    div(found * 1_000_000, elapsed)
  end

  defp search(index, events, number, counter) do
    {:ok, _ids} = BeTree.search(index, elem(events, number))
    :counters.add(counter, 1, 1)
    search(index, events, rem(number + 1, tuple_size(events)), counter)
  end

  defp held(nil, _unit), do: ""
  defp held({bar, true}, unit), do: "; bar: #{bar}#{pad(unit)}, holds"
  defp held({bar, false}, unit), do: "; bar: #{bar}#{pad(unit)}, DOES NOT HOLD"

  defp pad(""), do: ""
  defp pad(unit), do: " " <> unit

  defp megabytes(bytes), do: "#{decimal(bytes / 1_000_000)} MB"
  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: 2)
  defp say(text), do: IO.puts(text)
end

{options, rest} = Mix.BeTree.Command.parse!(System.argv(), quick: :boolean)
if rest != [], do: Mix.raise("Usage: mix run bench/publish.exs [--quick]")
BeTree.Bench.Publish.run(if options[:quick], do: [100_000], else: [100_000, 1_000_000])

defmodule BeTree.Bench.W7 do
  @moduledoc false
  # W7, responsiveness: measures how late a process wakes from sleeping a millisecond, beside processes that search one
  # published index or trees of their own, and beside as many that run plain Elixir. Sleeping alone is late, because the
  # VM's timers tick every millisecond. Loads take turns, so that other work on the machine affects all alike. Rounds have a
  # random order, so that periodic work of the machine does not always meet the same load.
  #
  # --quick omits the tree of a million expressions, which takes minutes to build, and measures for a third of the time.

  import BeTree.Input.Describe, only: [grouped: 1]

  alias BeTree.{Event, Fuel}
  alias BeTree.Workload.{W1, W3}

  @sleep 1

  # The length of a turn in milliseconds, the turns of each load, and the turns that count the rare long schedules.
  @full %{turn: 1_000, turns: 3, many_turns: 20}
  @quick %{turn: 500, turns: 2, many_turns: 10}

  # Milliseconds above which the VM reports a schedule as long.
  @long_schedule 5

  # A ratio that charges nothing, like a native function that neither yields nor counts.
  @free 1_000_000_000_000
  @uncharged "unsliced, not charged"

  @plain "plain Elixir"
  @inserted 100_000
  @inserting "inserting #{grouped(@inserted)}"

  @million 1_000_000
  @events 1_000
  @memory 4_000_000_000

  # Maximum lateness beside searches, relative to that beside plain Elixir.
  @bar 1.2
  @processes 10

  def run(arguments) do
    {options, rest} = Mix.BeTree.Command.parse!(arguments, quick: :boolean)
    if rest != [], do: Mix.raise("Usage: mix run bench/w7.exs [--quick]")
    quick = options[:quick] || false
    share(:limits, if(quick, do: @quick, else: @full))
    schedulers = System.schedulers_online()
    IO.puts("#{schedulers} schedulers, #{Fuel.per_reduction()} fuel a reduction, load #{load_average()}")
    IO.puts("How late is a sleep of #{@sleep} ms, in microseconds:\n")
    table("beside", measure([{"nothing", []}]))

    parameters = Map.put(W1.defaults(), :events, @events)
    subscriptions = parameters |> W1.expressions() |> Enum.with_index(&{&2 + 1, &1})
    trees = for _ <- 1..@processes, do: tree(W1, parameters, subscriptions)
    index = BeTree.publish!(hd(trees))
    IO.puts("W1: #{grouped(length(subscriptions))} expressions over #{parameters.attributes} attributes\n")
    share(:events, parameters |> W1.events() |> Enum.to_list() |> List.to_tuple())

    share(
      :subscriptions,
      W3.defaults() |> Map.put(:expressions, @inserted) |> W3.expressions() |> Enum.with_index(&{&2, &1})
    )

    for count <- Enum.uniq([1, schedulers, 4 * schedulers]), count != @processes do
      table("beside #{count}", measure(loads(index, count)))
    end

    results = measure(loads(index, @processes) ++ more_loads(index, trees))
    table("beside #{@processes}", results)
    lateness_bars(results)

    results = measure(counted_loads(index), shared(:limits).many_turns)
    table("\nbeside #{@processes}, #{shared(:limits).many_turns} turns", results)
    long_schedule_bars(results)
    unless quick, do: million(schedulers)
  end

  defp million(schedulers) do
    parameters = Map.merge(W3.defaults(), %{expressions: @million, events: @events})
    subscriptions = parameters |> W3.expressions() |> Stream.with_index() |> Stream.map(fn {text, id} -> {id, text} end)
    index = BeTree.publish!(tree(W3, parameters, subscriptions))
    share(:events, parameters |> W3.events() |> Enum.to_list() |> List.to_tuple())
    IO.puts("\nW3: #{inspect(index)}\n")
    for count <- [1, 4 * schedulers], do: table("beside #{count}", measure(loads(index, count)))
  end

  # Returns the loads that search one published index, with and without slices.
  defp loads(index, count) do
    slices = [Fuel.default_slice(), 20_000, 100_000, 1_000_000, :infinity]
    searches = for slice <- slices, do: {title(slice), searches(index, count, slice)}

    [{@plain, plain(count)} | searches] ++
      [
        {@uncharged, index |> at_ratio(@free) |> searches(count, :infinity)},
        {"dirty schedulers", for(handle <- handles(index, count), do: &search_dirty(handle, 0, &1))}
      ]
  end

  # Returns loads with other ratios of fuel to reductions, and loads with a tree for each process.
  defp more_loads(index, trees) do
    ratios =
      for {ratio, slice} <- [{1_250, 500_000}, {125, 500_000}, {25, 100_000}] do
        {"#{title(slice)}, #{ratio} fuel a reduction", index |> at_ratio(ratio) |> searches(@processes, slice)}
      end

    own = [
      {"trees of their own", searches(trees, @processes, Fuel.default_slice())},
      {"trees of their own, #{@uncharged}", trees |> at_ratio(@free) |> searches(@processes, :infinity)}
    ]

    ratios ++ own
  end

  # Returns plain Elixir and searches, with and without insertions beside them. The inserting process comes first.
  defp counted_loads(index) do
    slice = Fuel.default_slice()

    [
      {@plain, plain(@processes)},
      {title(slice), searches(index, @processes, slice)},
      {"#{@plain}, #{@inserting}", [(&insert/1) | plain(@processes)]},
      {"#{title(slice)}, #{@inserting}", [(&insert/1) | searches(index, @processes, slice)]}
    ]
  end

  defp title(:infinity), do: "unsliced"
  defp title(slice), do: "slices of #{grouped(slice)}"

  defp tree(workload, parameters, subscriptions) do
    tree = BeTree.new!(workload.schema(parameters), memory: @memory)
    BeTree.insert_all!(tree, subscriptions)
    tree
  end

  # Returns handles of the same tree or index with another ratio.
  defp at_ratio(trees, ratio) when is_list(trees), do: for(tree <- trees, do: at_ratio(tree, ratio))
  defp at_ratio(handle, ratio), do: %{handle | fuel_per_reduction: ratio}

  # Stores a term outside of all heaps, so that no garbage collection of it is measured.
  defp share(what, term), do: :persistent_term.put({__MODULE__, what}, term)
  defp shared(what), do: :persistent_term.get({__MODULE__, what})

  defp load_average do
    case File.read("/proc/loadavg") do
      {:ok, text} -> text |> String.split() |> hd()
      {:error, _reason} -> "unknown"
    end
  end

  # A load is a list of functions. Each runs in its own process until that is killed, and counts its searches.
  defp searches(searched, count, slice) do
    for handle <- handles(searched, count), do: &search(handle, shared(:events), 0, [slice: slice], &1)
  end

  # Returns the targets of the processes: a tree for each, or the one index.
  defp handles(trees, count) when is_list(trees), do: Enum.take(trees, count)
  defp handles(index, count), do: List.duplicate(index, count)

  defp search(tree, events, index, options, counter) do
    {:ok, _ids} = BeTree.search(tree, elem(events, index), options)
    :counters.add(counter, 1, 1)
    search(tree, events, rem(index + 1, tuple_size(events)), options, counter)
  end

  # Runs the same call on a dirty scheduler, like an ordinary native index.
  defp search_dirty(tree, index, counter) do
    events = shared(:events)
    {:ok, format, bytes} = Event.encode(elem(events, index))
    request = %{input: bytes, output: :u64s, fuel: :infinity, slice: :infinity, scheduler: :dirty}
    arguments = [format, byte_size(bytes), -1, 0]
    {:done, 0, _ids, _fuel} = tree.runtime.call(tree.instance, "be_tree_search", arguments, request)
    :counters.add(counter, 1, 1)
    search_dirty(tree, rem(index + 1, tuple_size(events)), counter)
  end

  defp plain(count) when is_integer(count), do: List.duplicate(&loop(&1, 0), count)

  defp loop(counter, number), do: loop(counter, rem(number * 31 + 7, 1_000_003))

  defp insert(counter) do
    tree(W3, W3.defaults(), shared(:subscriptions))
    insert(counter)
  end

  # `[{title, %{late: sorted nanoseconds, long: events of the system monitor in each turn, first: those of the first
  # process, searches: a second}}]`
  defp measure(loads), do: measure(loads, shared(:limits).turns)

  defp measure(loads, turns) do
    results = for _ <- 1..turns, {title, load} <- Enum.shuffle(loads), do: {title, turn(load)}

    for {title, _load} <- loads do
      own = for {^title, turn} <- results, do: turn

      {title,
       %{
         late: own |> Enum.flat_map(& &1.late) |> Enum.sort() |> List.to_tuple(),
         long: Enum.map(own, & &1.long),
         first: own |> Enum.map(& &1.first) |> Enum.sum(),
         searches: own |> Enum.map(& &1.searches) |> Enum.sum() |> Kernel.*(1_000) |> div(turns * shared(:limits).turn)
       }}
    end
  end

  defp turn(load) do
    counter = :counters.new(1, [])
    :erlang.system_monitor(self(), [{:long_schedule, @long_schedule}])
    workers = for work <- load, do: spawn_monitor(fn -> work.(counter) end)
    late = Task.async(fn -> sleep(now() + shared(:limits).turn * 1_000_000, []) end) |> Task.await(:infinity)
    searches = :counters.get(counter, 1)
    for {pid, _monitor} <- workers, do: Process.exit(pid, :kill)
    for {_pid, monitor} <- workers, do: receive(do: ({:DOWN, ^monitor, _, _, reason} -> :killed = reason))
    :erlang.system_monitor(:undefined)
    pids = long_schedules([])
    first = Enum.count(pids, &(workers != [] and &1 == workers |> hd() |> elem(0)))
    settle()
    %{late: late, long: length(pids), first: first, searches: searches}
  end

  # Waits until calls of killed processes on dirty schedulers have ended, because they would affect the next load.
  defp settle do
    busy = runtime()
    Process.sleep(100)
    if runtime() - busy > 10, do: settle(), else: :ok
  end

  # Returns the milliseconds of processor time of the VM.
  defp runtime, do: :runtime |> :erlang.statistics() |> elem(0)

  defp sleep(deadline, late) do
    started = now()
    Process.sleep(@sleep)
    woken = now()
    late = [woken - started - @sleep * 1_000_000 | late]
    if woken < deadline, do: sleep(deadline, late), else: late
  end

  defp long_schedules(pids) do
    receive do
      {:monitor, pid, :long_schedule, _info} -> long_schedules([pid | pids])
    after
      0 -> pids
    end
  end

  defp now, do: System.monotonic_time(:nanosecond)

  @columns [{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}]

  defp table(title, results) do
    IO.puts(row([title | for({name, _share} <- @columns, do: name)] ++ ["max", "long", "searches/s"]))

    for {load, result} <- results do
      shares = for {_name, share} <- @columns, do: microseconds(at(result, share))
      worst = microseconds(elem(result.late, tuple_size(result.late) - 1))
      IO.puts(row([load | shares] ++ [worst, grouped(Enum.sum(result.long)), grouped(result.searches)]))
    end

    IO.puts("")
  end

  defp row([title | cells]) do
    [String.pad_trailing(title, 44), for(cell <- cells, do: String.pad_leading(cell, 11))]
  end

  defp lateness_bars([{@plain, plain}, {title, sliced} | _] = results) do
    {_title, unsliced} = List.keyfind!(results, @uncharged, 0)

    for {name, share} <- Enum.take(@columns, 2) do
      ratio = at(sliced, share) / at(plain, share)

      IO.puts(
        "#{title}: #{name} is #{decimal(ratio)} times that beside plain Elixir; bar: #{@bar}, #{held(ratio <= @bar)}"
      )

      IO.puts("  and #{decimal(at(sliced, share) / at(unsliced, share))} times that beside searches that do not yield")
    end
  end

  # The operating system causes long schedules too: with more threads than processors it preempts a scheduler for another
  # program or the inserting thread. That happens at random and in bursts, so equal loads differ. A difference of up to two
  # standard deviations counts as chance.
  defp long_schedule_bars(results) do
    for [{_title, plain}, {title, searches}] <- Enum.chunk_every(results, 2) do
      [expected, found] = for result <- [plain, searches], do: Enum.sum(result.long)
      chance = round(2 * :math.sqrt(variance(plain.long) + variance(searches.long)))

      IO.puts(
        "#{title}: #{found} long schedules, #{searches.first} of the first process; " <>
          "bar: #{expected} beside plain Elixir, plus #{chance} for chance, #{held(found <= expected + chance)}"
      )
    end
  end

  # Returns an estimate of the variance of the sum of these turns.
  defp variance(turns) do
    count = length(turns)
    mean = Enum.sum(turns) / count
    deviations = for turn <- turns, do: (turn - mean) ** 2
    Enum.sum(deviations) * count / (count - 1)
  end

  defp held(true), do: "holds"
  defp held(false), do: "DOES NOT HOLD"

  defp at(%{late: late}, share), do: elem(late, trunc(share * tuple_size(late)))
  defp microseconds(nanoseconds), do: grouped(div(nanoseconds, 1_000))
  defp decimal(number), do: :erlang.float_to_binary(number, decimals: 2)
end

BeTree.Bench.W7.run(System.argv())

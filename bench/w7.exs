defmodule BeTree.Bench.W7 do
  @moduledoc false
  # W7, responsiveness: how late a process wakes that sleeps for a millisecond, beside processes that search, each a tree
  # of its own, and beside as many that run plain Elixir. Sleeping is late by itself: the VM's timers tick every
  # millisecond. The loads take turns, so that what else the machine does falls on all of them alike.

  import BeTree.Command, only: [grouped: 1]

  alias BeTree.Fuel
  alias BeTree.Workload.{W1, W3}

  @sleep 1

  # Milliseconds of a turn, and how many each load has.
  @turn 1_000
  @turns 3

  # Milliseconds in one time slice from which on the VM reports it.
  @long_schedule 5

  # Searches that are charged nothing: what a native function does that neither yields nor counts.
  @free 1_000_000_000_000
  @uncharged "unsliced, not charged"

  @inserted 100_000

  # The most that the sleeper may be late beside searches, in terms of what it is beside plain Elixir.
  @bar 1.2
  @processes 10

  def run do
    schedulers = System.schedulers_online()
    parameters = W1.defaults()
    events = parameters |> W1.events() |> Enum.to_list() |> List.to_tuple()
    subscriptions = parameters |> W1.expressions() |> Enum.with_index(&{&2 + 1, &1})
    trees = for _ <- 1..max(@processes, 4 * schedulers), do: tree(W1, parameters, subscriptions)
    more = W3.defaults() |> Map.put(:expressions, @inserted) |> W3.expressions() |> Enum.with_index(&{&2, &1})

    IO.puts("W7: #{grouped(length(subscriptions))} expressions over #{parameters.attributes} attributes")
    IO.puts("#{schedulers} schedulers, #{Fuel.per_reduction()} fuel a reduction, load #{load_average()}")
    IO.puts("How late is a sleep of #{@sleep} ms, in microseconds:\n")

    table("beside", measure([{"nothing", []}]))

    for count <- Enum.uniq([1, schedulers, 4 * schedulers]), count != @processes do
      table("beside #{count}", measure(loads(trees, count, events)))
    end

    loads = loads(trees, @processes, events) ++ more_loads(trees, events, more)
    results = measure(loads)
    table("beside #{@processes}", results)
    bars(results)
  end

  defp loads(trees, count, events) do
    slices = [Fuel.default_slice(), 20_000, 100_000, 1_000_000, :infinity]
    searches = for slice <- slices, do: {title(slice), searches(trees, count, events, slice)}

    [{"plain Elixir", List.duplicate(&plain/1, count)} | searches] ++
      [{@uncharged, trees |> at_ratio(@free) |> searches(count, events, :infinity)}]
  end

  # Smaller ratios, at which a search has the scheduler for a shorter time; and insertions beside the searches.
  defp more_loads(trees, events, subscriptions) do
    ratios =
      for {ratio, slice} <- [{500, Fuel.default_slice()}, {125, Fuel.default_slice()}, {25, 100_000}] do
        {"#{title(slice)}, #{ratio} fuel a reduction", trees |> at_ratio(ratio) |> searches(@processes, events, slice)}
      end

    slice = Fuel.default_slice()

    ratios ++
      [
        {"#{title(slice)}, inserting #{grouped(@inserted)}",
         [(&insert(subscriptions, &1)) | searches(trees, @processes, events, slice)]}
      ]
  end

  defp title(:infinity), do: "unsliced"
  defp title(slice), do: "slices of #{grouped(slice)}"

  defp tree(workload, parameters, subscriptions) do
    tree = BeTree.new!(workload.domains(parameters))
    BeTree.insert_all!(tree, subscriptions)
    tree
  end

  # The same trees: the ratio is a matter of the handle.
  defp at_ratio(trees, ratio), do: for(tree <- trees, do: %{tree | fuel_per_reduction: ratio})

  defp load_average do
    case File.read("/proc/loadavg") do
      {:ok, text} -> text |> String.split() |> hd()
      {:error, _reason} -> "unknown"
    end
  end

  # A load is functions, each of which runs in a process of its own until that is killed, and counts what it does.
  defp searches(trees, count, events, slice) do
    for tree <- Enum.take(trees, count), do: &search(tree, events, 0, [slice: slice], &1)
  end

  defp search(tree, events, index, options, counter) do
    {:ok, _ids} = BeTree.search(tree, elem(events, index), options)
    :counters.add(counter, 1, 1)
    search(tree, events, rem(index + 1, tuple_size(events)), options, counter)
  end

  defp plain(counter), do: plain(counter, 0)
  defp plain(counter, number), do: plain(counter, rem(number * 31 + 7, 1_000_003))

  defp insert(subscriptions, counter) do
    tree(W3, W3.defaults(), subscriptions)
    insert(subscriptions, counter)
  end

  # `[{title, %{late: sorted nanoseconds, long: events of the system monitor, searches: a second}}]`
  defp measure(loads) do
    turns = for _ <- 1..@turns, {title, load} <- loads, do: {title, turn(load)}

    for {title, _load} <- loads do
      own = for {^title, turn} <- turns, do: turn

      {title,
       %{
         late: own |> Enum.flat_map(& &1.late) |> Enum.sort() |> List.to_tuple(),
         long: own |> Enum.map(& &1.long) |> Enum.sum(),
         searches: own |> Enum.map(& &1.searches) |> Enum.sum() |> Kernel.*(1_000) |> div(@turns * @turn)
       }}
    end
  end

  defp turn(load) do
    counter = :counters.new(1, [])
    :erlang.system_monitor(self(), [{:long_schedule, @long_schedule}])
    workers = for work <- load, do: spawn_monitor(fn -> work.(counter) end)
    late = Task.async(fn -> sleep(now() + @turn * 1_000_000, []) end) |> Task.await(:infinity)
    searches = :counters.get(counter, 1)
    for {pid, _monitor} <- workers, do: Process.exit(pid, :kill)
    for {pid, monitor} <- workers, do: receive(do: ({:DOWN, ^monitor, :process, ^pid, :killed} -> :ok))
    :erlang.system_monitor(:undefined)
    %{late: late, long: long_schedules(0), searches: searches}
  end

  defp sleep(deadline, late) do
    started = now()
    Process.sleep(@sleep)
    woken = now()
    late = [woken - started - @sleep * 1_000_000 | late]
    if woken < deadline, do: sleep(deadline, late), else: late
  end

  defp long_schedules(count) do
    receive do
      {:monitor, _who, :long_schedule, _info} -> long_schedules(count + 1)
    after
      0 -> count
    end
  end

  defp now, do: System.monotonic_time(:nanosecond)

  @columns [{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}]

  defp table(title, results) do
    IO.puts(row([title | for({name, _share} <- @columns, do: name)] ++ ["max", "long", "searches/s"]))

    for {load, result} <- results do
      shares = for {_name, share} <- @columns, do: microseconds(at(result, share))
      worst = microseconds(elem(result.late, tuple_size(result.late) - 1))
      IO.puts(row([load | shares] ++ [worst, grouped(result.long), grouped(result.searches)]))
    end

    IO.puts("")
  end

  defp row([title | cells]) do
    [String.pad_trailing(title, 44), for(cell <- cells, do: String.pad_leading(cell, 11))]
  end

  defp bars([{"plain Elixir", plain}, {title, sliced} | _] = results) do
    {_title, unsliced} = List.keyfind!(results, @uncharged, 0)
    {inserting_title, inserting} = List.last(results)

    for {name, share} <- Enum.take(@columns, 2) do
      ratio = at(sliced, share) / at(plain, share)
      held = if ratio <= @bar, do: "holds", else: "DOES NOT HOLD"
      IO.puts("#{title}: #{name} is #{decimal(ratio)} times that beside plain Elixir; bar: #{@bar}, #{held}")
      IO.puts("  and #{decimal(at(sliced, share) / at(unsliced, share))} times that beside searches that hold on")
    end

    held = if inserting.long <= plain.long, do: "holds", else: "DOES NOT HOLD"
    IO.puts("#{inserting_title}: #{inserting.long} long schedules; bar: #{plain.long} beside plain Elixir, #{held}")
  end

  defp at(%{late: late}, share), do: elem(late, trunc(share * tuple_size(late)))
  defp microseconds(nanoseconds), do: grouped(div(nanoseconds, 1_000))
  defp decimal(number), do: :erlang.float_to_binary(number, decimals: 2)
end

BeTree.Bench.W7.run()

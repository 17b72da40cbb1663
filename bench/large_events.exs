# Measures how long a search of an event of 5, 20 and 100 MB holds its scheduler: as JSON, as a term with one long string,
# and as a term with a long list, in a tree and in an index. The first search of each writes to new memory; later ones reuse
# it. The bar: no hold above 5 milliseconds. It needs some gigabytes of memory.
#
#     mix run bench/large_events.exs [--rounds 4]

defmodule BeTree.Bench.LargeEvents do
  @moduledoc false

  @megabytes [5, 20, 100]
  # The kinds of events, with the ids found.
  @kinds [json: [1], string: [1], list: [2]]
  @memory 3_000_000_000
  # Milliseconds from which the VM reports a hold, and the bar.
  @reported 1
  @bar 5

  def run(rounds) do
    monitor = spawn_link(fn -> watch([]) end)
    :erlang.system_monitor(monitor, [{:long_schedule, @reported}])
    IO.puts(columns(["", "search", "holds over #{@reported} ms", "longest"]))

    longest =
      for megabytes <- @megabytes, {kind, ids} <- @kinds, event = event(kind, megabytes), {target, name} <- targets() do
        [first | later] = for _round <- 1..rounds, do: search(target, event, ids, monitor)
        row("#{megabytes} MB, #{kind}, #{name}, the first", [first])
        row("the next #{rounds - 1}", later)
        [first | later] |> Enum.flat_map(& &1.holds) |> Enum.max(fn -> 0 end)
      end

    :erlang.system_monitor(:undefined)
    longest = Enum.max(longest)
    verdict = if longest < @bar, do: "holds", else: "DOES NOT HOLD"
    IO.puts("\nthe longest hold took #{longest} ms (bar: below #{@bar} ms, #{verdict})")
  end

  # A new tree, and an index with new replicas.
  defp targets do
    tree = tree()
    [{tree(), "a tree"}, {BeTree.publish!(tree, replicas: 1), "an index"}]
  end

  defp tree do
    schema = [s: {:string, optional: true}, l: {:string_list, optional: true}]
    tree = BeTree.new!(schema, memory: @memory)
    BeTree.insert_all!(tree, [{1, "s is not null"}, {2, ~s|"last" in l|}])
    tree
  end

  defp event(:json, megabytes), do: {:json, ~s|{"s": "#{text(megabytes)}"}|}
  defp event(:string, megabytes), do: %{s: text(megabytes)}

  defp event(:list, megabytes) do
    elements = for number <- 1..(megabytes * 50_000), do: "element of #{rem(number, 1000)} bytes"
    %{l: elements ++ ["last"]}
  end

  defp text(megabytes), do: String.duplicate("a", megabytes * 1_000_000)

  # Searches in a separate process and counts its holds.
  defp search(target, event, ids, monitor) do
    {pid, reference} = spawn_monitor(fn -> exit({:found, :timer.tc(fn -> BeTree.search!(target, event) end)}) end)

    receive do
      {:DOWN, ^reference, _, _, {:found, {microseconds, ^ids}}} ->
        send(monitor, {:holds, pid, self()})
        receive(do: ({:held, holds} -> %{microseconds: microseconds, holds: holds}))

      {:DOWN, ^reference, _, _, other} ->
        Mix.raise(
          "a search of a large event failed or found other ids: #{inspect(other, limit: 5, printable_limit: 80)}"
        )
    end
  end

  # Collects the milliseconds of holds that began or ended in the library. Other holds are the VM's: copying the event to a
  # new process, and garbage collections.
  defp watch(seen) do
    receive do
      {:monitor, pid, :long_schedule, info} ->
        if Enum.any?([info[:in], info[:out]], &library?/1), do: watch([{pid, info[:timeout]} | seen]), else: watch(seen)

      {:holds, pid, caller} ->
        send(caller, {:held, for({^pid, milliseconds} <- seen, do: milliseconds)})
        watch([])
    end
  end

  defp library?({module, _function, _arity}),
    do: module != __MODULE__ and String.starts_with?(Atom.to_string(module), "Elixir.BeTree.")

  defp library?(:undefined), do: false

  defp row(title, searches) do
    times = Enum.map(searches, & &1.microseconds)
    holds = Enum.flat_map(searches, & &1.holds)
    mean = Enum.sum(times) / length(times) / 1000
    longest = Enum.max(holds, fn -> nil end)
    IO.puts(columns([title, "#{decimal(mean)} ms", "#{length(holds)}", if(longest, do: "#{longest} ms", else: "")]))
  end

  defp decimal(number), do: :erlang.float_to_binary(number * 1.0, decimals: 1)

  defp columns([title | cells]),
    do: [String.pad_trailing(title, 34), for(cell <- cells, do: String.pad_leading(cell, 18))]
end

{options, [], []} = OptionParser.parse(System.argv(), strict: [rounds: :integer])
BeTree.Bench.LargeEvents.run(max(2, options[:rounds] || 4))

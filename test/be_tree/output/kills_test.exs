defmodule BeTree.Output.KillsTest do
  # Kills the writer, the sink and the senders of an output at random. The sums hold exactly whenever nothing moves, no message is
  # delivered twice or out of order, and no process is left.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Output}
  alias BeTree.Test.Attack

  setup :quiet

  defmodule Collecting do
    @moduledoc false
    # A sink that inserts messages into a table.
    @behaviour Output.Sink

    @impl true
    def open(table), do: {:ok, table}

    @impl true
    def write(messages, table) do
      for message <- messages, do: :ets.insert(table, {:erlang.unique_integer([:monotonic]), message})
      {:ok, table}
    end
  end

  for overflow <- [:block, :drop_new, :drop_old] do
    test "#{overflow}: sums are exact through random kills", %{test: test} do
      kills = Attack.size(200, 1_000)
      table = :ets.new(:collected, [:public, :ordered_set])
      name = :"#{inspect(__MODULE__)}.#{test}"
      buffer = [bytes: 4_000, count: 500]

      {:ok, output} =
        start_supervised(
          {Output,
           name: name, sink: {Collecting, table}, page: 300, linger: 1, buffer: buffer, overflow: unquote(overflow)}
        )

      counts = :counters.new(1, [])
      senders = for sender <- 1..8, do: spawn_sender(name, sender, counts)
      # A sender that does not know the output yet must be killed too.
      senders = Enum.reduce(1..kills, senders, fn _kill, senders -> kill(output, name, counts, senders) end)
      for pid <- senders, do: Process.exit(pid, :kill)

      eventually(fn ->
        {:ok, stats} = Output.stats(name)
        stats.senders == 0 and stats.pending == 0
      end)

      {:ok, stats} = Output.stats(name)
      collected = for {_order, message} <- :ets.tab2list(table), not String.starts_with?(message, "BeTree"), do: message

      assert stats.accepted == stats.delivered + stats.dropped + stats.lost
      # A sender that is killed may not have counted its last message.
      assert (stats.accepted - :counters.get(counts, 1)) in 0..(kills + 8)
      # A job of a killed process counts as lost, though the sink may have written it.
      assert length(collected) in stats.delivered..(stats.delivered + stats.lost)
      assert collected == Enum.uniq(collected)
      assert in_order?(collected)

      :ok = stop_supervised({Output, name})
      assert :ets.whereis(name) == :undefined
      refute Process.alive?(output)
    end
  end

  defp spawn_sender(name, sender, counts) do
    spawn(fn ->
      generation = System.unique_integer([:positive, :monotonic])
      put(name, "#{sender}-#{generation}-", 0, counts)
    end)
  end

  defp put(name, prefix, number, counts) do
    message = prefix <> Integer.to_string(number)

    case Output.put(name, message) do
      :ok -> :counters.add(counts, 1, 1)
      {:error, %Error{kind: :overloaded}} -> :counters.add(counts, 1, 1)
    end

    put(name, prefix, number + 1, counts)
  end

  # Kills one process, and returns the senders.
  defp kill(output, name, counts, senders) do
    senders =
      case :rand.uniform(3) do
        1 ->
          Process.exit(writer(output), :kill)
          senders

        2 ->
          kill_sink(writer(output))
          senders

        3 ->
          [killed | others] = Enum.shuffle(senders)
          Process.exit(killed, :kill)
          [spawn_sender(name, :rand.uniform(8), counts) | others]
      end

    receive do
    after
      :rand.uniform(3) -> senders
    end
  end

  # The writer, or the next one.
  defp writer(output) do
    case Supervisor.which_children(output) do
      [{_id, pid, _type, _modules}] when is_pid(pid) -> pid
      _restarting -> writer(output)
    end
  end

  defp kill_sink(writer) do
    with {:links, links} <- Process.info(writer, :links),
         do: for(pid <- links, pid != supervisor(writer), do: Process.exit(pid, :kill))
  end

  defp supervisor(writer) do
    with {:dictionary, dictionary} <- Process.info(writer, :dictionary),
         [parent | _rest] <- dictionary[:"$ancestors"] do
      if is_pid(parent), do: parent, else: Process.whereis(parent)
    end
  end

  # The numbers of each sender rise.
  defp in_order?(collected) do
    collected
    |> Enum.map(fn message ->
      [sender, generation, number] = String.split(message, "-")
      {{sender, generation}, String.to_integer(number)}
    end)
    |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))
    |> Enum.all?(fn {_sender, numbers} -> numbers == Enum.sort(numbers) end)
  end
end

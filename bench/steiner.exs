# Measures how late a process wakes beside ten others that compute Steiner trees in a sandbox, with and without yielding.
#
#     mix run bench/steiner.exs [--wakes 20]
#
# The ten repeatedly compute a minimum tree for a path of 11 nodes, all terminals. The other process repeatedly sleeps for a
# second, and reports how much longer that took.

Code.require_file("examples/steiner/steiner.ex")

defmodule BeTree.Bench.Steiner do
  @moduledoc false

  alias BeTree.{Fuel, Sandbox}
  alias BeTree.Input.Describe

  @workers 10
  @nodes 11
  # Trees of a call, about a second of work.
  @trees 2_000
  # A path is one edge shorter than it has nodes.
  @cost (@nodes - 1) * @trees
  @sleep 1_000

  def run(wakes) do
    module = Sandbox.load!(Steiner.wasm!())
    {:ok, _costs, %{fuel: fuel}} = Sandbox.call(Sandbox.new!(module), "steiner_paths", [@nodes, 1])

    say("""
    #{@workers} processes compute minimum trees for a path of #{@nodes} nodes, all terminals, #{Describe.grouped(fuel)} \
    fuel each, #{Describe.grouped(@trees)} in a call, on #{System.schedulers_online()} schedulers; another wakes each second
    """)

    yielding = series("yielding, slices of #{Describe.grouped(Fuel.default_slice())} fuel", module, [], wakes)
    holding = series("not yielding, a call in one slice", module, [slice: :infinity], wakes)

    say("lateness in ms   #{columns(~w(min median p90 max))}")
    say("yielding         #{spread(yielding)}")
    say("not yielding     #{spread(holding)}")
  end

  # Returns the lateness of each wake, in microseconds.
  defp series(title, module, options, wakes) do
    say(title)
    workers = for _ <- 1..@workers, do: spawn_link(fn -> compute(Sandbox.new!(module), options) end)
    parent = self()
    spawn_link(fn -> wake(parent, wakes) end)
    # The sleeper does not print, because waiting for output would delay it.
    lateness = for number <- 1..wakes, do: print(number)
    Enum.each(workers, &stop/1)
    say("")
    lateness
  end

  defp compute(sandbox, options) do
    [@cost] = Sandbox.call!(sandbox, "steiner_paths", [@nodes, @trees], options)
    compute(sandbox, options)
  end

  defp wake(_parent, 0), do: :ok

  defp wake(parent, wakes) do
    started = System.monotonic_time(:microsecond)
    Process.sleep(@sleep)
    send(parent, {:late, System.monotonic_time(:microsecond) - started - @sleep * 1_000})
    wake(parent, wakes - 1)
  end

  defp print(number) do
    receive do
      {:late, microseconds} ->
        say("  wake #{String.pad_leading("#{number}", 3)} #{milliseconds(microseconds)} ms late")
        microseconds
    end
  end

  # Ends a worker. The next series begins after its last call.
  defp stop(worker) do
    reference = Process.monitor(worker)
    Process.unlink(worker)
    Process.exit(worker, :kill)

    receive do
      {:DOWN, ^reference, :process, ^worker, :killed} -> :ok
    end
  end

  defp spread(lateness) do
    sorted = Enum.sort(lateness)
    at = fn share -> Enum.at(sorted, ceil(share * length(sorted)) - 1) end
    columns([hd(sorted) | Enum.map([0.5, 0.9, 1.0], at)] |> Enum.map(&milliseconds/1))
  end

  defp columns(cells), do: Enum.map_join(cells, &String.pad_leading(&1, 11))

  defp milliseconds(microseconds) do
    (microseconds / 1_000) |> :erlang.float_to_binary(decimals: 2) |> String.pad_leading(10)
  end

  defp say(text), do: IO.puts(text)
end

{options, rest} = Mix.BeTree.Command.parse!(System.argv(), wakes: :integer)
wakes = Keyword.get(options, :wakes, 20)
if rest != [] or wakes < 1, do: Mix.raise("Usage: mix run bench/steiner.exs [--wakes N], with N of at least 1")
BeTree.Bench.Steiner.run(wakes)

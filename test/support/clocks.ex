defmodule BeTree.Test.Clocks do
  @moduledoc "A system clock and a monotonic clock, moved only by the test, for a server of rules."

  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.Shared

  # Some day in 2033, in milliseconds.
  @start 2_000_000_000_000

  @doc "Returns clocks at the time `start/0`. The monotonic clock counts from an hour before."
  def new do
    clocks = :atomics.new(2, signed: true)
    :atomics.put(clocks, 1, @start)
    :atomics.put(clocks, 2, 3_600_000)
    clocks
  end

  @doc "Returns the time at which new clocks stand."
  def start, do: @start

  @doc "Returns the time of the system clock."
  def system(clocks), do: :atomics.get(clocks, 1)

  @doc "Lets time pass."
  def pass(clocks, ms) do
    :atomics.add(clocks, 1, ms)
    :atomics.add(clocks, 2, ms)
  end

  @doc "Sets the system clock forward, or back."
  def jump(clocks, ms), do: :atomics.add(clocks, 1, ms)

  @doc "Returns the functions that read the clocks."
  def sources(clocks), do: {fn -> :atomics.get(clocks, 1) end, fn -> :atomics.get(clocks, 2) end}

  @doc "Starts a server with these clocks under the test's supervisor, and returns its name."
  def start_server!(clocks, options) do
    name = Keyword.get_lazy(options, :name, fn -> :"clocks_#{System.unique_integer([:positive])}" end)
    arguments = [Keyword.put(options, :name, name), %{clocks: sources(clocks)}]
    start = {Server, :start_link, arguments}
    ExUnit.Callbacks.start_supervised!(%{id: name, start: start, restart: :temporary, type: :supervisor})
    name
  end

  @doc "Fires the server's timers that are due, and waits until it has closed the windows."
  def run_timers(name) do
    for process <- processes(name) do
      with {timer, _at} <- :sys.get_state(process).timer, do: send(process, {:timeout, timer, :due})
      # The message before this one is handled.
      :sys.get_state(process)
    end
  end

  defp processes(name) do
    case Shared.partitions(name) do
      nil -> [name]
      partitions -> for number <- 0..(partitions - 1), do: Shared.owner(name, number)
    end
  end
end

defmodule BeTree.Test.RulesServers do
  @moduledoc "Starts and kills servers of rules and their partitions."

  import BeTree.Test.Eventually
  import ExUnit.Assertions
  import ExUnit.Callbacks

  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.Shared

  # Far more than a busy machine needs.
  @wait 60_000

  @doc "Starts a server without restarts, under a new name unless the options have one. Returns its name and the child's id."
  def start!(options) do
    name = Keyword.get_lazy(options, :name, fn -> :"rules_#{System.unique_integer([:positive])}" end)
    id = {Server, System.unique_integer()}
    start = {Server, :start_link, [Keyword.put(options, :name, name)]}
    type = if options[:partitions], do: :supervisor, else: :worker
    start_supervised!(%{id: id, start: start, restart: :temporary, type: type})
    {name, id}
  end

  @doc "Kills a server without partitions, and waits until its name is free."
  def kill(name, id) do
    assert kill_process(Process.whereis(name)) == :killed
    stop_supervised(id)
  end

  @doc "Kills the process of a partition, and waits for its restart."
  def kill_partition(name, number),
    do: assert(kill_and_wait(Shared.owner(name, number), fn -> Shared.owner(name, number) end) == :killed)

  @doc "Kills a supervised process and waits until `now` returns its successor. Returns the first one's exit reason."
  def kill_and_wait(pid, now) do
    reason = kill_process(pid)
    eventually(fn -> now.() not in [nil, pid] end)
    reason
  end

  defp kill_process(pid) do
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, reason}, @wait
    reason
  end
end

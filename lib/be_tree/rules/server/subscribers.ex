defmodule BeTree.Rules.Server.Subscribers do
  @moduledoc false
  # The processes that receive the notices of a server, each with the monitor by which the calling process finds out that it ended.

  @type t :: %{pid => reference}

  @spec add(t, pid) :: t
  def add(subscribers, pid), do: Map.put_new_lazy(subscribers, pid, fn -> Process.monitor(pid) end)

  @spec remove(t, pid) :: t
  def remove(subscribers, pid) do
    {monitor, subscribers} = Map.pop(subscribers, pid)
    if monitor, do: Process.demonitor(monitor, [:flush])
    subscribers
  end
end

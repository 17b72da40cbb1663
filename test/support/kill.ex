defmodule BeTree.Test.Kill do
  @moduledoc "Kills processes."

  @doc "Kills a process and waits for its end."
  def kill(pid) do
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    receive(do: ({:DOWN, ^monitor, :process, ^pid, _reason} -> :ok))
  end
end

defmodule BeTree.Server.Maintainer do
  @moduledoc false
  # Keeps the replicas of a server near the end of the log, so that a search need not apply many changes itself. A process linked
  # to the server's process, which wakes it at times. It takes one free replica after the other, and applies some changes to it,
  # in slices, like a search. Nothing depends on it but the time of searches.

  alias BeTree.Processes.CrashReport
  alias BeTree.Server.Lookup
  alias BeTree.Telemetry

  # A replica that lacks this many changes is caught up, this many at a time.
  @max_lag 32
  @max_applied 64

  @doc "Starts the process for the server `name`."
  @spec start_link(BeTree.Server.name()) :: pid
  def start_link(name) do
    server = self()
    spawn_link(fn -> CrashReport.guard(fn -> loop(server, name) end) end)
  end

  @doc "Wakes the process if the version is a multiple of the lag."
  @spec wake(pid, pos_integer) :: :ok
  def wake(maintainer, version) do
    if rem(version, @max_lag) == 0, do: send(maintainer, :catch_up)
    :ok
  end

  defp loop(server, name) do
    receive do
      :catch_up -> catch_up(server, name)
    end

    loop(server, name)
  end

  defp catch_up(server, name) do
    flush()

    with {:ok, %{runtime: runtime, instance: instance}} <- Lookup.view(name) do
      tell(runtime, instance, name)

      case runtime.catch_up(instance, @max_lag, @max_applied) do
        {:ok, true} -> catch_up(server, name)
        {:ok, false} -> :ok
        # The replica is discarded. If new replicas fail too, the server needs another base.
        {:error, error} -> send(server, {:unfit, self(), instance, error})
      end
    end
  end

  defp tell(runtime, instance, name) do
    if Telemetry.enabled?() do
      {_length, lag} = runtime.lag(instance)
      Telemetry.event([:replica, :lag], %{lag: lag}, %{server: name})
    end
  end

  defp flush do
    receive do
      :catch_up -> flush()
    after
      0 -> :ok
    end
  end
end

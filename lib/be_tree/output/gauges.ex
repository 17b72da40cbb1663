defmodule BeTree.Output.Gauges do
  @moduledoc false
  # The measurements of the event [:be_tree, :output, :measure] (BeTree.Telemetry).

  alias BeTree.Error
  alias BeTree.Output.Stats
  alias BeTree.Telemetry.Gauge

  @doc "Returns the measurements of an output, from its counters."
  @spec read(BeTree.Output.name()) :: {:ok, %{atom => number}} | {:error, Error.t()}
  def read(name) do
    with {:ok, stats} <- Stats.read(name) do
      flags = %{overloaded: Gauge.flag(stats.overloaded), closed: Gauge.flag(stats.closed != nil)}
      {:ok, stats |> Map.take([:pending, :pending_bytes, :senders, :memory, :lateness]) |> Map.merge(flags)}
    end
  end
end

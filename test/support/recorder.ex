defmodule BeTree.Test.Recorder do
  @moduledoc """
  Sends the telemetry events of the node to the test: `setup :record`. Each is a message `{name, measurements, metadata, pid}` with the
  process that emitted it, and the name without `:be_tree`. Replaces the sink of the node, so such a test is not `async`.
  """

  alias BeTree.Telemetry

  @doc "Records until the test ends."
  def record(_context) do
    before = Telemetry.sink()
    Process.register(self(), __MODULE__)
    Telemetry.put_sink(__MODULE__)
    ExUnit.Callbacks.on_exit(fn -> Telemetry.put_sink(before) end)
  end

  @doc false
  def execute([:be_tree | name], measurements, metadata) do
    with test when is_pid(test) <- Process.whereis(__MODULE__), do: send(test, {name, measurements, metadata, self()})
    :ok
  end
end

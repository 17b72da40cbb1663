defmodule BeTree.Telemetry.Sink do
  @moduledoc false
  # The module that takes the events of this node: `:telemetry`, or none if that package is absent.

  @doc "Returns the module whose `execute/3` takes the events, or false."
  @spec sink() :: module | false
  def sink do
    # A look is a call of the code server if the package is absent, so its result is kept.
    case :persistent_term.get(__MODULE__, nil) do
      nil -> put_sink(if Code.ensure_loaded?(:telemetry), do: :telemetry, else: false)
      sink -> sink
    end
  end

  @doc "Makes `sink` the module that takes the events of this node."
  @spec put_sink(module | false) :: module | false
  def put_sink(sink) do
    :persistent_term.put(__MODULE__, sink)
    sink
  end

  @doc "Emits an event with the current monotonic time."
  @spec event([atom], map, map) :: :ok
  def event(name, measurements, metadata) do
    with sink when sink != false <- sink() do
      sink.execute([:be_tree | name], Map.put(measurements, :monotonic_time, System.monotonic_time()), metadata)
    end

    :ok
  end
end

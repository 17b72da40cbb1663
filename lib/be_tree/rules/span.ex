defmodule BeTree.Rules.Span do
  @moduledoc false
  # The telemetry events of a call of BeTree.Rules: a start, and a stop or an exception (BeTree.Telemetry lists them). The sink is the
  # module whose execute/3 takes the events, :telemetry.

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Page

  @enforce_keys [:sink, :started, :metadata]
  defstruct @enforce_keys

  @type t :: %__MODULE__{sink: module, started: integer, metadata: map}

  @doc "Emits the start of a call."
  @spec start(module, Rules.t(), atom) :: t
  def start(sink, rules, operation) do
    started = System.monotonic_time()
    metadata = %{rules: rules, operation: operation, telemetry_span_context: make_ref()}
    sink.execute([:be_tree, :rules, :start], %{system_time: System.system_time(), monotonic_time: started}, metadata)
    %__MODULE__{sink: sink, started: started, metadata: metadata}
  end

  @doc "Emits the event for the outcome of a call."
  @spec stop(t, Rules.outcome()) :: :ok
  def stop(span, {_ok_or_more, %Page{} = page}) do
    measurements = %{
      fuel: page.fuel,
      slices: page.slices,
      firings: page.firings,
      facts: length(page.ids),
      notices: length(page.notices)
    }

    emit(span, :stop, measurements, Map.put(span.metadata, :reason, page.reason))
  end

  def stop(span, {:error, %Error{kind: kind} = error}) do
    emit(span, :exception, %{}, Map.merge(span.metadata, %{kind: kind, error: error}))
  end

  defp emit(%{sink: sink, started: started}, name, measurements, metadata) do
    now = System.monotonic_time()

    sink.execute(
      [:be_tree, :rules, name],
      Map.merge(measurements, %{duration: now - started, monotonic_time: now}),
      metadata
    )

    :ok
  end
end

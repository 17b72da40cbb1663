defmodule BeTree.Telemetry.Span do
  @moduledoc false
  # A :telemetry span: start, then stop or exception. Searches add one event per yield (BeTree.Telemetry lists the events).
  # `sink` is the module whose execute/3 takes the events, :telemetry.

  alias BeTree.Target.Shards
  alias BeTree.{Error, Search, Stats}
  alias BeTree.Processes.Failure
  alias BeTree.Target.View

  @enforce_keys [:sink, :name, :started, :metadata]
  defstruct @enforce_keys

  @type t :: %__MODULE__{sink: module, name: atom, started: integer, metadata: map}

  # Emits the start of a span.
  @spec start(module, atom, map) :: t
  def start(sink, name, metadata) do
    started = System.monotonic_time()
    metadata = Map.put(metadata, :telemetry_span_context, make_ref())
    sink.execute([:be_tree, name, :start], %{system_time: System.system_time(), monotonic_time: started}, metadata)
    %__MODULE__{sink: sink, name: name, started: started, metadata: metadata}
  end

  # Returns the metadata of a target.
  @spec target(term) :: map
  def target(%View{name: name} = view), do: %{tree: view, server: name}
  def target(%Shards{} = cluster), do: %{cluster: cluster}
  def target(%_handle{} = tree), do: %{tree: tree}
  def target(name), do: %{server: name}

  # Runs `fun` as a span.
  @spec run(module, atom, map, (... -> result), (result -> map)) :: result when result: var
  def run(sink, name, metadata, fun, measure) do
    span = start(sink, name, metadata)
    result = guard(span, fun)
    emit(span, :stop, measure.(result), outcome(result))
    result
  end

  # Runs `fun`, and emits an exception event if it raises.
  @spec guard(t, (... -> result)) :: result when result: var
  def guard(span, fun) do
    fun.()
  catch
    kind, reason ->
      stacktrace = __STACKTRACE__
      more = %{kind: kind, reason: reason, stacktrace: Failure.without_arguments(stacktrace)}
      emit(span, :exception, %{}, more)
      :erlang.raise(kind, reason, stacktrace)
  end

  # Emits the event for the outcome of a step of a search. Returns the outcome. `search` is the state before the step.
  @spec observe(Search.outcome(), Search.t()) :: Search.outcome()
  def observe({:yield, %{slices: %{fuel: fuel, count: count}}} = outcome, %{span: span}) do
    emit(span, :yield, %{fuel: fuel, slices: count}, %{})
    outcome
  end

  def observe({:done, found, %Stats{} = stats} = outcome, %{span: span, as: form}) do
    measurements = Map.take(stats, [:fuel, :slices, :mismatches])
    emit(span, :stop, Map.put(measurements, :matches, matches(form, found)), outcome(:ok))
    outcome
  end

  # A resume of a search that has ended, or runs in another process, returns an error. The search emits nothing for it.
  def observe({:error, %Error{kind: kind}} = outcome, %{slices: %{count: count}})
      when count > 0 and kind in [:not_found, :overloaded],
      do: outcome

  def observe({:error, _error} = outcome, %{span: span, slices: %{fuel: fuel, count: count}}) do
    emit(span, :stop, %{fuel: fuel, slices: count, matches: 0, mismatches: 0}, outcome(outcome))
    outcome
  end

  defp matches(:list, ids), do: length(ids)
  defp matches(:binary, packed), do: div(byte_size(packed), 8)
  defp matches(:bitmap, bitmap), do: for(<<bit::1 <- bitmap>>, reduce: 0, do: (count -> count + bit))

  # Returns the metadata of a result.
  @spec outcome(term) :: map
  def outcome({:error, %Error{kind: kind} = error}), do: %{result: :error, error: error, error_kind: kind}
  def outcome({:error, [%Error{} = first | _errors]}), do: outcome({:error, first})
  # A journal's error is paired with its state.
  def outcome({:error, %Error{} = error, _more}), do: outcome({:error, error})
  def outcome(_result), do: %{result: :ok}

  # Emits an event of a span with the time since its start. `more` is further metadata.
  @spec emit(t, :yield | :stop | :exception, map, map) :: :ok
  def emit(%{sink: sink, name: name, started: started, metadata: metadata}, ending, measurements, more) do
    now = System.monotonic_time()
    measurements = Map.merge(measurements, %{duration: now - started, monotonic_time: now})
    sink.execute([:be_tree, name, ending], measurements, Map.merge(metadata, more))
    :ok
  end
end

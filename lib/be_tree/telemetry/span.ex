defmodule BeTree.Telemetry.Span do
  @moduledoc false
  # The telemetry events of one search: a start, yields, and a stop or an exception (BeTree.Telemetry lists them). The
  # sink is the module whose execute/3 takes the events, :telemetry.

  alias BeTree.{Error, Search, Stats}
  alias BeTree.Server.View

  @enforce_keys [:sink, :started, :metadata]
  defstruct @enforce_keys

  @type t :: %__MODULE__{sink: module, started: integer, metadata: map}

  # Emits the start of a search of `tree`.
  @spec start(module, BeTree.target()) :: t
  def start(sink, tree) do
    started = System.monotonic_time()
    metadata = Map.put(target(tree), :telemetry_span_context, make_ref())
    sink.execute([:be_tree, :search, :start], %{system_time: System.system_time(), monotonic_time: started}, metadata)
    %__MODULE__{sink: sink, started: started, metadata: metadata}
  end

  defp target(%View{name: name} = view), do: %{tree: view, server: name}
  defp target(tree), do: %{tree: tree}

  # Emits the event for the outcome of a step, and returns that outcome. `search` is the search before the step.
  @spec observe(Search.outcome(), Search.t()) :: Search.outcome()
  def observe({:yield, %{slices: %{fuel: fuel, count: count}}} = outcome, %{span: span}) do
    emit(span, :yield, %{fuel: fuel, slices: count}, span.metadata)
    outcome
  end

  def observe({:done, found, %Stats{fuel: fuel, slices: count}} = outcome, %{span: span, as: form}) do
    emit(span, :stop, %{fuel: fuel, slices: count, matches: matches(form, found)}, span.metadata)
    outcome
  end

  # A process that resumes a search which has ended, or which another process resumes, gets an error. The search emits
  # nothing.
  def observe({:error, %Error{kind: kind}} = outcome, %{slices: %{count: count}})
      when count > 0 and kind in [:not_found, :overloaded],
      do: outcome

  def observe({:error, %Error{kind: kind} = error} = outcome, %{span: span, slices: %{fuel: fuel, count: count}}) do
    emit(span, :exception, %{fuel: fuel, slices: count}, Map.merge(span.metadata, %{kind: kind, error: error}))
    outcome
  end

  defp matches(:list, ids), do: length(ids)
  defp matches(:binary, packed), do: div(byte_size(packed), 8)
  defp matches(:bitmap, bitmap), do: for(<<bit::1 <- bitmap>>, reduce: 0, do: (count -> count + bit))

  defp emit(%{sink: sink, started: started}, name, counts, metadata) do
    now = System.monotonic_time()
    measurements = Map.merge(counts, %{duration: now - started, monotonic_time: now})
    sink.execute([:be_tree, :search, name], measurements, metadata)
  end
end

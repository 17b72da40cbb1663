defmodule BeTree.Rules.Span do
  @moduledoc false
  # The telemetry events of a call of BeTree.Rules: a start, and a stop or an exception (BeTree.Telemetry lists them).

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Page
  alias BeTree.Telemetry.Span

  @doc "Emits the start of a call. The sink is the module whose execute/3 takes the events."
  @spec start(module, Rules.t(), atom) :: Span.t()
  def start(sink, rules, operation), do: Span.start(sink, :rules, %{rules: rules, operation: operation})

  @doc "Emits the event for the outcome of a call."
  @spec stop(Span.t(), Rules.outcome()) :: :ok
  def stop(span, {_ok_or_more, %Page{} = page}) do
    measurements = %{
      fuel: page.fuel,
      slices: page.slices,
      firings: page.firings,
      facts: length(page.ids),
      notices: length(page.notices)
    }

    Span.emit(span, :stop, measurements, %{reason: page.reason})
  end

  def stop(span, {:error, %Error{kind: kind} = error}),
    do: Span.emit(span, :exception, %{}, %{kind: kind, error: error})
end

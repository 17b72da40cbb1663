defmodule BeTree.Rules.Span do
  @moduledoc false
  # The telemetry span of a call of BeTree.Rules (BeTree.Telemetry lists its events).

  alias BeTree.Rules
  alias BeTree.Rules.Page
  alias BeTree.Telemetry.Span

  @doc "Runs a call as a span. The sink is the module whose execute/3 takes the events."
  @spec run(module, Rules.t(), atom, (... -> Rules.outcome())) :: Rules.outcome()
  def run(sink, rules, operation, call) do
    span = Span.start(sink, :rules, %{rules: rules, operation: operation})
    outcome = Span.guard(span, call)
    Span.emit(span, :stop, measurements(outcome), Map.merge(reason(outcome), Span.outcome(outcome)))
    outcome
  end

  defp measurements({:error, _error}),
    do: %{fuel: 0, slices: 0, firings: 0, facts: 0, notices: 0, mismatches: 0, late: 0}

  defp measurements({_ok_or_more, %Page{} = page}) do
    %{
      fuel: page.fuel,
      slices: page.slices,
      firings: page.firings,
      facts: length(page.ids),
      notices: length(page.notices),
      mismatches: page.mismatches,
      late: page.late
    }
  end

  defp reason({:more, page}), do: %{reason: page.reason}
  defp reason(_outcome), do: %{reason: nil}
end

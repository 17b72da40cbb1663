defmodule BeTree.Telemetry do
  @moduledoc """
  The events that a search emits through the hex package `:telemetry`.

  The first search of a node looks whether the package is present, and `enabled?/0` returns what it found. Without the package
  searches emit nothing.

  ## Events

  | event | when | measurements | metadata |
  | --- | --- | --- | --- |
  | `[:be_tree, :search, :start]` | a search starts | `system_time`, `monotonic_time` | `tree` |
  | `[:be_tree, :search, :yield]` | a slice's fuel is exhausted | `fuel`, `slices`, `duration`, `monotonic_time` | `tree` |
  | `[:be_tree, :search, :stop]` | a search has its ids | `fuel`, `slices`, `matches`, `duration`, `monotonic_time` | `tree` |
  | `[:be_tree, :search, :exception]` | a search fails | `fuel`, `slices`, `duration`, `monotonic_time` | `tree`, `kind`, `error` |

  The metadata of all has `telemetry_span_context` too: a reference, the same in all events of one search.

  ## Measurements

  | measurement | unit | meaning |
  | --- | --- | --- |
  | `fuel` | fuel (`BeTree.Fuel`) | from the search's start until now; if the search failed, until its last yield |
  | `slices` | count | the slices until now; if the search failed, the slices that yielded |
  | `matches` | count | the matching ids |
  | `duration` | native time units | since the search's start, including the turns of other processes between slices |
  | `system_time` | native time units | the wall clock at the start |
  | `monotonic_time` | native time units | the monotonic clock at the event |

  ## Metadata

  | key | meaning |
  | --- | --- |
  | `tree` | the handle that was searched |
  | `server` | the name of the `BeTree.Server`, in the events of its searches only |
  | `kind` | the kind of the error, such as `:out_of_fuel` or `:timeout` |
  | `error` | the whole `BeTree.Error`, which holds no event |

  Calls of `BeTree.Rules` emit `[:be_tree, :rules, :start]`, and `[:be_tree, :rules, :stop]` with `fuel`, `slices`, `firings`, `facts` (inserted),
  `notices`, `duration` and `monotonic_time`, or `[:be_tree, :rules, :exception]`. Their metadata has `rules`, the handle, and `operation`:
  `:assert`, `:retract`, `:advance` or `:run`. A stop also has `reason`, by which there is more than a page, or `nil`.

  `BeTree.search_many/3` and `BeTree.stream/3` search many events in one call, and emit nothing.

  The process that runs the slice emits the event, and handlers run in that process. A search that is cancelled by
  `BeTree.Search.cancel/1`, or whose process ended, emits nothing more: its last event is the start or a yield. Handlers of
  yields run once per slice, every 30 to 100 microseconds of a long search.

  Without handlers, the events of the start and the stop of a search take about a microsecond together.

      :telemetry.attach("slow searches", [:be_tree, :search, :stop], &MyApp.Metrics.searched/4, nil)

      def searched(_event, %{duration: duration, fuel: fuel}, %{tree: tree}, _config) do
        milliseconds = System.convert_time_unit(duration, :native, :millisecond)
        if milliseconds > 50, do: Logger.warning("\#{inspect(tree)}: \#{milliseconds} ms, \#{fuel} fuel")
      end
  """

  alias BeTree.Search
  alias BeTree.Telemetry.Span

  @doc """
  Returns whether searches emit events: whether the package `:telemetry` is present.

      iex> BeTree.Telemetry.enabled?() == Code.ensure_loaded?(:telemetry)
      true
  """
  @spec enabled?() :: boolean
  def enabled? do
    case :persistent_term.get(__MODULE__, nil) do
      nil -> look()
      enabled -> enabled
    end
  end

  # A look is a call of the code server if the package is absent, so its result is kept.
  defp look do
    enabled = Code.ensure_loaded?(:telemetry)
    :persistent_term.put(__MODULE__, enabled)
    enabled
  end

  @doc false
  # Emits the start of a search. Returns its span, or nil without the package.
  @spec start(BeTree.target()) :: Span.t() | nil
  def start(tree), do: if(enabled?(), do: Span.start(:telemetry, tree))

  @doc false
  # Emits the event for the outcome of a step, and returns that outcome. `search` is the search before the step.
  @spec observe(Search.outcome(), Search.t()) :: Search.outcome()
  def observe(outcome, %{span: nil}), do: outcome
  def observe(outcome, search), do: Span.observe(outcome, search)
end

defmodule BeTree.Telemetry do
  @moduledoc """
  Searches emit these events through the hex package `:telemetry`.

  The events are compiled in if that package is present when this library is compiled. Without it, no code for them exists.
  To add the package later, compile this library again: `mix deps.compile be_tree --force`. `enabled?/0` returns whether the
  events are compiled in.

  ## Events

  | event | when | measurements | metadata |
  | --- | --- | --- | --- |
  | `[:be_tree, :search, :start]` | a search starts | `system_time`, `monotonic_time` | `tree` |
  | `[:be_tree, :search, :yield]` | a slice's fuel is exhausted | `fuel`, `slices`, `duration`, `monotonic_time` | `tree` |
  | `[:be_tree, :search, :stop]` | a search has its ids | `fuel`, `slices`, `matches`, `duration`, `monotonic_time` | `tree` |
  | `[:be_tree, :search, :exception]` | a search fails | `fuel`, `slices`, `duration`, `monotonic_time` | `tree`, `kind`, `error` |

  The metadata of all events also has `telemetry_span_context`: a reference, the same in all events of one search.

  ## Measurements

  | measurement | unit | meaning |
  | --- | --- | --- |
  | `fuel` | fuel (`BeTree.Fuel`) | the fuel since the start of the search; for a failed search, until its last yield |
  | `slices` | count | the slices so far; for a failed search, those that yielded |
  | `matches` | count | the ids that the search found |
  | `duration` | native time units | the time since the start of the search, including the turns of other processes |
  | `system_time` | native time units | the wall clock at the start |
  | `monotonic_time` | native time units | the monotonic clock at the event |

  ## Metadata

  | key | meaning |
  | --- | --- |
  | `tree` | the handle that was searched, a `t:BeTree.target/0` |
  | `kind` | the kind of the error, such as `:out_of_fuel` or `:timeout` |
  | `error` | the whole `BeTree.Error` |

  `BeTree.search_many/3` and `BeTree.stream/3` search many events in one call, and emit nothing.

  The process that runs a slice emits the event and runs the handlers. A cancelled search emits no further event, and neither
  does a search whose process ended: its last event is the start or a yield. Handlers of yields run once a slice, about every
  20 to 30 microseconds of a long search at the default slice.

  Without handlers, the start and the stop of a search take about a microsecond together.

      :telemetry.attach("slow searches", [:be_tree, :search, :stop], &MyApp.Metrics.searched/4, nil)

      def searched(_event, %{duration: duration, fuel: fuel}, %{tree: tree}, _config) do
        milliseconds = System.convert_time_unit(duration, :native, :millisecond)
        if milliseconds > 50, do: Logger.warning("\#{inspect(tree)}: \#{milliseconds} ms, \#{fuel} fuel")
      end
  """

  @enabled Code.ensure_loaded?(:telemetry)

  @doc """
  Returns whether the events are compiled in.

      iex> BeTree.Telemetry.enabled?() == Code.ensure_loaded?(:telemetry)
      true
  """
  @spec enabled?() :: boolean
  def enabled?, do: @enabled

  @doc false
  # Returns the telemetry state of a search: a BeTree.Telemetry.Span, or nil if the events are not compiled in.
  defmacro start(tree) do
    if @enabled, do: quote(do: BeTree.Telemetry.Span.start(:telemetry, unquote(tree)))
  end

  @doc false
  # Emits the event for the outcome of this step of `search`, and returns the outcome. `search` is its state before the step.
  defmacro observe(answer, search) do
    if @enabled, do: quote(do: BeTree.Telemetry.Span.observe(unquote(answer), unquote(search))), else: answer
  end
end

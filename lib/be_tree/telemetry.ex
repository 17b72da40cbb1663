defmodule BeTree.Telemetry do
  @moduledoc """
  The events that this library emits through the hex package `:telemetry`.

  The first event of a node looks whether the package is present, and `enabled?/0` returns what it found. Without the package
  nothing is emitted. `metrics/0` returns metrics of these events for `Telemetry.Metrics` and Phoenix LiveDashboard.

  ## Spans

  A span has the events `:start`, `:stop` and `:exception` under its name. A refusal, such as `:missing_attribute` or `:timeout`, is
  a result: the span stops with `result: :error`. An exception is one that the process raised.

  | span | it is | measurements of `:stop` | metadata |
  | --- | --- | --- | --- |
  | `[:be_tree, :search]` | a search for one event | `fuel`, `slices`, `matches`, `mismatches` | |
  | `[:be_tree, :search_many]` | a call of `BeTree.search_many/3` | `events`, `mismatches` | |
  | `[:be_tree, :stream]` | the search for a part of a stream | `events`, `errors`, `mismatches` | |
  | `[:be_tree, :rules]` | a call of `BeTree.Rules` that fires rules, or a part of one of `BeTree.Rules.Server` | `fuel`, `slices`, `firings`, `facts`, `notices`, `mismatches`, `late` | `operation`, `reason` |
  | `[:be_tree, :change]` | a change, until it is acknowledged | `put`, `deleted` | `operation` |
  | `[:be_tree, :journal]` | the writing of changes to a server's folder, with its sync if the changes wait for it | `changes`, `bytes` | `durability` |
  | `[:be_tree, :base]` | the building of a server's next base, or the writing of one to its folder | `version` | `operation`: `:build` or `:write` |

  A search also emits `[:be_tree, :search, :yield]` when the fuel of a slice is used up, with `fuel`, `slices` and `duration`.

  ## Other events

  | event | when | measurements | metadata |
  | --- | --- | --- | --- |
  | `[:be_tree, :queue, :stop]` | a search has waited for a tree, or for a replica, and its turn came | `duration` | |
  | `[:be_tree, :replica, :lag]` | with about every 32nd change of a server | `lag`: the most changes that a free replica lacks | |
  | `[:be_tree, :follower, :change]` | a follower has received changes | `changes`, `version` | `follows` |
  | `[:be_tree, :follower, :base]` | a follower has received an index | `bytes`, `version` | `follows`, `lineage` |
  | `[:be_tree, :follower, :lost]` | a follower has lost the server that it follows | `version` | `follows`, `error` |
  | `[:be_tree, :module, :compile]` | a module is ready that no one used in this VM: its code was loaded or compiled | `duration`, `bytes`: the length of the module | `source` |
  | `[:be_tree, :rules, :dropped]` | a server of rules did not send notices to a process, because too many wait in its mailbox | `notices` | `process` |

  ## Measurements

  | measurement | unit | meaning |
  | --- | --- | --- |
  | `system_time` | native time units | the wall clock, in `:start` |
  | `monotonic_time` | native time units | the monotonic clock at the event |
  | `duration` | native time units | since the start, including the turns of other processes |
  | `fuel` | fuel (`BeTree.Fuel`) | from the search's start until now; if the search failed, until its last yield |
  | `slices` | count | the slices until now; if the search failed, the slices that yielded |
  | `matches` | count | the matching ids, 0 for an error |
  | `mismatches` | count | the values of events or facts that do not fit their attributes or fields and counted as undefined (`BeTree.Domain`); 0 for an error, and for several events in a cluster, whose shards count them |
  | `late` | count | the facts that came too late (`BeTree.Rules`, Time); 0 for an error |
  | `firings`, `facts`, `notices` | count | the rules that fired, the facts that were inserted, and the notices; 0 for an error |
  | `put`, `deleted`, `changes`, `events`, `errors` | count | 0 where nothing was changed |
  | `bytes` | byte | the texts of changes with what belongs to them, the image of an index, or a module |

  ## Metadata

  | key | meaning |
  | --- | --- |
  | `tree` | the handle that was searched or changed |
  | `server` | the name of the `BeTree.Server`, if it is one; of `[:be_tree, :rules, :dropped]`, that of the `BeTree.Rules.Server` |
  | `source` | where a module's code comes from: `:built`, the library's build; `:cache`, the folder `:code_cache` (`docs/runtimes.md`); `:compiled`, compiled now |
  | `process` | the process that lacks the notices, or its name in `:notify` |
  | `cluster` | the `BeTree.Cluster`, if it is one |
  | `telemetry_span_context` | a reference, the same in all events of one span |
  | `result` | in `:stop`: `:ok` or `:error` |
  | `error` | in `:stop` with `result: :error`: the `BeTree.Error`, which holds no event; `error_kind` is its kind |
  | `kind`, `reason`, `stacktrace` | in `:exception`: `:error`, `:exit` or `:throw`, the value, and the stack trace without arguments |

  The metadata of `[:be_tree, :rules]` has `rules`, the handle, in place of `tree`, and `operation`: `:assert`, `:retract`, `:advance` or
  `:run`. `reason` is that by which there is more than a page, `:firings` or `:notices`, or `nil`. Rules have no event of a failed firing:
  its notice has no name.

  The `operation` of `[:be_tree, :change]` is `:insert`, `:delete`, `:change` or `:swap`, and `:revoke` where a cluster takes the insertion of a
  list back.

  The process that does the work emits the event, and handlers run in that process: those of searches and changes in the process of
  the caller, the others in processes of the server. A search that is cancelled by `BeTree.Search.cancel/1`, or whose process
  ended, emits nothing more: its last event is the start or a yield. Handlers of yields run once per slice, every 30 to 100
  microseconds of a long search.

  Without handlers, the events of the start and the stop of a search take about a microsecond together.

      :telemetry.attach("slow searches", [:be_tree, :search, :stop], &MyApp.Metrics.searched/4, nil)

      def searched(_event, %{duration: duration, fuel: fuel}, %{tree: tree}, _config) do
        milliseconds = System.convert_time_unit(duration, :native, :millisecond)
        if milliseconds > 50, do: Logger.warning("\#{inspect(tree)}: \#{milliseconds} ms, \#{fuel} fuel")
      end
  """

  alias BeTree.Search
  alias BeTree.Telemetry.{Metrics, Sink, Span}

  @doc """
  Returns whether events are emitted: whether the package `:telemetry` is present.

      iex> BeTree.Telemetry.enabled?() == Code.ensure_loaded?(:telemetry)
      true
  """
  @spec enabled?() :: boolean
  def enabled?, do: sink() != false

  @doc """
  Returns metrics of the events, as `Telemetry.Metrics` defines them: a list for a reporter, or for the option `:metrics` of
  Phoenix LiveDashboard.

      def metrics, do: BeTree.Telemetry.metrics() ++ my_metrics()

  Durations are in milliseconds. Metrics of servers have the tag `server`, the name as text. Returns `[]` when the package
  `:telemetry_metrics` is not present.

      iex> is_list(BeTree.Telemetry.metrics())
      true
  """
  @spec metrics() :: [struct]
  def metrics, do: if(Code.ensure_loaded?(Telemetry.Metrics), do: Metrics.all(Telemetry.Metrics), else: [])

  @doc false
  # Returns the module whose `execute/3` takes the events, or false.
  @spec sink() :: module | false
  defdelegate sink(), to: Sink

  @doc false
  # Makes `sink` the module that takes the events of this node.
  @spec put_sink(module | false) :: module | false
  defdelegate put_sink(sink), to: Sink

  @doc false
  # Emits an event with the present monotonic time.
  @spec event([atom], map, map) :: :ok
  defdelegate event(name, measurements, metadata), to: Sink

  @doc false
  # Returns the result of `fun`, between the events of a span. `measure` returns measurements of the result.
  @spec span(atom, map, (() -> result), (result -> map)) :: result when result: var
  def span(name, metadata, fun, measure) do
    case sink() do
      false -> fun.()
      sink -> Span.run(sink, name, metadata, fun, measure)
    end
  end

  @doc false
  # Returns the metadata of a handle.
  @spec target(term) :: map
  defdelegate target(handle), to: Span

  @doc false
  # Returns a function that emits how long a caller of `handle` has waited, or nil.
  @spec waited(term) :: (integer -> :ok) | nil
  def waited(handle) do
    if enabled?(), do: fn duration -> event([:queue, :stop], %{duration: duration}, target(handle)) end
  end

  @doc false
  # Emits the start of a search. Returns its span, or nil without the package.
  @spec start(BeTree.target()) :: Span.t() | nil
  def start(tree) do
    case sink() do
      false -> nil
      sink -> Span.start(sink, :search, target(tree))
    end
  end

  @doc false
  # Runs a step of a search, and emits the event for its outcome. `search` is the search before the step.
  @spec observe(Search.t(), (() -> Search.outcome())) :: Search.outcome()
  def observe(%{span: nil}, step), do: step.()
  def observe(%{span: span} = search, step), do: span |> Span.guard(step) |> Span.observe(search)
end

defmodule BeTree.Telemetry do
  @moduledoc """
  The events that this library emits through the hex package `:telemetry`.

  The first event of a node checks whether the package is present, and caches the result (`enabled?/0`). Without the package
  nothing is emitted. `metrics/0` returns metrics of these events for `Telemetry.Metrics` and Phoenix LiveDashboard.

  ## Spans

  A span emits `:start`, then `:stop` or `:exception`, under its name. A refusal such as `:missing_attribute`
  or `:timeout` is a result: the span stops with `result: :error`. `:exception` means that the process raised, exited or
  threw.

  | span | it is | measurements of `:stop` | metadata |
  | --- | --- | --- | --- |
  | `[:be_tree, :search]` | a search for one event | `fuel`, `slices`, `matches`, `mismatches` | |
  | `[:be_tree, :search_many]` | a call of `BeTree.search_many/3` | `events`, `mismatches` | |
  | `[:be_tree, :stream]` | the search for one chunk of a stream | `events`, `errors`, `mismatches` | |
  | `[:be_tree, :rules]` | a call of `BeTree.Rules` that fires rules, or one part of a call of `BeTree.Rules.Server` | `fuel`, `slices`, `firings`, `facts`, `notices`, `mismatches`, `late` | `operation`, `reason` |
  | `[:be_tree, :change]` | a change, until it is acknowledged | `put`, `deleted` | `operation` |
  | `[:be_tree, :journal]` | a write of changes to a server's folder, with its sync if the changes wait for that | `changes`, `bytes` | `durability` |
  | `[:be_tree, :base]` | a server builds its next base, or writes one to its folder | `version` | `operation`: `:build` or `:write` |

  A search also emits `[:be_tree, :search, :yield]` when the fuel of a slice is used up, with `fuel`, `slices` and `duration`.

  ## Other events

  | event | when | measurements | metadata |
  | --- | --- | --- | --- |
  | `[:be_tree, :queue, :stop]` | a search ends its wait for a tree or a replica | `duration` | |
  | `[:be_tree, :replica, :lag]` | with about every 32nd change of a server | `lag`: how many changes the most outdated free replica lacks | |
  | `[:be_tree, :server, :measure]` | `BeTree.Gauges.measure/0` or `BeTree.Server.measure/1` was called | `queue`, `busy`; unless it is busy `expressions`, `memory`, `memory_bytes`, `version`, `log`, `lag`, `failed`; with a folder `unwritten`, `journal_bytes`, `journal_age`; of a follower `connected`, of others `replicas`, `replica_bytes` | |
  | `[:be_tree, :rules, :measure]` | `BeTree.Gauges.measure/0` was called | `queue`, `busy`; unless it is busy `rules`, `facts`, `waiting`, `due`, `held`, `behind`, `facts_bytes`, `memory_bytes`, `journal_bytes`, `journal_age` | `server` |
  | `[:be_tree, :output, :measure]` | `BeTree.Gauges.measure/0` was called | `pending`, `pending_bytes`, `senders`, `memory`, `lateness`, `overloaded`, `closed` | `output` |
  | `[:be_tree, :pub_sub, :measure]` | `BeTree.Gauges.measure/0` was called | `subscriptions`, `subscribers`, `full` | `pubsub` |
  | `[:be_tree, :tenants, :measure]` | `BeTree.Gauges.measure/0` was called | `hot`, `bytes`, `shards`, `shard_bytes`, `round`; with a folder `journal_bytes`, `journal_age` | `tenants` |
  | `[:be_tree, :server, :faults]` | `on_error: :collect` has left out wrong subscriptions | `faults` | `operation`: `:load`, `:sync` or `:change` |
  | `[:be_tree, :follower, :change]` | a follower receives changes | `changes`, `version` | `follows` |
  | `[:be_tree, :follower, :base]` | a follower receives an index | `bytes`, `version` | `follows`, `lineage` |
  | `[:be_tree, :follower, :lost]` | a follower loses the server that it follows | `version` | `follows`, `error` |
  | `[:be_tree, :module, :compile]` | a module that no one uses in this VM is ready: its code was loaded or compiled | `duration`, `bytes`: the length of the module | `source` |
  | `[:be_tree, :output, :write]` | the sink of an output has taken pages | `messages`, `bytes`, `duration`, `lateness` | `output` |
  | `[:be_tree, :output, :lost]` | the sink of an output has failed to take pages | `messages`, `bytes`, `duration`, `lateness` | `output` |
  | `[:be_tree, :output, :dropped]` | an output tells its sink of dropped messages | `messages` | `output` |
  | `[:be_tree, :output, :closed]` | the sink of an output is gone | | `output` |
  | `[:be_tree, :pub_sub, :publish]` | a call of `BeTree.PubSub.publish/3` or `BeTree.PubSub.publish_many/3` has sent its messages | `duration`, `events`, `delivered`, `dropped`, `unsent` | `pubsub` |
  | `[:be_tree, :pub_sub, :full]` | a subscriber reaches its limit | `waiting`, unless its process did not reply | `pubsub`, `process` |
  | `[:be_tree, :pub_sub, :recovered]` | at most half of the limit waits again | `waiting` | `pubsub`, `process` |
  | `[:be_tree, :tenants, :match]` | a call of `BeTree.Tenants.match/4` or `BeTree.Tenants.match_many/3` returns | `duration`, `events`, `matches`, `fuel`, `skipped`, `errors` | `tenants`, `tenant` |
  | `[:be_tree, :tenants, :load]` | a tenant was brought into memory | `duration`, `bytes` | `tenants`, `tenant` |
  | `[:be_tree, :tenants, :evict]` | a tenant has left memory | `duration`, `bytes` | `tenants`, `tenant` |
  | `[:be_tree, :tenants, :quota]` | a tenant has used 80 or 100 percent of its burst, for the first time since half of it was left | `left`, `burst`, `rate` | `tenants`, `tenant`, `threshold` |
  | `[:be_tree, :tenants, :rebuild]` | a shard trapped, and its tenants are loaded into others | `lost` | `tenants` |
  | `[:be_tree, :tenants, :restore]` | a dump of a tenant was restored, also by a move | `duration` | `tenants`, `tenant` |
  | `[:be_tree, :tenants, :move]` | a tenant was moved, and is no longer here | `duration` | `tenants`, `tenant`, `target` |
  | `[:be_tree, :rules, :dropped]` | a server of rules drops notices for a process with a full mailbox | `notices` | `process` |

  ## Measurements

  | measurement | unit | meaning |
  | --- | --- | --- |
  | `system_time` | native time units | the wall clock, in `:start` |
  | `monotonic_time` | native time units | the monotonic clock at the event |
  | `duration` | native time units | since the start, including the turns of other processes |
  | `fuel` | fuel (`BeTree.Fuel`) | burned so far; if the search failed, up to its last yield |
  | `slices` | count | used so far; if the search failed, the slices that yielded |
  | `matches` | count | the matching ids, 0 for an error |
  | `mismatches` | count | values of events or facts that count as undefined because they do not fit (`BeTree.Domain`); 0 for an error, and for several events in a cluster, whose shards count them |
  | `late` | count | facts from before the watermark (`BeTree.Rules`, Time); 0 for an error |
  | `firings`, `facts`, `notices` | count | the rules that fired, the facts that were inserted, and the notices; 0 for an error. In `[:be_tree, :rules, :measure]` the facts that there are |
  | `put`, `deleted`, `changes`, `events`, `errors` | count | 0 if nothing changed |
  | `delivered`, `dropped` | count | messages to subscribers of this node that were sent, and that were dropped at their limits |
  | `unsent` | count | events that were not sent to another node, the sum over the nodes |
  | `faults` | count | subscriptions and ids that a change, a sync or the start of a server has left out |
  | `waiting` | count | messages in the mailbox of a subscriber; in `[:be_tree, :rules, :measure]` facts that wait for the rules' time |
  | `bytes` | byte | the size of the written changes, of the image of an index, of a module, or of messages |
  | `messages` | count | messages of an output |
  | `skipped` | count | events of tenants that were skipped for their quotas |
  | `left`, `burst`, `rate` | fuel | what a quota has left, negative if it owes some, what it holds, and what it receives in a second |
  | `lost` | count | the tenants of a shard that trapped |
  | `expressions`, `memory`, `memory_bytes`, `version`, `log`, `lag` | count, byte | of a server, as `BeTree.Server.info/2` returns them |
  | `replicas`, `replica_bytes` | count, byte | the replicas of a server, and the memory that they have of their own |
  | `unwritten` | count | changes of a server that are not on its disk |
  | `journal_bytes` | byte | the changes on the disk since the newest base there |
  | `journal_age` | microsecond | since the oldest of these changes, or since the start if that was later; 0 if there are none |
  | `queue` | count | messages in the mailboxes of a server's processes |
  | `busy` | 0 or 1 | 1 if the process did not reply to the measurement in time |
  | `failed` | 0 or 1 | 1 if `BeTree.Server.info/2` has an `:error`: of a base, a write or the connection of a follower |
  | `connected` | 0 or 1 | 1 if a follower is connected |
  | `rules`, `due`, `held` | count, 0 or 1 | the rules, whether rules are due, and whether time is held (`BeTree.Rules.Server.info/2`) |
  | `behind` | millisecond | from the time of the rules, the watermark, to the latest time that they have seen |
  | `facts_bytes` | byte | that facts and their indices ever took at once |
  | `pending`, `pending_bytes`, `senders` | count, byte | of an output (`BeTree.Output.Stats`) |
  | `overloaded`, `closed` | 0 or 1 | whether an output is above its limits, and whether its sink is gone |
  | `subscriptions`, `subscribers`, `full` | count | of a pubsub (`BeTree.PubSub.stats/2`) |
  | `hot`, `shards`, `shard_bytes` | count, byte | the tenants in memory, and their shards (`BeTree.Tenants.info/1`) |
  | `round` | millisecond | in which the statistics of all used tenants were last written once |
  | `lateness` | microsecond | since the oldest of the messages was put |

  ## Metadata

  | key | meaning |
  | --- | --- |
  | `tree` | the handle that was searched or changed |
  | `server` | the name of the `BeTree.Server`, if the handle is one; for `[:be_tree, :rules, :dropped]` and `[:be_tree, :rules, :measure]` the name of the `BeTree.Rules.Server` |
  | `source` | where a module's code comes from: `:built`, the library's build; `:cache`, the folder `:code_cache` ([Runtimes](runtimes.md)); `:compiled`, compiled now |
  | `process` | the process whose notices were dropped, or its name in `:notify`; for `[:be_tree, :pub_sub, ...]` the subscriber |
  | `pubsub` | the name of the `BeTree.PubSub` |
  | `output` | the name of the `BeTree.Output` |
  | `tenants` | the name of the `BeTree.Tenants` |
  | `tenant` | the tenant; `nil` for a call with events of many |
  | `target` | the name and the node to which a tenant was moved |
  | `threshold` | 80 or 100, percent |
  | `cluster` | the `BeTree.Cluster`, if the handle is one |
  | `telemetry_span_context` | a reference, the same in all events of one span |
  | `result` | in `:stop`: `:ok` or `:error` |
  | `error` | in `:stop` with `result: :error`: the `BeTree.Error`, which holds no event; `error_kind` is its kind |
  | `kind`, `reason`, `stacktrace` | in `:exception`: `:error`, `:exit` or `:throw`, the value, and the stack trace without arguments |

  The metadata of `[:be_tree, :rules]` has the handle as `rules` instead of `tree`, and `operation`: `:assert`, `:retract`,
  `:advance` or `:run`. `reason` is `:firings` or `:notices`, the limit that ended a page, or `nil`. A failed firing has no
  event of its own; its notice has no name.

  The `operation` of `[:be_tree, :change]` is `:insert`, `:delete`, `:change`, `:sync`, `:swap` or `:migrate`, and `:revoke` when a cluster
  rolls back the insertion of a list.

  Handlers run in the process that does the work: for searches and changes the caller, otherwise a process of the server. A
  search that is cancelled by `BeTree.Search.cancel/1`, or whose process ends, emits nothing more. A handler of yields runs
  once per slice, every 30 to 100 microseconds of a long search.

  Without handlers, the start and stop events of a search take about a microsecond together.

      :telemetry.attach("slow searches", [:be_tree, :search, :stop], &MyApp.Metrics.searched/4, nil)

      def searched(_event, %{duration: duration, fuel: fuel}, %{tree: tree}, _config) do
        milliseconds = System.convert_time_unit(duration, :native, :millisecond)
        if milliseconds > 50, do: Logger.warning("\#{inspect(tree)}: \#{milliseconds} ms, \#{fuel} fuel")
      end
  """

  alias BeTree.Search
  alias BeTree.Telemetry.{Metrics, Sink, Span}

  @doc """
  Returns whether events are emitted, that is whether the package `:telemetry` is present.

      iex> BeTree.Telemetry.enabled?() == Code.ensure_loaded?(:telemetry)
      true
  """
  @spec enabled?() :: boolean
  def enabled?, do: sink() != false

  @doc """
  Returns metrics of the events, as `Telemetry.Metrics` defines them: a list for a reporter, or for the option `:metrics` of
  Phoenix LiveDashboard.

      def metrics, do: BeTree.Telemetry.metrics() ++ my_metrics()

  A duration, lateness, fuel or number of matches has a summary, which LiveDashboard shows, and a distribution with buckets, because
  reporters of Prometheus drop summaries. Events are counted by counters, whose names end in `count`. The sizes, queues and lags of what
  runs are `last_value`s of the events of `BeTree.Gauges.measure/0`; `:telemetry_poller` can call it:

      {:telemetry_poller, measurements: [{BeTree.Gauges, :measure, []}], period: 10_000}

  [Metrics](metrics.md) has a whole configuration, the alerts worth having, and how to keep out the summaries.

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
  # Sets the module that takes the events of this node.
  @spec put_sink(module | false) :: module | false
  defdelegate put_sink(sink), to: Sink

  @doc false
  # Emits an event with the current monotonic time.
  @spec event([atom], map, map) :: :ok
  defdelegate event(name, measurements, metadata), to: Sink

  @doc false
  # Runs `fun` as a span. `measure` derives measurements from the result.
  @spec span(atom, map, (... -> result), (result -> map)) :: result when result: var
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
  # Returns a function that emits how long a caller waited for `handle`, or nil without the package.
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
  # Runs a step of a search and emits the event for its outcome. `search` is the state before the step.
  @spec observe(Search.t(), (... -> Search.outcome())) :: Search.outcome()
  def observe(%{span: nil}, step), do: step.()
  def observe(%{span: span} = search, step), do: span |> Span.guard(step) |> Span.observe(search)
end

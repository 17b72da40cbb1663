defmodule BeTree.Telemetry.Metrics do
  @moduledoc false
  # Metrics of the library's events. `module` is Telemetry.Metrics, which may be absent when this is compiled.

  alias BeTree.Input.Describe

  @milliseconds {:native, :millisecond}

  # From 10 microseconds, a search of a small index, to 10 seconds.
  @times [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000]

  # Upper bounds of the buckets of distributions, in the units of their metrics.
  @buckets %{
    duration: @times,
    lateness: @times,
    fuel: [1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000],
    matches: [0, 1, 10, 100, 1_000, 10_000, 100_000]
  }

  @doc "Returns the metrics, built by `module`."
  @spec all(module) :: [struct]
  def all(module) do
    metrics =
      searches(module) ++
        changes(module) ++
        servers(module) ++ rules(module) ++ pubsubs(module) ++ tenants(module) ++ outputs(module) ++ gauges(module)

    List.flatten(metrics)
  end

  # A dashboard shows the summary. Reporters of Prometheus drop summaries and take the distribution. The name of a counter ends in
  # `count`, because Prometheus refuses two metrics of one name.
  defp spread(module, name, tags) do
    measurement = name |> String.split(".") |> List.last() |> String.to_existing_atom()

    [
      module.summary(name, tags),
      module.distribution(name, tags ++ [reporter_options: [buckets: @buckets[measurement]]])
    ]
  end

  defp searches(module) do
    [
      module.counter("be_tree.search.stop.count", tags([:result], description: "searches")),
      spread(module, "be_tree.search.stop.duration", tags([], unit: @milliseconds)),
      spread(module, "be_tree.search.stop.fuel", tags([], [])),
      spread(module, "be_tree.search.stop.matches", tags([], [])),
      module.sum("be_tree.search.stop.mismatches", tags([], description: "values that do not fit")),
      module.counter("be_tree.search.exception.count", tags([], description: "searches that raised")),
      spread(module, "be_tree.queue.stop.duration", tags([], unit: @milliseconds, description: "waits for a replica")),
      module.sum("be_tree.search_many.stop.events", tags([:result], [])),
      spread(module, "be_tree.search_many.stop.duration", tags([], unit: @milliseconds)),
      module.sum("be_tree.stream.stop.events", tags([], [])),
      module.sum("be_tree.search_many.stop.mismatches", tags([], description: "values that do not fit")),
      module.sum("be_tree.stream.stop.errors", tags([], [])),
      module.sum("be_tree.stream.stop.mismatches", tags([], description: "values that do not fit"))
    ]
  end

  defp changes(module) do
    [
      module.counter("be_tree.change.stop.count", tags([:operation, :result], description: "changes")),
      spread(module, "be_tree.change.stop.duration", tags([:operation], unit: @milliseconds)),
      module.sum("be_tree.change.stop.put", tags([], description: "subscriptions inserted or replaced")),
      module.sum("be_tree.change.stop.deleted", tags([], description: "subscriptions deleted")),
      spread(module, "be_tree.journal.stop.duration", tags([], unit: @milliseconds)),
      module.sum("be_tree.journal.stop.bytes", tags([:result], unit: :byte))
    ]
  end

  defp servers(module) do
    [
      spread(module, "be_tree.base.stop.duration", tags([:operation, :result], unit: @milliseconds)),
      module.last_value("be_tree.replica.lag.lag", tags([], description: "changes that a free replica lacks")),
      module.sum("be_tree.server.faults.faults", tags([:operation], description: "subscriptions that were left out")),
      module.last_value("be_tree.follower.change.version", tags([], [])),
      module.sum("be_tree.follower.base.bytes", tags([], unit: :byte)),
      module.counter("be_tree.follower.lost.count", tags([], description: "connections that a follower lost")),
      spread(module, "be_tree.module.compile.duration", tags([:source], unit: @milliseconds)),
      module.sum("be_tree.rules.dropped.notices", tags([], description: "notices that were not sent"))
    ]
  end

  defp rules(module) do
    [
      module.counter("be_tree.rules.stop.count", tags([:operation, :result], description: "calls of rules")),
      spread(module, "be_tree.rules.stop.duration", tags([:operation], unit: @milliseconds)),
      spread(module, "be_tree.rules.stop.fuel", tags([:operation], [])),
      module.sum("be_tree.rules.stop.firings", tags([], description: "rules that fired")),
      module.sum("be_tree.rules.stop.facts", tags([], description: "facts that were inserted")),
      module.sum("be_tree.rules.stop.notices", tags([], [])),
      module.sum("be_tree.rules.stop.late", tags([], description: "facts from before the watermark"))
    ]
  end

  # Of the events that BeTree.Gauges.measure/0 emits.
  defp gauges(module) do
    [
      values(module, "be_tree.server.measure", [],
        expressions: [description: "subscriptions"],
        memory: [unit: :byte, description: "the base"],
        memory_bytes: [unit: :byte, description: "the changeable tree"],
        replicas: [],
        replica_bytes: [unit: :byte, description: "memory of replicas"],
        version: [],
        log: [description: "changes since the base"],
        lag: [description: "changes that a free replica lacks"],
        queue: [description: "messages that wait for the server's process"],
        busy: [description: "1 if the server's process did not reply"],
        failed: [description: "1 if the last base, write or connection failed"],
        unwritten: [description: "changes that the disk lacks"],
        journal_bytes: [unit: :byte, description: "changes on the disk since the base there"],
        journal_age: [
          unit: {:microsecond, :millisecond},
          description: "age of the oldest change that the base there lacks"
        ],
        connected: [description: "1 if a follower is connected"]
      ),
      values(module, "be_tree.rules.measure", [],
        rules: [],
        facts: [],
        waiting: [description: "facts that wait for the rules' time"],
        due: [description: "1 if rules are due"],
        held: [description: "1 if time is held before an event that fails"],
        behind: [unit: :millisecond, description: "the rules' time behind the latest time"],
        facts_bytes: [unit: :byte],
        memory_bytes: [unit: :byte],
        journal_bytes: [unit: :byte, description: "changes on the disk since the base there"],
        journal_age: [
          unit: {:microsecond, :millisecond},
          description: "age of the oldest change that the base there lacks"
        ],
        queue: [description: "messages that wait for the server's processes"],
        busy: [description: "1 if the server did not reply"]
      ),
      values(module, "be_tree.output.measure", [:output],
        pending: [description: "messages in pages"],
        pending_bytes: [unit: :byte],
        senders: [],
        memory: [unit: :byte],
        lateness: [unit: {:microsecond, :millisecond}, description: "age of the oldest pending message"],
        overloaded: [description: "1 above the limits"],
        closed: [description: "1 if the sink is gone"]
      ),
      values(module, "be_tree.pub_sub.measure", [:pubsub],
        subscriptions: [],
        subscribers: [],
        full: [description: "subscribers at their limits"]
      ),
      values(module, "be_tree.tenants.measure", [:tenants],
        hot: [description: "tenants in memory"],
        bytes: [unit: :byte, description: "their indexes and statistics"],
        shards: [],
        shard_bytes: [unit: :byte, description: "memory of shards"],
        round: [unit: :millisecond, description: "the longest last round of writing statistics"],
        journal_bytes: [unit: :byte, description: "changes on the disk since the base there"],
        journal_age: [
          unit: {:microsecond, :millisecond},
          description: "age of the oldest change that the base there lacks"
        ]
      )
    ]
  end

  defp values(module, event, tags, measurements),
    do: for({name, options} <- measurements, do: module.last_value("#{event}.#{name}", tags(tags, options)))

  defp pubsubs(module) do
    [
      module.sum("be_tree.pub_sub.publish.events", tags([:pubsub], [])),
      spread(module, "be_tree.pub_sub.publish.duration", tags([:pubsub], unit: @milliseconds)),
      module.sum("be_tree.pub_sub.publish.delivered", tags([:pubsub], description: "messages to subscribers")),
      module.sum("be_tree.pub_sub.publish.dropped", tags([:pubsub], description: "messages dropped at limits")),
      module.sum("be_tree.pub_sub.publish.unsent", tags([:pubsub], description: "events not sent to other nodes"))
    ]
  end

  defp tenants(module) do
    [
      module.sum("be_tree.tenants.match.events", tags([:tenants], [])),
      spread(module, "be_tree.tenants.match.duration", tags([:tenants], unit: @milliseconds)),
      module.sum("be_tree.tenants.match.fuel", tags([:tenants], [])),
      module.sum("be_tree.tenants.match.skipped", tags([:tenants], description: "events skipped for quotas")),
      spread(module, "be_tree.tenants.load.duration", tags([:tenants], unit: @milliseconds)),
      module.counter("be_tree.tenants.evict.count", tags([:tenants], description: "tenants that left memory")),
      module.counter("be_tree.tenants.quota.count", tags([:tenants, :threshold], description: "warnings of quotas")),
      spread(module, "be_tree.tenants.restore.duration", tags([:tenants], unit: @milliseconds)),
      spread(module, "be_tree.tenants.move.duration", tags([:tenants], unit: @milliseconds)),
      module.sum("be_tree.tenants.rebuild.lost", tags([:tenants], description: "tenants of shards that trapped"))
    ]
  end

  defp outputs(module) do
    [
      module.sum("be_tree.output.write.messages", tags([:output], description: "messages delivered by outputs")),
      spread(module, "be_tree.output.write.duration", tags([:output], unit: @milliseconds)),
      spread(module, "be_tree.output.write.lateness", tags([:output], unit: {:microsecond, :millisecond})),
      module.sum("be_tree.output.lost.messages", tags([:output], description: "messages that a sink refused")),
      module.sum("be_tree.output.dropped.messages", tags([:output], description: "messages dropped at limits"))
    ]
  end

  defp tags(more, options), do: [tags: [:server | more], tag_values: &__MODULE__.tag_values/1] ++ options

  # The tags that are names.
  @names [:server, :output, :pubsub, :tenants]

  @doc "Returns the tags: names as text, and an empty name of a server for other targets."
  @spec tag_values(map) :: map
  def tag_values(metadata) do
    for name <- @names, is_map_key(metadata, name), reduce: Map.put_new(metadata, :server, "") do
      tags -> Map.update!(tags, name, &text/1)
    end
  end

  # A target that is no server.
  defp text(nil), do: ""
  defp text(name), do: Describe.value(name)
end

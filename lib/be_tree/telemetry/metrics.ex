defmodule BeTree.Telemetry.Metrics do
  @moduledoc false
  # Metrics of the library's events. `module` is Telemetry.Metrics, which may be absent when this is compiled.

  alias BeTree.Input.Describe

  @milliseconds {:native, :millisecond}

  # Upper bounds of the buckets of distributions, in the units of their metrics.
  @buckets %{
    duration: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000],
    lateness: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000],
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

  # A dashboard shows the summary. Reporters of Prometheus drop summaries and take the distribution.
  defp spread(module, name, tags) do
    measurement = name |> String.split(".") |> List.last() |> String.to_existing_atom()

    [
      module.summary(name, tags),
      module.distribution(name, tags ++ [reporter_options: [buckets: @buckets[measurement]]])
    ]
  end

  defp searches(module) do
    [
      module.counter("be_tree.search.stop.duration", tags([:result], description: "searches")),
      spread(module, "be_tree.search.stop.duration", tags([], unit: @milliseconds)),
      spread(module, "be_tree.search.stop.fuel", tags([], [])),
      spread(module, "be_tree.search.stop.matches", tags([], [])),
      module.sum("be_tree.search.stop.mismatches", tags([], description: "values that do not fit")),
      module.counter("be_tree.search.exception.duration", tags([], description: "searches that raised")),
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
      module.counter("be_tree.change.stop.duration", tags([:operation, :result], description: "changes")),
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
      module.last_value("be_tree.follower.change.version", tags([], [])),
      module.sum("be_tree.follower.base.bytes", tags([], unit: :byte)),
      module.counter("be_tree.follower.lost.version", tags([], description: "connections that a follower lost")),
      spread(module, "be_tree.module.compile.duration", tags([:source], unit: @milliseconds)),
      module.sum("be_tree.rules.dropped.notices", tags([], description: "notices that were not sent"))
    ]
  end

  defp rules(module) do
    [
      module.counter("be_tree.rules.stop.duration", tags([:operation, :result], description: "calls of rules")),
      spread(module, "be_tree.rules.stop.duration", tags([:operation], unit: @milliseconds)),
      spread(module, "be_tree.rules.stop.fuel", tags([:operation], [])),
      module.sum("be_tree.rules.stop.firings", tags([], description: "rules that fired")),
      module.sum("be_tree.rules.stop.facts", tags([], description: "facts that were inserted")),
      module.sum("be_tree.rules.stop.notices", tags([], [])),
      module.sum("be_tree.rules.stop.late", tags([], description: "facts from before the watermark"))
    ]
  end

  # Of the event that BeTree.Server.measure/1 emits.
  defp gauges(module) do
    [
      module.last_value("be_tree.server.measure.expressions", tags([], description: "subscriptions of a server")),
      module.last_value("be_tree.server.measure.memory", tags([], unit: :byte, description: "the base")),
      module.last_value(
        "be_tree.server.measure.memory_bytes",
        tags([], unit: :byte, description: "the changeable tree")
      ),
      module.last_value(
        "be_tree.server.measure.replica_bytes",
        tags([], unit: :byte, description: "memory of replicas")
      ),
      module.last_value("be_tree.server.measure.replicas", tags([], [])),
      module.last_value("be_tree.server.measure.version", tags([], [])),
      module.last_value("be_tree.server.measure.log", tags([], description: "changes since the base")),
      module.last_value("be_tree.server.measure.lag", tags([], description: "changes that a free replica lacks")),
      module.last_value("be_tree.server.measure.unwritten", tags([], description: "changes that the disk lacks"))
    ]
  end

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
      module.counter("be_tree.tenants.evict.bytes", tags([:tenants], description: "tenants that left memory")),
      module.counter("be_tree.tenants.quota.left", tags([:tenants, :threshold], description: "warnings of quotas")),
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

  @doc "Returns the tags: the name of a server as text, none for other targets."
  @spec tag_values(map) :: map
  def tag_values(metadata) do
    name = Map.get(metadata, :server)
    Map.put(metadata, :server, if(name == nil, do: "", else: Describe.value(name)))
  end
end

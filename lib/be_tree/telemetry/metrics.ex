defmodule BeTree.Telemetry.Metrics do
  @moduledoc false
  # Metrics of the library's events. `module` is Telemetry.Metrics, which may be absent when this is compiled.

  alias BeTree.Input.Describe

  @milliseconds {:native, :millisecond}

  @doc "Returns the metrics, built by `module`."
  @spec all(module) :: [struct]
  def all(module) do
    searches(module) ++ changes(module) ++ servers(module) ++ pubsubs(module) ++ tenants(module) ++ outputs(module)
  end

  defp searches(module) do
    [
      module.counter("be_tree.search.stop.duration", tags([:result], description: "searches")),
      module.summary("be_tree.search.stop.duration", tags([], unit: @milliseconds)),
      module.summary("be_tree.search.stop.fuel", tags([], [])),
      module.summary("be_tree.search.stop.matches", tags([], [])),
      module.sum("be_tree.search.stop.mismatches", tags([], description: "values that do not fit")),
      module.counter("be_tree.search.exception.duration", tags([], description: "searches that raised")),
      module.summary("be_tree.queue.stop.duration", tags([], unit: @milliseconds, description: "waits for a replica")),
      module.sum("be_tree.search_many.stop.events", tags([:result], [])),
      module.summary("be_tree.search_many.stop.duration", tags([], unit: @milliseconds)),
      module.sum("be_tree.stream.stop.events", tags([], [])),
      module.sum("be_tree.search_many.stop.mismatches", tags([], description: "values that do not fit")),
      module.sum("be_tree.stream.stop.errors", tags([], [])),
      module.sum("be_tree.stream.stop.mismatches", tags([], description: "values that do not fit"))
    ]
  end

  defp changes(module) do
    [
      module.counter("be_tree.change.stop.duration", tags([:operation, :result], description: "changes")),
      module.summary("be_tree.change.stop.duration", tags([:operation], unit: @milliseconds)),
      module.sum("be_tree.change.stop.put", tags([], description: "subscriptions inserted or replaced")),
      module.sum("be_tree.change.stop.deleted", tags([], description: "subscriptions deleted")),
      module.summary("be_tree.journal.stop.duration", tags([], unit: @milliseconds)),
      module.sum("be_tree.journal.stop.bytes", tags([:result], unit: :byte))
    ]
  end

  defp servers(module) do
    [
      module.summary("be_tree.base.stop.duration", tags([:operation, :result], unit: @milliseconds)),
      module.last_value("be_tree.replica.lag.lag", tags([], description: "changes that a free replica lacks")),
      module.last_value("be_tree.follower.change.version", tags([], [])),
      module.sum("be_tree.follower.base.bytes", tags([], unit: :byte)),
      module.counter("be_tree.follower.lost.version", tags([], description: "connections that a follower lost")),
      module.summary("be_tree.module.compile.duration", tags([:source], unit: @milliseconds)),
      module.sum("be_tree.rules.dropped.notices", tags([], description: "notices that were not sent"))
    ]
  end

  defp pubsubs(module) do
    [
      module.sum("be_tree.pub_sub.publish.events", tags([:pubsub], [])),
      module.summary("be_tree.pub_sub.publish.duration", tags([:pubsub], unit: @milliseconds)),
      module.sum("be_tree.pub_sub.publish.delivered", tags([:pubsub], description: "messages to subscribers")),
      module.sum("be_tree.pub_sub.publish.dropped", tags([:pubsub], description: "messages dropped at limits")),
      module.sum("be_tree.pub_sub.publish.unsent", tags([:pubsub], description: "events not sent to other nodes"))
    ]
  end

  defp tenants(module) do
    [
      module.sum("be_tree.tenants.match.events", tags([:tenants], [])),
      module.summary("be_tree.tenants.match.duration", tags([:tenants], unit: @milliseconds)),
      module.sum("be_tree.tenants.match.fuel", tags([:tenants], [])),
      module.sum("be_tree.tenants.match.skipped", tags([:tenants], description: "events skipped for quotas")),
      module.summary("be_tree.tenants.load.duration", tags([:tenants], unit: @milliseconds)),
      module.counter("be_tree.tenants.evict.bytes", tags([:tenants], description: "tenants that left memory")),
      module.counter("be_tree.tenants.quota.left", tags([:tenants, :threshold], description: "warnings of quotas")),
      module.summary("be_tree.tenants.restore.duration", tags([:tenants], unit: @milliseconds)),
      module.summary("be_tree.tenants.move.duration", tags([:tenants], unit: @milliseconds)),
      module.sum("be_tree.tenants.rebuild.lost", tags([:tenants], description: "tenants of shards that trapped"))
    ]
  end

  defp outputs(module) do
    [
      module.sum("be_tree.output.write.messages", tags([:output], description: "messages delivered by outputs")),
      module.summary("be_tree.output.write.duration", tags([:output], unit: @milliseconds)),
      module.summary("be_tree.output.write.lateness", tags([:output], unit: {:microsecond, :millisecond})),
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

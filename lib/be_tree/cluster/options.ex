defmodule BeTree.Cluster.Options do
  @moduledoc false
  # The options of a cluster's functions. They are those of a single index, but for the timeout, which holds for each shard.

  alias BeTree.Input.Options.Common

  # In milliseconds. The insertion of a million subscriptions takes half a minute.
  @search_timeout 5_000
  @change_timeout 300_000

  @change [
    timeout: [
      type: :timeout,
      default: @change_timeout,
      doc:
        "milliseconds that each shard may take. The call then waits as long again for the reply of another node. A change " <>
          "whose call passed its timeout may still be made"
    ]
  ]
  @insert Common.take([:constants]) ++ @change
  @insert_all [
    timeout:
      Keyword.put(
        @change[:timeout],
        :doc,
        "milliseconds that each shard may take. The call waits twice as long for shards of other nodes, and up to as long again for " <>
          "the confirmation of all shards. A part that is inserted later is deleted again"
      )
  ]

  # The ids of all shards are merged into one list, so each shard returns a list.
  @search Common.take([:fuel, :slice, :ids, :strict, :on_mismatch]) ++
            [
              timeout: [
                type: :timeout,
                default: @search_timeout,
                doc:
                  "milliseconds that the search of each shard may take. The call then waits as long again for the " <>
                    "reply, so it gives up a vanished node after twice the timeout"
              ],
              as: [type: {:one_of, [:list]}, default: :list, doc: "the form of the ids, always a list"]
            ]

  @search_with_stats @search ++ Common.take([:stats])

  @wait Common.timeout(
          "milliseconds that each shard may take. The call then waits as long again for the reply of another node"
        )

  @explain @wait ++ Common.take([:on_mismatch])

  @read [timeout: Keyword.put(@wait[:timeout], :default, @search_timeout)]

  def read, do: @read
  def change, do: @change
  def insert, do: @insert
  def insert_all, do: @insert_all
  def search, do: @search
  def explain, do: @explain
  def search_with_stats, do: @search_with_stats
  def wait, do: @wait
end

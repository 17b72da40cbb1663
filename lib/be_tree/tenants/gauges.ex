defmodule BeTree.Tenants.Gauges do
  @moduledoc false
  # The measurements of the event [:be_tree, :tenants, :measure] (BeTree.Telemetry).

  alias BeTree.Error
  alias BeTree.Tenants.{Directory, Shard, Store}

  @doc "Returns the measurements of tenants, from their tables and counters. The store is not asked: it may wait for its disk."
  @spec read(atom) :: {:ok, %{atom => number}} | {:error, Error.t()}
  def read(name) do
    with {:ok, directory} <- Directory.fetch(name) do
      {hot, bytes} = Directory.sizes(directory)
      shards = :ets.tab2list(directory.shards)

      measurements = %{
        hot: hot,
        bytes: bytes,
        shards: length(shards),
        shard_bytes: shards |> Enum.map(fn {_id, shard, _used} -> Shard.memory(shard) end) |> Enum.sum(),
        round: Directory.round_ms(directory)
      }

      {:ok, Map.merge(measurements, Store.journal(directory.store))}
    end
  rescue
    # The supervisor ended, and its tables with it.
    ArgumentError -> Directory.missing(name)
  end
end

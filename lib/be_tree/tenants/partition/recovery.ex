defmodule BeTree.Tenants.Partition.Recovery do
  @moduledoc false
  # The start of a partition after one that was killed: the tables of the supervisor have its copies, and its operations that were under way.

  alias BeTree.Error
  alias BeTree.Tenants.{Body, Copy, Directory, Quota, Shard, Shards}
  alias BeTree.Tenants.Partition.State

  @doc "Takes the copies over, and settles the operations."
  @spec run(State.t()) :: State.t()
  def run(state), do: state |> find_copies() |> settle_intents()

  # A tenant without a readable copy is loaded when it is used.
  defp find_copies(%{directory: directory, partition: partition} = state) do
    rows =
      for {{tenant}, shard, id, number, _day, _counters, slots, bucket, _clock} <- :ets.tab2list(directory.name),
          Directory.partition(directory, tenant) == partition,
          do: %Copy{tenant: tenant, shard: shard, shard_id: id, number: number, slots: slots, bucket: bucket}

    rows
    |> Enum.reduce(state, fn %{tenant: tenant} = copy, state ->
      with {:ok, body} <- Copy.read(directory, tenant),
           {:ok, copy} <- copy |> Copy.with_settings(body) |> Copy.measure() do
        State.arrived(%{state | shards: Shards.found(state.shards, copy.shard_id)}, copy)
      else
        {:error, _error} ->
          Copy.hide(copy, directory)
          state
      end
    end)
    |> State.put_sizes()
  end

  defp settle_intents(%{directory: directory, partition: partition} = state) do
    intents =
      for {{_tenant, {^partition, _shard}, _number}, _intent} = entry <- :ets.tab2list(directory.intents), do: entry

    Enum.reduce(intents, state, &settle_intent/2)
  end

  defp settle_intent({{tenant, id, number} = key, intent}, %{directory: directory} = state) do
    state =
      case {intent, Shards.shard(directory, id)} do
        {_intent, nil} -> state
        {:load, shard} -> discard(state, shard, number)
        {_doubtful, shard} -> keep_statistics(state, tenant, id, shard, number)
      end

    :ets.delete(directory.intents, key)
    state
  end

  defp discard(state, shard, number) do
    # The number has no tenant if the process ended before the first call.
    _ = Shard.drop(shard, number)
    state
  end

  defp keep_statistics(%{directory: directory, copies: copies} = state, tenant, id, shard, number) do
    known = match?(%{number: ^number}, Map.get(copies, tenant))
    unknown = %Copy{tenant: tenant, shard: shard, shard_id: id, number: number, slots: Quota.new_slots()}
    copy = if known, do: copies[tenant], else: unknown
    if known, do: Copy.hide(copy, directory)

    outcome =
      with {:ok, %Body{} = body} <- Copy.read(directory, tenant),
           :ok <- Shard.freeze(shard, number),
           {:ok, _copy} <- copy |> Copy.with_settings(body) |> Copy.save(directory),
           do: :ok

    _ = Shard.drop(shard, number)
    state = if known, do: State.left(state, copy), else: state

    case outcome do
      :ok ->
        state

      # The process before created the tenant, and ended before the store had it.
      {:error, %Error{kind: :not_found}} ->
        Directory.put_usage(directory, tenant, [])
        state

      {:error, error} ->
        State.warn(state, error)
    end
  end
end

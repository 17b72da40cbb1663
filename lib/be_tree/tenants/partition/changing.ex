defmodule BeTree.Tenants.Partition.Changing do
  @moduledoc false
  # Changes of tenants: made in the shard, which accepts or refuses them, then appended to the store, and acknowledged when the store has
  # them. If the store refuses a change, the copy leaves, and the next use loads the tenant as the store has it.

  alias BeTree.Error
  alias BeTree.Tenants.{Body, Clock, Copy, Day, Directory, Quota, Shard, Store, Usage}
  alias BeTree.Tenants.Partition.{Leaving, Loading, State}

  @doc "Makes a change, and creates the tenant if it does not exist. Replies to `from`."
  @spec change(State.t(), term, Body.change(), GenServer.from()) :: State.t()
  def change(state, tenant, change, from) do
    case Loading.ensure(state, tenant) do
      {:ok, copy, state} ->
        change_copy(state, copy, change, from, false)

      {:error, %Error{kind: :not_found}, state} ->
        create(state, tenant, change, from)

      {:error, error, state} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  defp create(state, tenant, change, from) do
    change = Map.put(change, :origin, Day.new_origin())
    body = struct!(Body, Map.take(change, [:stats, :quota, :instance, :origin]))

    case Loading.enter(state, tenant, body, :change) do
      {:ok, copy, state} ->
        # Shown when the store has it.
        change_copy(State.arrived(state, copy), copy, change, from, true)

      {:error, error, state} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  defp change_copy(%{directory: directory} = state, copy, change, from, new?) do
    now = Clock.now(directory.options.clock)

    # Settings and deletions are for the operator, who may raise the quota.
    if change.put == [] or Quota.left(copy.bucket, copy.slots, now) > 0 do
      make(state, copy, change, from, new?)
    else
      GenServer.reply(from, {:error, Quota.refusal(copy.bucket, copy.slots, now)})
      state
    end
  end

  defp make(%{directory: directory} = state, copy, change, from, new?) do
    changed = struct!(copy, Map.take(change, [:stats, :quota]))
    clock = directory.options.clock
    intent = {copy.tenant, copy.shard_id, copy.number}
    :ets.insert(directory.intents, {intent, :change})
    {day, counters} = present(copy, directory, new?)

    outcome =
      Shard.change(copy.shard, copy.number, day, Copy.stats(changed, directory), change.delete, Copy.wires(change.put))

    case outcome do
      {:ok, %{fuel: fuel} = sizes} ->
        Usage.add(counters, :change, fuel)
        Quota.charge(copy.bucket, copy.slots, fuel, Clock.now(clock))
        changed = %{changed | bytes: sizes.index_bytes + sizes.statistics_bytes}
        within_memory(state, copy, changed, change, from, new?)

      {:error, error} ->
        :ets.delete(directory.intents, intent)
        GenServer.reply(from, {:error, error})
        state |> Loading.trapped(error, copy.shard_id) |> uncreate(copy, new?)
    end
  end

  defp present(copy, directory, true) do
    [{day, counters, _stored} | _earlier] = Directory.usage(directory, copy.tenant)
    {day, counters}
  end

  defp present(copy, directory, false) do
    today = Clock.day(directory.options.clock)

    {_key, _shard, _id, _number, day, counters, _slots, _bucket, _clock} = Loading.row_of(copy, today, directory)
    {day, counters}
  end

  # Deletions may leave a tenant above its memory.
  defp within_memory(%{directory: directory} = state, copy, changed, change, from, new?) do
    case change.put != [] && Copy.check_memory(changed, directory) do
      {:error, error} ->
        GenServer.reply(from, {:error, error})
        undo(State.put_copy(state, changed), copy.tenant, new?)

      _fits ->
        append(State.put_copy(state, changed), changed, change, from, new?)
    end
  end

  defp append(%{directory: directory} = state, copy, change, from, new?) do
    reference = make_ref()
    :ok = Store.append(directory.store, copy.tenant, change, {self(), reference})

    State.wait(state, copy.tenant, reference, fn
      :ok, state ->
        state = changed(State.written(state), copy, change, new?)
        :ets.delete(directory.intents, {copy.tenant, copy.shard_id, copy.number})
        counts = %{put: length(change.put), deleted: length(change.delete), bytes: copy.bytes}
        GenServer.reply(from, {:ok, counts})
        Leaving.shed(state, copy.tenant)

      {:error, error}, state ->
        GenServer.reply(from, {:error, error})
        # This process forgets the change.
        _ = Store.resume(directory.store, copy.tenant)
        undo(State.warn(state, error), copy.tenant, new?)
    end)
  end

  # The store has the change. The tenant may have left memory meanwhile, with its shard.
  defp changed(%{directory: directory, copies: copies} = state, %{tenant: tenant}, change, new?) do
    case copies do
      %{^tenant => copy} ->
        copy = %{copy | tail: copy.tail + 1}
        if new?, do: Copy.show(copy, directory)
        copy = if Map.has_key?(change, :quota) and not new?, do: renew_bucket(copy, directory), else: copy
        replace(State.put_copy(state, copy), copy, change)

      _lost ->
        state
    end
  end

  # The next match loads the tenant into an instance of the other kind.
  defp replace(state, %{place: place} = copy, %{instance: instance}) when instance != place,
    do: Leaving.leave(state, copy, fn _reply, state -> state end)

  defp replace(state, _copy, _change), do: state

  defp renew_bucket(copy, directory) do
    debt = Quota.debt(copy.bucket, copy.slots, Clock.now(directory.options.clock))
    # Callers that hold the row before charge the atomics before.
    copy = Copy.put_bucket(%{copy | slots: Quota.new_slots()}, directory, debt)
    Quota.used(copy.slots, Clock.now(directory.options.clock))
    Copy.show(copy, directory)
    copy
  end

  # Removes the copy of a tenant, which has a change that the store lacks. Its statistics go to the store.
  defp undo(%{copies: copies} = state, tenant, new?) do
    case copies do
      %{^tenant => copy} when new? -> Leaving.remove(state, copy)
      %{^tenant => copy} -> Leaving.leave(state, copy, fn _reply, state -> state end)
      _lost -> state
    end
  end

  defp uncreate(state, copy, true),
    do: if(Map.has_key?(state.copies, copy.tenant), do: Leaving.remove(state, copy), else: state)

  defp uncreate(state, _copy, false), do: state
end

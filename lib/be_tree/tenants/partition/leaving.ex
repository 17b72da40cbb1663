defmodule BeTree.Tenants.Partition.Leaving do
  @moduledoc false
  # How tenants of a partition leave memory: when they are asked to, and when too much is in memory.

  alias BeTree.Error
  alias BeTree.Processes.Log
  alias BeTree.Tenants.{Copy, Directory, Shard, Victims}
  alias BeTree.Tenants.Partition.{Loading, State}

  # Tenants that leave at the same time, and share syncs of the store.
  @max_leaving 64

  @doc """
  Brings the statistics of a copy to the store, and then removes it from its shard. Other operations of the tenant wait, and `done` gets
  the outcome. If the store fails, the tenant goes on in another place with all that it counted.
  """
  @spec leave(State.t(), Copy.t(), State.finish()) :: State.t()
  def leave(%{directory: directory} = state, copy, done) do
    started = System.monotonic_time()
    :ets.insert(directory.intents, {{copy.tenant, copy.shard_id, copy.number}, :leave})
    Copy.hide(copy, directory)
    state = State.leaves(state, copy)

    with :ok <- Shard.freeze(copy.shard, copy.number),
         :ok <- Copy.settle(copy, directory),
         {:changed, true} <- {:changed, Copy.changed?(copy, directory)},
         {:ok, fields} <- Copy.statistics(copy, directory) do
      reference = make_ref()
      :ok = Copy.write(copy, directory, fields, {self(), reference})
      State.wait(state, copy.tenant, reference, &depart(&1, &2, copy, started, done))
    else
      {:changed, false} -> depart(:ok, state, copy, started, done)
      {:error, error} -> depart({:error, error}, state, copy, started, done)
    end
  end

  defp depart(reply, %{directory: directory, copies: copies} = state, %{number: number} = copy, started, done) do
    state =
      case {reply, copies[copy.tenant]} do
        {:ok, %{number: ^number}} ->
          _ = Shard.drop(copy.shard, number)
          Directory.count(directory, :evictions)
          measurements = %{duration: System.monotonic_time() - started, bytes: copy.bytes}
          State.emit(state, :evict, measurements, %{tenant: copy.tenant})
          State.left(state, copy)

        {{:error, %Error{kind: :trap}}, _copy} ->
          Loading.lose(state, copy.shard_id)

        {{:error, error}, %{number: ^number}} ->
          resettle(State.warn(state, error), copy)

        {_reply, _lost} ->
          state
      end

    :ets.delete(directory.intents, {copy.tenant, copy.shard_id, copy.number})
    done.(reply, state)
  end

  # The store cannot take the statistics of a frozen copy: they go with the tenant to another number.
  defp resettle(%{directory: directory} = state, copy) do
    with {:ok, fields} <- Copy.statistics(copy, directory),
         {:ok, body} <- Copy.read(directory, copy.tenant),
         {:ok, moved, state} <- Loading.enter(state, copy.tenant, struct!(body, fields)) do
      _ = Shard.drop(copy.shard, copy.number)
      state = State.left(state, copy)
      Copy.show(moved, directory)
      State.arrived(state, %{moved | tail: copy.tail})
    else
      {:error, error} -> lost_statistics(state, copy, error)
      {:error, error, state} -> lost_statistics(state, copy, error)
    end
  end

  defp lost_statistics(state, copy, error) do
    text = "the statistics of a tenant since they were last written are lost: #{Exception.message(error)}"
    Log.error(text)
    _ = Shard.drop(copy.shard, copy.number)
    State.left(state, copy)
  end

  @doc "Removes a copy that the store does not know, or no longer, with its bill."
  @spec remove(State.t(), Copy.t()) :: State.t()
  def remove(%{directory: directory} = state, copy) do
    Directory.put_usage(directory, copy.tenant, [])
    discard(state, copy)
  end

  @doc "Removes a copy that has nothing which the store and the bill lack."
  @spec discard(State.t(), Copy.t()) :: State.t()
  def discard(%{directory: directory} = state, copy) do
    Copy.hide(copy, directory)
    _ = Shard.drop(copy.shard, copy.number)
    :ets.delete(directory.intents, {copy.tenant, copy.shard_id, copy.number})
    State.left(state, copy)
  end

  ## Evictions

  @doc """
  Evicts the least recently used tenants while too much is in memory, except the one that is just used. If this partition has no other,
  it asks the next one.
  """
  @spec shed(State.t(), except :: term) :: State.t()
  def shed(%{directory: directory, stuck: false, leaving: leaving} = state, except)
      when map_size(leaving) < @max_leaving do
    if excess?(directory, {0, 0}) do
      case victim(state, except) do
        {nil, state} -> ask_next(state)
        {copy, state} -> state |> evict(copy) |> shed(except)
      end
    else
      state
    end
  end

  # The next eviction begins when the store replies to an earlier one, or in the next round.
  def shed(state, _except), do: state

  # Several partitions see the same excess. Each takes the copy from those that stay before it looks again, so of two partitions the later
  # one sees that both did, and keeps its copy. Both may be later than the other's first look: then both try again.
  defp evict(%{directory: directory} = state, copy) do
    state = State.leaves(state, copy)

    if excess?(directory, {1, state.leaving[copy.tenant]}) do
      leave(state, copy, fn _reply, state -> state end)
    else
      :erlang.yield()
      State.stays(state, copy.tenant)
    end
  end

  # Returns whether too much would stay in memory with these tenants more.
  defp excess?(%{options: %{hot: max_hot, memory: max_bytes}} = directory, {more, more_bytes}) do
    {staying, bytes} = Directory.staying(directory)
    staying + more > max_hot or bytes + more_bytes > max_bytes
  end

  # One tenant alone stays.
  defp ask_next(%{directory: directory, partition: partition} = state) do
    with {hot, _bytes} when hot > 1 <- Directory.staying(directory),
         other when other != nil <- Directory.largest_other(directory, partition),
         pid when is_pid(pid) <- Directory.partition_process(directory, other),
         do: GenServer.cast(pid, :shed)

    state
  end

  defp victim(%{victims: victims, copies: copies, busy: busy} = state, except) do
    {copy, victims} = Victims.next(victims, copies, &(&1 != except and not is_map_key(busy, &1)))
    {copy, %{state | victims: victims}}
  end
end

defmodule BeTree.Tenants.Partition.Loading do
  @moduledoc false
  # How tenants of a partition enter shards, and how shards are lost.

  alias BeTree.Error
  alias BeTree.Tenants.{Body, Clock, Copy, Directory, Shards}
  alias BeTree.Tenants.Partition.State

  @doc "Returns the copy of a tenant, and loads it if it is not in memory."
  @spec ensure(State.t(), term) :: {:ok, Copy.t(), State.t()} | {:error, Error.t(), State.t()}
  def ensure(%{copies: copies} = state, tenant) do
    case copies do
      %{^tenant => copy} -> {:ok, copy, state}
      _cold -> load_cold(state, tenant)
    end
  end

  defp load_cold(%{directory: directory} = state, tenant) do
    started = System.monotonic_time()

    with {:ok, body} <- Copy.read(directory, tenant),
         {:ok, copy, state} <- enter(state, tenant, body) do
      Copy.show(copy, directory)
      state = State.arrived(state, copy)
      Directory.count(directory, :loads)
      State.emit(state, :load, %{duration: System.monotonic_time() - started, bytes: copy.bytes}, %{tenant: tenant})
      {:ok, copy, state}
    else
      {:error, error} -> {:error, error, state}
      {:error, error, state} -> {:error, error, state}
    end
  end

  @doc "Brings a tenant into a shard. The caller makes the row, and counts the copy by `State.arrived/2`."
  @spec enter(State.t(), term, Body.t(), :load | :change) ::
          {:ok, Copy.t(), State.t()} | {:error, Error.t(), State.t()}
  def enter(%{directory: directory, shards: shards} = state, tenant, body, kind \\ :load) do
    case Shards.place(shards, Body.place(body)) do
      {:ok, {id, _shard, number} = place, shards} ->
        intent = {tenant, id, number}
        :ets.insert(directory.intents, {intent, :load})

        case Copy.enter(directory, tenant, body, place, kind) do
          {:ok, copy} ->
            :ets.delete(directory.intents, intent)
            {:ok, copy, %{state | shards: shards}}

          {:error, error} ->
            :ets.delete(directory.intents, intent)
            {:error, error, trapped(%{state | shards: Shards.release(shards, id)}, error, id)}
        end

      {:error, error} ->
        {:error, error, state}
    end
  end

  @doc "Returns the row of a copy. The counters of the row that is there may be those of an earlier day."
  @spec row_of(Copy.t(), Clock.day(), Directory.t()) :: Directory.row()
  def row_of(copy, day, directory) do
    case Directory.row(directory.name, copy.tenant) do
      {_key, _shard, _id, _number, present, _counters, _slots, _bucket, _clock} = row when present >= day -> row
      _earlier -> Copy.show(copy, directory)
    end
  end

  ## Shards that trapped

  @doc "Forgets the shard after an error that says that it trapped."
  @spec trapped(State.t(), Error.t(), Shards.id()) :: State.t()
  def trapped(state, %Error{kind: :trap}, id), do: lose(state, id)
  def trapped(state, _error, _id), do: state

  @doc "Forgets a shard with its copies."
  @spec lose(State.t(), Shards.id()) :: State.t()
  def lose(%{directory: directory} = state, id) do
    if Shards.shard(directory, id) do
      lost = for {_tenant, %{shard_id: ^id} = copy} <- state.copies, do: copy
      state = %{state | shards: Shards.forget(state.shards, id)}
      Directory.count(directory, :rebuilds)
      State.emit(state, :rebuild, %{lost: length(lost)}, %{})

      Enum.reduce(lost, state, fn copy, state ->
        Copy.hide(copy, directory)
        State.left(state, copy)
      end)
    else
      state
    end
  end
end

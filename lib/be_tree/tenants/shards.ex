defmodule BeTree.Tenants.Shards do
  @moduledoc false
  # The shards of a partition, and the places of tenants in them.
  #
  # A shard gives each number to one tenant in its life. A caller that read the row of a tenant before the tenant left the shard finds
  # the number without a tenant, never with another one, and looks for the tenant again. A shard whose numbers are used up takes no
  # more tenants, and is forgotten with the last one. A tenant's own instance is a shard whose other numbers count as used.

  alias BeTree.Error
  alias BeTree.Tenants.{Directory, Shard}

  # Numbers of a shard.
  @max_numbers 65_536
  # Tenants of a shard. More shards let more processes match at once; more tenants share the memory of an instance.
  @max_tenants 256

  @enforce_keys [:directory, :partition]
  defstruct @enforce_keys ++ [live: %{}, retired: %{}]

  @type id :: {partition :: non_neg_integer, number :: pos_integer}

  @typedoc "`:live` - the tenants of each shard; `:retired` - those of the shards whose numbers are used up."
  @type t :: %__MODULE__{
          directory: Directory.t(),
          partition: non_neg_integer,
          live: %{id => non_neg_integer},
          retired: %{id => pos_integer}
        }

  @doc "Returns the shards that the tables have, without tenants."
  @spec new(Directory.t(), non_neg_integer) :: t
  def new(directory, partition) do
    live = for {{^partition, _number} = id, _shard, _next} <- :ets.tab2list(directory.shards), into: %{}, do: {id, 0}
    %__MODULE__{directory: directory, partition: partition, live: live}
  end

  @doc "Counts a tenant that is in a shard already."
  @spec found(t, id) :: t
  def found(%__MODULE__{live: live} = shards, id), do: %{shards | live: Map.update(live, id, 1, &(&1 + 1))}

  @doc "Returns a shard with a number for one more tenant: one with room, a new one if there is none, or one for this tenant alone."
  @spec place(t, :shared | :own) :: {:ok, {id, Shard.t(), non_neg_integer}, t} | {:error, Error.t()}
  def place(%__MODULE__{directory: directory} = shards, :own) do
    with {:ok, id, shards} <- start(shards, @max_numbers),
         do: {:ok, {id, shard(directory, id), 0}, retire(shards, id, 1)}
  end

  def place(%__MODULE__{directory: directory, live: live} = shards, :shared) do
    case Enum.min_by(live, &elem(&1, 1), fn -> nil end) do
      {id, count} when count < @max_tenants ->
        case :ets.update_counter(directory.shards, id, {3, 1}) do
          next when next <= @max_numbers -> {:ok, {id, shard(directory, id), next - 1}, found(shards, id)}
          _used_up -> shards |> retire(id, count) |> place(:shared)
        end

      _none ->
        with {:ok, _id, shards} <- start(shards, 0), do: place(shards, :shared)
    end
  end

  defp retire(%{live: live, retired: retired} = shards, id, count),
    do: forget_empty(%{shards | live: Map.delete(live, id), retired: Map.put(retired, id, count)}, id)

  defp forget_empty(%{directory: directory, retired: retired} = shards, id) do
    if retired[id] == 0 do
      :ets.delete(directory.shards, id)
      %{shards | retired: Map.delete(retired, id)}
    else
      shards
    end
  end

  defp start(%{directory: directory, partition: partition, live: live} = shards, used) do
    with {:ok, shard} <- Shard.start(directory.guest, directory.options.schema, directory.options.memory_of_shard) do
      id = {partition, System.unique_integer([:positive])}
      :ets.insert(directory.shards, {id, shard, used})
      {:ok, id, %{shards | live: Map.put(live, id, 0)}}
    end
  end

  @doc "Returns a shard, or `nil` if it is gone."
  @spec shard(Directory.t(), id) :: Shard.t() | nil
  def shard(%Directory{shards: shards}, id) do
    case :ets.lookup(shards, id) do
      [{_id, shard, _next}] -> shard
      [] -> nil
    end
  end

  @doc "Frees the place of a tenant that left."
  @spec release(t, id) :: t
  def release(%__MODULE__{live: live} = shards, id) when is_map_key(live, id),
    do: %{shards | live: Map.update!(live, id, &(&1 - 1))}

  def release(%__MODULE__{retired: retired} = shards, id) when is_map_key(retired, id),
    do: forget_empty(%{shards | retired: Map.update!(retired, id, &(&1 - 1))}, id)

  def release(shards, _lost), do: shards

  @doc "Forgets a shard."
  @spec forget(t, id) :: t
  def forget(%__MODULE__{directory: directory, live: live, retired: retired} = shards, id) do
    :ets.delete(directory.shards, id)
    %{shards | live: Map.delete(live, id), retired: Map.delete(retired, id)}
  end
end

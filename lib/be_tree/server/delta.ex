defmodule BeTree.Server.Delta do
  @moduledoc false
  # The changes since a base: the subscriptions that were inserted and still exist, and the ids that were deleted. A small
  # tree follows the changes, and the inserted subscriptions are published as an index of their own. The deleted ids are
  # removed from the results of the base.

  alias BeTree.{Error, Index}
  alias BeTree.Engine.Subscription
  alias BeTree.Server.{Changes, Deleted, Table}

  # The least and the greatest number of changes after which the next base is built. Publishing an index of 10,000
  # ad-targeting expressions takes 5 ms.
  @few 1_000
  @many 10_000
  # One change per this many expressions of the base.
  @share 16
  # A delta has room for this multiple of the changes.
  @room 4

  @derive {Inspect, only: [:enough, :deleted_count]}
  @enforce_keys [:enough, :deleted_set, :schema, :options]
  defstruct [
    :enough,
    # The existing inserted subscriptions by id: {version, subscription}.
    inserted: %{},
    # The deletions as {id, version}, their number, and the same as a set for views.
    deleted: [],
    deleted_count: 0,
    deleted_set: nil,
    # The options and the content of the tree, and the ids that were changed since it was updated.
    schema: nil,
    options: nil,
    tree: nil,
    ids: MapSet.new(),
    pending: MapSet.new(),
    # The tree as it was last published.
    index: nil
  ]

  @type t :: %__MODULE__{}

  @doc "Returns an empty delta. `options` are those of `BeTree.new/2`."
  @spec new(Index.t(), keyword) :: t
  def new(%Index{guest: guest, schema: schema, info: %{expressions: expressions}}, options) do
    enough = expressions |> div(@share) |> max(@few) |> min(@many)
    set = Deleted.new(@room * enough)
    %__MODULE__{enough: enough, deleted_set: set, schema: schema, options: Keyword.put(options, :guest, guest)}
  end

  @doc "Returns the number of changes, without those that were undone."
  @spec size(t) :: non_neg_integer
  def size(delta), do: map_size(delta.inserted) + delta.deleted_count

  @doc "Returns whether the next base should be built."
  @spec large?(t) :: boolean
  def large?(delta), do: size(delta) > delta.enough

  @doc "Returns whether there are more changes than a delta may publish."
  @spec full?(t) :: boolean
  def full?(delta), do: size(delta) > @room * delta.enough

  @doc "Returns the number of unpublished changes."
  @spec pending(t) :: non_neg_integer
  def pending(delta), do: MapSet.size(delta.pending)

  @spec insert(t, [Subscription.wire()], Table.version()) :: t
  def insert(delta, wires, version) do
    Enum.reduce(wires, delta, fn {id, _text, _constants} = wire, delta ->
      %{delta | inserted: Map.put(delta.inserted, id, {version, wire}), pending: MapSet.put(delta.pending, id)}
    end)
  end

  @doc "Adds a deletion. The base need not have `id`: the set is only used for ids that the base has found."
  @spec delete(t, BeTree.id(), Table.version()) :: t
  def delete(%{deleted_count: count} = delta, id, version) do
    %{
      delta
      | inserted: Map.delete(delta.inserted, id),
        deleted: [{id, version} | delta.deleted],
        deleted_count: count + 1,
        deleted_set: if(full?(delta), do: delta.deleted_set, else: Deleted.put(delta.deleted_set, id, version)),
        pending: MapSet.put(delta.pending, id)
    }
  end

  @doc "Returns the changes after `version`."
  @spec since(t, Table.version() | -1) :: Changes.t()
  def since(delta, version) do
    %{
      deleted: for({_id, since} = deletion <- delta.deleted, since > version, do: deletion),
      inserted: for({_id, {since, _wire} = insertion} <- delta.inserted, since > version, do: insertion)
    }
  end

  @doc "Returns all changes."
  @spec changes(t) :: Changes.t()
  def changes(delta), do: since(delta, -1)

  @spec add(t, Changes.t()) :: t
  def add(delta, %{deleted: deleted, inserted: inserted}) do
    delta = Enum.reduce(deleted, delta, fn {id, version}, delta -> delete(delta, id, version) end)
    Enum.reduce(inserted, delta, fn {version, wire}, delta -> insert(delta, [wire], version) end)
  end

  @doc "Updates the tree: deletes the changed ids, and inserts those that exist."
  @spec update(t) :: {:ok, t} | {:error, Error.t()}
  def update(%{tree: nil, inserted: inserted} = delta) when inserted == %{}, do: {:ok, %{delta | pending: MapSet.new()}}

  def update(%{tree: nil} = delta) do
    with {:ok, tree} <- BeTree.new(delta.schema, delta.options),
         do: update(%{delta | tree: tree, ids: MapSet.new(), pending: MapSet.new(Map.keys(delta.inserted))})
  end

  def update(%{tree: tree, pending: pending} = delta) do
    stale = MapSet.intersection(delta.ids, pending)
    fresh = for id <- pending, {_version, wire} <- [delta.inserted[id]], do: wire

    with :ok <- Changes.delete_all(tree, stale),
         :ok <- Changes.insert_all(tree, fresh) do
      index = if fresh == [] and MapSet.size(stale) == 0, do: delta.index
      ids = delta.ids |> MapSet.difference(stale) |> MapSet.union(MapSet.new(fresh, &elem(&1, 0)))
      {:ok, %{delta | ids: ids, pending: MapSet.new(), index: index}}
    end
  end

  @doc "Updates and publishes the index. After an error the content of the tree is unknown."
  @spec publish(t, [Index.option()]) :: {:ok, t} | {:error, Error.t()}
  def publish(delta, options) do
    with {:ok, delta} <- update(delta), do: publish_tree(delta, options)
  end

  defp publish_tree(%{inserted: inserted} = delta, _options) when inserted == %{}, do: {:ok, %{delta | index: nil}}
  defp publish_tree(%{index: %Index{}} = delta, _options), do: {:ok, delta}

  defp publish_tree(%{tree: tree} = delta, options) do
    with {:ok, index} <- BeTree.publish(tree, options), do: {:ok, %{delta | index: index}}
  end

  @doc "Returns the set for views, or `nil` if nothing was deleted."
  @spec deleted_set(t) :: Deleted.t() | nil
  def deleted_set(%{deleted_count: 0}), do: nil
  def deleted_set(%{deleted_set: set}), do: set
end

defmodule BeTree.Server.Primary do
  @moduledoc false
  # The primary copy of a server's index: the tree in which the server's process makes each change first. The tree accepts or refuses
  # the change, and the replicas follow.
  #
  # The tree belongs to the process alone. A change that is cut off, or whose second half is refused, leaves a tree that must not be
  # used: the owner rebuilds it from the base and the log. A rebuilt tree may exceed the memory limit, because the same subscriptions
  # take different amounts of memory in another order. It then takes no insertions until enough subscriptions are deleted.

  alias BeTree.{Error, Index}
  alias BeTree.Input.Subscription
  alias BeTree.Server.{Changes, Table}
  alias BeTree.Target.Ids

  @enforce_keys [:tree, :count, :memory]
  defstruct @enforce_keys ++ [:unfit]

  @typedoc """
    * `:count` - the subscriptions in the tree;
    * `:memory` - the limit of the tree in bytes;
    * `:unfit` - the count at which the rebuilt tree last exceeded the limit, or `nil`.
  """
  @type t :: %__MODULE__{
          tree: BeTree.t(),
          count: non_neg_integer,
          memory: pos_integer,
          unfit: non_neg_integer | nil
        }

  @doc "Returns the primary copy with this tree."
  @spec new(BeTree.t(), pos_integer) :: {:ok, t} | {:error, Error.t()}
  def new(tree, memory) do
    with {:ok, %{expressions: count}} <- BeTree.info(tree),
         do: {:ok, %__MODULE__{tree: tree, count: count, memory: memory, unfit: if(tree.memory > memory, do: count)}}
  end

  @doc "Makes the tree anew, from a base and the rows since. All of them were accepted, so the tree may exceed the memory limit."
  @spec rebuild(t, Index.t(), [Table.row()]) :: t
  def rebuild(%__MODULE__{memory: memory}, index, rows) do
    {:ok, tree} = Changes.rebuild(index, rows, memory)
    {:ok, primary} = new(tree, memory)
    primary
  end

  @doc "Returns whether the tree has the subscriptions that it should have: after an interrupted change it returns an error."
  @spec sound?(t) :: boolean
  def sound?(%__MODULE__{tree: tree, count: count}), do: match?({:ok, %{expressions: ^count}}, BeTree.info(tree))

  ## Changes

  @doc "Inserts all subscriptions, or none."
  @spec insert(t, [Subscription.wire()]) :: {:ok, t} | {:error, Error.t()}
  def insert(%__MODULE__{tree: tree} = primary, wires) do
    with {:ok, count} <- Changes.insert(tree, wires), do: {:ok, %{primary | count: primary.count + count}}
  end

  @doc "Deletes a subscription."
  @spec delete(t, Ids.key()) :: {:ok, t} | {:error, Error.t()}
  def delete(%__MODULE__{tree: tree} = primary, key) do
    with :ok <- Changes.delete(tree, key), do: {:ok, %{primary | count: primary.count - 1}}
  end

  @doc """
  Deletes the subscriptions of `keys`, and those of `replaced` that exist. Then inserts `wires`. Returns the deleted keys. After an error
  the tree is `:unchanged`, or `:torn` and must be rebuilt.
  """
  @spec change(t, [Ids.key()], replaced :: [Ids.key()], [Subscription.wire()]) ::
          {:ok, [Ids.key()], t} | {:error, Error.t(), :unchanged | :torn}
  def change(%__MODULE__{tree: tree, count: count} = primary, keys, replaced, wires) do
    with {:ok, deleted} <- delete_all(tree, keys, replaced, []) do
      case Changes.insert(tree, wires) do
        {:ok, inserted} -> {:ok, deleted, %{primary | count: count + inserted - length(deleted)}}
        {:error, error} -> {:error, error, left(deleted)}
      end
    end
  end

  # Deletes `keys`, and those of `replaced` that are there.
  defp delete_all(tree, [key | rest], replaced, deleted) do
    case Changes.delete(tree, key) do
      :ok -> delete_all(tree, rest, replaced, [key | deleted])
      {:error, error} -> {:error, error, left(deleted)}
    end
  end

  defp delete_all(_tree, [], [], deleted), do: {:ok, Enum.reverse(deleted)}

  defp delete_all(tree, [], [key | rest], deleted) do
    case Changes.delete(tree, key) do
      :ok -> delete_all(tree, [], rest, [key | deleted])
      {:error, %Error{kind: :not_found}} -> delete_all(tree, [], rest, deleted)
      {:error, error} -> {:error, error, left(deleted)}
    end
  end

  defp left([]), do: :unchanged
  defp left(_deleted), do: :torn

  ## Memory

  @doc "Returns an error if the tree takes no insertions because it exceeds the memory limit."
  @spec check_memory(t) :: :ok | {:error, Error.t()}
  def check_memory(%__MODULE__{unfit: nil}), do: :ok

  def check_memory(%__MODULE__{memory: memory}) do
    message =
      "the subscriptions take more than the server's memory limit of #{memory} bytes since its process was started " <>
        "again; delete some, or start the server with a higher limit"

    {:error, %Error{kind: :out_of_memory, message: message}}
  end

  @doc "Returns whether a tree that exceeded the limit has fewer subscriptions since, so that it may fit."
  @spec may_fit?(t) :: boolean
  def may_fit?(%__MODULE__{unfit: unfit, count: count}), do: is_integer(unfit) and count < unfit

  @doc "Returns whether the tree is within the limit as it is. A tree that was emptied is small again."
  @spec fits?(t) :: boolean
  def fits?(%__MODULE__{memory: memory} = primary), do: used(primary) <= memory

  @doc "Makes the tree anew within the limit, if it fits."
  @spec fit(t, Index.t(), [Table.row()]) :: t
  def fit(%__MODULE__{memory: memory, count: count} = primary, index, rows) do
    case Changes.tree(index, rows, memory) do
      {:ok, tree} -> %{primary | tree: tree, unfit: nil}
      {:error, _error} -> %{primary | unfit: count}
    end
  end

  @doc """
  Returns whether the tree was emptied, has moved to a new instance (BeTree.Call.Deletion), and takes much less memory than the
  base.
  """
  @spec emptied?(t, Index.t()) :: boolean
  def emptied?(%__MODULE__{count: 0} = primary, index), do: 2 * used(primary) < index.info.memory_bytes
  def emptied?(_primary, _index), do: false

  defp used(%{tree: tree}), do: tree.runtime.info(tree.instance).memory
end

defmodule BeTree.Server.Changes do
  @moduledoc false
  # Changes of a tree that belongs to the calling process alone. They run in slices on the scheduler of the process, which
  # costs less than moving to a dirty scheduler and back. If the process is killed, its half-changed tree is lost anyway.
  # Many changes at once, and all changes with a runtime that can suspend only searches, run on a dirty scheduler.

  alias BeTree.{Error, Index}
  alias BeTree.Engine.{Reply, Deletion, Instance, Subscription}
  alias BeTree.Server.Table

  # The bytes of subscriptions that are inserted in slices: some milliseconds.
  @small 0x1_0000
  @part 100

  @typedoc "The inserted subscriptions, and the deleted ids, including those deleted before a new insertion."
  @type t :: %{deleted: [{BeTree.id(), Table.version()}], inserted: [{Table.version(), Subscription.wire()}]}

  @spec count(t) :: non_neg_integer
  def count(%{deleted: deleted, inserted: inserted}), do: length(deleted) + length(inserted)

  @doc "Returns a tree that begins as `index`, shares its memory, and has the changes."
  @spec tree(Index.t(), t, pos_integer) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def tree(index, changes, memory) do
    with {:ok, tree} <- Index.to_tree(index, memory),
         :ok <- make(tree, changes),
         do: {:ok, tree}
  end

  # Multiples of the limit: the same subscriptions take different amounts of memory in another order.
  @room [1, 2, 4, 8]

  @doc """
  Like `tree/3`, for acknowledged changes, which must not be lost. If `memory` is too small to repeat them, the tree may take
  more.
  """
  @spec tree_again(Index.t(), t, pos_integer) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def tree_again(index, changes, memory) do
    Enum.reduce_while(@room, nil, fn times, _outcome ->
      case tree(index, changes, times * memory) do
        {:error, %Error{kind: :out_of_memory}} = error -> {:cont, error}
        outcome -> {:halt, outcome}
      end
    end)
  end

  @doc "Makes changes. An id to delete may be missing: its subscription was then inserted and deleted since."
  @spec make(BeTree.t(), t) :: :ok | {:error, Error.t()}
  def make(tree, %{deleted: deleted, inserted: inserted}) do
    with :ok <- delete_all(tree, Stream.map(deleted, &elem(&1, 0))),
         do: insert_all(tree, Enum.map(inserted, &elem(&1, 1)))
  end

  @doc "Inserts `subscriptions` part by part. After an error some of them may be inserted."
  @spec insert_all(BeTree.t(), [Subscription.wire()]) :: :ok | {:error, Error.t()}
  def insert_all(tree, subscriptions) do
    subscriptions
    |> Enum.chunk_every(@part)
    |> Enum.reduce_while(:ok, fn part, :ok ->
      case insert(tree, part) do
        {:ok, _count} -> {:cont, :ok}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end

  @doc "Inserts all of `subscriptions`, or none."
  @spec insert(BeTree.t(), [Subscription.wire()]) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert(_tree, []), do: {:ok, 0}

  def insert(tree, subscriptions) do
    input = Subscription.encode(subscriptions)
    scheduler = if byte_size(input) <= @small, do: scheduler(tree), else: :dirty

    case Instance.call(tree.runtime, tree.instance, "be_tree_insert", [byte_size(input)], input, scheduler: scheduler) do
      {:ok, output} -> with :ok <- Reply.nothing(output), do: {:ok, length(subscriptions)}
      {:error, error} -> {:error, blame(error, subscriptions)}
    end
  end

  defp blame(%Error{position: nil} = error, _subscriptions), do: error

  defp blame(%Error{position: position} = error, subscriptions) do
    case Enum.fetch(subscriptions, position) do
      {:ok, {id, text, _constants}} -> %{error | text: text, message: "subscription #{id}: #{error.message}"}
      :error -> Reply.bad("an error of subscription #{position}, and there are #{length(subscriptions)}")
    end
  end

  @spec delete(BeTree.t(), BeTree.id()) :: :ok | {:error, Error.t()}
  def delete(tree, id), do: Deletion.delete(tree, id, scheduler: scheduler(tree))

  defp scheduler(%{runtime: BeTree.Runtime.Wasmtime}), do: :slices
  defp scheduler(_tree), do: :dirty

  @doc "Deletes those of `ids` that the tree has."
  @spec delete_all(BeTree.t(), Enumerable.t()) :: :ok | {:error, Error.t()}
  def delete_all(tree, ids) do
    Enum.reduce_while(ids, :ok, fn id, :ok ->
      case delete(tree, id) do
        :ok -> {:cont, :ok}
        {:error, %Error{kind: :not_found}} -> {:cont, :ok}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
  end
end

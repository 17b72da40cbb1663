defmodule BeTree.Server.Changes do
  @moduledoc false
  # Changes of a tree that belongs to the calling process alone, and the same changes as entries of a log. They run in slices on
  # the scheduler of the process, which costs less than moving to a dirty scheduler and back. If the process is killed, its
  # half-changed tree is lost anyway. Many changes at once, and all changes with a runtime that can suspend only searches, run
  # on a dirty scheduler.

  alias BeTree.{Error, Index}
  alias BeTree.Error.Attempt
  alias BeTree.Call.{Deletion, Instance, Reply}
  alias BeTree.Input.Subscription
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.Table
  alias BeTree.Target.Ids

  # The bytes of subscriptions that are inserted in slices: some milliseconds.
  @max_sliced_bytes 0x1_0000
  @insert_size 100

  @doc "Returns a tree that begins as `index`, shares its memory, and has the changes of `rows`."
  @spec tree(Index.t(), [Table.row()], pos_integer) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def tree(index, rows, memory) do
    with {:ok, tree} <- Index.to_tree(index, memory),
         :ok <- repeat_all(tree, rows),
         do: {:ok, tree}
  end

  # Multiples of the limit: the same subscriptions take different amounts of memory in another order.
  @memory_factors [1, 2, 4, 8]

  @doc """
  Like `tree/3`, for acknowledged changes, which must not be lost. If they do not fit `memory`, the tree gets up to eight times as
  much.
  """
  @spec rebuild(Index.t(), [Table.row()], pos_integer) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def rebuild(index, rows, memory) do
    Enum.reduce_while(@memory_factors, nil, fn times, _outcome ->
      case tree(index, rows, times * memory) do
        {:error, %Error{kind: :out_of_memory}} = error -> {:cont, error}
        outcome -> {:halt, outcome}
      end
    end)
  end

  @doc "Repeats changes that were made elsewhere. An id to delete may be missing."
  @spec repeat_all(BeTree.t(), [Table.row()]) :: :ok | {:error, Error.t()}
  def repeat_all(tree, rows), do: Attempt.each(rows, &repeat(tree, &1))

  @doc "Like `repeat_all/2`, for one change. Returns the row without the ids to delete that were missing."
  @spec repeat(BeTree.t(), Table.row()) :: {:ok, Table.row()} | {:error, Error.t()}
  def repeat(tree, {version, ids, wires}) do
    with {:ok, deleted} <- delete_all(tree, ids, []),
         :ok <- insert_all(tree, wires),
         do: {:ok, {version, deleted, wires}}
  end

  defp delete_all(_tree, [], deleted), do: {:ok, Enum.reverse(deleted)}

  defp delete_all(tree, [id | rest], deleted) do
    case delete(tree, id) do
      :ok -> delete_all(tree, rest, [id | deleted])
      {:error, %Error{kind: :not_found}} -> delete_all(tree, rest, deleted)
      {:error, error} -> {:error, error}
    end
  end

  defp insert_all(tree, wires), do: wires |> Enum.chunk_every(@insert_size) |> Attempt.each(&insert(tree, &1))

  @doc "Inserts all of `subscriptions`, or none."
  @spec insert(BeTree.t(), [Subscription.wire()]) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert(_tree, []), do: {:ok, 0}

  def insert(tree, subscriptions) do
    with :ok <- call(tree, "be_tree_insert", subscriptions), do: {:ok, length(subscriptions)}
  end

  @doc "Checks subscriptions without inserting them. A guest that cannot do that accepts all of them."
  @spec check(BeTree.t(), [Subscription.wire()]) :: :ok | {:error, Error.t()}
  def check(_tree, []), do: :ok

  def check(tree, subscriptions) do
    if Instance.exports?(tree.guest, "be_tree_check"), do: call(tree, "be_tree_check", subscriptions), else: :ok
  end

  defp call(tree, function, subscriptions) do
    input = encode(subscriptions)
    scheduler = if byte_size(input) <= @max_sliced_bytes, do: scheduler(tree), else: :dirty

    case Instance.call(tree.runtime, tree.instance, function, [byte_size(input)], input, scheduler: scheduler) do
      {:ok, output} -> Reply.nothing(output)
      {:error, error} -> {:error, Reply.blame(error, length(subscriptions), &Enum.fetch!(subscriptions, &1))}
    end
  end

  # Encodes subscriptions for the guest.
  defp encode(wires) do
    Subscription.encode(for {key, text, constants} <- wires, do: {Ids.number(key), text, constants})
  end

  @spec delete(BeTree.t(), Ids.key()) :: :ok | {:error, Error.t()}
  def delete(tree, key) do
    case {Deletion.delete(tree, Ids.number(key), scheduler: scheduler(tree)), key} do
      {{:error, %Error{kind: :not_found}}, {_number, term}} -> Ids.not_found(term)
      {outcome, _key} -> outcome
    end
  end

  defp scheduler(%{runtime: BeTree.Runtime.Wasmtime}), do: :slices
  defp scheduler(_tree), do: :dirty

  @doc "Returns a row as an entry of the log of replicas. Each id to delete is there."
  @spec entry(Table.row()) :: BeTree.Runtime.entry()
  def entry({_version, deleted, wires}) do
    deletions = for key <- deleted, do: {"be_tree_delete", [Id.signed(Ids.number(key))], nil}
    deletions ++ insertion(wires)
  end

  defp insertion([]), do: []

  defp insertion(wires) do
    input = encode(wires)
    [{"be_tree_insert", [byte_size(input)], input}]
  end

  @doc "Returns the number of subscriptions that a row inserts and ids that it deletes."
  @spec size([Ids.key()], [Subscription.wire()]) :: non_neg_integer
  def size(deleted, wires), do: length(deleted) + length(wires)

  @doc "Returns the bytes of the texts of a row."
  @spec bytes([Subscription.wire()]) :: non_neg_integer
  def bytes(wires), do: Enum.reduce(wires, 0, fn {_id, text, _constants}, sum -> sum + byte_size(text) end)

  @doc "Returns whether the replicas of a runtime have a log."
  @spec log?(module) :: boolean
  def log?(runtime), do: Code.ensure_loaded?(runtime) and function_exported?(runtime, :append, 2)
end

defmodule BeTree.Engine.Deletion do
  @moduledoc false
  # Deletes subscriptions of a tree. The memory of an instance never shrinks. When the guest reports that a deletion left its
  # index empty, and that a new instance would take much less memory, the tree moves to a new instance.

  alias BeTree.Error
  alias BeTree.Engine.{Answer, Deadline, Instance}

  # The milliseconds that the move waits for other processes that use the tree.
  @patience 1_000

  @doc "Deletes `id`. Takes the options of `BeTree.Engine.Instance.call/6`. Their timeout limits the wait for the tree."
  @spec delete(BeTree.t(), BeTree.id(), keyword) :: :ok | {:error, Error.t()}
  def delete(tree, id, options) do
    # The i64 with the same bits: wasm has no unsigned integers.
    <<signed::signed-64>> = <<id::64>>
    deadline = Deadline.new(Keyword.get(options, :timeout, :infinity))

    case Instance.call(tree.runtime, tree.instance, "be_tree_delete", [signed], nil, options) do
      {:ok, ""} -> :ok
      {:ok, <<1>>} -> begin_anew(tree, min(Deadline.left(deadline), @patience))
      {:ok, other} -> {:error, Answer.bad("a deletion with #{byte_size(other)} bytes")}
      {:error, error} -> {:error, error}
    end
  end

  # The deletion is done, so an error of the move, such as too little memory for a second instance, is no error of the
  # deletion: the tree stays as it is.
  defp begin_anew(%{runtime: runtime} = tree, timeout) do
    with true <- Instance.renews?(tree.guest),
         {:ok, fresh} <- Instance.begin(tree.guest, tree.schema, tree.memory) do
      runtime.renew(tree.instance, fresh, "be_tree_spent", timeout)
    end

    :ok
  end
end

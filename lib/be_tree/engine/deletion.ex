defmodule BeTree.Engine.Deletion do
  @moduledoc false
  # Deletes subscriptions of a tree. The memory of an instance never shrinks. When the guest reports that a deletion left its
  # index empty, and that a new instance would take much less memory, the tree continues with a new instance.

  alias BeTree.Error
  alias BeTree.Engine.{Reply, Deadline, Instance}

  # The milliseconds that a deletion waits for the emptied tree while other processes use it.
  @patience 1_000

  @doc "Deletes `id`. Takes the options of `BeTree.Engine.Instance.call/6`; their timeout is that of the wait for the tree."
  @spec delete(BeTree.t(), BeTree.id(), keyword) :: :ok | {:error, Error.t()}
  def delete(tree, id, options) do
    # WebAssembly has no unsigned integers, so the id is passed as the i64 with the same bits.
    <<signed::signed-64>> = <<id::64>>
    deadline = Deadline.new(Keyword.get(options, :timeout, :infinity))

    case Instance.call(tree.runtime, tree.instance, "be_tree_delete", [signed], nil, options) do
      {:ok, ""} -> :ok
      {:ok, <<1>>} -> begin_anew(tree, min(Deadline.left(deadline), @patience))
      {:ok, other} -> {:error, Reply.bad("a deletion with #{byte_size(other)} bytes")}
      {:error, error} -> {:error, error}
    end
  end

  # The deletion is done, so an error here, such as too little memory for a second instance, is ignored. The tree then keeps
  # its instance.
  defp begin_anew(%{runtime: runtime} = tree, timeout) do
    with true <- Instance.renews?(tree.guest),
         {:ok, fresh} <- Instance.begin(tree.guest, tree.schema, tree.memory) do
      runtime.renew(tree.instance, fresh, "be_tree_spent", timeout)
    end

    :ok
  end
end

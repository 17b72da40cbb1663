defmodule BeTree.Call.Deletion do
  @moduledoc false
  # Deletes subscriptions of a tree. The memory of an instance never shrinks, so a tree moves to a new instance when the guest reports
  # that its index is empty and that a new instance would take much less memory.

  alias BeTree.Error
  alias BeTree.Call.{Instance, Reply}
  alias BeTree.Input.Subscription.Id

  @doc "Deletes `id`. Takes the options of `BeTree.Call.Instance.call/6`; their timeout is that of the wait for the tree."
  @spec delete(BeTree.t(), BeTree.id(), keyword) :: :ok | {:error, Error.t()}
  def delete(tree, id, options) do
    with {:ok, output} <- Instance.call(tree.runtime, tree.instance, "be_tree_delete", [Id.signed(id)], nil, options),
         do: settle(tree, output)
  end

  @doc "Moves the tree to a new instance if the output of a deletion or a change asks for that."
  @spec settle(BeTree.t(), binary) :: :ok | {:error, Error.t()}
  def settle(_tree, ""), do: :ok
  def settle(tree, <<1>>), do: renew(tree)
  def settle(_tree, other), do: {:error, Reply.bad("a deletion with #{byte_size(other)} bytes")}

  # Replaces the instance now, or when its current call ends. Without memory for a second instance the deletion still succeeds, and
  # the next deletion that empties the tree retries.
  defp renew(%{runtime: runtime} = tree) do
    with true <- Instance.renews?(tree.guest),
         {:ok, fresh} <- Instance.begin(tree.guest, tree.schema, tree.memory) do
      :ok = runtime.renew(tree.instance, fresh, "be_tree_spent")
    else
      false -> :ok
      {:error, %Error{}} -> :ok
    end
  end
end

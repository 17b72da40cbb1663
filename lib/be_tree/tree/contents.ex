defmodule BeTree.Tree.Contents do
  @moduledoc false
  # The subscriptions of a tree: their ids, and changes of several of them.

  alias BeTree.Call.{Deletion, Instance, Reply}
  alias BeTree.{Error, Telemetry, Tree}
  alias BeTree.Input.Subscription
  alias BeTree.Input.Subscription.Id

  # The tag of a tuple of two elements in the external term format, after its version byte.
  @version 131
  @pair <<104, 2>>

  @doc "Returns the number of subscriptions."
  @spec count(Tree.t(), timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def count(tree, timeout) do
    with {:ok, %{expressions: count}} <- Instance.info(tree.runtime, tree.instance, timeout), do: {:ok, count}
  end

  @doc "Returns the ids in ascending order."
  @spec ids(Tree.t(), timeout) :: {:ok, [BeTree.id()]} | {:error, Error.t()}
  def ids(tree, timeout) do
    with {:ok, packed} <- call(tree, "be_tree_ids", [], nil, timeout),
         do: {:ok, Enum.sort(for(<<id::little-64 <- packed>>, do: id))}
  end

  @doc "Returns whether the tree has a subscription."
  @spec member(Tree.t(), BeTree.id(), timeout) :: {:ok, boolean} | {:error, Error.t()}
  def member(tree, id, timeout) do
    with :ok <- Id.check(id, :integer),
         {:ok, output} <- call(tree, "be_tree_has", [Id.signed(id)], nil, timeout) do
      case output do
        <<has>> when has in 0..1 -> {:ok, has == 1}
        other -> {:error, Reply.bad("a look-up of an id with #{byte_size(other)} bytes")}
      end
    end
  end

  @doc "Checks a subscription as an insertion does. Its id may exist."
  @spec check(Tree.t(), Subscription.wire(), timeout) :: :ok | {:error, Error.t()}
  def check(tree, {_id, text, _constants} = wire, timeout) do
    input = Subscription.encode([wire])

    case call(tree, "be_tree_check", [byte_size(input)], input, timeout) do
      {:ok, output} -> Reply.nothing(output)
      {:error, error} -> {:error, %{error | text: text, position: nil}}
    end
  end

  @doc "Deletes and puts subscriptions, all of them or none. No id may occur twice."
  @spec change(Tree.t(), [Subscription.wire()], [BeTree.id()], timeout) ::
          {:ok, %{put: non_neg_integer, deleted: non_neg_integer}} | {:error, Error.t()}
  def change(tree, puts, deleted, timeout) do
    metadata = Map.put(Telemetry.target(tree), :operation, :change)
    counts = %{put: length(puts), deleted: length(deleted)}

    Telemetry.span(:change, metadata, fn -> change(tree, puts, deleted, counts, timeout) end, fn
      {:ok, counts} -> counts
      {:error, _error} -> %{put: 0, deleted: 0}
    end)
  end

  defp change(tree, puts, deleted, counts, timeout) do
    <<@version, deleted::binary>> = :erlang.term_to_binary(deleted, minor_version: 2)
    <<@version, list::binary>> = Subscription.encode(puts)
    input = <<@version, @pair, deleted::binary, list::binary>>

    with {:ok, output} <- call(tree, "be_tree_change", [byte_size(input)], input, timeout),
         :ok <- Deletion.settle(tree, output) do
      {:ok, counts}
    else
      {:error, error} -> {:error, Reply.blame(error, counts.put, &Enum.fetch!(puts, &1))}
    end
  end

  defp call(%{runtime: runtime, instance: instance, guest: guest}, export, arguments, input, timeout) do
    if Instance.exports?(guest, export),
      do: Instance.call(runtime, instance, export, arguments, input, timeout: timeout),
      else: {:error, %Error{kind: :bad_module, message: "the index module lacks #{export}; use the built-in module"}}
  end
end

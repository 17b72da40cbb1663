defimpl BeTree.Target, for: [BeTree.Index, Any] do
  @moduledoc false
  # A published index is read, never changed. Any other term is refused as one that is no target.

  use BeTree.Call.Reads

  alias BeTree.Call.Handle
  alias BeTree.Input.Check

  # Changes of an index raise.
  @dialyzer {:no_return, insert: 4, put: 4, insert_all: 3, delete: 3}

  def insert(target, _id, _expression, _options), do: Handle.no_tree!(target)
  def put(target, _id, _expression, _options), do: Handle.no_tree!(target)
  def insert_all(target, _subscriptions, _options), do: Handle.no_tree!(target)
  def delete(target, _id, _options), do: Handle.no_tree!(target)

  def info(target, options) do
    _timeout = Check.timeout!(options)
    {:ok, Handle.resolve(target).info}
  end
end

defimpl BeTree.Target, for: [BeTree.Index, Any] do
  @moduledoc false
  # A published index is read, never changed. Any other term is refused as one that is no target, except the view of a server.

  use BeTree.Search.Reads

  alias BeTree.Index
  alias BeTree.Input.Check
  alias BeTree.Target.View

  # Changes of an index raise.
  @dialyzer {:no_return, insert: 4, put: 4, insert_all: 3, delete: 3}

  def handle(%Index{} = index), do: index
  def handle(%View{} = view), do: view
  def handle(other), do: Check.no_target!(other)

  def snapshot(target, _timeout) do
    index = handle(target)
    {:ok, index, index.snapshot}
  end

  def insert(target, _id, _expression, _options), do: Check.no_tree!(target)
  def put(target, _id, _expression, _options), do: Check.no_tree!(target)
  def insert_all(target, _subscriptions, _options), do: Check.no_tree!(target)
  def delete(target, _id, _options), do: Check.no_tree!(target)

  def info(target, options) do
    _timeout = Check.timeout!(options)
    {:ok, handle(target).info}
  end
end

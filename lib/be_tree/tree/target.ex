defimpl BeTree.Target, for: BeTree.Tree do
  @moduledoc false
  # Changes of a tree, each one call of its guest, with the telemetry events of the change.

  use BeTree.Search.Reads

  alias BeTree.Call.{Deletion, Insertion, Instance, Reply}
  alias BeTree.{Error, Telemetry}
  alias BeTree.Input.{Check, Options, Subscription}
  alias BeTree.Input.Options.Common
  alias BeTree.Input.Subscription.Id

  @insert_options Common.insert()

  def handle(tree), do: tree

  def snapshot(tree, timeout) do
    with {:ok, snapshot} <- tree.runtime.snapshot(tree.instance, timeout), do: {:ok, tree, snapshot}
  end

  def insert(tree, id, expression, options) do
    with {:ok, subscription, timeout} <- subscription(id, expression, options),
         do: change_one(tree, :insert, subscription, timeout)
  end

  def put(tree, id, expression, options) do
    with {:ok, subscription, timeout} <- subscription(id, expression, options),
         :ok <- check_puts(tree),
         do: change_one(tree, :put, subscription, timeout)
  end

  defp subscription(id, expression, options) do
    {timeout, options} = options |> Options.validate!(@insert_options) |> Keyword.pop!(:timeout)
    with {:ok, subscription} <- Subscription.new(id, expression, options, :integer), do: {:ok, subscription, timeout}
  end

  defp check_puts(%{guest: guest}) do
    if Instance.exports?(guest, "be_tree_put"),
      do: :ok,
      else:
        {:error, %Error{kind: :bad_module, message: "the index module cannot replace a subscription; delete it first"}}
  end

  # Runs an export that takes one subscription.
  defp change_one(tree, operation, {_id, expression, _constants} = subscription, timeout) do
    changing(tree, operation, %{put: 1, deleted: 0}, fn ->
      with {:error, error} <- send_encoded(tree, "be_tree_#{operation}", Subscription.encode([subscription]), timeout),
           do: {:error, %{error | text: expression, position: nil}}
    end)
  end

  def insert_all(tree, subscriptions, options) do
    timeout = Check.timeout!(options)

    with {:ok, batch} <- Insertion.new(subscriptions) do
      changing(tree, :insert, %{put: batch.count, deleted: 0}, fn -> insert_batch(tree, batch, timeout) end)
    end
  end

  defp insert_batch(tree, batch, timeout) do
    case send_encoded(tree, "be_tree_insert", batch.input, timeout) do
      :ok -> {:ok, batch.count}
      {:error, error} -> {:error, Reply.blame(error, batch.count, &Insertion.fetch!(batch, &1))}
    end
  end

  def delete(tree, id, options) do
    timeout = Check.timeout!(options)

    with :ok <- Id.check(id, :integer) do
      changing(tree, :delete, %{put: 0, deleted: 1}, fn -> Deletion.delete(tree, id, timeout: timeout) end)
    end
  end

  def info(tree, options), do: Instance.info(tree.runtime, tree.instance, Check.timeout!(options))

  defp changing(tree, operation, counts, change) do
    metadata = Map.put(Telemetry.target(tree), :operation, operation)

    Telemetry.span(:change, metadata, change, fn
      {:error, _error} -> %{put: 0, deleted: 0}
      _changed -> counts
    end)
  end

  defp send_encoded(%{runtime: runtime, instance: instance}, export, input, timeout) do
    with {:ok, output} <- Instance.call(runtime, instance, export, [byte_size(input)], input, timeout: timeout),
         do: Reply.nothing(output)
  end
end

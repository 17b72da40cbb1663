defimpl BeTree.Target, for: [Atom, Tuple] do
  @moduledoc false
  # Changes of a server by its name. The server's process makes them.

  use BeTree.Search.Reads

  import BeTree.Input.Limits, only: [is_name: 1]

  alias BeTree.Input.{Check, Options, Subscription}
  alias BeTree.Input.Options.Common
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Copy, Lookup, Request}

  @insert_options Common.insert()

  def handle(name) when is_name(name) do
    with {:ok, view} <- Lookup.view(name), do: view
  end

  def handle(other), do: Check.no_target!(other)

  def snapshot(name, timeout) when is_name(name) do
    with {:ok, index} <- Copy.index(name, timeout), do: {:ok, index, index.snapshot}
  end

  def snapshot(other, _timeout), do: Check.no_target!(other)

  def insert(name, id, expression, options), do: change_one(name, id, expression, options, &Request.insert/3)
  def put(name, id, expression, options), do: change_one(name, id, expression, options, &Request.put/3)

  defp change_one(name, id, expression, options, request) when is_name(name) do
    {timeout, options} = options |> Options.validate!(@insert_options) |> Keyword.pop!(:timeout)

    with {:ok, kind} <- Request.kind(name),
         {:ok, subscription} <- Subscription.new(id, expression, options, kind),
         do: request.(name, subscription, timeout)
  end

  defp change_one(other, _id, _expression, _options, _request), do: Check.no_tree!(other)

  def insert_all(name, subscriptions, options) when is_name(name) do
    timeout = Check.timeout!(options)

    with {:ok, kind} <- Request.kind(name),
         {:ok, wires} <- Subscription.new_all(subscriptions, kind),
         do: Request.change(name, {:insert, wires}, timeout)
  end

  def insert_all(other, _subscriptions, _options), do: Check.no_tree!(other)

  def delete(name, id, options) when is_name(name) do
    timeout = Check.timeout!(options)

    with {:ok, kind} <- Request.kind(name),
         :ok <- Id.check(id, kind),
         do: Request.change(name, {:delete, id}, timeout)
  end

  def delete(other, _id, _options), do: Check.no_tree!(other)

  def info(name, options) when is_name(name), do: Request.call(name, :info, Check.timeout!(options))
  def info(other, _options), do: Check.no_target!(other)
end

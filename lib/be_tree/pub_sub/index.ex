defmodule BeTree.PubSub.Index do
  @moduledoc false
  # The index of a pubsub: a `BeTree.Server` in memory. When its tables are lost, with its supervisor, the next one begins with the
  # texts of the pubsub. Changes and searches wait for that.

  alias BeTree.Error
  alias BeTree.Input.{Describe, Subscription}
  alias BeTree.Processes.Deadline
  alias BeTree.PubSub.Table
  alias BeTree.Server.Request

  # Milliseconds: the first and the longest pause between two attempts.
  @first_pause 1
  @max_pause 50

  @doc "Returns the child specification of the server."
  @spec child_spec(Table.t(), keyword) :: Supervisor.child_spec()
  def child_spec(table, options) do
    BeTree.Server.child_spec([name: table.index, load: {__MODULE__, :subscriptions, [table]}] ++ options)
  end

  @doc "Returns all committed subscriptions. The server calls this when it begins without an index."
  @spec subscriptions(Table.t()) :: [{pos_integer, String.t(), keyword}]
  def subscriptions(%Table{texts: texts} = table) do
    # Counts first: a registrar that commits after the copy of the texts notices it.
    Table.next_generation(table)
    :ets.select(texts, [{{:"$1", :"$2", :"$3"}, [], [{{:"$1", :"$2", [{{:constants, :"$3"}}]}}]}])
  end

  @doc "Returns the result of `search`, which is called again while the index is being rebuilt, for at most `timeout` milliseconds."
  @spec search(atom, timeout, (... -> result)) :: result | {:error, Error.t()} when result: term
  def search(name, timeout, search) do
    case search.() do
      {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] ->
        search_later(name, search, Deadline.new(timeout), @first_pause)

      result ->
        result
    end
  end

  defp search_later(name, search, deadline, pause) do
    with {:ok, _table} <- Table.fetch(name) do
      if Deadline.passed?(deadline) do
        message = "the index of #{Describe.value(name)} is being rebuilt; publish again, or with a longer :timeout"
        {:error, %Error{kind: :not_ready, message: message}}
      else
        Process.sleep(pause)

        case search.() do
          {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] ->
            search_later(name, search, deadline, min(2 * pause, @max_pause))

          result ->
            result
        end
      end
    end
  end

  @doc """
  Inserts subscriptions. Returns those that the index has now, and the others, each with its error. Waits while the index is being
  rebuilt.
  """
  @spec insert(Table.t(), [Subscription.wire()]) :: {[pos_integer], [{pos_integer, Error.t()}]}
  def insert(table, wires), do: insert(table, wires, [])

  defp insert(_table, [], refused), do: {[], refused}

  defp insert(table, wires, refused) do
    case change(table, {:insert, wires}) do
      {:ok, _count} ->
        {ids(wires), refused}

      {:error, %Error{position: position} = error} when is_integer(position) ->
        {{id, text, _constants}, wires} = List.pop_at(wires, position)
        insert(table, wires, [{id, Request.alone(error, id, text)} | refused])

      {:error, error} ->
        {[], for(id <- ids(wires), do: {id, error}) ++ refused}
    end
  end

  @doc "Inserts subscriptions that the index accepted before and may still have."
  @spec repeat(Table.t(), [Subscription.wire()]) :: :ok
  def repeat(_table, []), do: :ok

  def repeat(table, wires) do
    {:ok, _counts} = change(table, {:change, wires, []})
    :ok
  end

  @doc "Deletes subscriptions that the index may have."
  @spec delete(Table.t(), [pos_integer]) :: :ok
  def delete(_table, []), do: :ok

  def delete(table, ids) do
    case change(table, {:change, [], ids}) do
      {:ok, _counts} -> :ok
      # All or nothing: then each by itself.
      {:error, %Error{kind: :not_found}} -> for id <- ids, do: delete_one(table, id)
    end

    :ok
  end

  defp delete_one(table, id) do
    case change(table, {:delete, id}) do
      :ok -> :ok
      {:error, %Error{kind: :not_found}} -> :ok
    end
  end

  defp change(table, request, pause \\ @first_pause) do
    case Request.change(table.index, request, :infinity) do
      {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] ->
        Process.sleep(pause)
        change(table, repeatable(request), min(2 * pause, @max_pause))

      reply ->
        reply
    end
  end

  # The request that was interrupted may have been made.
  defp repeatable({:insert, wires}), do: {:change, wires, []}
  defp repeatable(request), do: request

  defp ids(wires), do: for({id, _text, _constants} <- wires, do: id)
end

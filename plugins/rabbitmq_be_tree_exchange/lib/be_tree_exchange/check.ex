defmodule BeTreeExchange.Check do
  @moduledoc false
  # Checks bindings before they are stored. With Mnesia this runs in the transaction, before there is an index: so it uses neither the
  # index nor a process, but an empty tree with the schema of the exchange.

  import BeTreeExchange.Records

  alias BeTreeExchange.{Config, Expression, Records, Table}

  @ids 100_000

  @doc "Returns `:ok`, or the reason for which a binding is refused, with the column of the fault in its expression."
  @spec run(Records.exchange(), Records.binding()) :: :ok | {:error, String.t()}
  def run(exchange, binding) do
    with {:ok, text} <- Expression.of(binding),
         {:ok, tree} <- tree(exchange),
         {:error, error} <- insert(tree, text),
         do: {:error, reason(error)}
  end

  defp reason(%{column: column, message: message}) when is_integer(column),
    do: "expression, column #{column}: #{message}"

  defp reason(%{message: message}), do: "expression: #{message}"

  defp tree(exchange(name: name, arguments: arguments) = exchange) do
    with nil <- Table.scratch(name, arguments),
         {:ok, config} <- Config.read(exchange),
         {:ok, tree} <- BeTree.new(config.schema) do
      Table.put_scratch(name, arguments, tree)
      {:ok, tree}
    else
      {:error, %BeTree.Error{} = error} -> {:error, error.message}
      {:error, reason} -> {:error, reason}
      tree -> {:ok, tree}
    end
  end

  # All channels of the node share the tree. With small ids its memory stays as it is: an empty tree whose memory has grown would begin
  # with new memory, which takes a millisecond.
  defp insert(tree, text) do
    id = rem(System.unique_integer([:positive, :monotonic]), @ids)

    case BeTree.insert(tree, id, text) do
      :ok ->
        BeTree.delete(tree, id)
        :ok

      # A check of another channel has had this id for long.
      {:error, %BeTree.Error{kind: :duplicate_id}} ->
        insert(tree, text)

      {:error, error} ->
        {:error, error}
    end
  end
end

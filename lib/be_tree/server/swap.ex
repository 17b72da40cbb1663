defmodule BeTree.Server.Swap do
  @moduledoc false
  # Checks an index, or an index module, that is to replace the index of a server.

  alias BeTree.{Error, Index}
  alias BeTree.Server.{Builder, Changes, Primary, Start, Table}
  alias BeTree.Target.Ids

  @doc "Returns the index with the limits of the server's replicas, and a primary tree that begins as this index."
  @spec prepare(Index.t(), Table.t(), Table.base(), map) :: {:ok, Index.t(), Primary.t()} | {:error, Error.t()}
  def prepare(index, table, base, options) do
    with :ok <- check_ids(table.ids),
         :ok <- check_schema(index.schema, base.index.schema, options.dir),
         {:ok, index} <- Builder.adopt(index, options),
         {:ok, tree} <- Changes.rebuild(index, [], options.memory),
         {:ok, primary} <- Primary.new(tree, options.memory),
         do: {:ok, index, primary}
  end

  defp check_ids(nil), do: :ok

  defp check_ids(%Ids{}) do
    message =
      "an index has integers for ids, and this server takes any term; insert the subscriptions, or start another server"

    {:error, %Error{kind: :type, message: message}}
  end

  # The folder of a server belongs to one schema.
  defp check_schema(_schema, _present, nil), do: :ok

  defp check_schema(schema, present, _dir) do
    Start.check_schema(
      schema,
      present,
      "the index has another schema than the folder of this server",
      "swap in an index of the same schema, or move the server to another schema with BeTree.Server.migrate/3"
    )
  end

  @doc "Returns an error if an index of another module cannot be built, because the texts of the base are unknown."
  @spec check_texts(Table.base()) :: :ok | {:error, Error.t()}
  def check_texts(%{complete: true}), do: :ok

  def check_texts(%{complete: false}) do
    message = "the index was swapped in without its expressions; swap in an index that was made with the new guest"
    {:error, %Error{kind: :not_found, message: message}}
  end
end

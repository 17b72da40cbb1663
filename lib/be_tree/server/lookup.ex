defmodule BeTree.Server.Lookup do
  @moduledoc false
  # Reads the view and the base of a server from its table, in the calling process.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Server.{Names, Table}
  alias BeTree.Target.View

  @doc "Returns the view of the server `name`."
  @spec view(BeTree.Server.name() | Names.table()) :: {:ok, View.t()} | {:error, Error.t()}
  def view(name), do: value(name, :view)

  @doc "Returns the base of the server `name`, whose index has the schema and the guest."
  @spec base(BeTree.Server.name() | Names.table()) :: {:ok, Table.base()} | {:error, Error.t()}
  def base(name), do: value(name, :base)

  defp value(name, key) do
    with {:ok, table} <- Names.table(name), do: value(table, key, name), else: (:error -> View.no_server(name))
  end

  defp value(table, key, name) do
    case :ets.lookup(table, key) do
      [{^key, value}] when is_map(value) -> {:ok, value}
      _none -> if Table.server?(table), do: {:error, not_ready(name)}, else: View.no_server(name)
    end
  rescue
    # There is no such table, or it is a private table of another process.
    ArgumentError -> View.no_server(name)
  end

  @doc "Returns the error of a server without an index."
  @spec not_ready(BeTree.Server.name()) :: Error.t()
  def not_ready(name) do
    %Error{kind: :not_ready, message: "the server #{Describe.value(name)} has no index yet"}
  end
end

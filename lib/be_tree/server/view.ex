defmodule BeTree.Server.View do
  @moduledoc false
  # The handle by which searches reach the index of a server: its replicas, and the server's name. Each search copies it from
  # the server's table. The replicas apply the log themselves (`c:BeTree.Runtime.append/2`), so the view changes only with the
  # base.

  alias BeTree.{Error, Index}
  alias BeTree.Engine.Describe
  alias BeTree.Server.{Names, Table}

  @derive {Inspect, only: [:name]}
  @enforce_keys [:runtime, :instance, :fuel_per_reduction, :name]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          fuel_per_reduction: pos_integer,
          name: BeTree.Server.name()
        }

  @doc "Returns the view of an index that the server `name` shows."
  @spec new(Index.t(), BeTree.Server.name()) :: t
  def new(%Index{runtime: runtime, instance: instance, fuel_per_reduction: ratio}, name) do
    %__MODULE__{runtime: runtime, instance: instance, fuel_per_reduction: ratio, name: name}
  end

  @doc "Returns the view of the server `name`."
  @spec fetch(BeTree.Server.name() | Names.table()) :: {:ok, t} | {:error, Error.t()}
  def fetch(name) do
    with {:ok, table} <- Names.table(name), do: fetch(table, name), else: (:error -> Table.missing(name))
  end

  defp fetch(table, name) do
    case :ets.lookup(table, :view) do
      [{:view, %__MODULE__{} = view}] -> {:ok, view}
      _other -> no_view(table, name)
    end
  rescue
    # There is no such table, or it is a private table of another process.
    ArgumentError -> Table.missing(name)
  end

  @doc "Returns the base of the server `name`, whose index has the schema and the guest."
  @spec base(BeTree.Server.name() | Names.table()) :: {:ok, Table.base()} | {:error, Error.t()}
  def base(name) do
    with {:ok, table} <- Names.table(name), do: base(table, name), else: (:error -> Table.missing(name))
  end

  defp base(table, name) do
    case :ets.lookup(table, :base) do
      [{:base, base}] when is_map(base) -> {:ok, base}
      _other -> no_view(table, name)
    end
  rescue
    ArgumentError -> Table.missing(name)
  end

  defp no_view(table, name) do
    if Table.server?(table) do
      {:error, %Error{kind: :not_ready, message: "the server #{Describe.value(name)} has no index yet"}}
    else
      Table.missing(name)
    end
  end
end

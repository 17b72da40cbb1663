defmodule BeTree.Server.View do
  @moduledoc false
  # The handle by which searches reach the index of a server: its replicas, and the server's name. Each search copies it from
  # the server's table. The replicas apply the log themselves (`c:BeTree.Runtime.append/2`), so the view changes only with the
  # base.

  alias BeTree.{Error, Index}
  alias BeTree.Engine.Describe
  alias BeTree.Server.Table

  @derive {Inspect, only: [:name]}
  @enforce_keys [:runtime, :instance, :fuel_per_reduction, :name]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          fuel_per_reduction: pos_integer,
          name: atom
        }

  @doc "Returns the view of an index that the server `name` shows."
  @spec new(Index.t(), atom) :: t
  def new(%Index{runtime: runtime, instance: instance, fuel_per_reduction: ratio}, name) do
    %__MODULE__{runtime: runtime, instance: instance, fuel_per_reduction: ratio, name: name}
  end

  @doc "Returns the view of the server `name`."
  @spec fetch(atom) :: {:ok, t} | {:error, Error.t()}
  def fetch(name) do
    case :ets.lookup(name, :view) do
      [{:view, %__MODULE__{} = view}] -> {:ok, view}
      _other -> no_view(name)
    end
  rescue
    # There is no such table, or it is a private table of another process.
    ArgumentError -> Table.missing(name)
  end

  @doc "Returns the base of the server `name`, whose index has the schema and the guest."
  @spec base(atom) :: {:ok, Table.base()} | {:error, Error.t()}
  def base(name) do
    case :ets.lookup(name, :base) do
      [{:base, base}] when is_map(base) -> {:ok, base}
      _other -> no_view(name)
    end
  rescue
    ArgumentError -> Table.missing(name)
  end

  defp no_view(name) do
    if Table.server?(name) do
      {:error, %Error{kind: :not_ready, message: "the server #{Describe.value(name)} has no index yet"}}
    else
      Table.missing(name)
    end
  end
end

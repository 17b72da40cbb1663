defmodule BeTree.Server.View do
  @moduledoc false
  # The handle by which searches reach the index of a server: its replicas, and the server's name. Each search copies it from
  # the server's table. The replicas apply the log themselves (`c:BeTree.Runtime.append/2`), so the view changes only with the
  # base.

  alias BeTree.{Error, Index}
  alias BeTree.Input.Describe
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Ids, Names, Table}

  @derive {Inspect, only: [:name]}
  @enforce_keys [:runtime, :instance, :fuel_per_reduction, :forgiving, :name, :ids]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          fuel_per_reduction: pos_integer,
          forgiving: boolean,
          name: BeTree.Server.name(),
          ids: Ids.t() | nil
        }

  @doc "Returns the view of an index that the server `name` shows. `ids` has the terms of its numbers, if its ids are terms."
  @spec new(Index.t(), BeTree.Server.name(), Ids.t() | nil) :: t
  def new(%Index{fuel_per_reduction: ratio} = index, name, ids) do
    %__MODULE__{
      runtime: index.runtime,
      instance: index.instance,
      fuel_per_reduction: ratio,
      forgiving: index.forgiving,
      name: name,
      ids: ids
    }
  end

  @doc "Returns the number under which the guest has the subscription `id`, or an error if it has none."
  @spec number(t, term) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def number(%__MODULE__{ids: ids, name: name}, id) do
    with :ok <- Id.check(id, Ids.kind(ids)) do
      case Ids.keys(ids, id) do
        [key | _former] -> {:ok, Ids.number(key)}
        [] -> Ids.not_found(id)
      end
    end
  rescue
    # The server has ended, and its tables with it.
    ArgumentError -> Table.missing(name)
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
      {:error, not_ready(name)}
    else
      Table.missing(name)
    end
  end

  @doc "Returns the error of a server without an index."
  @spec not_ready(BeTree.Server.name()) :: Error.t()
  def not_ready(name) do
    %Error{kind: :not_ready, message: "the server #{Describe.value(name)} has no index yet"}
  end
end

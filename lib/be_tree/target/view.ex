defmodule BeTree.Target.View do
  @moduledoc false
  # The handle by which searches reach the index of a server: its replicas, and the server's name. Each search copies it from
  # the server's table (BeTree.Server.Lookup). The replicas apply the log themselves (`c:BeTree.Runtime.append/2`), so the view changes
  # only with the base.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Input.Subscription.Id
  alias BeTree.Target.Ids

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
  @spec new(BeTree.Index.t(), BeTree.Server.name(), Ids.t() | nil) :: t
  def new(index, name, ids) do
    fields = Map.take(index, [:runtime, :instance, :fuel_per_reduction, :forgiving])
    struct!(__MODULE__, Map.merge(fields, %{name: name, ids: ids}))
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
    ArgumentError -> no_server(name)
  end

  @doc "Returns the error for a server that does not run."
  @spec no_server(BeTree.Server.name() | :ets.table()) :: {:error, Error.t()}
  def no_server(name) do
    {:error,
     %Error{
       kind: :no_server,
       message: "no BeTree.Server called #{Describe.value(name)} runs on this node; start one"
     }}
  end
end

defmodule BeTree.Server.View do
  @moduledoc false
  # The data of a server's searches at one version: a published base, the ids that were deleted from it since, and the
  # delta, a small published index of the insertions since. A view never changes, so a search ends on the view on which it
  # began.

  import Bitwise

  alias BeTree.{Error, Index, Search}
  alias BeTree.Engine.Describe
  alias BeTree.Server.{Deleted, Table}

  # A bitmap has room for at least this many ids.
  @least_bits 1_048_576

  @derive {Inspect, only: [:version, :expressions]}
  @enforce_keys [:base, :version, :expressions]
  defstruct [:base, :delta, :deleted, :version, :expressions]

  @type t :: %__MODULE__{
          base: Index.t(),
          delta: Index.t() | nil,
          deleted: Deleted.t() | nil,
          version: non_neg_integer,
          expressions: non_neg_integer
        }

  @doc "Shows `view` to every later call of `fetch/1`. The table belongs to the server and has its name."
  @spec show(t, atom) :: true
  def show(%__MODULE__{base: base, delta: delta} = view, name) do
    :ets.insert(name, [{:view, %{view | base: lean(base), delta: lean(delta)}}, {:indexes, [base, delta]}])
  end

  @doc "Returns the indexes of the view that the server `name` shows now, with all of their fields."
  @spec indexes(atom) :: {:ok, [Index.t()]} | {:error, Error.t()}
  def indexes(name) do
    with {:ok, _view} <- fetch(name) do
      [{:indexes, indexes}] = :ets.lookup(name, :indexes)
      {:ok, Enum.reject(indexes, &is_nil/1)}
    end
  end

  # Each search copies the row, so it has only the fields that a search needs.
  defp lean(nil), do: nil
  defp lean(%Index{} = index), do: %{index | guest: nil, schema: nil, snapshot: nil}

  @doc "Returns the view that the server `name` shows now."
  @spec fetch(atom) :: {:ok, t} | {:error, Error.t()}
  def fetch(name) do
    case :ets.lookup(name, :view) do
      [{:view, %__MODULE__{} = view}] -> {:ok, view}
      _other -> no_view(name, Table.server?(name))
    end
  rescue
    # There is no such table, or it is a private table of another process.
    ArgumentError -> missing(name)
  end

  defp no_view(name, false), do: missing(name)

  defp no_view(name, true) do
    {:error, %Error{kind: :not_found, message: "the server #{Describe.value(name)} has no index yet"}}
  end

  @doc "Returns the error for a server that does not run."
  @spec missing(atom) :: {:error, Error.t()}
  def missing(name) do
    {:error,
     %Error{
       kind: :not_found,
       message: "no BeTree.Server called #{Describe.value(name)} runs on this node; start one"
     }}
  end

  @doc "Returns those of the base's ids that were not deleted."
  @spec alive(t, [BeTree.id()]) :: [BeTree.id()]
  def alive(%__MODULE__{deleted: nil}, ids), do: ids
  def alive(%__MODULE__{deleted: deleted, version: version}, ids), do: Deleted.reject(ids, deleted, version)

  @doc "Returns `:ok` if `id` was not deleted from the base, or an error."
  @spec check_alive(t, BeTree.id()) :: :ok | {:error, Error.t()}
  def check_alive(%__MODULE__{deleted: nil}, _id), do: :ok

  def check_alive(%__MODULE__{deleted: deleted, version: version}, id) do
    if Deleted.deleted?(deleted, id, version),
      do: {:error, %Error{kind: :not_found, message: "no subscription has the id #{id}"}},
      else: :ok
  end

  @doc "Returns the map of `BeTree.info/2`: the number of expressions, and the sums of both indexes for the rest."
  @spec info(t) :: %{atom => non_neg_integer}
  def info(%__MODULE__{base: %{info: info}, delta: delta, expressions: expressions}) do
    Map.put(if(delta, do: Map.merge(info, delta.info, &both/3), else: info), :expressions, expressions)
  end

  defp both(:depth, base, delta), do: max(base, delta)
  defp both(_count, base, delta), do: base + delta

  @doc "Merges two ascending lists."
  @spec merge([BeTree.id()], [BeTree.id()]) :: [BeTree.id()]
  def merge([], ids), do: ids
  def merge(ids, []), do: ids
  def merge([id | rest], [other | _] = others) when id <= other, do: [id | merge(rest, others)]
  def merge(ids, [other | others]), do: [other | merge(ids, others)]

  @doc "Returns ascending ids in the given form, as an index does."
  @spec pack([BeTree.id()], t, Search.form()) :: {:ok, Search.found()} | {:error, Error.t()}
  def pack(ids, _view, :list), do: {:ok, ids}
  def pack(ids, _view, :binary), do: {:ok, for(id <- ids, into: <<>>, do: <<id::little-64>>)}
  def pack([], _view, :bitmap), do: {:ok, ""}

  def pack(ids, view, :bitmap) do
    case List.last(ids) do
      id when id < @least_bits or id < 64 * view.expressions -> {:ok, bitmap(ids, 0, 0, <<>>)}
      id -> {:error, %Error{kind: :out_of_bounds, message: "the id #{id} is too large for a bitmap; ask for a :binary"}}
    end
  end

  # Makes a word of the 64 ids from `start` on, until an id beyond them.
  defp bitmap([], _start, word, bitmap), do: <<bitmap::binary, word::little-64>>

  defp bitmap([id | rest], start, word, bitmap) when id < start + 64 do
    bitmap(rest, start, word ||| 1 <<< (id - start), bitmap)
  end

  defp bitmap(ids, start, word, bitmap), do: bitmap(ids, start + 64, 0, <<bitmap::binary, word::little-64>>)
end

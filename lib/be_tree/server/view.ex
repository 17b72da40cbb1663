defmodule BeTree.Server.View do
  @moduledoc false
  # What a server's searches use, at one version: a published base, without what was deleted from it since, and the delta,
  # a small published index of what was inserted since. It never changes, so a search ends on the view it began on.

  import Bitwise

  alias BeTree.{Error, Index, Search}
  alias BeTree.Engine.Describe
  alias BeTree.Server.{Deleted, Table}

  # A bitmap has room for so many ids at the least.
  @least_bits 1_048_576

  @enforce_keys [:base, :version, :expressions]
  defstruct [:base, :delta, :deleted, :version, :expressions]

  @type t :: %__MODULE__{
          base: Index.t(),
          delta: Index.t() | nil,
          deleted: Deleted.t() | nil,
          version: non_neg_integer,
          expressions: non_neg_integer
        }

  @doc "Shows `view` to all who ask `of/1` from now on. The table is the server's, and has its name."
  @spec show(t, atom) :: true
  def show(%__MODULE__{base: base, delta: delta} = view, name) do
    :ets.insert(name, {:view, %{view | base: lean(base), delta: lean(delta)}})
  end

  # It is copied for each search, so it has only what searching needs.
  defp lean(nil), do: nil
  defp lean(%Index{} = index), do: %{index | guest: nil, schema: nil, snapshot: nil}

  @doc "The view that the server `name` shows now."
  @spec of(atom) :: {:ok, t} | {:error, Error.t()}
  def of(name) do
    case :ets.lookup(name, :view) do
      [{:view, %__MODULE__{} = view}] -> {:ok, view}
      _other -> no_view(name, Table.server?(name))
    end
  rescue
    # There is no such table, or it is another process's own.
    ArgumentError -> missing(name)
  end

  defp no_view(name, false), do: missing(name)

  defp no_view(name, true) do
    {:error, %Error{kind: :not_found, message: "the server #{Describe.value(name)} has nothing to show yet"}}
  end

  @doc "The error where no server of this name is there to ask."
  @spec missing(atom) :: {:error, Error.t()}
  def missing(name) do
    {:error,
     %Error{
       kind: :not_found,
       message: "no BeTree.Server called #{Describe.value(name)} runs on this node; start one"
     }}
  end

  @doc "Of the ids that the base found, those that are still there."
  @spec alive(t, [BeTree.id()]) :: [BeTree.id()]
  def alive(%__MODULE__{deleted: nil}, ids), do: ids
  def alive(%__MODULE__{deleted: deleted, version: version}, ids), do: Deleted.reject(ids, deleted, version)

  @doc "Whether `id`, if the base has it, is still there."
  @spec check_alive(t, BeTree.id()) :: :ok | {:error, Error.t()}
  def check_alive(%__MODULE__{deleted: nil}, _id), do: :ok

  def check_alive(%__MODULE__{deleted: deleted, version: version}, id) do
    if Deleted.deleted?(deleted, id, version),
      do: {:error, %Error{kind: :not_found, message: "no subscription has the id #{id}"}},
      else: :ok
  end

  @doc "What `BeTree.info/2` tells: how many expressions there are, and of the rest what both indexes have."
  @spec info(t) :: %{atom => non_neg_integer}
  def info(%__MODULE__{base: %{info: info}, delta: delta, expressions: expressions}) do
    Map.put(if(delta, do: Map.merge(info, delta.info, &both/3), else: info), :expressions, expressions)
  end

  defp both(:depth, base, delta), do: max(base, delta)
  defp both(_count, base, delta), do: base + delta

  @doc "Two ascending lists as one."
  @spec merge([BeTree.id()], [BeTree.id()]) :: [BeTree.id()]
  def merge([], ids), do: ids
  def merge(ids, []), do: ids
  def merge([id | rest], [other | _] = others) when id <= other, do: [id | merge(rest, others)]
  def merge(ids, [other | others]), do: [other | merge(ids, others)]

  @doc "Ascending ids in the form that was asked for, as an index would answer it."
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

  # A word for the 64 ids from `start` on is made until an id comes that is not among them.
  defp bitmap([], _start, word, bitmap), do: <<bitmap::binary, word::little-64>>

  defp bitmap([id | rest], start, word, bitmap) when id < start + 64 do
    bitmap(rest, start, word ||| 1 <<< (id - start), bitmap)
  end

  defp bitmap(ids, start, word, bitmap), do: bitmap(ids, start + 64, 0, <<bitmap::binary, word::little-64>>)
end

defmodule ErlBetree.Candidates do
  @moduledoc false
  # The results of a search, one candidate a call. The search runs to its end first, in BeTree's own slices, so nothing
  # holds the tree between calls. A call takes 0.3 microseconds.
  #
  # Candidates are the expressions that the search evaluated. In a tree that fits into one leaf all expressions are
  # candidates, as in erl-be-tree. Those that match come first.

  alias BeTree.{Event, Search, Stats}
  alias ErlBetree.{Ids, Tree}

  # The capacity of a leaf before it is split.
  @leaf 64

  # The cursor after `release/1`: no number of calls moves it to the first candidate.
  @released -0x4000_0000_0000_0000

  @typedoc "The packed matching ids, the number of candidates, and the number already returned."
  @type t :: {found :: binary, count :: non_neg_integer, cursor :: :atomics.atomics_ref()}

  @doc "Returns the candidates of an event, and the number of visited entries, the root included."
  @spec select(Tree.t(), Event.t()) :: {t, pos_integer}
  def select(%Tree{} = tree, event) do
    case Search.run(Tree.target(tree), event, as: :binary) do
      {:done, found, %Stats{visited: visited, evaluated: evaluated}} ->
        {{found, count(found, evaluated, Tree.inserted(tree)), :atomics.new(1, [])}, visited + 1}

      {:error, error} ->
        Tree.fail(error)
    end
  end

  defp count(_found, _evaluated, inserted) when inserted <= @leaf, do: inserted
  # Some expressions match without evaluation.
  defp count(found, evaluated, _inserted), do: max(evaluated, div(byte_size(found), 8))

  @doc "Returns the number of candidates."
  @spec count(t) :: non_neg_integer
  def count({_found, count, _cursor}), do: count

  @doc "Returns the id of the next candidate if it matches, and all ids at the last one. A badarg after `release/1`."
  @spec next(t) :: {:continue, [BeTree.id()]} | {:ok, [BeTree.id()]}
  def next({found, count, cursor}) do
    case :atomics.add_get(cursor, 1, 1) do
      released when released < 1 -> :erlang.error(:badarg)
      number when number < count -> {:continue, nth(found, number)}
      _last -> {:ok, Ids.unpack(found)}
    end
  end

  defp nth(found, number) do
    before = 8 * (number - 1)
    if before < byte_size(found), do: found |> binary_part(before, 8) |> Ids.unpack(), else: []
  end

  @doc "Returns all matching ids. A badarg after `release/1`."
  @spec all(t) :: {:ok, [BeTree.id()]}
  def all({found, _count, cursor}) do
    if :atomics.get(cursor, 1) < 0, do: :erlang.error(:badarg), else: {:ok, Ids.unpack(found)}
  end

  @doc "Releases the candidates."
  @spec release(t) :: :ok
  def release({_found, _count, cursor}), do: :atomics.put(cursor, 1, @released)
end

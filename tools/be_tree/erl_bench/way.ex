defmodule BeTree.ErlBench.Way do
  @moduledoc false
  # The ways in which users of erl_betree find the expressions that an event makes true.

  @type t :: :std | :iterated_all | :iterated_next | :with_event

  @titles [
    std: "betree_search/2",
    iterated_all: "search_iterator/2, search_all/1",
    iterated_next: "search_iterator/2, search_next/1 until the last candidate",
    with_event: "betree_make_event/2, betree_search/3"
  ]

  # Returns all ways. The others are compared with the first.
  @spec all() :: [t, ...]
  def all, do: Keyword.keys(@titles)

  @spec title(t) :: String.t()
  def title(way), do: Keyword.fetch!(@titles, way)

  # The benchmark relies on no spec of erl_betree. The specs rule out the last clauses.
  @dialyzer {:no_match, evaluate: 3, next: 1, search: 2}

  # If erl_betree returns no ids, the function returns its name and that value.
  @spec evaluate(t, term, :erl_betree.event()) :: {:ok, [BeTree.id()]} | {:error, {atom, term}}
  def evaluate(:std, betree, event) do
    case :erl_betree.betree_search(betree, event) do
      {:ok, ids} -> {:ok, ids}
      other -> {:error, {:betree_search, other}}
    end
  end

  def evaluate(:iterated_all, betree, event) do
    case betree |> iterator(event) |> :erl_betree.search_all() do
      {:ok, ids} -> {:ok, ids}
      other -> {:error, {:search_all, other}}
    end
  end

  def evaluate(:iterated_next, betree, event), do: betree |> iterator(event) |> next()

  def evaluate(:with_event, betree, event) do
    case :erl_betree.betree_make_event(betree, event) do
      {{:ok, made}, _elapsed} -> search(betree, made)
      other -> {:error, {:betree_make_event, other}}
    end
  end

  defp iterator(betree, event) do
    {:ok, {iterator, _candidates, _nodes}} = :erl_betree.search_iterator(betree, event)
    iterator
  end

  defp next(iterator) do
    case :erl_betree.search_next(iterator) do
      {:continue, _id} -> next(iterator)
      {:ok, ids} -> {:ok, ids}
      other -> {:error, {:search_next, other}}
    end
  end

  # 0 is the clock of the original's run.
  defp search(betree, made) do
    case :erl_betree.betree_search(betree, made, 0) do
      {{:ok, ids}, _elapsed} -> {:ok, ids}
      other -> {:error, {:betree_search, other}}
    end
  end
end

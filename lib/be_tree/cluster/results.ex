defmodule BeTree.Cluster.Results do
  @moduledoc false
  # Merges the results of the shards. The error of any shard is the result of the cluster.

  alias BeTree.Call.Reply
  alias BeTree.{Error, Stats}

  @type ids :: {:ok, [BeTree.id()]} | {:error, Error.t()}
  @type search :: {:done, [BeTree.id()], Stats.t()} | {:error, Error.t()}

  @doc "Merges the ids of each shard."
  @spec ids([ids]) :: ids
  def ids(results), do: Enum.reduce(results, {:ok, []}, &add/2)

  defp add(_result, {:error, error}), do: {:error, error}
  defp add({:error, error}, _found), do: {:error, error}
  defp add({:ok, ids}, {:ok, found}), do: {:ok, merge(found, ids)}

  @doc """
  Merges the ids of each shard's search, and adds up their statistics. All shards read the same event, so they count the same values
  that do not fit.
  """
  @spec searches([search, ...]) :: search
  def searches(results), do: Enum.reduce(results, &add_search/2)

  defp add_search(_result, {:error, error}), do: {:error, error}
  defp add_search({:error, error}, _found), do: {:error, error}

  defp add_search({:done, ids, stats}, {:done, found, sum}) do
    {:done, merge(found, ids), Map.merge(stats, Map.from_struct(sum), &add_stat/3)}
  end

  defp add_stat(:mismatches, one, other), do: max(one, other)
  defp add_stat(_key, one, other), do: one + other

  @doc "Merges the lists of ids that each shard has for the same events."
  @spec lists([{:ok, [[BeTree.id()]]} | {:error, Error.t()}, ...]) :: {:ok, [[BeTree.id()]]} | {:error, Error.t()}
  def lists(results), do: Enum.reduce(results, &add_lists/2)

  defp add_lists(_result, {:error, error}), do: {:error, error}
  defp add_lists({:error, error}, _found), do: {:error, error}
  defp add_lists({:ok, lists}, {:ok, found}), do: {:ok, Enum.zip_with(found, lists, &merge/2)}

  @doc "Adds up the counts of each shard's map; `:depth` is the greatest. Returns them with `:shards`, each shard with its map."
  @spec infos([{BeTree.Cluster.shard(), map}]) :: map
  def infos(infos) do
    for {_shard, info} <- infos, {count, value} <- Map.take(info, Reply.counts()), reduce: %{shards: infos} do
      %{^count => sum} = total when count == :depth -> %{total | depth: max(sum, value)}
      %{^count => sum} = total -> %{total | count => sum + value}
      total -> Map.put(total, count, value)
    end
  end

  # Merges two ascending lists.
  defp merge([], ids), do: ids
  defp merge(ids, []), do: ids
  defp merge([id | rest], [other | _] = others) when id <= other, do: [id | merge(rest, others)]
  defp merge(ids, [other | others]), do: [other | merge(ids, others)]
end

defmodule BeTree.Cluster.Operation do
  @moduledoc false
  # What the functions of BeTree do with a cluster. Each runs a function on all shards, or on the shard of an id. The caller gives
  # that function: its own, which a shard calls with the name of its server in place of the cluster. A list that is inserted takes
  # two phases (BeTree.Cluster.Insertion).

  alias BeTree.Cluster.{Call, Insertion, Results, Shards}
  alias BeTree.Cluster.Options, as: Definitions
  alias BeTree.Input.{Check, Limits, Options, Subscription}
  alias BeTree.Input.Subscription.Id
  alias BeTree.{Error, Event, Explanation}

  @doc "Inserts one subscription into its shard, or puts it there."
  @spec insert(Shards.t(), Call.function_name(), BeTree.id(), String.t(), keyword) :: :ok | {:error, Error.t()}
  def insert(cluster, function, id, expression, options) do
    options = Options.validate!(options, Definitions.insert())

    with :ok <- Id.check(id, cluster.ids),
         do: cluster |> Shards.of(id) |> Call.one(function, [id, expression, options], options[:timeout])
  end

  @doc "Deletes one subscription from its shard."
  @spec delete(Shards.t(), Call.function_name(), BeTree.id(), keyword) :: :ok | {:error, Error.t()}
  def delete(cluster, function, id, options) do
    options = Options.validate!(options, Definitions.change())

    with :ok <- Id.check(id, cluster.ids),
         do: cluster |> Shards.of(id) |> Call.one(function, [id, options], options[:timeout])
  end

  @doc "Inserts many subscriptions, each into its shard, all or none, and returns their number."
  @spec insert_all(Shards.t(), Enumerable.t(), keyword) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(cluster, subscriptions, options) do
    timeout = Options.validate!(options, Definitions.insert_all())[:timeout]

    with {:ok, wires} <- Subscription.new_all(subscriptions, cluster.ids) do
      wires
      |> Enum.with_index()
      |> Enum.group_by(fn {wire, _position} -> Shards.of(cluster, elem(wire, 0)) end)
      |> Enum.to_list()
      |> Insertion.run(timeout)
    end
  end

  @doc "Searches all shards at once."
  @spec search(Shards.t(), Call.function_name(), Event.t(), keyword) :: Results.search()
  def search(cluster, function, event, options) do
    timeout = Options.validate!(options, Definitions.search())[:timeout]
    arguments = [event, Keyword.put(options, :timeout, timeout)]
    cluster |> Call.all(function, arguments, timeout) |> results() |> Results.searches()
  end

  @doc "Searches all shards at once for each of `events`."
  @spec search_many(Shards.t(), Call.function_name(), Enumerable.t(), keyword) ::
          {:ok, [[BeTree.id()]]} | {:error, Error.t()}
  def search_many(cluster, function, events, options) do
    timeout = Options.validate!(options, Definitions.search())[:timeout]

    with :ok <- Check.enumerable(events, "events") do
      arguments = [Enum.to_list(events), Keyword.put(options, :timeout, timeout)]
      cluster |> Call.all(function, arguments, timeout) |> results() |> Results.lists()
    end
  end

  @doc "Returns a result for each event of a part of a stream, with options that were checked."
  @spec search_each(Shards.t(), Call.function_name(), [Event.t()], map) :: [Results.ids()]
  def search_each(cluster, function, events, options) do
    cluster
    |> Call.all(function, [events, options], for_each(options.timeout, events))
    |> Enum.map(fn
      {_shard, {:error, error}} -> List.duplicate({:error, error}, length(events))
      {shard, results} -> Enum.map(results, &name_error(&1, shard))
    end)
    |> Enum.zip_with(&Results.ids/1)
  end

  defp for_each(:infinity, _events), do: :infinity
  defp for_each(timeout, events), do: min(length(events) * timeout, Limits.max_timeout())

  defp name_error({:error, error}, shard), do: {:error, Call.named(error, shard)}
  defp name_error(found, _shard), do: found

  @doc "Explains a subscription in its shard."
  @spec explain(Shards.t(), Call.function_name(), Event.t(), BeTree.id(), keyword) ::
          {:ok, Explanation.t()} | {:error, Error.t()}
  def explain(cluster, function, event, id, options) do
    options = Options.validate!(options, Definitions.explain())

    with :ok <- Id.check(id, cluster.ids),
         do: cluster |> Shards.of(id) |> Call.one(function, [event, id, options], options[:timeout])
  end

  @doc "Prepares an event in the first shard."
  @spec prepare(Shards.t(), Call.function_name(), Event.t(), keyword) ::
          {:ok, Event.Prepared.t()} | {:error, Error.t()}
  def prepare(cluster, function, event, options) do
    cluster |> Shards.first() |> Call.one(function, [event, options], Keyword.get(options, :timeout, :infinity))
  end

  @doc "Returns the counts of all shards (`BeTree.Cluster.info/2`)."
  @spec info(Shards.t(), Call.function_name(), keyword) :: {:ok, map} | {:error, Error.t()}
  def info(cluster, function, options) do
    timeout = Check.timeout!(options)
    infos = Call.all(cluster, function, [[timeout: timeout]], timeout)

    case Enum.find(infos, &match?({_shard, {:error, _error}}, &1)) do
      {_shard, {:error, error}} -> {:error, error}
      nil -> {:ok, Results.infos(for {shard, {:ok, info}} <- infos, do: {shard, info})}
    end
  end

  defp results(results), do: for({_shard, result} <- results, do: result)
end

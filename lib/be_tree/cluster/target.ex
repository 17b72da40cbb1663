defimpl BeTree.Target, for: BeTree.Target.Shards do
  @moduledoc false
  # Operations of a cluster. Each calls the same function of `BeTree.Target` on the node of all shards, or of the shard of an id,
  # with the name of the shard's server. A list that is inserted takes two phases (BeTree.Cluster.Insertion).

  alias BeTree.Cluster.{Call, Insertion, Results}
  alias BeTree.Cluster.Options, as: Definitions
  alias BeTree.Input.{Check, Limits, Options, Subscription}
  alias BeTree.Input.Subscription.Id
  alias BeTree.{Target, Telemetry}
  alias BeTree.Target.Shards

  @dialyzer {:no_return, handle: 1, snapshot: 2}

  def handle(_cluster) do
    raise ArgumentError,
          "a cluster is not searched step by step, and has no profile: call BeTree.search/3, or the function for each shard"
  end

  def snapshot(cluster, _timeout), do: handle(cluster)

  def insert(cluster, id, expression, options), do: change_one(cluster, :insert, id, expression, options)
  def put(cluster, id, expression, options), do: change_one(cluster, :put, id, expression, options)

  defp change_one(cluster, function, id, expression, options) do
    options = Options.validate!(options, Definitions.insert())

    with :ok <- Id.check(id, cluster.ids),
         do: cluster |> Shards.of(id) |> Call.one({Target, function}, [id, expression, options], options[:timeout])
  end

  def delete(cluster, id, options) do
    options = Options.validate!(options, Definitions.change())

    with :ok <- Id.check(id, cluster.ids),
         do: cluster |> Shards.of(id) |> Call.one({Target, :delete}, [id, options], options[:timeout])
  end

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

  def search(cluster, event, options) do
    stats? = Options.validate!(options, Definitions.search_with_stats())[:stats]
    search = fn -> run(cluster, event, Keyword.delete(options, :stats)) end

    with {:done, ids, stats} <- Telemetry.span(:search, Telemetry.target(cluster), search, &measure/1) do
      if stats?, do: {:ok, ids, stats}, else: {:ok, ids}
    end
  end

  defp measure({:done, ids, stats}),
    do: %{matches: length(ids), fuel: stats.fuel, slices: stats.slices, mismatches: stats.mismatches}

  defp measure({:error, _error}), do: %{matches: 0, mismatches: 0}

  def run(cluster, event, options) do
    timeout = Options.validate!(options, Definitions.search())[:timeout]
    arguments = [event, Keyword.put(options, :timeout, timeout)]
    cluster |> Call.all({Target, :run}, arguments, timeout) |> results() |> Results.searches()
  end

  def search_many(cluster, events, options) do
    search = fn -> search_all(cluster, events, options) end

    # The shards count the values that do not fit.
    Telemetry.span(:search_many, Telemetry.target(cluster), search, fn
      {:ok, lists} -> %{events: length(lists), mismatches: 0}
      {:error, _error} -> %{events: 0, mismatches: 0}
    end)
  end

  defp search_all(cluster, events, options) do
    timeout = Options.validate!(options, Definitions.search())[:timeout]

    with :ok <- Check.events(events) do
      arguments = [Enum.to_list(events), Keyword.put(options, :timeout, timeout)]
      cluster |> Call.all({Target, :search_many}, arguments, timeout) |> results() |> Results.lists()
    end
  end

  def search_each(cluster, events, options) do
    cluster
    |> Call.all({Target, :search_each}, [events, options], for_each(options.timeout, events))
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

  def explain(cluster, event, id, options) do
    options = Options.validate!(options, Definitions.explain())

    with :ok <- Id.check(id, cluster.ids),
         do: cluster |> Shards.of(id) |> Call.one({Target, :explain}, [event, id, options], options[:timeout])
  end

  def prepare(cluster, event, options) do
    cluster
    |> Shards.first()
    |> Call.one({Target, :prepare}, [event, options], Keyword.get(options, :timeout, :infinity))
  end

  def info(cluster, options) do
    timeout = Check.timeout!(options)
    infos = Call.all(cluster, {Target, :info}, [[timeout: timeout]], timeout)

    case Enum.find(infos, &match?({_shard, {:error, _error}}, &1)) do
      {_shard, {:error, error}} -> {:error, error}
      nil -> {:ok, Results.infos(for {shard, {:ok, info}} <- infos, do: {shard, info})}
    end
  end

  defp results(results), do: for({_shard, result} <- results, do: result)
end

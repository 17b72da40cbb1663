defmodule BeTree.Cluster do
  @moduledoc """
  A cluster is one index over several nodes. A function of the id divides subscriptions among servers.

      cluster = BeTree.Cluster.new([{Ads, :"a@10.0.0.1"}, {Ads, :"b@10.0.0.2"}])
      :ok = BeTree.Cluster.insert(cluster, 1, "age >= 21")
      {:ok, [1]} = BeTree.Cluster.search(cluster, %{age: 30})

  The functions of `BeTree` take a cluster too: `BeTree.search/3`, `BeTree.search_many/3`, `BeTree.stream/3`, `BeTree.explain/4`,
  `BeTree.info/2`, `BeTree.Event.prepare/3`, `BeTree.insert/4`, `BeTree.insert_all/3`, `BeTree.put/4` and `BeTree.delete/3`. Those that
  run step by step, `BeTree.Search.start/3` and `BeTree.profile/3`, do not.

  Each shard is a `BeTree.Server`, by its name and its node. All shards have the same schema and the same kind of ids, and a search
  asks all of them.
  Every node that changes the index has to use the same function of the id. A cluster is a plain value: it holds no process
  and no connection.

  The nodes are connected by distributed Erlang. When a shard does not reply, the search returns an error that names the shard;
  a list of ids never lacks a shard. If a shard is to survive its node, let a server of another node follow it
  (`BeTree.Server`), and make a cluster with the follower in its place.

  To change the schema, call `BeTree.Server.migrate/3` for each shard on its node, for example by `:erpc`, and repeat the call for shards
  that returned an error: a shard that has the schema already does nothing. Each shard checks the event of a search by its own schema, so
  until all shards have the new one, events must fit both. Additional attributes that are optional fit.

  To bring the shards to a list of all subscriptions, call `BeTree.Server.sync/3` for each shard on its node, with the subscriptions of that
  shard. So divide them by a function of the id of your own (`:shard`), which the query of a database can use too. The shards change one after
  the other.
  """

  alias BeTree.Cluster.{Call, Results}
  alias BeTree.Cluster.Options, as: Definitions
  alias BeTree.{Domain, Error, Event, Explanation, Search, Server, Stats, Target}
  alias BeTree.Error.Bang
  alias BeTree.Input.Options
  alias BeTree.Input.Subscription.Id
  alias BeTree.Target.Shards

  @new_options [
    shard: [
      type: {:nullable, {:check, "a function of an id", &__MODULE__.function?/1}},
      default_doc: "a hash of the id",
      doc: "a function of an id that returns the number of its shard, from 0"
    ],
    ids: [
      type: {:one_of, [:integer, :term]},
      default: :integer,
      doc: "the kind of ids, `:integer` or `:term`, as all shards have it (`BeTree.Server`)"
    ]
  ]

  @insert_options Definitions.insert()
  @insert_all_options Definitions.insert_all()
  @change_options Definitions.change()
  @search_options Definitions.search_with_stats()
  @many_options Definitions.search()
  @read_options Definitions.read()
  @wait_options Definitions.wait()

  @typedoc "A server by its name and its node."
  @type shard :: {BeTree.Server.name(), node}

  @typedoc "A cluster. Its fields are private."
  @type t :: %Shards{}

  @doc """
  Returns a cluster of `shards`, at least one.

  ## Options

  #{Options.docs(@new_options)}

  Raises an `ArgumentError` for an unknown or wrong option.

      iex> cluster = BeTree.Cluster.new([{Ads, :a@host}, {Ads, :b@host}], shard: &rem(&1, 2))
      iex> cluster
      #BeTree.Cluster<2 shards>
      iex> BeTree.Cluster.shard(cluster, 7)
      {Ads, :b@host}
  """
  @spec new([shard], shard: (BeTree.id() -> non_neg_integer), ids: :integer | :term) :: t
  def new(shards, options \\ []) do
    options = Options.validate!(options, @new_options)
    Shards.new(shards, options[:shard], options[:ids])
  end

  @doc false
  def function?(shard), do: is_function(shard, 1)

  @doc "Returns the shard of `id`."
  @spec shard(t, BeTree.id()) :: shard
  def shard(cluster, id), do: cluster |> Shards.check() |> Shards.of(id)

  @doc """
  Inserts one subscription into its shard, as `BeTree.Server.insert/4` does. Errors name the shard.

  ## Options

  #{Options.docs(@insert_options)}
  """
  @spec insert(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok | {:error, Error.t()}
  def insert(cluster, id, expression, options \\ []),
    do: cluster |> Shards.check() |> Target.insert(id, expression, options)

  @doc "Like `insert/4`, but raises on error."
  @spec insert!(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def insert!(cluster, id, expression, options \\ []), do: Bang.unwrap!(insert(cluster, id, expression, options))

  @doc """
  Inserts many subscriptions, each into its shard, and returns their number.

  The call inserts all or none, in two phases. All shards insert their parts at the same time. If one refuses, or does not reply
  within the timeout, the others delete their parts, which searches may have seen. A shard that replies later then deletes its part.
  A shard also deletes its part when the calling process or the connection to it ends. So the call can be repeated.

  Only a node that ends during the call can leave a part in its folder, and only a connection that is lost between the two phases can
  leave a shard without its part. The message of the error then names the shard and the size of its part; `shard/2` says
  which ids these are.

  ## Options

  #{Options.docs(@insert_all_options)}
  """
  @spec insert_all(t, Enumerable.t(), timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(cluster, subscriptions, options \\ []),
    do: cluster |> Shards.check() |> Target.insert_all(subscriptions, options)

  @doc "Like `insert_all/3`, but returns the count and raises on error."
  @spec insert_all!(t, Enumerable.t(), timeout: timeout) :: non_neg_integer
  def insert_all!(cluster, subscriptions, options \\ []), do: Bang.unwrap!(insert_all(cluster, subscriptions, options))

  @doc """
  Deletes the subscription `id` from its shard, as `BeTree.Server.delete/3` does.

  ## Options

  #{Options.docs(@change_options)}
  """
  @spec delete(t, BeTree.id(), timeout: timeout) :: :ok | {:error, Error.t()}
  def delete(cluster, id, options \\ []), do: cluster |> Shards.check() |> Target.delete(id, options)

  @doc "Like `delete/3`, but raises on error."
  @spec delete!(t, BeTree.id(), timeout: timeout) :: :ok
  def delete!(cluster, id, options \\ []), do: Bang.unwrap!(delete(cluster, id, options))

  @doc """
  Returns the ids of the subscriptions of all shards that `event` makes true, in ascending order.

  The call searches all shards at once, by `:erpc`, and the shards of this node in the calling process. It takes as long as the
  slowest shard. Each shard runs the search with these options. With `stats: true` the statistics are added up.

  ## Options

  #{Options.docs(@search_options)}

  Returns `{:error, error}` when any shard fails. The message names the shard, and the kind is that of the shard's error,
  `:no_server` when its node or its server cannot be reached, or `:timeout`.

      iex> for name <- [East, West], do: BeTree.Server.start_link(name: name, schema: [age: :integer])
      iex> cluster = BeTree.Cluster.new([{East, node()}, {West, node()}])
      iex> {:ok, 100} = BeTree.Cluster.insert_all(cluster, for(id <- 1..100, do: {id, "age = \#{id}"}))
      iex> BeTree.Cluster.search(cluster, %{age: 30})
      {:ok, [30]}
  """
  @spec search(t, Event.t(), [Search.option() | {:stats, boolean}]) ::
          {:ok, [BeTree.id()]} | {:ok, [BeTree.id()], Stats.t()} | {:error, Error.t()}
  def search(cluster, event, options \\ []), do: cluster |> Shards.check() |> Target.search(event, options)

  @doc "Like `search/3`, but returns the ids, or `{ids, stats}`, and raises on error."
  @spec search!(t, Event.t(), [Search.option() | {:stats, boolean}]) :: [BeTree.id()] | {[BeTree.id()], Stats.t()}
  def search!(cluster, event, options \\ []), do: Bang.unwrap!(search(cluster, event, options))

  @doc """
  Returns a list with the ids for each of `events`, in order, as `BeTree.search_many/3` does. All shards search at the same time, and
  each receives all events in one message.

  ## Options

  #{Options.docs(@many_options)}

  Returns `{:error, error}` with the kinds of `search/3`, and the `position` of the event, from 0, if it concerns one.

      iex> for name <- [North, South], do: BeTree.Server.start_link(name: name, schema: [age: :integer])
      iex> cluster = BeTree.Cluster.new([{North, node()}, {South, node()}])
      iex> BeTree.Cluster.insert_all!(cluster, for(id <- 1..100, do: {id, "age = \#{id}"}))
      iex> BeTree.Cluster.search_many(cluster, [%{age: 30}, %{age: 31}])
      {:ok, [[30], [31]]}
  """
  @spec search_many(t, Enumerable.t(), [Search.option()]) :: {:ok, [[BeTree.id()]]} | {:error, Error.t()}
  def search_many(cluster, events, options \\ []), do: cluster |> Shards.check() |> Target.search_many(events, options)

  @doc "Like `search_many/3`, but returns the lists and raises on error."
  @spec search_many!(t, Enumerable.t(), [Search.option()]) :: [[BeTree.id()]]
  def search_many!(cluster, events, options \\ []), do: Bang.unwrap!(search_many(cluster, events, options))

  @doc """
  Inserts one subscription into its shard, or replaces the one with this id there, as `BeTree.Server.put/4` does.

  ## Options

  #{Options.docs(@insert_options)}
  """
  @spec put(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok | {:error, Error.t()}
  def put(cluster, id, expression, options \\ []),
    do: cluster |> Shards.check() |> Target.put(id, expression, options)

  @doc "Like `put/4`, but raises on error."
  @spec put!(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def put!(cluster, id, expression, options \\ []), do: Bang.unwrap!(put(cluster, id, expression, options))

  @doc """
  Explains the subscription `id`, as `BeTree.explain/4` does. Its shard makes the explanation.

  ## Options

  #{Options.docs(@wait_options)}
  """
  @spec explain(t, Event.t(), BeTree.id(), timeout: timeout) :: {:ok, Explanation.t()} | {:error, Error.t()}
  def explain(cluster, event, id, options \\ []), do: cluster |> Shards.check() |> Target.explain(event, id, options)

  @doc """
  Returns the expression of a subscription, as `BeTree.Server.fetch/3` does.

  ## Options

  #{Options.docs(@read_options)}

  A subscription of a cluster of one server:

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Reading, schema: [age: :integer])
      iex> cluster = BeTree.Cluster.new([{Reading, node()}])
      iex> BeTree.Cluster.insert!(cluster, 1, "age >= 21")
      iex> {BeTree.Cluster.fetch(cluster, 1), BeTree.Cluster.member?(cluster, 2)}
      {{:ok, "age >= 21"}, false}
      iex> {BeTree.Cluster.ids(cluster), BeTree.Cluster.count(cluster)}
      {{:ok, [1]}, {:ok, 1}}
  """
  @spec fetch(t, BeTree.id(), timeout: timeout) :: {:ok, String.t()} | {:error, Error.t()}
  def fetch(cluster, id, options \\ []) do
    cluster = Shards.check(cluster)
    options = Options.validate!(options, @read_options)
    with :ok <- Id.check(id, cluster.ids), do: cluster |> Shards.of(id) |> ask(:fetch, [id], options)
  end

  @doc "Like `fetch/3`, but returns the expression and raises on error."
  @spec fetch!(t, BeTree.id(), timeout: timeout) :: String.t()
  def fetch!(cluster, id, options \\ []), do: Bang.unwrap!(fetch(cluster, id, options))

  @doc """
  Returns whether the cluster has a subscription `id` whose text it knows. Raises a `BeTree.Error` if its shard cannot be reached.

  ## Options

  #{Options.docs(@read_options)}
  """
  @spec member?(t, BeTree.id(), timeout: timeout) :: boolean
  def member?(cluster, id, options \\ []) do
    case fetch(cluster, id, options) do
      {:ok, _text} -> true
      {:error, %Error{kind: :not_found}} -> false
      {:error, error} -> raise error
    end
  end

  @doc """
  Returns the ids of all subscriptions whose texts the shards know, in ascending order, or the error of a shard.

  ## Options

  #{Options.docs(@read_options)}
  """
  @spec ids(t, timeout: timeout) :: {:ok, [BeTree.id()]} | {:error, Error.t()}
  def ids(cluster, options \\ []) do
    cluster = Shards.check(cluster)
    options = Options.validate!(options, @read_options)
    results = Call.all(cluster, {Server, :ids}, [options], options[:timeout])
    Results.ids(for {_shard, result} <- results, do: result)
  end

  @doc "Like `ids/2`, but returns the ids and raises on error."
  @spec ids!(t, timeout: timeout) :: [BeTree.id()]
  def ids!(cluster, options \\ []), do: Bang.unwrap!(ids(cluster, options))

  @doc """
  Returns the number of subscriptions of all shards, or the error of a shard.

  ## Options

  #{Options.docs(@wait_options)}
  """
  @spec count(t, timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def count(cluster, options \\ []), do: with({:ok, %{expressions: count}} <- info(cluster, options), do: {:ok, count})

  @doc "Like `count/2`, but returns the number and raises on error."
  @spec count!(t, timeout: timeout) :: non_neg_integer
  def count!(cluster, options \\ []), do: Bang.unwrap!(count(cluster, options))

  @doc """
  Returns the attributes of the first shard. All shards have the same attributes.

  ## Options

  #{Options.docs(@read_options)}
  """
  @spec schema(t, timeout: timeout) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def schema(cluster, options \\ []) do
    cluster = Shards.check(cluster)
    cluster |> Shards.first() |> ask(:schema, [], Options.validate!(options, @read_options))
  end

  @doc "Like `schema/2`, but returns the attributes and raises on error."
  @spec schema!(t, timeout: timeout) :: [Domain.t()]
  def schema!(cluster, options \\ []), do: Bang.unwrap!(schema(cluster, options))

  @doc """
  Returns the counts of `BeTree.info/2`, summed over the shards, and `:shards`, a list of each shard with its map. `:depth` is the
  greatest.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kinds of `search/3`.
  """
  @spec info(t, timeout: timeout) :: {:ok, map} | {:error, Error.t()}
  def info(cluster, options \\ []), do: cluster |> Shards.check() |> Target.info(options)

  @doc "Like `info/2`, but returns the map and raises on error."
  @spec info!(t, timeout: timeout) :: map
  def info!(cluster, options \\ []), do: Bang.unwrap!(info(cluster, options))

  defp ask(shard, function, arguments, options),
    do: Call.one(shard, {Server, function}, arguments ++ [options], options[:timeout])
end

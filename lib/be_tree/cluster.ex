defmodule BeTree.Cluster do
  @moduledoc """
  A cluster is one index over several nodes. A function of the id divides subscriptions among servers.

      cluster = BeTree.Cluster.new([{Ads, :"a@10.0.0.1"}, {Ads, :"b@10.0.0.2"}])
      :ok = BeTree.Cluster.insert(cluster, 1, "age >= 21")
      {:ok, [1]} = BeTree.Cluster.search(cluster, %{age: 30})

  The functions of `BeTree` take a cluster too: `BeTree.search/3`, `BeTree.search_many/3`, `BeTree.stream/3`, `BeTree.explain/4`,
  `BeTree.info/2`, `BeTree.Event.prepare/3`, `BeTree.insert/4`, `BeTree.insert_all/3`, `BeTree.put/4` and `BeTree.delete/3`. Those that
  run step by step, `BeTree.Search.start/3` and `BeTree.profile/3`, do not.

  Each shard is a `BeTree.Server`, by its name and its node. All shards have the same schema, and a search asks all of them.
  Every node that changes the index has to use the same function of the id. A cluster is a plain value: it holds no process
  and no connection.

  The nodes are connected by distributed Erlang. When a shard does not reply, the search returns an error that names the shard;
  a list of ids never lacks a shard. If a shard is to survive its node, let a server of another node follow it
  (`BeTree.Server`), and make a cluster with the follower in its place.
  """

  import BeTree.Engine.Limits, only: [is_name: 1]

  alias BeTree.{Domain, Error, Event, Explanation, Search, Server, Stats}
  alias BeTree.Engine.{Bang, Check, Deadline, Describe, Limits, Options, Reply, Subscription}
  alias BeTree.Engine.Options.Common
  alias BeTree.Engine.Subscription.Id

  # The modules whose functions the shards run. They are atoms here, because those modules call this one.
  @tree :"Elixir.BeTree"
  @server :"Elixir.BeTree.Server"
  @event :"Elixir.BeTree.Event"
  @batch :"Elixir.BeTree.Engine.Batch"

  # Milliseconds. A list of a million is inserted in half a minute.
  @search_timeout 5_000
  @change_timeout 300_000

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

  @change_options [
    timeout: [
      type: :timeout,
      default: @change_timeout,
      doc:
        "milliseconds that each shard may take. The call then waits as long again for the reply of another node. A change " <>
          "whose call passed its timeout may still be made"
    ]
  ]
  @insert_options Common.take([:constants]) ++ @change_options

  # The ids of all shards are merged into one list, so each shard returns a list.
  @search_options Common.take([:fuel, :slice, :ids, :stats, :strict]) ++
                    [
                      timeout: [
                        type: :timeout,
                        default: @search_timeout,
                        doc:
                          "milliseconds that the search of each shard may take. The call then waits as long again for the " <>
                            "reply, so it gives up a vanished node after twice the timeout"
                      ],
                      as: [type: {:one_of, [:list]}, default: :list, doc: "the form of the ids, always a list"]
                    ]

  @many_options Keyword.delete(@search_options, :stats)

  @wait_options Common.timeout(
                  "milliseconds that each shard may take. The call then waits as long again for the reply of another node"
                )

  @read_options [
    timeout: [
      type: :timeout,
      default: @search_timeout,
      doc: "milliseconds that each shard may take. The call then waits as long again for the reply of another node"
    ]
  ]

  @enforce_keys [:shards, :shard, :ids]
  defstruct @enforce_keys

  @typedoc "A server by its name and its node."
  @type shard :: {Server.name(), node}

  @typedoc "A cluster. Its fields are private."
  @type t :: %__MODULE__{shards: tuple, shard: (BeTree.id() -> non_neg_integer), ids: :integer | :term}

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

    unless Check.proper_list?(shards) do
      raise ArgumentError, "the shards are a list of {name, node}, got: #{Describe.value(shards)}"
    end

    for shard <- shards, do: check(shard)
    if shards == [], do: raise(ArgumentError, "a cluster has one shard or more, got: []")
    count = length(shards)
    shard = options[:shard] || (&:erlang.phash2(&1, count))
    %__MODULE__{shards: List.to_tuple(shards), shard: shard, ids: options[:ids]}
  end

  defp check({name, node}) when is_name(name) and is_atom(node), do: :ok
  defp check(other), do: raise(ArgumentError, "a shard is {name, node}, got: #{Describe.value(other)}")

  defp check_cluster(%__MODULE__{} = cluster), do: cluster
  # The arguments may be in the wrong order, and this one the event.
  defp check_cluster(other), do: raise(ArgumentError, "expected a BeTree.Cluster, got: #{Describe.kind(other)}")

  @doc false
  def function?(shard), do: is_function(shard, 1)

  @doc "Returns the shard of `id`."
  @spec shard(t, BeTree.id()) :: shard
  def shard(cluster, id) do
    %__MODULE__{shards: shards, shard: shard} = check_cluster(cluster)

    case shard.(id) do
      number when is_integer(number) and number >= 0 and number < tuple_size(shards) ->
        elem(shards, number)

      other ->
        raise ArgumentError,
              "the option :shard returns numbers from 0 to #{tuple_size(shards) - 1}, but #{Describe.value(other)} for #{Describe.value(id)}"
    end
  end

  @doc """
  Inserts one subscription into its shard, as `BeTree.Server.insert/4` does. Errors name the shard.

  ## Options

  #{Options.docs(@insert_options)}
  """
  @spec insert(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok | {:error, Error.t()}
  def insert(cluster, id, expression, options \\ []) do
    options = Options.validate!(options, @insert_options)

    with :ok <- Id.check(id, check_cluster(cluster).ids) do
      ask(shard(cluster, id), @server, :insert, [id, expression, options], options[:timeout])
    end
  end

  @doc "Like `insert/4`, but raises on error."
  @spec insert!(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def insert!(cluster, id, expression, options \\ []), do: Bang.unwrap!(insert(cluster, id, expression, options))

  @doc """
  Inserts many subscriptions, each into its shard, and returns their number.

  Each shard takes all of its subscriptions or none. When one shard refuses, the others delete theirs, so nothing is changed;
  searches may have seen them meanwhile. When a shard cannot be reached for the deletion, the message of the error says so.

  ## Options

  #{Options.docs(@change_options)}
  """
  @spec insert_all(t, Enumerable.t(), timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(cluster, subscriptions, options \\ []) do
    check_cluster(cluster)
    timeout = Options.validate!(options, @change_options)[:timeout]

    with {:ok, wires} <- Subscription.new_all(subscriptions, cluster.ids) do
      wires
      |> Enum.with_index()
      |> Enum.group_by(fn {wire, _position} -> shard(cluster, elem(wire, 0)) end)
      |> Enum.to_list()
      |> insert_into([], timeout)
    end
  end

  defp insert_into([], done, _timeout),
    do: {:ok, done |> Enum.map(fn {_shard, wires} -> length(wires) end) |> Enum.sum()}

  defp insert_into([{shard, placed} | rest], done, timeout) do
    subscriptions = for {{id, text, constants}, _position} <- placed, do: {id, text, constants: constants}

    case ask(shard, @server, :insert_all, [subscriptions, [timeout: timeout]], timeout) do
      {:ok, _count} -> insert_into(rest, [{shard, subscriptions} | done], timeout)
      {:error, error} -> delete_again(done, %{error | position: position(error, placed)}, timeout)
    end
  end

  # The position in the whole list.
  defp position(%Error{position: nil}, _placed), do: nil
  defp position(%Error{position: position}, placed), do: placed |> Enum.at(position) |> elem(1)

  defp delete_again([], error, _timeout), do: {:error, error}

  defp delete_again([{shard, subscriptions} | rest], error, timeout) do
    ids = for {id, _text, _options} <- subscriptions, do: id

    case ask(shard, @server, :delete_all, [ids, [timeout: timeout]], timeout) do
      {:ok, _count} ->
        delete_again(rest, error, timeout)

      {:error, left} ->
        message = "#{error.message}; and the subscriptions that were inserted are still there: #{left.message}"
        {:error, %{error | message: message}}
    end
  end

  @doc "Like `insert_all/3`, but returns the count and raises on error."
  @spec insert_all!(t, Enumerable.t(), timeout: timeout) :: non_neg_integer
  def insert_all!(cluster, subscriptions, options \\ []), do: Bang.unwrap!(insert_all(cluster, subscriptions, options))

  @doc """
  Deletes the subscription `id` from its shard, as `BeTree.Server.delete/3` does.

  ## Options

  #{Options.docs(@change_options)}
  """
  @spec delete(t, BeTree.id(), timeout: timeout) :: :ok | {:error, Error.t()}
  def delete(cluster, id, options \\ []) do
    options = Options.validate!(options, @change_options)

    with :ok <- Id.check(id, check_cluster(cluster).ids),
         do: ask(shard(cluster, id), @server, :delete, [id, options], options[:timeout])
  end

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
  def search(cluster, event, options \\ []) do
    check_cluster(cluster)
    # The shards take the caller's options, and use the default values themselves.
    timeout = Options.validate!(options, @search_options)[:timeout]
    cluster |> ask_all(@tree, :search, [event, options], timeout) |> Enum.reduce({:ok, []}, &gather/2)
  end

  # Calls a function of each shard, whose name is the first argument. Returns each shard with its result.
  defp ask_all(%__MODULE__{shards: shards}, module, function, arguments, timeout) do
    {here, there} = shards |> Tuple.to_list() |> Enum.split_with(fn {_name, node} -> node == node() end)

    requests =
      for {name, node} = shard <- there,
          do: {shard, :erpc.send_request(node, module, function, [name | arguments])}

    results = for {name, _node} = shard <- here, do: {shard, apply(module, function, [name | arguments])}
    deadline = Deadline.new(twice(timeout))
    # The call waits for every reply, so that none arrives later, when no process expects it.
    results ++ for {shard, request} <- requests, do: {shard, receive_reply(request, deadline)}
  end

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
  def search_many(cluster, events, options \\ []) do
    check_cluster(cluster)
    timeout = Options.validate!(options, @many_options)[:timeout]

    with :ok <- Check.enumerable(events, "events") do
      cluster
      |> ask_all(@tree, :search_many, [Enum.to_list(events), options], timeout)
      |> Enum.reduce(nil, &gather_many/2)
    end
  end

  @doc "Like `search_many/3`, but returns the lists and raises on error."
  @spec search_many!(t, Enumerable.t(), [Search.option()]) :: [[BeTree.id()]]
  def search_many!(cluster, events, options \\ []), do: Bang.unwrap!(search_many(cluster, events, options))

  defp gather_many({shard, {:error, error}}, {:ok, _lists}), do: {:error, named(error, shard)}
  defp gather_many({shard, {:error, error}}, nil), do: {:error, named(error, shard)}
  defp gather_many(_result, {:error, error}), do: {:error, error}
  defp gather_many({_shard, {:ok, lists}}, nil), do: {:ok, lists}
  defp gather_many({_shard, {:ok, lists}}, {:ok, found}), do: {:ok, Enum.zip_with(found, lists, &merge/2)}

  @doc false
  # Returns a result for each event of a part of a stream, with options that were checked.
  @spec search_each(t, [Event.t()], map) :: [{:ok, [BeTree.id()]} | {:error, Error.t()}]
  def search_each(cluster, events, options) do
    cluster
    |> ask_all(@batch, :each, [events, options], for_each(options.timeout, events))
    |> Enum.map(fn
      {shard, {:error, error}} -> List.duplicate({shard, {:error, error}}, length(events))
      {shard, results} -> Enum.map(results, &{shard, &1})
    end)
    |> Enum.zip_with(fn results -> Enum.reduce(results, {:ok, []}, &gather/2) end)
  end

  defp for_each(:infinity, _events), do: :infinity
  defp for_each(timeout, events), do: min(length(events) * timeout, Limits.max_timeout())

  @doc """
  Inserts one subscription into its shard, or replaces the one with this id there, as `BeTree.Server.put/4` does.

  ## Options

  #{Options.docs(@insert_options)}
  """
  @spec put(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok | {:error, Error.t()}
  def put(cluster, id, expression, options \\ []) do
    options = Options.validate!(options, @insert_options)

    with :ok <- Id.check(id, check_cluster(cluster).ids) do
      ask(shard(cluster, id), @server, :put, [id, expression, options], options[:timeout])
    end
  end

  @doc "Like `put/4`, but raises on error."
  @spec put!(t, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def put!(cluster, id, expression, options \\ []), do: Bang.unwrap!(put(cluster, id, expression, options))

  @doc """
  Explains the subscription `id`, as `BeTree.explain/4` does. Its shard makes the explanation.

  ## Options

  #{Options.docs(@wait_options)}
  """
  @spec explain(t, Event.t(), BeTree.id(), timeout: timeout) :: {:ok, Explanation.t()} | {:error, Error.t()}
  def explain(cluster, event, id, options \\ []) do
    timeout = Check.timeout!(options)

    with :ok <- Id.check(id, check_cluster(cluster).ids),
         do: ask(shard(cluster, id), @tree, :explain, [event, id, [timeout: timeout]], timeout)
  end

  @doc """
  Returns the expression of a subscription, as `BeTree.Server.fetch/3` does.

  ## Options

  #{Options.docs(@read_options)}

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
    [timeout: timeout] = Options.validate!(options, @read_options)

    with :ok <- Id.check(id, check_cluster(cluster).ids),
         do: ask(shard(cluster, id), @server, :fetch, [id, [timeout: timeout]], timeout)
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
    check_cluster(cluster)
    [timeout: timeout] = Options.validate!(options, @read_options)
    cluster |> ask_all(@server, :ids, [[timeout: timeout]], timeout) |> Enum.reduce({:ok, []}, &gather/2)
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
  Returns the attributes of the first shard. All shards have the same.

  ## Options

  #{Options.docs(@read_options)}
  """
  @spec schema(t, timeout: timeout) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def schema(cluster, options \\ []) do
    [timeout: timeout] = Options.validate!(options, @read_options)
    ask(first(cluster), @server, :schema, [[timeout: timeout]], timeout)
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
  def info(cluster, options \\ []) do
    timeout = Check.timeout!(options)
    infos = cluster |> check_cluster() |> ask_all(@tree, :info, [[timeout: timeout]], timeout)

    case Enum.find(infos, &match?({_shard, {:error, _error}}, &1)) do
      {shard, {:error, error}} -> {:error, named(error, shard)}
      nil -> {:ok, for({shard, {:ok, info}} <- infos, do: {shard, info}) |> sum()}
    end
  end

  @doc "Like `info/2`, but returns the map and raises on error."
  @spec info!(t, timeout: timeout) :: map
  def info!(cluster, options \\ []), do: Bang.unwrap!(info(cluster, options))

  defp sum(infos) do
    for {_shard, info} <- infos, {count, value} <- Map.take(info, Reply.counts()), reduce: %{shards: infos} do
      %{^count => sum} = total when count == :depth -> %{total | depth: max(sum, value)}
      %{^count => sum} = total -> %{total | count => sum + value}
      total -> Map.put(total, count, value)
    end
  end

  @doc false
  # Prepares an event in the first shard.
  @spec prepare(t, Event.t(), timeout: timeout) :: {:ok, Event.Prepared.t()} | {:error, Error.t()}
  def prepare(cluster, event, options) do
    ask(first(cluster), @event, :prepare, [event, options], Keyword.get(options, :timeout, :infinity))
  end

  defp first(cluster), do: elem(check_cluster(cluster).shards, 0)

  defp twice(:infinity), do: :infinity
  defp twice(timeout), do: min(2 * timeout, Limits.max_timeout())

  defp receive_reply(request, deadline) do
    :erpc.receive_response(request, Deadline.left(deadline))
  catch
    kind, reason -> {:error, unreachable(kind, reason)}
  end

  defp ask({name, node} = shard, module, function, arguments, timeout) do
    with {:error, %Error{} = error} <- call(node, module, function, [name | arguments], timeout),
         do: {:error, named(error, shard)}
  end

  defp call(node, module, function, arguments, _timeout) when node == node(), do: apply(module, function, arguments)

  defp call(node, module, function, arguments, timeout) do
    :erpc.call(node, module, function, arguments, twice(timeout))
  catch
    kind, reason -> {:error, unreachable(kind, reason)}
  end

  defp unreachable(:error, {:erpc, :timeout}), do: %Error{kind: :timeout, message: "it did not reply in time"}

  defp unreachable(_kind, {:erpc, :noconnection}) do
    %Error{kind: :no_server, message: "its node cannot be reached, or was lost before it replied"}
  end

  defp unreachable(kind, reason) do
    # The reason may have the arguments of a function, and so the event.
    %Error{kind: :no_server, message: "it could not reply: #{kind} #{Describe.reason(reason)}"}
  end

  defp gather({shard, {:error, error}}, {:ok, _ids}), do: {:error, named(error, shard)}
  defp gather({shard, {:error, error}}, {:ok, _ids, _stats}), do: {:error, named(error, shard)}
  defp gather(_result, {:error, error}), do: {:error, error}
  defp gather({_shard, {:ok, ids}}, {:ok, found}), do: {:ok, merge(found, ids)}
  defp gather({_shard, {:ok, ids, stats}}, {:ok, []}), do: {:ok, ids, stats}

  defp gather({_shard, {:ok, ids, stats}}, {:ok, found, sum}) do
    {:ok, merge(found, ids), Map.merge(stats, Map.from_struct(sum), fn _key, one, other -> one + other end)}
  end

  # Merges two ascending lists.
  defp merge([], ids), do: ids
  defp merge(ids, []), do: ids
  defp merge([id | rest], [other | _] = others) when id <= other, do: [id | merge(rest, others)]
  defp merge(ids, [other | others]), do: [other | merge(ids, others)]

  defp named(error, {name, node}), do: %{error | message: "#{Describe.value(name)} of #{node}: #{error.message}"}

  defimpl Inspect do
    def inspect(%{shards: {_shard}}, _options), do: "#BeTree.Cluster<1 shard>"
    def inspect(%{shards: shards}, _options), do: "#BeTree.Cluster<#{tuple_size(shards)} shards>"
  end
end

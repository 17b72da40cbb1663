defmodule BeTree.PubSub do
  @moduledoc """
  Publish/subscribe by content: a process subscribes with an expression, and receives the events that make it true.

      children = [
        {BeTree.PubSub, name: MyApp.Alerts, schema: [symbol: :string, price: {:float, optional: true}]}
      ]

      {:ok, _pid} = Supervisor.start_link(children, strategy: :one_for_one)
      {:ok, _subscription} = BeTree.PubSub.subscribe(MyApp.Alerts, "symbol in ('A', 'B') and price > 100", tag: :dear)
      :ok = BeTree.PubSub.publish(MyApp.Alerts, %{symbol: "B", price: 120.0})

      receive do
        %BeTree.PubSub.Message{event: event, tags: [:dear]} -> event
      end

  Registry, `Phoenix.PubSub` and `:pg` find receivers by the name of a topic. This module finds them by the values of the event. The
  guide [Publish/subscribe](pub_sub.md) says when topics are the better choice.

  ## Guarantees

    * A subscriber receives one `BeTree.PubSub.Message` for each event, however many of its subscriptions match.
    * A subscription that was made before an event is published hears it, and one that was ended before does not. That holds for all
      processes of a node, also when processes of the pubsub are killed meanwhile.
    * Events of one publisher arrive in their order.
    * A subscriber that ends is forgotten at once.
    * At most `limit:` messages wait in the mailbox of a subscriber, and one for each process that publishes at the same time. Later
      messages are dropped and counted (`:overflow`). A slow or suspended subscriber does not hold up publishers.
    * An event that does not fit the schema is an error of `publish/3`, as of `BeTree.search/3`, and nobody receives it.

  Delivery is at most once: no message is stored or acknowledged. Messages are sent in the process that publishes.

  ## Limits

  A publisher counts the messages to each subscriber. Only when the count reaches the limit does it look at the mailbox, for at most
  100 milliseconds. If fewer messages wait, of any sender, the difference is the new count. Otherwise, or if the process does not reply in that time, the subscriber is full:

    * with `overflow: :drop_new`, messages are dropped without a further look until at most half of the limit waits. The next message
      has their number in `:dropped`;
    * with `overflow: :disconnect`, the subscriptions of the process end, and it receives a `BeTree.PubSub.Disconnected`.

  ## Nodes

  Pubsubs of the same name on connected nodes find each other by `:pg`. Each event goes to all of these nodes, and each node matches
  it for its own subscribers, by its own schema. `publish/3` does not wait for other nodes. At most 10,000 events are on their way to
  each of the up to eight routers of a node; later ones are dropped and counted (`stats/2`). Events are lost if the connection is, and none are
  kept for a node that comes back. The nodes need OTP 25.1.

  ## Crashes

  The supervisor of a pubsub owns the tables of the subscriptions. Each process below it may be killed at any moment, and starts again
  with these tables. A publish that needs the index waits until it is rebuilt, or returns an error of kind `:not_ready`. If the supervisor
  itself ends, the subscriptions end too, and nobody tells the subscribers. A process that must notice monitors the
  supervisor, which is registered under the name of the pubsub.

  ## Costs

  On a small shared machine, in time of one processor: `subscribe/3` takes 20 to 40 microseconds and `unsubscribe/3` 6. `publish/3` takes the
  search (`BeTree.search/3`) and about one microsecond for each receiver: 5 microseconds with one receiver, 6 to 7 among 1,000,000
  subscriptions, and 120 to 160 with 100 receivers. The event is copied to each receiver. A subscription takes about 600 bytes and twice
  its text, besides the index, because the `BeTree.Server` that holds the index keeps the text too. `make bench CASE=pub_sub` measures these.
  """

  use Supervisor

  import BeTree.Input.Limits, only: [is_atom_name: 1]

  alias BeTree.{Domain, Error, Event}
  alias BeTree.Call.InstanceOptions
  alias BeTree.Error.Bang
  alias BeTree.Input.{Check, Describe, Limits, Options}
  alias BeTree.Input.Options.Common
  alias BeTree.Processes.{Deadline, Supervised}
  alias BeTree.PubSub.{Credit, Gauge, Index, Nodes, Peers, Publication, Registrar, Subscription, Table}

  @default_limit 1_000
  # A credit has 64 bits; this leaves room for all arithmetic.
  @max_limit 0xFFFF_FFFF
  # Milliseconds.
  @default_timeout 5_000

  @limit {:integer, 1, @max_limit}
  @overflow {:one_of, [:drop_new, :disconnect]}

  @options [
             name: [
               type: {:check, "an atom", &__MODULE__.name?/1},
               required: true,
               doc:
                 "an atom. All functions take it. The supervisor is registered under it, it is the name of an ETS table, and other " <>
                   "names begin with it"
             ],
             schema: [type: :any, required: true, doc: "the schema, as `BeTree.new/2` takes it. It may be nested"]
           ] ++
             Common.on_mismatch_of_schema() ++
             Common.take([:strict]) ++
             [
               limit: [
                 type: @limit,
                 default: @default_limit,
                 doc:
                   "the number of messages that may wait in the mailbox of a subscriber, unless `subscribe/3` says otherwise"
               ],
               overflow: [
                 type: @overflow,
                 default: :drop_new,
                 doc: "what happens at the limit, unless `subscribe/3` says otherwise: `:drop_new` or `:disconnect`"
               ]
             ] ++
             InstanceOptions.take([:memory]) ++
             [
               replicas: [
                 type: {:integer, 1, Limits.max_replicas()},
                 default: {:computed, &System.schedulers_online/0},
                 default_doc: "the number of online schedulers",
                 doc: "the number of publishes that may search at once, as of a `BeTree.Server`"
               ]
             ] ++
             InstanceOptions.take([:queue]) ++
             [
               max_restarts: [
                 type: :positive,
                 default: 100,
                 doc: "how often processes below the supervisor may end in `:max_seconds` seconds before it ends too"
               ],
               max_seconds: [type: :positive, default: 60, doc: "the seconds in which `:max_restarts` counts"]
             ]

  @subscribe_options [
                       tag: [type: :any, default: nil, doc: "any term, which the messages have in `:tags`"],
                       why: [
                         type: :boolean,
                         default: false,
                         doc:
                           "with `true` the messages have a `BeTree.Explanation` of the match. Each takes the publisher some 20 " <>
                             "microseconds"
                       ],
                       limit: [
                         type: {:nullable, @limit},
                         default: nil,
                         default_doc: "the option of the pubsub",
                         doc:
                           "the number of messages that may wait in the mailbox of this process. It holds for all subscriptions of " <>
                             "the process; the last value counts"
                       ],
                       overflow: [
                         type: {:nullable, @overflow},
                         default: nil,
                         default_doc: "the option of the pubsub",
                         doc:
                           "what happens at the limit: `:drop_new` or `:disconnect`. It holds for the process, as `:limit` does"
                       ]
                     ] ++
                       Common.take([:constants]) ++
                       Common.timeout("milliseconds that the call may wait, or `:infinity`")

  @wait_options Common.timeout("milliseconds that the call may wait, or `:infinity`")

  @publish_options [
    timeout: [
      type: :timeout,
      default: @default_timeout,
      doc:
        "milliseconds that the call may wait while the index is being rebuilt after a crash, or `:infinity`. It does not end a search"
    ]
  ]

  @typedoc "The name of a pubsub on this node."
  @type name :: atom

  @typedoc "What happens to messages for a subscriber that has reached its limit."
  @type overflow :: :drop_new | :disconnect

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:name, name}
          | {:schema, BeTree.schema()}
          | {:on_mismatch, Domain.on_mismatch()}
          | {:strict, boolean}
          | {:limit, pos_integer}
          | {:overflow, overflow}
          | {:memory, pos_integer}
          | {:replicas, pos_integer}
          | {:queue, non_neg_integer}
          | {:max_restarts, pos_integer}
          | {:max_seconds, pos_integer}

  @typedoc "An option of `subscribe/3`."
  @type subscribe_option ::
          {:tag, term}
          | {:why, boolean}
          | {:limit, pos_integer | nil}
          | {:overflow, overflow | nil}
          | {:constants, BeTree.constants()}
          | {:timeout, timeout}

  @doc """
  Starts a pubsub that is linked to the calling process. A supervisor calls this function for `{BeTree.PubSub, options}`.

  ## Options

  #{Options.docs(@options)}

  Returns `{:ok, pid}` with the pid of the pubsub's supervisor, `{:error, {:already_started, pid}}` when a process has this name,
  or `{:error, %BeTree.Error{}}` with the kinds of `BeTree.Server.start_link/1`.

      iex> {:ok, _pid} = BeTree.PubSub.start_link(name: Alerts, schema: [severity: :integer, host: {:string, optional: true}])
      iex> {:ok, subscription} = BeTree.PubSub.subscribe(Alerts, "severity >= 4", tag: :severe)
      iex> {:ok, _subscription} = BeTree.PubSub.subscribe(Alerts, "host like 'db-*'", tag: :databases)
      iex> :ok = BeTree.PubSub.publish(Alerts, %{severity: 5, host: "db-1"})
      iex> receive do
      ...>   %BeTree.PubSub.Message{} = message -> {message.event, message.tags}
      ...> end
      {%{severity: 5, host: "db-1"}, [:severe, :databases]}
      iex> :ok = BeTree.PubSub.unsubscribe(Alerts, subscription)
      iex> :ok = BeTree.PubSub.publish(Alerts, %{severity: 5, host: "web-1"})
      iex> BeTree.PubSub.stats!(Alerts).delivered
      1
  """
  @spec start_link([option]) :: Supervisor.on_start() | {:error, Error.t()}
  def start_link(options) do
    options = options |> Options.validate!(@options) |> Map.new()
    %{name: name} = options

    with {:ok, schema} <- Domain.parse(options.schema, options.on_mismatch) do
      Supervised.start_link(__MODULE__, %{options | schema: schema}, name)
    end
  end

  @doc """
  Returns the child specification of a pubsub, with which `{BeTree.PubSub, options}` stands in a list of children. Its `:id` is
  `{BeTree.PubSub, name}`, so one supervisor can have many.

      iex> BeTree.PubSub.child_spec(name: Alerts, schema: [severity: :integer]).id
      {BeTree.PubSub, Alerts}
  """
  @spec child_spec([option]) :: Supervisor.child_spec()
  def child_spec(options), do: Supervised.child_spec(__MODULE__, options)

  # This process owns the tables, so it ends only if it is stopped, or if the processes below end again and again. Each of those can
  # start again alone, in any order.
  @impl Supervisor
  def init(%{name: name} = options) do
    table = Table.new(name, options)
    restarts = [max_restarts: options.max_restarts, max_seconds: options.max_seconds]
    index = options |> Map.take([:schema, :memory, :replicas, :queue]) |> Map.to_list() |> Kernel.++(restarts)

    children = [
      Index.child_spec(table, index),
      {Gauge, table},
      {Registrar, table},
      Supervisor.child_spec({Nodes, {table, restarts}}, type: :supervisor)
    ]

    Supervisor.init(children, [strategy: :one_for_one] ++ restarts)
  end

  @doc false
  def name?(name), do: is_atom_name(name)

  @doc """
  Subscribes the calling process to the events that make `expression` true. Returns when every later publish on this node sends them.

  A process may subscribe many times, with any expressions, also with the same one.

  ## Options

  #{Options.docs(@subscribe_options)}

  Returns `{:ok, subscription}`, or `{:error, error}` with the kinds of `BeTree.insert/4` for the expression, `:no_server` when no
  pubsub of this name runs on this node, `:out_of_memory` or `:timeout`.

      iex> {:ok, _pid} = BeTree.PubSub.start_link(name: Subscribing, schema: [age: :integer])
      iex> {:ok, _subscription} = BeTree.PubSub.subscribe(Subscribing, "age >= 21", tag: "adults", why: true)
      iex> :ok = BeTree.PubSub.publish(Subscribing, %{age: 30})
      iex> [{"adults", why}] = receive(do: (%BeTree.PubSub.Message{why: why} -> why))
      iex> to_string(why)
      "match\\n└─ age >= 21: true (age is 30)"
      iex> {:error, error} = BeTree.PubSub.subscribe(Subscribing, "age >= ")
      iex> {error.kind, error.column}
      {:syntax, 8}
  """
  @spec subscribe(name, String.t(), [subscribe_option]) :: {:ok, Subscription.t()} | {:error, Error.t()}
  def subscribe(pubsub, expression, options \\ []) do
    options = options |> Options.validate!(@subscribe_options) |> Map.new()

    with {:ok, table} <- pubsub |> check_name!() |> Table.fetch(),
         id = Table.next_id(table),
         {:ok, wire} <- BeTree.Input.Subscription.new(id, expression, [constants: options.constants], :integer) do
      request = %{
        wire: wire,
        pid: self(),
        tag: options.tag,
        why: options.why,
        limit: options.limit,
        overflow: options.overflow,
        waiting: Credit.length_of(self())
      }

      with :ok <- Registrar.subscribe(table, request, options.timeout),
           do: {:ok, %Subscription{pubsub: pubsub, id: id, pid: self()}}
    end
  end

  @doc "Like `subscribe/3`, but returns the subscription and raises on error."
  @spec subscribe!(name, String.t(), [subscribe_option]) :: Subscription.t()
  def subscribe!(pubsub, expression, options \\ []), do: Bang.unwrap!(subscribe(pubsub, expression, options))

  @doc """
  Ends all subscriptions of the calling process. Returns when no later publish on this node sends for them. Messages that were sent
  before stay in the mailbox.

      iex> {:ok, _pid} = BeTree.PubSub.start_link(name: Leaving, schema: [age: :integer])
      iex> BeTree.PubSub.subscribe!(Leaving, "age >= 21")
      iex> BeTree.PubSub.unsubscribe(Leaving)
      :ok
      iex> BeTree.PubSub.publish!(Leaving, %{age: 30})
      iex> BeTree.PubSub.stats!(Leaving).delivered
      0
  """
  @spec unsubscribe(name) :: :ok | {:error, Error.t()}
  def unsubscribe(pubsub) do
    with {:ok, table} <- pubsub |> check_name!() |> Table.fetch(), do: Registrar.leave(table, self(), :infinity)
  end

  @doc "Like `unsubscribe/1`, but raises on error."
  @spec unsubscribe!(name) :: :ok
  def unsubscribe!(pubsub), do: Bang.unwrap!(unsubscribe(pubsub))

  @doc """
  Ends a subscription, of any process of this node. Returns when no later publish on this node sends for it, also if it has ended before.
  Its expression leaves the index afterwards, together with others.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `:ok`, or `{:error, error}` with the kind `:no_server` or `:timeout`.
  """
  @spec unsubscribe(name, Subscription.t(), timeout: timeout) :: :ok | {:error, Error.t()}
  def unsubscribe(pubsub, subscription, options \\ [])

  def unsubscribe(pubsub, %Subscription{pubsub: of, id: id}, options) do
    timeout = Check.timeout!(options)
    if check_name!(pubsub) != of, do: Check.expected!("a subscription of #{Describe.value(pubsub)}", of)
    with {:ok, table} <- Table.fetch(pubsub), do: Registrar.unsubscribe(table, id, timeout)
  end

  def unsubscribe(_pubsub, other, _options), do: Check.expected!("a BeTree.PubSub.Subscription", other)

  @doc "Like `unsubscribe/3`, but raises on error."
  @spec unsubscribe!(name, Subscription.t(), timeout: timeout) :: :ok
  def unsubscribe!(pubsub, subscription, options \\ []),
    do: Bang.unwrap!(unsubscribe(pubsub, subscription, options))

  @doc """
  Publishes an event: sends a `BeTree.PubSub.Message` to each process with a matching subscription, and the event to the other nodes.

  The calling process searches and sends.

  ## Options

  #{Options.docs(@publish_options)}

  Returns `:ok`, or `{:error, error}` with the kinds of `BeTree.search/3` for the event, `:no_server` when no pubsub of this name
  runs on this node, or `:not_ready`. After an error nobody has received the event.

      iex> {:ok, _pid} = BeTree.PubSub.start_link(name: Publishing, schema: [age: :integer], strict: true)
      iex> BeTree.PubSub.publish(Publishing, %{age: 30})
      :ok
      iex> {:error, error} = BeTree.PubSub.publish(Publishing, %{age: 30, hight: 1})
      iex> error.kind
      :unknown_attribute
  """
  @spec publish(name, Event.t(), timeout: timeout) :: :ok | {:error, Error.t()}
  def publish(pubsub, event, options \\ []), do: pubsub |> check_name!() |> Publication.publish(event, timeout(options))

  @doc "Like `publish/3`, but raises on error."
  @spec publish!(name, Event.t(), timeout: timeout) :: :ok
  def publish!(pubsub, event, options \\ []), do: Bang.unwrap!(publish(pubsub, event, options))

  @doc """
  Publishes events, in order: all of them, or none if one is refused. Searches for up to 256 events in one call, so an event costs less
  than with `publish/3`. A subscriber receives a message for each of its events.

  ## Options

  #{Options.docs(@publish_options)}

  Returns `:ok`, or `{:error, error}` with the kinds of `publish/3`. The error has the `position` of the event, from 0.

      iex> {:ok, _pid} = BeTree.PubSub.start_link(name: PublishingMany, schema: [age: :integer])
      iex> BeTree.PubSub.publish_many(PublishingMany, [%{age: 30}, %{age: 40}])
      :ok
      iex> {:error, error} = BeTree.PubSub.publish_many(PublishingMany, [%{age: 30}, %{age: "x"}])
      iex> {error.kind, error.position}
      {:type, 1}
  """
  @spec publish_many(name, Enumerable.t(), timeout: timeout) :: :ok | {:error, Error.t()}
  def publish_many(pubsub, events, options \\ []) do
    timeout = timeout(options)

    with :ok <- Check.events(events),
         do: pubsub |> check_name!() |> Publication.publish_many(Enum.to_list(events), timeout)
  end

  @doc "Like `publish_many/3`, but raises on error."
  @spec publish_many!(name, Enumerable.t(), timeout: timeout) :: :ok
  def publish_many!(pubsub, events, options \\ []), do: Bang.unwrap!(publish_many(pubsub, events, options))

  defp timeout([]), do: @default_timeout
  defp timeout(options), do: Options.put!(%{timeout: @default_timeout}, options, @publish_options).timeout

  @doc """
  Returns a map that describes the pubsub on this node. Reads tables.

    * `:subscriptions`, `:subscribers` - the subscriptions, and the processes that have some. Those of a process that has just ended may
      still count for some milliseconds;
    * `:full` - the subscribers that have reached their limit;
    * `:published` - the events that processes of this node published;
    * `:delivered`, `:dropped` - the messages that were sent to subscribers of this node, and those that were dropped at their limits. A
      publisher that is killed while it sends adds nothing;
    * `:refused` - the events of other nodes that do not fit the schema of this one;
    * `:nodes` - for each other node with a pubsub of this name, a map with the events on their way to it, `:in_flight`, and those that were
      dropped because too many were on their way or the connection was busy, `:unsent`.

  ## Options

  #{Options.docs(Common.timeout("milliseconds, or `:infinity`. The call waits for no other process, and returns an error if it took longer"))}

  Returns `{:error, error}` with the kind `:no_server` or `:timeout`.

      iex> {:ok, _pid} = BeTree.PubSub.start_link(name: Counted, schema: [age: :integer])
      iex> BeTree.PubSub.subscribe!(Counted, "age >= 21")
      iex> BeTree.PubSub.publish!(Counted, %{age: 30})
      iex> {:ok, stats} = BeTree.PubSub.stats(Counted)
      iex> {stats.subscriptions, stats.subscribers, stats.published, stats.delivered, stats.nodes}
      {1, 1, 1, 1, %{}}
  """
  @spec stats(name, timeout: timeout) :: {:ok, %{atom => term}} | {:error, Error.t()}
  def stats(pubsub, options \\ []) do
    deadline = Deadline.new(Check.timeout!(options))
    check_name!(pubsub)

    with {:ok, table} <- Table.fetch(pubsub),
         {:publishing, _rows, _index, _strict, _counters, peers} <- Table.publishing(pubsub) do
      sizes = %{
        subscriptions: :ets.info(table.rows, :size),
        subscribers: :ets.info(table.subscribers, :size),
        full: :ets.info(table.full, :size),
        nodes: Peers.describe(peers)
      }

      cond do
        # The tables ended meanwhile.
        :undefined in Map.values(sizes) -> Table.missing(pubsub)
        Deadline.passed?(deadline) -> {:error, %Error{kind: :timeout, message: "the call passed its timeout"}}
        true -> {:ok, Map.merge(Table.totals(table), sizes)}
      end
    end
  end

  @doc "Like `stats/2`, but returns the map and raises on error."
  @spec stats!(name, timeout: timeout) :: %{atom => term}
  def stats!(pubsub, options \\ []), do: Bang.unwrap!(stats(pubsub, options))

  defp check_name!(name) when is_atom_name(name), do: name
  defp check_name!(other), do: Check.expected!("the name of a BeTree.PubSub, an atom", other)
end

defmodule BeTree.Server do
  @moduledoc """
  A named index that is changed while it is searched, under a supervisor.

      children = [
        {BeTree.Server, name: Ads, schema: [age: :integer, country: {:string, optional: true}]}
      ]

      {:ok, _pid} = Supervisor.start_link(children, strategy: :one_for_one)
      {:ok, 2} = BeTree.Server.insert_all(Ads, [{1, "age >= 21"}, {2, "country = 'CA'"}])
      :ok = BeTree.Server.publish(Ads)
      {:ok, [1, 2]} = BeTree.search(Ads, %{age: 30, country: "CA"})

  The name stands for the index: whatever searches takes it, such as `BeTree.search/3`, `BeTree.search_many/3`,
  `BeTree.explain/4` and `BeTree.Search`.

  ## Searches

  A search goes around the server's process: it looks up what is published under the name, and never waits for a change.
  It runs in replicas (`BeTree.Index`), and where all are in use waits for one, or is refused as `:overloaded`.
  What it began on it ends on, whatever is changed or swapped meanwhile; what nothing uses any more is freed.

  ## Changes

  `insert/4`, `insert_all/2` and `delete/2` are taken by one process, in order, and acknowledged when they are part of the
  index. Searches see them when they are published: `:interval` milliseconds after the first that is not, or once there
  are `:changes` of them, or when `publish/1` is called. A change is seen whole or not at all, and none before those
  acknowledged earlier.

  Publishing takes as long as what was changed, not as what is there. What was inserted since the last *base*, the
  index of some moment, is a small index of its own, the *delta*; what was deleted since is held back from what the base
  finds. So a search costs a little more while there are changes: a second search of a small index, some 15 microseconds,
  and some 20 to 60 nanoseconds for each id that is found. When the changes are a sixteenth of the base (at least 1,000, at
  most 10,000) another process builds the next base from it, beside searches and changes, which do not wait for it. After
  four times as many, or more than 1,000 at once, as when an index is filled, the whole is published, and changes wait for
  that: about 50 milliseconds for 100,000 ad-targeting expressions.

  ## Swapping

  `swap/2` puts another index in the place of the present one, in use, or another index module under the same
  subscriptions.

  ## Crashes

  The base and all later changes are in tables that belong to the server's supervisor. A process that takes changes and
  crashes, or is killed, is started again, and makes of them what it had: nothing that was acknowledged is lost, and
  searches go on meanwhile with what was published. A change that was not yet acknowledged may be there or not.

  All of it is memory of this node, and ends with it, or with the supervisor.

  ## Following

  A server can follow another one, of any node: with `follow: {name, node}` in place of the schema. It then shows what
  that one shows. The base travels as an image (`BeTree.Image`) where there is another, and is checked before it is used;
  the changes since travel as an image of the delta, every `:interval` milliseconds at the most. When the other server or its
  node ends, or the connection, searches here go on with what came last, and it is asked for again every second. Changes
  are for the server that is followed, and raise here. See `BeTree.Cluster` for an index that is divided among nodes.

  ## Memory

  The base and the delta; the tree that changes go into, which shares with the base what they have not touched; and while
  the next base is built, that one and its tree too: between once and three times the index. Beside that the texts of the
  expressions, of which an index for another module is made.

  `docs/server.md` says how it works, and what it costs.
  """

  @behaviour Supervisor

  alias BeTree.{Domain, Error, Guest, Image, Index}
  alias BeTree.Engine.{Bang, Describe, Options, Subscription}
  alias BeTree.Engine.Options.Common
  alias BeTree.Server.{Follower, Keeper, Request, Table, Writer}

  @interval 30
  @interval_of_follower 1_000

  @options [
             name: [
               type: {:check, "an atom", &__MODULE__.name?/1},
               required: true,
               doc: "an atom. Searches and changes take it; an ETS table has it too"
             ],
             schema: [type: :any, doc: "the schema, as `BeTree.new/2` takes it"],
             follow: [
               type: {:check, "{name, node}", &__MODULE__.follow?/1},
               doc: "another server to follow, `{name, node}`, in place of a schema"
             ],
             interval: [
               type: {:nullable, :timeout},
               default_doc: "#{@interval}, or #{@interval_of_follower} for a server that follows",
               doc:
                 "milliseconds after which a change is published. With `:infinity` time publishes nothing. A server that " <>
                   "follows waits so long before it asks for the next version"
             ],
             changes: [
               type: :positive,
               default: 1_000,
               doc: "the number of unpublished changes that are published at once"
             ]
           ] ++ Common.take([:memory, :fuel_per_reduction, :guest, :runtime, :replicas, :queue])

  # More restarts than can happen in a second.
  @any_number 1_000_000_000

  @typedoc "The name of a server on this node."
  @type name :: atom

  @typedoc "See `start_link/1`."
  @type option ::
          {:name, name}
          | {:schema, [{atom | String.t(), BeTree.Domain.spec()} | BeTree.Domain.t()]}
          | {:interval, timeout}
          | {:changes, pos_integer}
          | {:follow, {name, node}}
          | BeTree.new_option()
          | Index.option()

  @doc """
  Starts a server, linked to the calling process: what a supervisor does with `{BeTree.Server, options}`. Its index is
  empty; that of a server which follows comes later, and until then there is none to search.

  ## Options

  #{Options.docs(@options)}

  A short interval costs: each time changes are published, that takes one to five milliseconds of a dirty scheduler, and
  the replicas of the delta are made anew by the searches that follow, a third of a millisecond each.

  It answers what `Supervisor.start_link/3` does; `{:error, %BeTree.Error{}}` with the kinds of `BeTree.new/2` and
  `BeTree.publish/2`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Starting, schema: [age: :integer])
      iex> BeTree.search(Starting, %{age: 30})
      {:ok, []}
  """
  @spec start_link([option]) :: Supervisor.on_start() | {:error, Error.t()}
  def start_link(options) do
    {name, options} = check(options)
    with {:ok, _parsed} <- Domain.parse(options[:schema] || []), do: start(name, options)
  end

  defp start(name, options) do
    cond do
      pid = Process.whereis(name) -> {:error, {:already_started, pid}}
      :ets.info(name, :owner) == :undefined -> {__MODULE__, {name, options}} |> start_supervisor() |> reason()
      Table.server?(name) -> {:error, {:already_started, :ets.info(name, :owner)}}
      true -> {:error, %Error{kind: :overloaded, message: "another ETS table has the name #{Describe.value(name)}"}}
    end
  end

  defp start_supervisor({module, argument}), do: Supervisor.start_link(module, argument)

  # The error of the process that could not start, without the supervisor's story of it.
  defp reason({:error, {:shutdown, {:failed_to_start_child, _child, %Error{} = error}}}), do: {:error, error}
  defp reason(other), do: other

  @doc false
  def child_spec(options) do
    unless Keyword.keyword?(options),
      do: raise(ArgumentError, "options are a keyword list, got: #{Describe.value(options)}")

    %{id: {__MODULE__, options[:name]}, start: {__MODULE__, :start_link, [options]}, type: :supervisor}
  end

  # This process owns the tables, so it ends only when it is told to. The keeper starts the server's process again; the
  # keeper itself is started again however often it is killed, and does nothing then that could fail.
  @impl Supervisor
  def init({name, options}) do
    module = if options[:follow], do: Follower, else: Writer
    children = [{Keeper, {module, Table.new(name), options}}]
    Supervisor.init(children, strategy: :one_for_one, max_restarts: @any_number, max_seconds: 1)
  end

  defp check(options) do
    options = Options.validate!(options, @options)
    publish = Keyword.take(options, [:replicas, :queue])
    {options[:name], check(options[:schema], options[:follow], publish, options)}
  end

  defp check(nil, nil, _publish, _options) do
    raise ArgumentError, "the option :schema is missing, or :follow"
  end

  defp check(schema, nil, publish, options) do
    interval = options[:interval] || @interval

    %{
      schema: schema,
      interval: interval,
      changes: options[:changes],
      memory: options[:memory],
      new: Keyword.take(options, [:guest, :memory, :fuel_per_reduction, :runtime]),
      publish: publish,
      read: read_options(options, publish)
    }
  end

  defp check(nil, follow, publish, options) do
    interval = options[:interval] || @interval_of_follower
    if interval == :infinity, do: raise(ArgumentError, "the option :interval of a server that follows is finite")
    %{follow: follow, interval: interval, read: read_options(options, publish)}
  end

  defp check(_schema, _follow, _publish, _options) do
    raise ArgumentError, "the options :schema and :follow exclude each other"
  end

  defp read_options(options, publish), do: Keyword.take(options, [:memory, :fuel_per_reduction, :runtime]) ++ publish

  @doc false
  def name?(name), do: is_atom(name) and name not in [nil, true, false]

  @doc false
  def follow?({name, node}), do: is_atom(name) and is_atom(node)
  def follow?(other), do: other == nil

  @doc """
  Inserts one subscription, as `BeTree.insert/4` does, with its options and errors.

  It is part of the index when this answers, and seen by searches once it is published. Waits for the changes before
  it: about 50 microseconds where there are none.

  Where no server of the name is there, or it ends before it answers, the error is of kind `:not_found`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Inserting, schema: [age: :integer])
      iex> :ok = BeTree.Server.insert(Inserting, 1, "age >= 21")
      iex> {:error, error} = BeTree.Server.insert(Inserting, 1, "age >= 30")
      iex> error.kind
      :duplicate_id
  """
  @spec insert(name, BeTree.id(), String.t(), constants: BeTree.constants()) :: :ok | {:error, Error.t()}
  def insert(name, id, expression, options \\ []) do
    with {:ok, subscription} <- Subscription.new(id, expression, options) do
      case Request.call(name, {:insert, [subscription]}) do
        {:ok, 1} -> :ok
        {:error, error} -> {:error, alone(error, id, expression)}
      end
    end
  end

  # The error of a list of one, as one that is about no list.
  defp alone(%Error{position: nil} = error, _id, _expression), do: error

  defp alone(error, id, expression) do
    message = String.replace_prefix(error.message, "subscription #{id}: ", "")
    %{error | message: message, text: expression, position: nil}
  end

  @doc "`insert/4` that raises its errors."
  @spec insert!(name, BeTree.id(), String.t(), constants: BeTree.constants()) :: :ok
  def insert!(name, id, expression, options \\ []), do: Bang.unwrap!(insert(name, id, expression, options))

  @doc """
  Inserts many subscriptions, all of them or none, as `BeTree.insert_all/3` does. Searches see all of them at once.

  Other changes wait until it is done: about 10 microseconds a subscription.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Filling, schema: [age: :integer])
      iex> BeTree.Server.insert_all(Filling, [{1, "age >= 21"}, {2, "age < 21"}])
      {:ok, 2}
  """
  @spec insert_all(name, Enumerable.t()) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(name, subscriptions) do
    with {:ok, subscriptions} <- Subscription.new_all(subscriptions), do: Request.call(name, {:insert, subscriptions})
  end

  @doc "`insert_all/2` that answers the count and raises its errors."
  @spec insert_all!(name, Enumerable.t()) :: non_neg_integer
  def insert_all!(name, subscriptions), do: Bang.unwrap!(insert_all(name, subscriptions))

  @doc """
  Deletes the subscription `id`, as `BeTree.delete/3` does; otherwise like `insert/4`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Deleting, schema: [age: :integer])
      iex> BeTree.Server.insert!(Deleting, 1, "age >= 21")
      iex> BeTree.Server.delete(Deleting, 1)
      :ok
  """
  @spec delete(name, BeTree.id()) :: :ok | {:error, Error.t()}
  def delete(name, id) do
    with :ok <- Subscription.check_id(id), do: Request.call(name, {:delete, id})
  end

  @doc "`delete/2` that raises its errors."
  @spec delete!(name, BeTree.id()) :: :ok
  def delete!(name, id), do: Bang.unwrap!(delete(name, id))

  @doc """
  Publishes all changes that were acknowledged: searches that start after this answers see them.

  Errors by kind: `:out_of_memory` where the node has none for what is published; searches then go on as before, and it
  is tried again after the interval.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Publishing, schema: [age: :integer], interval: :infinity)
      iex> BeTree.Server.insert!(Publishing, 1, "age >= 21")
      iex> before = BeTree.search!(Publishing, %{age: 30})
      iex> :ok = BeTree.Server.publish(Publishing)
      iex> {before, BeTree.search!(Publishing, %{age: 30})}
      {[], [1]}
  """
  @spec publish(name) :: :ok | {:error, Error.t()}
  def publish(name), do: Request.call(name, :publish)

  @doc "`publish/1` that raises its errors."
  @spec publish!(name) :: :ok
  def publish!(name), do: Bang.unwrap!(publish(name))

  @doc """
  The whole index as one value, with all changes that were acknowledged, to search or keep as it is now.

  Changes wait while it is published: about half a microsecond for each kilobyte of it.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Keeping, schema: [age: :integer])
      iex> BeTree.Server.insert!(Keeping, 1, "age >= 21")
      iex> {:ok, index} = BeTree.Server.index(Keeping)
      iex> BeTree.Server.delete!(Keeping, 1)
      iex> BeTree.search!(index, %{age: 30})
      [1]
  """
  @spec index(name) :: {:ok, Index.t()} | {:error, Error.t()}
  def index(name), do: Request.call(name, :index)

  @doc """
  Puts something else in the place of the present index, while it is in use.

    * A `BeTree.Index`: from now on this is what is searched and changed; it may have another schema and another guest.
      The present subscriptions are gone with the present index. It takes milliseconds.
    * `{:image, image}`: the index in a `BeTree.Image`, a file or a binary. It is read by the calling process.
    * A `BeTree.Guest`, or the bytes of one: the same subscriptions, in another index module. That index is built by a
      process of its own, in about the time that inserting them took; what is changed meanwhile is in it too.

  Searches that began before end on what they began on; those that start after this answers are on the new one.

  Errors by kind: `:bad_module` for a module that is not one, those of `BeTree.Image.read/2` for an image, `:not_found`
  where the subscriptions are not known because their index was swapped in, those of `BeTree.insert_all/3` where the
  module refuses an expression, `:overloaded` where before the building was done another swap came, `index/1` was called, or
  so much was changed that the whole was published, and `:out_of_memory`. After an error everything is as it was.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Swapping, schema: [age: :integer])
      iex> tree = BeTree.new!(age: :integer, plan: :integer)
      iex> BeTree.insert!(tree, 7, "plan = 3")
      iex> :ok = BeTree.Server.swap(Swapping, BeTree.publish!(tree))
      iex> BeTree.search!(Swapping, %{age: 30, plan: 3})
      [7]
  """
  @spec swap(name, Index.t() | {:image, Image.source()} | Guest.t() | binary) :: :ok | {:error, Error.t()}
  def swap(name, %Index{} = index), do: Request.call(name, {:swap, index})

  def swap(name, {:image, image}) do
    with {:ok, options} <- Request.call(name, :read_options),
         {:ok, index} <- Image.read(image, options),
         do: swap(name, index)
  end

  def swap(name, %Guest{} = guest), do: Request.call(name, {:swap, guest})

  def swap(name, wasm) when is_binary(wasm) do
    with {:ok, guest} <- Guest.load(wasm), do: swap(name, guest)
  end

  def swap(_name, other) do
    expected = "a BeTree.Index, {:image, image}, a BeTree.Guest or the bytes of one"
    raise ArgumentError, "what is swapped in is #{expected}, got: #{Describe.value(other)}"
  end

  @doc "`swap/2` that raises its errors."
  @spec swap!(name, Index.t() | {:image, Image.source()} | Guest.t() | binary) :: :ok
  def swap!(name, to), do: Bang.unwrap!(swap(name, to))

  @doc """
  What the server holds:

    * `:expressions` - how many subscriptions, of which `:inserted` since the base was published, and `:deleted` since;
    * `:version` - the number of changes (an `insert_all/2` is one), and `:shown`, up to which searches see them;
    * `:views`, `:bases` - how often changes were published, and how often a base;
    * `:building` - whether the next base is being built;
    * `:memory` - bytes of what is published;
    * `:error` - the error of the last publishing, or `nil`.

  Of a server that follows: `:follows`, and whether it is `:connected`; `:expressions`, `:shown`, `:views`, `:bases`,
  `:memory` and `:error`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Informing, schema: [age: :integer], interval: :infinity)
      iex> BeTree.Server.insert!(Informing, 1, "age >= 21")
      iex> {:ok, info} = BeTree.Server.info(Informing)
      iex> {info.expressions, info.version, info.shown}
      {1, 1, 0}
  """
  @spec info(name) :: {:ok, map} | {:error, Error.t()}
  def info(name), do: Request.call(name, :info)

  @doc "`info/1` that answers the map and raises its errors."
  @spec info!(name) :: map
  def info!(name), do: Bang.unwrap!(info(name))
end

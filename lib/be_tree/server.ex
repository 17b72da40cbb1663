defmodule BeTree.Server do
  @moduledoc """
  A server is a named, supervised index that changes while it is searched.

      children = [
        {BeTree.Server, name: Ads, schema: [age: :integer, country: {:string, optional: true}]}
      ]

      {:ok, _pid} = Supervisor.start_link(children, strategy: :one_for_one)
      {:ok, 2} = BeTree.Server.insert_all(Ads, [{1, "age >= 21"}, {2, "country = 'CA'"}])
      :ok = BeTree.Server.publish(Ads)
      {:ok, [1, 2]} = BeTree.search(Ads, %{age: 30, country: "CA"})

  Every function that searches takes the name of a server: `BeTree.search/3`, `BeTree.search_many/3`, `BeTree.explain/4`,
  `BeTree.Search` and the others.

  ## Searches

  A search sends no message to the server's process. It looks up the published index under the name, and never waits for a
  change. It runs in a replica (`BeTree.Index`); when all replicas are in use, it waits for one or returns an error of kind
  `:overloaded`. A search ends on the index on which it began, even if it is changed or swapped meanwhile. An index that
  nothing uses any more is freed.

  ## Changes

  One process takes `insert/4`, `insert_all/3` and `delete/3`, in order, and acknowledges each when it is part of the index.
  Searches see a change when it is published: `:interval` milliseconds after the first unpublished change, or once there are
  `:changes` of them, or on `publish/2`. A search sees a change as a whole or not at all, and never without the changes
  acknowledged before it.

  Publishing costs time in proportion to the changes, not to the index. The subscriptions that were inserted since the last
  *base*, the index of an earlier moment, form a small index of their own, the *delta*. Ids that were deleted since are
  removed from the results of the base. While there are changes, a search therefore costs a second search of a small index,
  about 15 microseconds, and 20 to 60 nanoseconds for each id that is found. When the changes reach a sixteenth of the base
  (at least 1,000, at most 10,000), another process builds the next base, beside searches and changes, which do not wait for
  it. When they reach four times that number, or more than 1,000 arrive at once, as when an index is filled, the server
  publishes the whole index, and changes wait for that: about 50 milliseconds for 100,000 ad-targeting expressions.

  ## Swapping

  `swap/3` replaces the present index while it is in use, or puts another index module under the same subscriptions.

  ## Crashes

  The server's supervisor owns the tables with the base and all later changes. When the process that takes changes crashes
  or is killed, the supervisor starts it again, and it rebuilds its state from these tables. No acknowledged change is lost,
  and searches continue with the published index meanwhile. A change that was not acknowledged may be part of the index or not.

  Nothing is persisted: stopping the supervisor or the node loses the index.

  ## Following

  A server can follow another one, on any node: with `follow: {name, node}` in place of the schema. It then shows the index
  of that server. The base travels as an image (`BeTree.Image`) when it has changed, and is checked before it is used. Later
  changes travel as an image of the delta, at most every `:interval` milliseconds. When the other server, its node or the
  connection ends, searches continue with the last version, and the follower tries to connect every second. Changes of a
  follower raise an `ArgumentError`: change the server that it follows. `BeTree.Cluster` divides an index among nodes.

  ## Memory

  A server holds the base and the delta, and the tree that takes changes, which shares unchanged pages with the base. While
  the next base is built, that base and its tree come on top. In total this is one to three times the index. The server also
  keeps the texts of the expressions, from which it builds an index for another module.

  `docs/server.md` describes how a server works, and its cost.
  """

  @behaviour Supervisor

  alias BeTree.{Domain, Error, Guest, Image, Index}
  alias BeTree.Engine.{Bang, Check, Deadline, Describe, Options, Subscription}
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
               default_doc: "#{@interval}, and to #{@interval_of_follower} for a server that follows",
               doc:
                 "milliseconds after which a change is published. With `:infinity` time publishes nothing. A server that " <>
                   "follows asks for the next version after this time"
             ],
             changes: [
               type: :positive,
               default: 1_000,
               doc: "the number of unpublished changes that are published at once"
             ]
           ] ++ Common.take([:memory, :fuel_per_reduction, :guest, :runtime, :replicas, :queue])

  @change_options Common.timeout(
                    "milliseconds that the call may wait for the server, or `:infinity`. A change whose call passed its " <>
                      "timeout may still be made"
                  )
  @insert_options Common.take([:constants]) ++ @change_options
  @wait_options Common.timeout("milliseconds that the call may wait for the server, or `:infinity`")

  # More restarts than can happen in a second.
  @any_number 1_000_000_000

  @typedoc "The name of a server on this node."
  @type name :: atom

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:name, name}
          | {:schema, BeTree.schema()}
          | {:interval, timeout}
          | {:changes, pos_integer}
          | {:follow, {name, node}}
          | BeTree.new_option()
          | Index.option()

  @doc """
  Starts a server that is linked to the calling process. A supervisor calls this function for `{BeTree.Server, options}`.

  The index is empty. A server that follows has no index until the first version arrives, and searches return an error of
  kind `:not_found` until then.

  ## Options

  #{Options.docs(@options)}

  A short interval has a cost: publishing changes takes one to five milliseconds on a dirty scheduler, and the searches that
  follow make the replicas of the delta, a third of a millisecond each.

  Returns the results of `Supervisor.start_link/3`, or `{:error, %BeTree.Error{}}` with the kinds of `BeTree.new/2` and
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

  # Returns the error of the process that could not start, without the supervisor's wrapping.
  defp reason({:error, {:shutdown, {:failed_to_start_child, _child, %Error{} = error}}}), do: {:error, error}
  defp reason(other), do: other

  @doc false
  def child_spec(options) do
    Options.keyword!(options)
    %{id: {__MODULE__, options[:name]}, start: {__MODULE__, :start_link, [options]}, type: :supervisor}
  end

  # This process owns the tables, so it ends only when it is told to. The keeper restarts the server's process. This
  # supervisor restarts the keeper however often it is killed, and the start of the keeper cannot fail.
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
  Inserts one subscription, as `BeTree.insert/4` does.

  The subscription is part of the index when the function returns. Searches see it once it is published. The call waits for
  earlier changes; without any it takes about 50 microseconds.

  ## Options

  #{Options.docs(@insert_options)}

  Returns `{:error, error}` with the kinds of `BeTree.insert/4`, and `:not_found` when no server of this name runs or it ends
  during the call.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Inserting, schema: [age: :integer])
      iex> :ok = BeTree.Server.insert(Inserting, 1, "age >= 21")
      iex> {:error, error} = BeTree.Server.insert(Inserting, 1, "age >= 30")
      iex> error.kind
      :duplicate_id
  """
  @spec insert(name, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) ::
          :ok | {:error, Error.t()}
  def insert(name, id, expression, options \\ []) do
    {timeout, options} = options |> Options.validate!(@insert_options) |> Keyword.pop!(:timeout)

    with {:ok, subscription} <- Subscription.new(id, expression, options) do
      case Request.call(name, {:insert, [subscription]}, timeout) do
        {:ok, 1} -> :ok
        {:error, error} -> {:error, alone(error, id, expression)}
      end
    end
  end

  # Turns the error of a list of one subscription into an error of a single subscription.
  defp alone(%Error{position: nil} = error, _id, _expression), do: error

  defp alone(error, id, expression) do
    message = String.replace_prefix(error.message, "subscription #{id}: ", "")
    %{error | message: message, text: expression, position: nil}
  end

  @doc "Like `insert/4`, but raises on error."
  @spec insert!(name, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def insert!(name, id, expression, options \\ []), do: Bang.unwrap!(insert(name, id, expression, options))

  @doc """
  Inserts many subscriptions, all of them or none, as `BeTree.insert_all/3` does. Searches see all of them at once.

  Other changes wait until it is done, about 10 microseconds per subscription. Returns the number of subscriptions.

  ## Options

  #{Options.docs(@change_options)}

  Returns `{:error, error}` with the kinds of `insert/4`. The error has the `position` of the first wrong subscription,
  from 0.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Filling, schema: [age: :integer])
      iex> BeTree.Server.insert_all(Filling, [{1, "age >= 21"}, {2, "age < 21"}])
      {:ok, 2}
  """
  @spec insert_all(name, Enumerable.t(), timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(name, subscriptions, options \\ []) do
    timeout = Check.timeout!(options)

    with {:ok, subscriptions} <- Subscription.new_all(subscriptions),
         do: Request.call(name, {:insert, subscriptions}, timeout)
  end

  @doc "Like `insert_all/3`, but returns the count and raises on error."
  @spec insert_all!(name, Enumerable.t(), timeout: timeout) :: non_neg_integer
  def insert_all!(name, subscriptions, options \\ []), do: Bang.unwrap!(insert_all(name, subscriptions, options))

  @doc """
  Deletes the subscription `id`, as `BeTree.delete/3` does. Searches see the deletion once it is published.

  ## Options

  #{Options.docs(@change_options)}

  Returns `{:error, error}` with the kinds of `BeTree.delete/3`, and `:not_found` when no server of this name runs or it ends
  during the call.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Deleting, schema: [age: :integer])
      iex> BeTree.Server.insert!(Deleting, 1, "age >= 21")
      iex> BeTree.Server.delete(Deleting, 1)
      :ok
  """
  @spec delete(name, BeTree.id(), timeout: timeout) :: :ok | {:error, Error.t()}
  def delete(name, id, options \\ []) do
    timeout = Check.timeout!(options)
    with :ok <- Subscription.check_id(id), do: Request.call(name, {:delete, id}, timeout)
  end

  @doc "Like `delete/3`, but raises on error."
  @spec delete!(name, BeTree.id(), timeout: timeout) :: :ok
  def delete!(name, id, options \\ []), do: Bang.unwrap!(delete(name, id, options))

  @doc """
  Publishes all acknowledged changes. Searches that start after the function returned see them.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:out_of_memory` when the node lacks memory for the published index. Searches
  then continue as before, and the server tries again after the interval. The kind is `:not_found` when no server of this
  name runs, or `:timeout`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Publishing, schema: [age: :integer], interval: :infinity)
      iex> BeTree.Server.insert!(Publishing, 1, "age >= 21")
      iex> before = BeTree.search!(Publishing, %{age: 30})
      iex> :ok = BeTree.Server.publish(Publishing)
      iex> {before, BeTree.search!(Publishing, %{age: 30})}
      {[], [1]}
  """
  @spec publish(name, timeout: timeout) :: :ok | {:error, Error.t()}
  def publish(name, options \\ []), do: Request.call(name, :publish, Check.timeout!(options))

  @doc "Like `publish/2`, but raises on error."
  @spec publish!(name, timeout: timeout) :: :ok
  def publish!(name, options \\ []), do: Bang.unwrap!(publish(name, options))

  @doc """
  Returns the whole index as a `BeTree.Index`, with all acknowledged changes.

  Changes wait while the index is published: about half a microsecond per kilobyte. A server that follows raises an
  `ArgumentError`.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:out_of_memory`, `:timeout`, or `:not_found` when no server of this name runs.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Keeping, schema: [age: :integer])
      iex> BeTree.Server.insert!(Keeping, 1, "age >= 21")
      iex> {:ok, index} = BeTree.Server.index(Keeping)
      iex> BeTree.Server.delete!(Keeping, 1)
      iex> BeTree.search!(index, %{age: 30})
      [1]
  """
  @spec index(name, timeout: timeout) :: {:ok, Index.t()} | {:error, Error.t()}
  def index(name, options \\ []), do: Request.call(name, :index, Check.timeout!(options))

  @doc """
  Replaces the present index, while it is in use.

    * A `BeTree.Index`: the server searches and changes this index from now on. It may have another schema and another guest.
      The present subscriptions are lost with the present index. The swap takes milliseconds.
    * `{:image, image}`: the index in a `BeTree.Image`, a file or a binary. The calling process reads it.
    * A `BeTree.Guest`, or the bytes of one: the same subscriptions in another index module. A separate process builds that
      index, in about the time that inserting the subscriptions took. It includes changes that come meanwhile.

  A search that began earlier ends on the index on which it began. Searches that start after the function returned run on the
  new index.

  ## Options

  #{Options.docs(@change_options)}

  Returns `{:error, error}`, and changes nothing, with the kind

    * `:bad_module` for bytes that are no index module;
    * those of `BeTree.Image.read/2` for an image;
    * `:not_found` when the server does not know the expressions, because their index was swapped in;
    * those of `BeTree.insert_all/3` when the module refuses an expression;
    * `:overloaded` when, during the building, another swap came, `index/2` was called, or the whole index was published;
    * `:out_of_memory` or `:timeout`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Swapping, schema: [age: :integer])
      iex> tree = BeTree.new!(age: :integer, plan: :integer)
      iex> BeTree.insert!(tree, 7, "plan = 3")
      iex> :ok = BeTree.Server.swap(Swapping, BeTree.publish!(tree))
      iex> BeTree.search!(Swapping, %{age: 30, plan: 3})
      [7]
  """
  @spec swap(name, Index.t() | {:image, Image.source()} | Guest.t() | binary, timeout: timeout) ::
          :ok | {:error, Error.t()}
  def swap(name, to, options \\ []), do: swap_until(name, to, Deadline.new(Check.timeout!(options)))

  defp swap_until(name, %Index{} = index, deadline), do: Request.call(name, {:swap, index}, Deadline.left(deadline))
  defp swap_until(name, %Guest{} = guest, deadline), do: Request.call(name, {:swap, guest}, Deadline.left(deadline))

  defp swap_until(name, {:image, image}, deadline) do
    with {:ok, options} <- Request.call(name, :read_options, Deadline.left(deadline)),
         {:ok, index} <- Image.read(image, options),
         do: swap_until(name, index, deadline)
  end

  defp swap_until(name, wasm, deadline) when is_binary(wasm) do
    with {:ok, guest} <- Guest.load(wasm), do: swap_until(name, guest, deadline)
  end

  defp swap_until(_name, other, _deadline) do
    Check.expected!("a BeTree.Index, {:image, image}, a BeTree.Guest or the bytes of one", other)
  end

  @doc "Like `swap/3`, but raises on error."
  @spec swap!(name, Index.t() | {:image, Image.source()} | Guest.t() | binary, timeout: timeout) :: :ok
  def swap!(name, to, options \\ []), do: Bang.unwrap!(swap(name, to, options))

  @doc """
  Returns a map that describes the server.

    * `:expressions` - the number of subscriptions; `:inserted` and `:deleted` - those changed since the base was published;
    * `:version` - the number of changes (an `insert_all/3` is one); `:shown` - the last of them that searches see;
    * `:views`, `:bases` - how often changes were published, and how often a base;
    * `:building` - whether a process builds the next base;
    * `:memory` - the bytes of the published index;
    * `:error` - the error of the last publishing, or `nil`.

  The map of a server that follows has `:follows`, `:connected`, `:expressions`, `:shown`, `:views`, `:bases`, `:memory` and
  `:error`.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:timeout`, or `:not_found` when no server of this name runs.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Informing, schema: [age: :integer], interval: :infinity)
      iex> BeTree.Server.insert!(Informing, 1, "age >= 21")
      iex> {:ok, info} = BeTree.Server.info(Informing)
      iex> {info.expressions, info.version, info.shown}
      {1, 1, 0}
  """
  @spec info(name, timeout: timeout) :: {:ok, map} | {:error, Error.t()}
  def info(name, options \\ []), do: Request.call(name, :info, Check.timeout!(options))

  @doc "Like `info/2`, but returns the map and raises on error."
  @spec info!(name, timeout: timeout) :: map
  def info!(name, options \\ []), do: Bang.unwrap!(info(name, options))
end

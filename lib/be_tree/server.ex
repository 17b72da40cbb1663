defmodule BeTree.Server do
  @moduledoc """
  A server is a named, supervised index that changes while it is searched.

      children = [
        {BeTree.Server, name: Ads, schema: [age: :integer, country: {:string, optional: true}]}
      ]

      {:ok, _pid} = Supervisor.start_link(children, strategy: :one_for_one)
      {:ok, 2} = BeTree.Server.insert_all(Ads, [{1, "age >= 21"}, {2, "country = 'CA'"}])
      {:ok, [1, 2]} = BeTree.search(Ads, %{age: 30, country: "CA"})

  Every function that searches takes the name of a server: `BeTree.search/3`, `BeTree.search_many/3`, `BeTree.explain/4`,
  `BeTree.Search` and the others. So do `BeTree.insert/4`, `BeTree.insert_all/3` and `BeTree.delete/3`.

  ## Searches

  A search that begins after a change was acknowledged sees the change, in any process of the node. A search sees a change as a
  whole or not at all, and never without the changes acknowledged before it.

  A search sends no message to the server's process. It looks up the replicas of the index under the server's name, and runs in
  one of them (`BeTree.Index`). The replica first applies the changes that it lacks, 11 to 26 microseconds each; a search
  normally finds few or none. When all replicas are in use, the search waits for one, or returns an error of kind
  `:overloaded`. A search ends on the index on which it began, even if another index is swapped in meanwhile.

  ## Changes

  Changes of one or several subscriptions are `insert/4`, `insert_all/3`, `put/4`, `put_all/3`, `delete/3` and `delete_all/3`. `change/2` puts
  and deletes any number of subscriptions, all or nothing. `sync/3` takes a list of all subscriptions, and makes the difference.

  One process makes all changes, in order. It makes a change in a tree of its own, which accepts or refuses the change, appends the change to
  a log, and acknowledges it, in about 50 microseconds. The replicas apply the log.

  At times another process copies a replica. The copy is the next *base*, with which new replicas begin, and the log before it is
  dropped. Neither searches nor changes wait for that, and the other replicas stay as they are. A change of more than 1,000 subscriptions makes a
  base at once, and other changes wait for it: about 50 milliseconds for 100,000 ad-targeting expressions.

  ## Ids

  Ids are unsigned 64-bit integers, the fast path. With `ids: :term` they are any terms: a string, `{:rule, 7}`, a struct.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Named, schema: [age: :integer], ids: :term)
      iex> :ok = BeTree.insert(Named, {:rule, "adults"}, "age >= 21")
      iex> BeTree.search(Named, %{age: 30})
      {:ok, [{:rule, "adults"}]}

  All functions then take and return terms, lists of them in the order of terms. Terms are compared exactly: `1` and `1.0` are
  two ids. An id takes at most 65,536 bytes; a larger one is an error of kind `:out_of_bounds`. With `:dir`, ids have no process,
  port, reference or function in them, which mean nothing after a restart; the error is of kind `:type`.

  Searches burn the same fuel with both. A term costs a search about half a microsecond for each id that it returns, and an insertion
  a few microseconds. Its tables take some 200 bytes for each id (`info/2`), which the option `:memory` does not count.

  An index, an image and a profile have integers for ids. So `index/2`, `BeTree.Image`, `BeTree.profile/3` and `swap/3` with an
  index return an error of kind `:type` for such a server, and so does a search with `as: :binary` or `as: :bitmap`. Trees and
  published indexes take integers only. A `BeTree.Cluster` of such servers is made with `ids: :term`.

  ## Swapping

  `swap/3` replaces the present index while it is in use, or puts another index module under the same subscriptions.

  ## Crashes

  The server's supervisor owns the tables with the base, the log and the texts of the subscriptions. When the process that makes
  changes crashes or is killed, it is started again, and rebuilds its state from these tables. No acknowledged change is lost,
  and searches continue meanwhile.

  Until the process runs again, changes, `info/2` and waits return an error of kind `:no_server`, and so does a change during which it
  ended: that change may be made or not. Call again after a pause, as [the guide](supervision.md#a-crash) shows. A repeated `put/4`,
  `put_all/3` or `sync/3` has the same effect as one. A repeated `insert/4` returns `:duplicate_id`, and a repeated `delete/3` `:not_found`, if
  the first call was made.

  ## Durability

  Without `:dir`, stopping the supervisor or the node loses the index. `:load` fills it at the next start from a function of
  yours, such as a query of a database, and `:image` from a file. Until then searches return an error of kind `:not_ready`, and
  `start_link/1` returns when the server is filled. If your function raises, throws or exits, the start returns an error of kind
  `:callback` with the exception's class and message, and the log has its stack trace. A wrong subscription also fails the start, unless
  `on_error: :collect` leaves it out.

  With `:dir`, the server writes each change to a journal in this folder before it acknowledges it, and at times a *base*, the
  whole index with its texts. A server that is started with the folder again has all changes, also after the node was killed at
  any moment. `:durability` says what an acknowledged change has survived:

    * `:sync`, the default: a loss of power. The change is on the disk. Changes that wait at the same time share one sync, so
      concurrent callers make more changes a second than one caller does;
    * `{:interval, ms}`: the end of the node. A loss of power, or a crash of the system, may lose about the last `ms`
      milliseconds, and never a change before one that it keeps;
    * `:none`: the end of the node. The system decides when the changes reach the disk.

  When the disk is full or fails, a change returns an error of kind `:file` and is not made; searches continue, and changes too
  when there is room. One server has the folder at a time. A folder that is damaged, in use, or of another schema is refused by
  `start_link/1` with an error of kind `:damaged`, `:locked` or `:other_schema`, and not changed. The option `schema_change: :migrate`
  moves a folder to another schema at the start.

  ## Another schema

  `migrate/3` changes the schema of a running server, and `schema_change: :migrate` that of a folder at the start, if the texts of all
  subscriptions fit the new schema. Otherwise nothing changes, and the error lists the subscriptions that do not fit.

  ## Following

  A server can follow another one, on any node: with `follow: {name, node}` in place of the schema. It receives the changes of
  that server as they come, milliseconds later, and searches run on its own replicas. An image of the whole index
  (`BeTree.Image`) travels only at the start, after a swap, and after a long interruption. It is checked before it is used. When
  the other server, its node or the connection ends, searches continue with the last version, and the follower tries to connect
  every second. Searches also continue when the follower cannot take a change or an index, for lack of memory for example.
  Then `info/2` has the error, and the follower requests the index at intervals that grow to 30 seconds, until it fits.

  `await/3` waits until a follower has a version, or a position (`position/2`), which also distinguishes the histories of two starts
  of a server. A follower starts over by itself when the other server has another history, because that server was started without
  its data or restored from a backup. Changes of a follower raise an `ArgumentError`: change the server that it follows.
  `BeTree.Cluster` divides an index among nodes.

  ## Memory

  A server holds the base, the tree that accepts changes, and the replicas, one for each scheduler unless `:replicas` says otherwise.
  At first they share the pages of the base. After many changes each has its own copy, so a changing server takes the memory of
  `replicas + 2` indexes. While the index keeps its size, the memory then stays flat. The server also keeps the texts of the
  expressions.

  [Servers](server.md) describes how a server works, and its cost.
  """

  @behaviour Supervisor

  import BeTree.Input.Limits, only: [is_name: 1, is_u64: 1]

  alias BeTree.{Domain, Error, Guest, Image, Index, Target, Telemetry}
  alias BeTree.Call.{Instance, InstanceOptions}
  alias BeTree.Error.Bang
  alias BeTree.Input.{Check, Describe, Limits, Options, Subscription}
  alias BeTree.Processes.{Aside, Deadline, Supervised}
  alias BeTree.Input.Options.Common
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Checks, Copy, Follower, Gauges, Keeper, Lookup, Names, Request, Sync, Table, Writer}
  alias BeTree.Target.View

  @options [
             name: [
               type: {:check, "an atom or {:via, module, term}", &__MODULE__.name?/1},
               required: true,
               doc:
                 "an atom, or `{:via, module, term}`, such as `{:via, Registry, {MyApp.Registry, id}}`. Searches and changes take " <>
                   "it. The supervisor is registered under it, and an atom is also the name of an ETS table"
             ],
             schema: [type: :any, doc: "the schema, as `BeTree.new/2` takes it"]
           ] ++
             Common.on_mismatch_of_schema() ++
             [
               ids: [
                 type: {:one_of, [:integer, :term]},
                 default: :integer,
                 doc:
                   "`:integer` for ids that are unsigned integers of 64 bits, or `:term` for any term. A server that follows has the " <>
                     "ids of the other one"
               ],
               follow: [
                 type: {:check, "{name, node}", &__MODULE__.follow?/1},
                 doc: "another server to follow, `{name, node}`, in place of a schema"
               ],
               dir: [
                 type: {:nullable, {:check, "the path of a folder, a string that is not empty", &Check.folder?/1}},
                 doc:
                   "a folder in which the server keeps its changes, on a disk of this machine. A server that is started with it " <>
                     "again has them all"
               ],
               durability: [
                 type: {:check, ":sync, {:interval, milliseconds} or :none", &__MODULE__.durability?/1},
                 default: :sync,
                 doc:
                   "with `:dir`, the promise of an acknowledged change. `:sync`: it is on the disk. `{:interval, ms}`: it survives " <>
                     "the end of the node, and is on the disk about `ms` milliseconds later. `:none`: it survives the end of the node"
               ],
               schema_change: [
                 type: {:one_of, [:refuse, :migrate]},
                 default: :refuse,
                 doc:
                   "with `:dir`, for a folder of another schema. `:refuse` returns an error of kind `:other_schema`. `:migrate` moves " <>
                     "the folder to the schema of this start, as `migrate/3` does, if all of its subscriptions fit. Otherwise the error of kind " <>
                     "`:schema_change` has up to 100 of them in its field `:faults`"
               ],
               load: [
                 type: {:check, "{module, function, arguments}", &__MODULE__.load?/1},
                 doc:
                   "`{module, function, arguments}`, called at the start. It returns subscriptions, as `insert_all/3` takes them, " <>
                     "also as `{:ok, subscriptions}`, or `{:error, error}`, with which the start fails. If it raises, the start returns an " <>
                     "error of kind `:callback`"
               ],
               on_error: [
                 type: {:one_of, [:stop, :collect]},
                 default: :stop,
                 doc:
                   "with `:load`, for a wrong subscription. `:stop` fails the start with its error. `:collect` leaves it out, and the " <>
                     "server starts with the others. `faults/2` then returns the wrong ones, and the log has their number"
               ],
               image: [type: :any, doc: "a `t:BeTree.Image.source/0` with which the server begins"]
             ] ++
             InstanceOptions.take([:memory, :fuel_per_reduction, :guest, :runtime]) ++
             [
               replicas: [
                 type: {:integer, 1, Limits.max_replicas()},
                 default: {:computed, &System.schedulers_online/0},
                 default_doc: "the number of online schedulers",
                 doc:
                   "the number of searches that may run at once, up to #{Limits.max_replicas()}. A replica is made when it is " <>
                     "first needed. Each applies every change, and takes as much memory as the index after many changes"
               ]
             ] ++
             InstanceOptions.take([:queue]) ++
             [
               max_restarts: [
                 type: :positive,
                 default: 100,
                 doc:
                   "how often the server's process may end in `:max_seconds` seconds. When it ends more often, the server's " <>
                     "supervisor ends with the reason `:shutdown`, and its own supervisor decides"
               ],
               max_seconds: [type: :positive, default: 60, doc: "the seconds in which `:max_restarts` counts"]
             ]

  @change_options Common.timeout(
                    "milliseconds that the call may wait for the server, or `:infinity`. A change whose call passed its " <>
                      "timeout may still be made"
                  )
  @collect_options [
    on_error: [
      type: {:one_of, [:stop, :collect]},
      default: :stop,
      doc:
        "`:stop` changes nothing and returns the first error. `:collect` leaves out the subscriptions and ids that " <>
          "are wrong, and returns them as `:faults`, with their errors"
    ]
  ]
  @sync_options @collect_options ++ @change_options
  @insert_all_options [
                        on_error: [
                          type: {:one_of, [:stop, :collect]},
                          default: :stop,
                          doc:
                            "`:stop` returns the first error. `:collect` checks all subscriptions and returns a list of the " <>
                              "errors, each with its position"
                        ]
                      ] ++ @change_options
  @change_all_options Common.put_and_delete() ++ @collect_options ++ @change_options
  @migrate_options Common.on_mismatch_of_schema() ++ @change_options
  @read_timeout "milliseconds, or `:infinity`. The call waits for no other process, and returns an error if it took longer"
  @read_options Common.timeout(@read_timeout)
  @validate_options Common.take([:constants]) ++ @read_options
  @wait_options Common.timeout("milliseconds that the call may wait for the server, or `:infinity`")

  @typedoc "The name of a server on this node."
  @type name :: atom | {:via, module, term}

  @typedoc "A version and the lineage to which it belongs (`position/2`)."
  @type position :: {lineage :: String.t(), version :: non_neg_integer}

  @typedoc """
  The counts of a change: the subscriptions that were inserted or replaced, those that were deleted, and those of the list that were
  there already. With `on_error: :collect` the map has `:faults` too.
  """
  @type counts :: %{
          required(:put) => non_neg_integer,
          required(:deleted) => non_neg_integer,
          required(:unchanged) => non_neg_integer,
          optional(:faults) => [fault]
        }

  @typedoc "A subscription or an id to delete that was left out: its id, or `nil` if it has none, and its error."
  @type fault :: {BeTree.id() | term, Error.t()}

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:name, name}
          | {:schema, BeTree.schema()}
          | {:ids, :integer | :term}
          | {:follow, {name, node}}
          | {:dir, Path.t()}
          | {:durability, :sync | {:interval, non_neg_integer} | :none}
          | {:schema_change, :refuse | :migrate}
          | {:load, {module, atom, list}}
          | {:on_error, :stop | :collect}
          | {:image, Image.source()}
          | {:max_restarts, pos_integer}
          | {:max_seconds, pos_integer}
          | BeTree.new_option()
          | Index.option()

  @doc """
  Starts a server that is linked to the calling process. A supervisor calls this function for `{BeTree.Server, options}`.

  The index is empty, unless `:dir`, `:load` or `:image` fills it. A server that follows has no index until the first version arrives, and searches return an error of
  kind `:not_ready` until then.

  ## Options

  #{Options.docs(@options)}

  Returns `{:ok, pid}` with the pid of the server's supervisor, `{:error, {:already_started, pid}}` when a server of this name
  runs, or `{:error, %BeTree.Error{}}` with the kinds of `BeTree.new/2` and `BeTree.publish/2`, those of the option that fills the
  server, and `:file`, `:damaged`, `:locked`, `:other_schema` or `:schema_change` for the folder of `:dir`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Starting, schema: [age: :integer])
      iex> BeTree.search(Starting, %{age: 30})
      {:ok, []}
  """
  @spec start_link([option]) :: Supervisor.on_start() | {:error, Error.t()}
  def start_link(options) do
    {name, options} = check(options)
    with {:ok, options} <- parse_schema(options), do: start(name, options)
  end

  # From here on the attributes have the default.
  defp parse_schema(%{schema: schema} = options) do
    {on_mismatch, options} = Map.pop!(options, :on_mismatch)
    with {:ok, schema} <- Domain.parse(schema, on_mismatch), do: {:ok, %{options | schema: schema}}
  end

  defp parse_schema(following), do: {:ok, following}

  defp start(name, options) do
    Names.check!(name)

    Supervised.start_link(__MODULE__, {name, options}, name)
  end

  @doc """
  Returns the child specification of a server, with which `{BeTree.Server, options}` stands in a list of children.

    * `:id` is `{BeTree.Server, name}`, so one supervisor can have many servers;
    * `:type` is `:supervisor`, so `:shutdown` is `:infinity`: the server ends when its last changes are on the disk;
    * `:restart` is `:permanent`. Use `Supervisor.child_spec/2` for another value: with `:transient` or `:temporary` a server that
      ends because of `:max_restarts` stays away.

  A server that is restarted recovers its folder, or begins with `:load` or `:image`; without these options it is empty.

      iex> BeTree.Server.child_spec(name: Ads, schema: [age: :integer]).id
      {BeTree.Server, Ads}
      iex> Supervisor.child_spec({BeTree.Server, name: Ads, schema: [age: :integer]}, restart: :transient).restart
      :transient
  """
  @spec child_spec([option]) :: Supervisor.child_spec()
  def child_spec(options), do: Supervised.child_spec(__MODULE__, options)

  @doc """
  Stops a server. Without `:dir` its index is lost; with it, all changes are on the disk. Its name is free when the function returns.

  A server under a supervisor is started again by it: stop such a server with `Supervisor.terminate_child/2`.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `:ok`, or `{:error, error}` with the kind `:no_server` or `:timeout`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Stopping, schema: [age: :integer])
      iex> :ok = BeTree.Server.stop(Stopping)
      iex> {:error, error} = BeTree.search(Stopping, %{age: 30})
      iex> error.kind
      :no_server
  """
  @spec stop(name, timeout: timeout) :: :ok | {:error, Error.t()}
  def stop(name, options \\ []) do
    timeout = Check.timeout!(options)
    with {:ok, _table} <- Request.table(name), do: stop_supervisor(name, timeout)
  end

  defp stop_supervisor(name, timeout) do
    Supervisor.stop(name, :normal, timeout)
  catch
    :exit, :timeout ->
      {:error, %Error{kind: :timeout, message: "#{Describe.value(name)} did not stop within #{timeout} ms"}}

    :exit, {:timeout, _call} ->
      {:error, %Error{kind: :timeout, message: "#{Describe.value(name)} did not stop in time"}}

    :exit, _already_ended ->
      View.no_server(name)
  end

  # This process owns the tables. So it ends only if it is stopped, or if the server's process ends again and again. The
  # keeper restarts the server's process, and ends as a significant child when that ended too often.
  # The type of the callback in Elixir does not know the flags of significant children before 1.15.
  @dialyzer {:nowarn_function, init: 1}
  @impl Supervisor
  def init({name, options}) do
    module = if options[:follow], do: Follower, else: Writer
    table = Table.new(name, options.ids)
    Table.put_limits(table, {2 * options.memory, options.publish})
    keeper = Map.merge(Keeper.child_spec({module, table, options}), %{restart: :transient, significant: true})
    {intensity, period} = options.restarts
    # The functions of Supervisor do not know these flags before 1.15 either.
    flags = %{strategy: :one_for_one, intensity: intensity, period: period, auto_shutdown: :any_significant}
    {:ok, {flags, [keeper]}}
  end

  defp check(options) do
    options = Options.validate!(options, @options)
    publish = Keyword.take(options, [:replicas, :queue])
    checked = check(options[:schema], options[:follow], publish, options)
    {options[:name], Map.put(checked, :restarts, {options[:max_restarts], options[:max_seconds]})}
  end

  defp check(nil, nil, _publish, _options) do
    raise ArgumentError, "the option :schema is missing, or :follow"
  end

  defp check(schema, nil, publish, options) do
    sources = Enum.filter([:dir, :load, :image], &options[&1])

    if length(sources) > 1,
      do: raise(ArgumentError, "the options #{Enum.map_join(sources, " and ", &inspect/1)} exclude each other")

    if options[:ids] == :term and options[:image],
      do: raise(ArgumentError, "the options :image and ids: :term exclude each other: an image has integers for ids")

    %{
      ids: kind(options[:ids], options[:dir]),
      dir: options[:dir] && IO.chardata_to_string(options[:dir]),
      durability: options[:durability],
      schema_change: options[:schema_change],
      load: options[:load],
      on_error: options[:on_error],
      image: options[:image],
      schema: schema,
      on_mismatch: options[:on_mismatch],
      memory: options[:memory],
      new: Keyword.take(options, [:guest, :memory, :fuel_per_reduction, :runtime]),
      publish: publish,
      read: read_options(options, publish)
    }
  end

  defp check(nil, follow, publish, options) do
    excluded = Enum.find([:dir, :load, :image], &options[&1])
    if excluded, do: raise(ArgumentError, "the options :follow and #{inspect(excluded)} exclude each other")

    # A follower learns from its server whether ids are terms.
    %{follow: follow, ids: :term, memory: options[:memory], publish: publish, read: read_options(options, publish)}
  end

  defp check(_schema, _follow, _publish, _options) do
    raise ArgumentError, "the options :schema and :follow exclude each other"
  end

  defp kind(:integer, _dir), do: :integer
  defp kind(:term, nil), do: :term
  defp kind(:term, _dir), do: :portable

  defp read_options(options, publish), do: Keyword.take(options, [:memory, :fuel_per_reduction, :runtime]) ++ publish

  @doc false
  def name?(name), do: is_name(name)

  @doc false
  def durability?({:interval, ms}), do: is_integer(ms) and ms >= 0 and ms <= 3_600_000
  def durability?(durability), do: durability in [:sync, :none]

  @doc false
  def load?({module, function, arguments}), do: is_atom(module) and is_atom(function) and is_list(arguments)
  def load?(other), do: other == nil

  @doc false
  def follow?({name, node}), do: is_name(name) and is_atom(node)
  def follow?(other), do: other == nil

  @doc "Inserts one subscription, as `BeTree.insert/4` does, with the same options and errors."
  @spec insert(name, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) ::
          :ok | {:error, Error.t()}
  def insert(name, id, expression, options \\ []),
    do: name |> Request.check_name!() |> Target.insert(id, expression, options)

  @doc "Like `insert/4`, but raises on error."
  @spec insert!(name, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def insert!(name, id, expression, options \\ []), do: Bang.unwrap!(insert(name, id, expression, options))

  @doc """
  Inserts many subscriptions, all of them or none, as `BeTree.insert_all/3` does. Searches see all of them at once.

  Other changes wait for the insertion, about 10 microseconds per subscription. Returns the number of subscriptions.

  ## Options

  #{Options.docs(@insert_all_options)}

  Returns `{:error, error}` with the kinds of `insert/4`. The error has the `position` of the first wrong subscription,
  from 0. With `on_error: :collect` it is `{:error, errors}`, a list in the order of their positions, if any subscription is
  wrong or its id exists. This check takes about 10 microseconds more per subscription, in the calling process.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Filling, schema: [age: :integer])
      iex> BeTree.Server.insert_all(Filling, [{1, "age >= 21"}, {2, "age < 21"}])
      {:ok, 2}
      iex> import = [{3, "age >="}, {4, "age = 4"}, {5, "size = 1"}, {1, "age = 1"}]
      iex> {:error, errors} = BeTree.Server.insert_all(Filling, import, on_error: :collect)
      iex> for error <- errors, do: {error.position, error.kind}
      [{0, :syntax}, {2, :unknown_attribute}, {3, :duplicate_id}]
  """
  @spec insert_all(name, Enumerable.t(), timeout: timeout, on_error: :stop | :collect) ::
          {:ok, non_neg_integer} | {:error, Error.t()} | {:error, [Error.t()]}
  def insert_all(name, subscriptions, options \\ []) do
    %{timeout: timeout, on_error: on_error} =
      Options.put!(%{timeout: :infinity, on_error: :stop}, options, @insert_all_options)

    deadline = Deadline.new(timeout)

    with {:ok, kind} <- Request.kind(name),
         {:ok, wires} <- wires(name, subscriptions, kind, on_error, deadline),
         do: Request.change(name, {:insert, wires}, Deadline.left(deadline))
  end

  defp wires(_name, subscriptions, kind, :stop, _deadline), do: Subscription.new_all(subscriptions, kind)

  defp wires(name, subscriptions, kind, :collect, deadline) do
    with :ok <- Check.enumerable(subscriptions, "subscriptions"),
         {:ok, table} <- Request.table(name),
         {:ok, table} <- Table.fetch(table),
         {:ok, tree} <- Checks.scratch(name) do
      subscriptions
      |> Enum.with_index()
      |> Enum.reduce_while({[], [], MapSet.new()}, fn {subscription, position}, {wires, errors, ids} ->
        with :ok <- in_time(deadline, name),
             {:ok, {id, _text, _constants} = wire} <- Subscription.new(subscription, kind),
             :ok <- check_new(id, ids, table),
             :ok <- check(tree, wire) do
          {:cont, {[wire | wires], errors, MapSet.put(ids, id)}}
        else
          {:error, %Error{kind: :timeout} = error} -> {:halt, {:error, error}}
          {:error, error} -> {:cont, {wires, [%{error | position: position} | errors], ids}}
        end
      end)
      |> case do
        {:error, error} -> {:error, error}
        {wires, [], _ids} -> {:ok, Enum.reverse(wires)}
        {_wires, errors, _ids} -> {:error, Enum.reverse(errors)}
      end
    end
  end

  # Names the subscription, as the error of an insertion does.
  defp check(tree, {id, _text, _constants} = wire) do
    with {:error, error} <- Checks.check(tree, wire),
         do: {:error, %{error | message: "subscription #{Describe.value(id)}: #{error.message}"}}
  end

  defp check_new(id, ids, table) do
    if id in ids or Table.find(table, id) != :error,
      do:
        {:error,
         %Error{
           kind: :duplicate_id,
           message: "a subscription with the id #{Describe.value(id)} exists; `put` replaces it"
         }},
      else: :ok
  end

  # The error of a call that waits for no other process.
  defp in_time(deadline, name) do
    if deadline != :infinity and System.monotonic_time(:millisecond) > deadline,
      do: {:error, %Error{kind: :timeout, message: "a call for #{Describe.value(name)} passed its timeout"}},
      else: :ok
  end

  @doc "Like `insert_all/3`, but returns the count and raises on error, or the first of the errors."
  @spec insert_all!(name, Enumerable.t(), timeout: timeout, on_error: :stop | :collect) :: non_neg_integer
  def insert_all!(name, subscriptions, options \\ []) do
    case insert_all(name, subscriptions, options) do
      {:error, [first | _others]} -> raise first
      outcome -> Bang.unwrap!(outcome)
    end
  end

  @doc "Inserts or replaces one subscription, as `BeTree.put/4` does, with the same options and errors."
  @spec put(name, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok | {:error, Error.t()}
  def put(name, id, expression, options \\ []), do: name |> Request.check_name!() |> Target.put(id, expression, options)

  @doc "Like `put/4`, but raises on error."
  @spec put!(name, BeTree.id(), String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def put!(name, id, expression, options \\ []), do: Bang.unwrap!(put(name, id, expression, options))

  @doc """
  Inserts many subscriptions, and replaces those whose ids exist, all of them or none, and returns their number. Searches see all of them
  at once.

  ## Options

  #{Options.docs(@change_options)}

  Returns `{:error, error}` with the kinds of `change/2`, which also tells how many were there already.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Putting, schema: [age: :integer])
      iex> BeTree.Server.insert!(Putting, 1, "age >= 21")
      iex> BeTree.Server.put_all(Putting, [{1, "age >= 18"}, {2, "age < 18"}])
      {:ok, 2}
  """
  @spec put_all(name, Enumerable.t(), timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def put_all(name, subscriptions, options \\ []) do
    timeout = Check.timeout!(options)

    with {:ok, %{put: put, unchanged: unchanged}} <- change(name, put: subscriptions, timeout: timeout),
         do: {:ok, put + unchanged}
  end

  @doc "Like `put_all/3`, but returns the count and raises on error."
  @spec put_all!(name, Enumerable.t(), timeout: timeout) :: non_neg_integer
  def put_all!(name, subscriptions, options \\ []), do: Bang.unwrap!(put_all(name, subscriptions, options))

  @doc "Deletes a subscription, as `BeTree.delete/3` does, with the same options and errors."
  @spec delete(name, BeTree.id(), timeout: timeout) :: :ok | {:error, Error.t()}
  def delete(name, id, options \\ []), do: name |> Request.check_name!() |> Target.delete(id, options)

  @doc "Like `delete/3`, but raises on error."
  @spec delete!(name, BeTree.id(), timeout: timeout) :: :ok
  def delete!(name, id, options \\ []), do: Bang.unwrap!(delete(name, id, options))

  @doc """
  Deletes many subscriptions, all of them or none, and returns their number. Searches see the deletion of all at once.

  ## Options

  #{Options.docs(@change_options)}

  Returns `{:error, error}` with the kinds of `change/2`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Clearing, schema: [age: :integer])
      iex> BeTree.Server.insert_all!(Clearing, [{1, "age >= 21"}, {2, "age < 21"}])
      iex> BeTree.Server.delete_all(Clearing, [1, 2])
      {:ok, 2}
  """
  @spec delete_all(name, Enumerable.t(), timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def delete_all(name, ids, options \\ []) do
    timeout = Check.timeout!(options)
    with {:ok, %{deleted: count}} <- change(name, delete: ids, timeout: timeout), do: {:ok, count}
  end

  @doc "Like `delete_all/3`, but returns the count and raises on error."
  @spec delete_all!(name, Enumerable.t(), timeout: timeout) :: non_neg_integer
  def delete_all!(name, ids, options \\ []), do: Bang.unwrap!(delete_all(name, ids, options))

  @doc """
  Makes several changes as one: all or nothing, for the index and for every search.

  An id may occur only once in the lists. A subscription that is there already, with the same text and the same constants, stays as it is.
  If all puts are equal to present subscriptions and nothing is deleted, the change makes no version and writes nothing. Other changes wait
  until this one is done, about 10 microseconds per subscription and 20 per deletion or replacement.

  ## Options

  #{Options.docs(@change_all_options)}

  Returns `{:ok, %{put: count, deleted: count, unchanged: count}}`, or `{:error, error}` and changes nothing, with the kinds of
  `insert_all/3` and `delete/3`; `:duplicate_id` is the kind for an id that occurs twice in the lists.

  With `on_error: :collect` the map has `:faults`, a list of `{id, error}`: the subscriptions that are wrong, the ids to delete that no
  subscription has, and the second and later places of an id. The rest is one change. An element that is no subscription has `nil` for its
  id, and its error has the `position`. Errors that concern the index or the call are returned as usual, such as `:out_of_memory`,
  `:file`, and that of a string beyond the `count` of its attribute.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Changing, schema: [age: :integer])
      iex> BeTree.Server.insert_all!(Changing, [{1, "age >= 21"}, {2, "age < 21"}])
      iex> BeTree.Server.change(Changing, put: [{2, "age >= 30"}, {3, "age = 30"}], delete: [1])
      {:ok, %{put: 2, deleted: 1, unchanged: 0}}
      iex> BeTree.search(Changing, %{age: 30})
      {:ok, [2, 3]}
      iex> {:error, error} = BeTree.Server.change(Changing, put: [{4, "true"}], delete: [1])
      iex> {error.kind, BeTree.search(Changing, %{age: 30})}
      {:not_found, {:ok, [2, 3]}}
      iex> {:ok, counts} = BeTree.Server.change(Changing, put: [{3, "age = 30"}, {4, "age ="}], delete: [1, 2], on_error: :collect)
      iex> {counts.put, counts.deleted, counts.unchanged}
      {0, 1, 1}
      iex> for {id, fault} <- counts.faults, do: {id, fault.kind}
      [{4, :syntax}, {1, :not_found}]
  """
  @spec change(name, put: Enumerable.t(), delete: Enumerable.t(), on_error: :stop | :collect, timeout: timeout) ::
          {:ok, counts} | {:error, Error.t()}
  def change(name, changes) do
    options = Options.validate!(changes, @change_all_options)
    deadline = Deadline.new(options[:timeout])
    with {:ok, kind} <- Request.kind(name), do: change(options[:on_error], name, kind, options, deadline)
  end

  defp change(:stop, name, kind, options, deadline) do
    with {:ok, wires} <- Subscription.new_all(options[:put], kind),
         {:ok, ids} <- Subscription.ids(options[:delete], kind),
         :ok <- Subscription.check_once(Enum.map(wires, &elem(&1, 0)) ++ ids),
         do: Request.change(name, {:change, wires, ids}, Deadline.left(deadline))
  end

  defp change(:collect, name, kind, options, deadline) do
    with {:ok, wires, unread} <- Checks.read(options[:put], kind),
         {:ok, ids, wrong} <- Checks.read_ids(options[:delete], kind, wires) do
      make = &Request.change(name, {:change, &1, ids, :skip_missing}, Deadline.left(deadline))
      {outcome, refused} = Checks.collect(wires, fn -> Checks.scratch(name) end, make)

      with {:ok, counts} <- outcome do
        {missing, counts} = Map.pop!(counts, :missing)
        faults = unread ++ refused ++ wrong ++ for id <- missing, do: {id, Subscription.not_found(id)}
        Checks.report(name, :change, faults)
        {:ok, Map.put(counts, :faults, faults)}
      end
    end
  end

  @doc "Like `change/2`, but returns the counts and raises on error."
  @spec change!(name, put: Enumerable.t(), delete: Enumerable.t(), on_error: :stop | :collect, timeout: timeout) ::
          counts
  def change!(name, changes), do: Bang.unwrap!(change(name, changes))

  @doc """
  Brings the server to a list of all subscriptions: inserts those that it lacks, replaces those that differ, and deletes the others, as one
  change for the index, the folder and every search.

  `subscriptions` is a list or a stream, with elements as in `insert_all/3`, such as all rows of a table. The calling process reads it
  and compares each subscription with the server's, in a few microseconds. It holds the ids of all subscriptions and the texts of
  those that differ. Only the difference reaches the server's process, the folder and the followers. If nothing differs, nothing is
  written, and the server's version stays.

  Other changes continue meanwhile. An id that another call changes after the call of `sync/3` keeps that change, as if the sync had
  come first. So read the rows within this call, for example with a stream that begins its query when it is read: a list from before may
  undo a change that came between. Two concurrent calls with different lists leave a mixture of both.

  ## Options

  #{Options.docs(@sync_options)}

  Returns `{:ok, %{put: count, deleted: count, unchanged: count}}`. With `on_error: :collect` the map has `:faults`, as that of
  `change/2`, and `faults/2` returns them too. A subscription stays as it was if its row is wrong. If the id of a row is wrong, nothing is
  deleted, because that row may be any of the subscriptions that the list lacks.

  Returns `{:error, error}`, and changes nothing, with the kinds of `insert_all/3`, and `:not_found` when the server does not know its
  expressions, because their index was swapped in. The error has the `position` of the first wrong row. If the stream raises, nothing is
  changed. Raises an `ArgumentError` for a server that follows another one.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Syncing, schema: [age: :integer])
      iex> BeTree.Server.insert_all!(Syncing, [{1, "age >= 21"}, {2, "age < 21"}, {3, "age = 3"}])
      iex> BeTree.Server.sync(Syncing, [{1, "age >= 21"}, {2, "age < 18"}, {4, "age = 4"}])
      {:ok, %{put: 2, deleted: 1, unchanged: 1}}
      iex> BeTree.Server.ids(Syncing)
      {:ok, [1, 2, 4]}
  """
  @spec sync(name, Enumerable.t(), on_error: :stop | :collect, timeout: timeout) :: {:ok, counts} | {:error, Error.t()}
  def sync(name, subscriptions, options \\ []) do
    %{on_error: on_error, timeout: timeout} =
      Options.put!(%{on_error: :stop, timeout: :infinity}, options, @sync_options)

    deadline = Deadline.new(timeout)

    with {:ok, kind} <- Request.kind(name),
         # Raises for a follower, and returns when the table has all changes that were acknowledged.
         :ok <- Request.call(name, :begin_sync, timeout),
         {:ok, table} <- Request.table(name),
         {:ok, table} <- Table.fetch(table),
         {:ok, difference} <- Sync.compare(table, subscriptions, kind, on_error, fn -> in_time(deadline, name) end),
         do: put_difference(name, difference, on_error, table, deadline)
  end

  defp put_difference(name, %{puts: puts, absent: absent} = difference, :stop, %{tid: tid}, deadline) do
    case Request.change(name, {:sync, tid, Enum.map(puts, &elem(&1, 0)), absent}, Deadline.left(deadline)) do
      {:ok, counts} -> {:ok, %{counts | unchanged: difference.rows - counts.put}}
      {:error, %Error{position: nil} = error} -> {:error, error}
      {:error, error} -> {:error, %{error | position: puts |> Enum.at(error.position) |> elem(1)}}
    end
  end

  defp put_difference(name, %{puts: puts, absent: absent} = difference, :collect, %{tid: tid}, deadline) do
    versions = for {{{id, _text, _constants}, version}, _position} <- puts, into: %{}, do: {id, version}

    make = fn wires ->
      puts = for {id, _text, _constants} = wire <- wires, do: {wire, Map.fetch!(versions, id)}
      Request.change(name, {:sync, tid, puts, absent}, Deadline.left(deadline))
    end

    wires = for {{wire, _version}, _position} <- puts, do: wire
    {outcome, refused} = Checks.collect(wires, fn -> Checks.scratch(name) end, make)

    faults = difference.faults ++ refused

    with {:ok, counts} <- outcome,
         {:ok, true} <- with_texts(name, &Table.put_faults(&1, faults)) do
      Checks.report(name, :sync, faults)
      {:ok, Map.merge(counts, %{unchanged: difference.rows - counts.put - length(faults), faults: faults})}
    end
  end

  @doc "Like `sync/3`, but returns the counts and raises on error."
  @spec sync!(name, Enumerable.t(), on_error: :stop | :collect, timeout: timeout) :: counts
  def sync!(name, subscriptions, options \\ []), do: Bang.unwrap!(sync(name, subscriptions, options))

  @doc """
  Returns the subscriptions that the start with `load:`, or the last `sync/3`, has left out because of `on_error: :collect`: a list of
  `{id, error}`. Reads a table.

  The list stays until the next `sync/3` with this option, also if one of the subscriptions was put since.

  ## Options

  #{Options.docs(@read_options)}

  Returns `{:error, error}` with the kind `:no_server`, `:not_ready` or `:timeout`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Faulty, schema: [age: :integer])
      iex> BeTree.Server.sync!(Faulty, [{1, "age >= 21"}, {2, "size = 2"}], on_error: :collect)
      iex> {:ok, [{2, error}]} = BeTree.Server.faults(Faulty)
      iex> error.kind
      :unknown_attribute
  """
  @spec faults(name, timeout: timeout) :: {:ok, [fault]} | {:error, Error.t()}
  def faults(name, options \\ []) do
    deadline = Deadline.new(Check.timeout!(options))
    with {:ok, faults} <- with_texts(name, &Table.faults/1), :ok <- in_time(deadline, name), do: {:ok, faults}
  end

  @doc "Like `faults/2`, but returns the list and raises on error."
  @spec faults!(name, timeout: timeout) :: [fault]
  def faults!(name, options \\ []), do: Bang.unwrap!(faults(name, options))

  @doc """
  Checks an expression as `insert/4` does, without inserting it.

  The calling process makes an empty tree with the schema of the server, in about half a millisecond. The server's process
  does nothing.

  ## Options

  #{Options.docs(@validate_options)}

  Returns `:ok`, or `{:error, error}` with the kinds of `insert/4`, and `:timeout`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Validating, schema: [age: :integer])
      iex> BeTree.Server.validate(Validating, "age >= 21")
      :ok
      iex> {:error, error} = BeTree.Server.validate(Validating, "age >= ")
      iex> {error.kind, error.column}
      {:syntax, 8}
  """
  @spec validate(name, String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok | {:error, Error.t()}
  def validate(name, expression, options \\ []) do
    {timeout, options} = options |> Options.validate!(@validate_options) |> Keyword.pop!(:timeout)
    deadline = Deadline.new(timeout)

    with {:ok, wire} <- Subscription.new(0, expression, options, :integer),
         {:ok, tree} <- Checks.scratch(name),
         :ok <- Checks.check(tree, wire),
         do: in_time(deadline, name)
  end

  @doc "Like `validate/3`, but raises on error."
  @spec validate!(name, String.t(), constants: BeTree.constants(), timeout: timeout) :: :ok
  def validate!(name, expression, options \\ []), do: Bang.unwrap!(validate(name, expression, options))

  @doc """
  Returns the expression of a subscription, as it was inserted. Reads a table, in about a microsecond.

  A follower has the texts of the server that it follows.

  ## Options

  #{Options.docs(@read_options)}

  Returns `{:error, error}` with the kind `:no_server`, `:not_ready` while the server is being filled, `:timeout`, or `:not_found`
  when there is no such subscription, or the server does not know its text, because its index was swapped in.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Fetching, schema: [age: :integer])
      iex> BeTree.Server.insert!(Fetching, 1, "age >= 21")
      iex> BeTree.Server.fetch(Fetching, 1)
      {:ok, "age >= 21"}
  """
  @spec fetch(name, BeTree.id(), timeout: timeout) :: {:ok, String.t()} | {:error, Error.t()}
  def fetch(name, id, options \\ []) do
    deadline = Deadline.new(Check.timeout!(options))

    with {:ok, kind} <- Request.kind(name),
         :ok <- Id.check(id, kind),
         {:ok, found} <- with_texts(name, &Table.find(&1, id)),
         :ok <- in_time(deadline, name) do
      case found do
        {:ok, {text, _constants}} ->
          {:ok, text}

        :error ->
          message = "no subscription with the id #{Describe.value(id)} and a known text"
          {:error, %Error{kind: :not_found, message: message}}
      end
    end
  end

  # Applies `read` to the table of a server, if its texts can be read.
  defp with_texts(name, read) do
    with {:ok, table} <- Request.table(name), do: with_texts(table, name, read)
  end

  defp with_texts(table, name, read) do
    with {:ok, table} <- Table.fetch(table), :ok <- Table.check_texts(table), do: {:ok, read.(table)}
  rescue
    # The server ended, and its tables with it.
    ArgumentError -> View.no_server(name)
  end

  @doc "Like `fetch/3`, but returns the expression and raises on error."
  @spec fetch!(name, BeTree.id(), timeout: timeout) :: String.t()
  def fetch!(name, id, options \\ []), do: Bang.unwrap!(fetch(name, id, options))

  @doc """
  Returns whether the server has a subscription `id` whose text it knows (`fetch/3`). Raises a `BeTree.Error` if no such server
  runs, or after the timeout.

  ## Options

  #{Options.docs(@read_options)}

  A subscription that is there:

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Containing, schema: [age: :integer])
      iex> BeTree.Server.insert!(Containing, 1, "age >= 21")
      iex> {BeTree.Server.member?(Containing, 1), BeTree.Server.member?(Containing, 2)}
      {true, false}
  """
  @spec member?(name, BeTree.id(), timeout: timeout) :: boolean
  def member?(name, id, options \\ []) do
    case fetch(name, id, options) do
      {:ok, _text} -> true
      {:error, %Error{kind: :not_found}} -> false
      {:error, error} -> raise error
    end
  end

  @doc """
  Returns the ids of all subscriptions whose texts the server knows (`fetch/3`), in ascending order. Copies them from a table, a
  tenth of a microsecond each.

  ## Options

  #{Options.docs(@read_options)}

  Returns `{:error, error}` with the kind `:no_server`, `:not_ready` or `:timeout`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Listing, schema: [age: :integer])
      iex> BeTree.Server.insert_all!(Listing, [{2, "age >= 21"}, {1, "age < 21"}])
      iex> BeTree.Server.ids(Listing)
      {:ok, [1, 2]}
  """
  @spec ids(name, timeout: timeout) :: {:ok, [BeTree.id()]} | {:error, Error.t()}
  def ids(name, options \\ []) do
    deadline = Deadline.new(Check.timeout!(options))

    with {:ok, ids} <- with_texts(name, &Table.ids/1),
         :ok <- in_time(deadline, name),
         do: {:ok, ids}
  end

  @doc "Like `ids/2`, but returns the ids and raises on error."
  @spec ids!(name, timeout: timeout) :: [BeTree.id()]
  def ids!(name, options \\ []), do: Bang.unwrap!(ids(name, options))

  @doc """
  Returns the number of subscriptions, after all acknowledged changes. The call needs a replica for about 15 microseconds, on a dirty
  scheduler, and not the server's process.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:no_server`, `:not_ready`, `:timeout` or `:overloaded`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Counting, schema: [age: :integer])
      iex> BeTree.Server.insert!(Counting, 1, "age >= 21")
      iex> BeTree.Server.count(Counting)
      {:ok, 1}
  """
  @spec count(name, timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def count(name, options \\ []) do
    timeout = Check.timeout!(options)

    with {:ok, table} <- Request.table(name),
         {:ok, %{runtime: runtime, instance: instance}} <- Lookup.view(table),
         {:ok, %{expressions: count}} <- Instance.info(runtime, instance, timeout),
         do: {:ok, count}
  end

  @doc "Like `count/2`, but returns the number and raises on error."
  @spec count!(name, timeout: timeout) :: non_neg_integer
  def count!(name, options \\ []), do: Bang.unwrap!(count(name, options))

  @doc """
  Returns the attributes of the server's index. Reads a table.

  ## Options

  #{Options.docs(@read_options)}

  Returns `{:error, error}` with the kind `:no_server`, `:not_ready` or `:timeout`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Describing, schema: [age: :integer])
      iex> BeTree.Server.schema(Describing)
      {:ok, [%BeTree.Domain{name: "age", type: :integer}]}
  """
  @spec schema(name, timeout: timeout) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def schema(name, options \\ []) do
    deadline = Deadline.new(Check.timeout!(options))

    with {:ok, table} <- Request.table(name),
         {:ok, %{index: %{schema: schema}}} <- Lookup.base(table),
         :ok <- in_time(deadline, name),
         do: {:ok, schema}
  end

  @doc "Like `schema/2`, but returns the attributes and raises on error."
  @spec schema!(name, timeout: timeout) :: [Domain.t()]
  def schema!(name, options \\ []), do: Bang.unwrap!(schema(name, options))

  @doc """
  Returns the whole index as a `BeTree.Index`, with all acknowledged changes.

  The call copies a replica, on a dirty scheduler: about half a microsecond per kilobyte. Neither searches nor changes wait for
  it.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:out_of_memory`, `:timeout`, `:not_ready`, or `:no_server`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Keeping, schema: [age: :integer])
      iex> BeTree.Server.insert!(Keeping, 1, "age >= 21")
      iex> {:ok, index} = BeTree.Server.index(Keeping)
      iex> BeTree.Server.delete!(Keeping, 1)
      iex> BeTree.search!(index, %{age: 30})
      [1]
  """
  @spec index(name, timeout: timeout) :: {:ok, Index.t()} | {:error, Error.t()}
  def index(name, options \\ []), do: Copy.index(name, Check.timeout!(options))

  @doc "Like `index/2`, but returns the index and raises on error."
  @spec index!(name, timeout: timeout) :: Index.t()
  def index!(name, options \\ []), do: Bang.unwrap!(index(name, options))

  @doc """
  Replaces the present index, while it is in use.

    * A `BeTree.Index`: the server searches and changes this index from now on. It may have another guest, and, without `:dir`,
      another schema. With `:dir` its image is written to the folder first, and changes wait for that.
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
    * `:no_server` when no server of this name runs;
    * those of `BeTree.insert_all/3` when the module refuses an expression;
    * `:overloaded` when, during the building, another swap came, or a change of more than 1,000 subscriptions;
    * `:out_of_memory` or `:timeout`.

  Another schema and another expression take the place of the old ones:

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

  defp swap_until(name, %Index{} = index, deadline), do: Request.change(name, {:swap, index}, Deadline.left(deadline))
  defp swap_until(name, %Guest{} = guest, deadline), do: Request.change(name, {:swap, guest}, Deadline.left(deadline))

  defp swap_until(name, {:image, image}, deadline) do
    with {:ok, options} <- Request.call(name, :read_options, Deadline.left(deadline)),
         {:ok, index} <- Aside.run(fn -> Image.read(image, options) end, Deadline.left(deadline)),
         do: swap_until(name, index, deadline)
  end

  defp swap_until(name, wasm, deadline) when is_binary(wasm) do
    with {:ok, guest} <- Aside.run(fn -> Guest.load(wasm) end, Deadline.left(deadline)),
         do: swap_until(name, guest, deadline)
  end

  defp swap_until(_name, other, _deadline) do
    Check.expected!("a BeTree.Index, {:image, image}, a BeTree.Guest or the bytes of one", other)
  end

  @doc "Like `swap/3`, but raises on error."
  @spec swap!(name, Index.t() | {:image, Image.source()} | Guest.t() | binary, timeout: timeout) :: :ok
  def swap!(name, to, options \\ []), do: Bang.unwrap!(swap(name, to, options))

  @doc """
  Moves the server to another schema, with all of its subscriptions, while it is searched and changed.

  The server takes each schema under which the text of each subscription still compiles. So attributes may be added or reordered,
  bounds widened, an attribute removed that no expression uses, and a type changed if all expressions with the attribute are valid
  for the new type.

  A separate process compiles all texts, in about the time that inserting them took, and includes changes that come meanwhile. Then the
  server's process swaps the new index in. With `:dir`, it first writes the index and all texts to the folder, under the new schema,
  and changes wait for that. A node that ends during the call leaves the folder with the old schema or the new one, with all
  acknowledged changes. The migration counts as one change in `version/2`. Followers receive the new index.

  The schema of an index checks both expressions and events. Until the migration is done, insertions and searches need the old
  schema. A search that began earlier ends on the index on which it began. Searches and changes that start after the
  function returned need the new one: an event then lacks an added attribute that is not optional, and an event that was prepared under
  the old schema (`BeTree.Event.prepare/3`) is refused.

  A server that its supervisor starts again begins with the schema of its options, and not with that of the last call. So change
  the options too, or use the option `schema_change: :migrate` of `start_link/1` instead of this function.

  ## Options

  #{Options.docs(@migrate_options)}

  Returns `:ok`, also if the server has this schema already, or `{:error, error}`, and changes nothing, with the kind

    * `:schema_change` when subscriptions do not compile under the new schema. The message names the first ones, and the field
      `:faults` has all, as a list of `{id, error}`;
    * those of `BeTree.new/2` for the schema;
    * `:not_found` when the server does not know the expressions, because their index was swapped in;
    * `:overloaded` when, during the compilation, a swap or another migration came, or a change of more than 1,000 subscriptions;
    * `:file` when the folder cannot be written;
    * `:no_server`, `:out_of_memory` or `:timeout`.

  Raises an `ArgumentError` for a server that follows another one.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Migrating, schema: [age: :integer])
      iex> BeTree.Server.insert!(Migrating, 1, "age >= 21")
      iex> BeTree.Server.migrate(Migrating, age: :integer, country: {:string, optional: true})
      :ok
      iex> BeTree.Server.insert!(Migrating, 2, "country = 'CA'")
      iex> BeTree.search(Migrating, %{age: 30, country: "CA"})
      {:ok, [1, 2]}
      iex> {:error, error} = BeTree.Server.migrate(Migrating, age: :integer)
      iex> for {id, fault} <- error.faults, do: {id, fault.kind}
      [{2, :unknown_attribute}]
  """
  @spec migrate(name, BeTree.schema(), on_mismatch: :error | :undefined, timeout: timeout) :: :ok | {:error, Error.t()}
  def migrate(name, schema, options \\ []) do
    options = Options.validate!(options, @migrate_options)

    with {:ok, schema} <- Domain.parse(schema, options[:on_mismatch]),
         do: Request.change(name, {:migrate, schema}, options[:timeout])
  end

  @doc "Like `migrate/3`, but raises on error."
  @spec migrate!(name, BeTree.schema(), on_mismatch: :error | :undefined, timeout: timeout) :: :ok
  def migrate!(name, schema, options \\ []), do: Bang.unwrap!(migrate(name, schema, options))

  @doc """
  Returns the version of the server: the number of its changes and swaps. One change may concern many subscriptions.

  A follower has the version of the server that it follows, or an earlier one. `position/2` also says to which history the version
  belongs.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:timeout` or `:no_server`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Versioned, schema: [age: :integer])
      iex> BeTree.Server.insert_all!(Versioned, [{1, "age >= 21"}, {2, "age < 21"}])
      iex> BeTree.Server.version(Versioned)
      {:ok, 1}
  """
  @spec version(name, timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def version(name, options \\ []), do: Request.call(name, :version, Check.timeout!(options))

  @doc "Like `version/2`, but returns the version and raises on error."
  @spec version!(name, timeout: timeout) :: non_neg_integer
  def version!(name, options \\ []), do: Bang.unwrap!(version(name, options))

  @doc """
  Returns the position of the server: its version with the lineage to which the version belongs.

  A lineage is a random name. A server begins one when it starts without data, and with the first change after a start from its
  folder. A follower copies the lineages of the server that it follows. So a position names one state of the index, even if a
  server starts over, or is restored from a copy of its folder, and counts the same versions again.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:timeout`, `:no_server`, or `:not_ready` for a follower without an index.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Positioned, schema: [age: :integer])
      iex> BeTree.Server.insert!(Positioned, 1, "age >= 21")
      iex> {:ok, {lineage, 1}} = BeTree.Server.position(Positioned)
      iex> BeTree.Server.info!(Positioned).lineage == lineage
      true
  """
  @spec position(name, timeout: timeout) :: {:ok, position} | {:error, Error.t()}
  def position(name, options \\ []), do: Request.call(name, :position, Check.timeout!(options))

  @doc "Like `position/2`, but returns the position and raises on error."
  @spec position!(name, timeout: timeout) :: position
  def position!(name, options \\ []), do: Bang.unwrap!(position(name, options))

  @doc """
  Waits until the server has at least this version, or has reached this position (`position/2`). A client that knows of a change
  can thus read it from a follower.

  A plain version refers to the server's present history. When the followed server has started over, its follower briefly still has
  higher versions of the earlier history, and the call returns one of them. With a position, the call waits until the follower has
  the history of that position.

  Waiting calls do not slow down changes, even 100,000 at once.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:ok, version}` with the present version, or `{:error, error}` with the kind `:timeout` or `:no_server`, or `:not_found` for
  a position whose change is lost, because the server was restored from an earlier state, or lost its last changes.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Leading, schema: [age: :integer])
      iex> {:ok, _pid} = BeTree.Server.start_link(name: Following, follow: {Leading, node()})
      iex> BeTree.Server.insert!(Leading, 1, "age >= 21")
      iex> {:ok, 1} = BeTree.Server.await(Following, BeTree.Server.position!(Leading))
      iex> BeTree.search(Following, %{age: 30})
      {:ok, [1]}
  """
  @spec await(name, non_neg_integer | position, timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def await(name, wanted, options \\ []) do
    timeout = Check.timeout!(options)
    unless awaitable?(wanted), do: Check.expected!("a version from 0 on of at most 64 bits, or a position", wanted)
    Request.call(name, {:await, wanted, timeout}, timeout)
  end

  defp awaitable?({lineage, version}), do: is_binary(lineage) and is_u64(version)
  defp awaitable?(version), do: is_u64(version)

  @doc "Like `await/3`, but returns the version and raises on error."
  @spec await!(name, non_neg_integer | position, timeout: timeout) :: non_neg_integer
  def await!(name, wanted, options \\ []), do: Bang.unwrap!(await(name, wanted, options))

  # Milliseconds for which a measurement waits for the server's process.
  @measure_ms 1_000

  @doc """
  Emits the event `[:be_tree, :server, :measure]` (`BeTree.Telemetry`) with the size, memory and lag of one server.
  `BeTree.Gauges.measure/0` does that for everything that runs on a node.

      {:telemetry_poller, measurements: [{BeTree.Server, :measure, [Ads]}], period: 10_000}

  Of a server that does not reply within a second the event has only `busy: 1` and the length of its mailbox. Emits nothing if no such
  server runs, because `:telemetry_poller` removes a measurement that raises. Returns `:ok`.

      iex> BeTree.Server.measure(:no_such_server)
      :ok
  """
  @spec measure(name) :: :ok
  def measure(name) do
    with {:ok, measurements} <- name |> Request.check_name!() |> Gauges.read(@measure_ms),
         do: Telemetry.event([:server, :measure], measurements, %{server: name})

    :ok
  end

  @doc """
  Returns a map that describes the server: the counts and sizes of `BeTree.info/2`, and

    * `:version` - the number of changes (an `insert_all/3` is one); `:base` - the version of the base;
    * `:lineage` - the lineage of the version (`position/2`), or `nil` before the first version arrives;
    * `:log` - the changes since the base; `:lag` - the most of them that a replica which is not in use has not applied;
    * `:bases` - how many bases were made;
    * `:building` - whether a process builds the next base;
    * `:memory` - the bytes of the base; `:memory_bytes` - those of the tree that accepts changes, which shares most of them;
    * `:journal` - with `:dir`, a map of the last version on the disk, `:durable`, the `:bytes` of the changes after its newest base, the
      `:age` of the oldest of them in microseconds, counted from the start if it is from before, and the `:error` of the last failed write;
      otherwise `nil`;
    * `:replicas` - how many replicas there are, `:count`, and the memory that they have of their own, `:bytes`;
    * `:ids` - with `ids: :term`, a map of the terms that are kept, `:count`, and the `:bytes` of their tables; otherwise `nil`;
    * `:error` - the error of the last base that could not be built, or `nil`.

  The map of a server that follows has `:follows` and `:connected` too. Its `:error` is also that of the connection, or of a change
  or an index that the follower cannot take: `:out_of_memory`, for example. Its counts are 0 before the first version arrives, and those
  of its base while all replicas are in use. `BeTree.info/2` returns the same map.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:timeout`, or `:no_server` when no server of this name runs.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Informing, schema: [age: :integer])
      iex> BeTree.Server.insert!(Informing, 1, "age >= 21")
      iex> {:ok, info} = BeTree.Server.info(Informing)
      iex> {info.expressions, info.version, info.base}
      {1, 1, 0}
  """
  @spec info(name, timeout: timeout) :: {:ok, map} | {:error, Error.t()}
  def info(name, options \\ []), do: name |> Request.check_name!() |> Target.info(options)

  @doc "Like `info/2`, but returns the map and raises on error."
  @spec info!(name, timeout: timeout) :: map
  def info!(name, options \\ []), do: Bang.unwrap!(info(name, options))
end

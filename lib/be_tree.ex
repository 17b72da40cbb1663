defmodule BeTree do
  @moduledoc """
  BeTree is a matching engine: it finds the boolean expressions, among very many, that an event makes true.

      iex> {:ok, tree} = BeTree.new(age: :integer, country: {:string, optional: true}, plan: {:integer, min: 0, max: 9})
      iex> :ok = BeTree.insert(tree, 1, "age >= 21 and country in ('CA', 'US')")
      iex> {:ok, 2} = BeTree.insert_all(tree, [{2, "plan = 3"}, {3, "not (age < 65)"}])
      iex> BeTree.search(tree, %{age: 30, country: "CA", plan: 1})
      {:ok, [1]}
      iex> BeTree.search(tree, {:json, ~s({"age": 70, "plan": 3})})
      {:ok, [2, 3]}

  The index and the evaluator are one WebAssembly module that runs in a sandbox with metered fuel. No expression and no
  event can crash the VM, read another tree, or hold a scheduler for longer than one slice of a search.

  ## Where to read on

    * `BeTree.Domain` - the schema: the types, options and bounds of attributes;
    * `BeTree.Event` - the forms of an event: a map, a keyword list, a struct, a record, JSON;
    * `publish/2` and `BeTree.Index` - an immutable index that many processes search at once;
    * `BeTree.Pattern` - patterns of EventBridge as expressions;
    * `BeTree.Image` - an index as one file, for other nodes, for a restart, or for use outside the BEAM;
    * `BeTree.Server` - a named index under a supervisor, changed while it is searched;
    * `BeTree.Cluster` - an index over several nodes;
    * `BeTree.Rules` - rules that join several events over time;
    * `BeTree.PubSub` - processes that subscribe to events with an expression, and `BeTree.Output` - messages of many processes to one sink;
    * `BeTree.Tenants` - many small indexes, each with statistics, a quota and a bill;
    * `BeTree.Test` - assertions and generated events for your tests;
    * `BeTree.Telemetry` - events and metrics of searches, changes and servers;
    * `search/3` and `BeTree.Search` - budgets, slices, timeouts, and searches that run step by step;
    * `BeTree.Fuel` - fuel and reductions;
    * `explain/4` and `BeTree.Explanation` - why a subscription matches, or does not;
    * `profile/3` and `BeTree.Profile` - where the fuel of searches goes;
    * `BeTree.Tune` - which slice, ratio, batch, replicas and budget suit your expressions and events;
    * `BeTree.Error` - the one exception, with its kinds;
    * `BeTree.Guest` - another index module in place of the built-in one.

  ## Expressions

  `not` binds tighter than `and`, and `and` tighter than `or`. Keywords are lower case. Names are attributes: `user.address.city` is a field
  of nested maps, and backticks quote a name that is no identifier, as in ``user.`first name` ``. Strings stand in single or double quotes
  with `\\` for escapes. The forms:

    * `a or b`, `a || b`; `a and b`, `a && b`; `not a`; `(a)`; `true`, `false`; a boolean attribute's name;
    * `age > 3`, `3 < age` and so on with `<`, `<=`, `>`, `>=` for integers and floats;
    * `age between 18 and 65`, `age not between 18 and 65`, bounds included;
    * `bid > floor`, `price * 1.2 < limit`, `stop - start > 60`: two attributes, or computed numbers with `+`, `-`, `*`, `/` and
      parentheses (spaces stand around a `-`, because a name may contain one); `size(list)` and `length(string)` are numbers
      too. `s = t` and `s <> t` compare two strings;
    * `plan = 3`, `plan <> 3` for integers, enums, floats and strings;
    * `country in ("CA", "US")`, `country not in ("CA")`, `3 in list`, `3 not in list`;
    * `list one of (1, 2)`, `list none of (1, 2)`, `list all of (1, 2)`;
    * `any items (sku = "x" and qty > 2)`, `all items (...)`, `none items (...)`: one object of a list meets the condition, every
      object, or none; names in it are those of an object's attributes. All are false if the list is undefined;
    * `x is null`, `x is not null`, `list is empty`;
    * `contains(s, "b")`, `starts_with(s, "a")`, `ends_with(s, "c")`;
    * `s like "a*b?c"`, `s not like "a*"`: `*` stands for any characters and `?` for one. A `\\` escapes `*`, `?` and itself; a
      string constant writes it twice: `"100\\\\*"`. Matching takes time linear in the string and the pattern, for any number
      of `*`;
    * `path matches "/users/[0-9]+(/.*)?"`: the whole string matches a regular expression by RFC 9485 (I-Regexp), which has `|`,
      `( )`, `[ ]`, `.`, `* + ? {2,3}` and `\\p{L}`. Each takes linear time, and at most 1,000 states. There are no anchors: `^`
      at the start and `$` at the end of an alternative are refused, and `".*error.*"` matches a substring;
    * `lower(s) = "x"`, also with `in`, `like`, `contains(lower(s), "x")` and the like: the lower case of each character by
      Unicode. Constants beside it are lowered as well;
    * `ip = "10.0.0.1"`, `ip in ("10.0.0.0/8", "2001:db8::/32")` for addresses;
    * `at >= "2026-01-31T12:30:00Z"` for times, in ISO 8601, without an offset in UTC, or as an integer of microseconds, or of the
      attribute's `unit:`. The leap second `23:59:60` is allowed in UTC on 30 June and 31 December, and equals the second after
      it;
    * `geo_within_radius(latitude, longitude, kilometres)`, reads the attributes `latitude` and `longitude`;
    * `segment_within(list, id, seconds)`, `segment_before(list, id, seconds)`, read `now`; without the name of the list
      they read `segments_with_timestamp`;
    * `within_frequency_cap("flight", "namespace", value, seconds)`, reads `frequency_caps`, `now` and the constant
      `flight_id` of the subscription.

  A value of an event that does not fit its attribute is an error, or counts as undefined with `on_mismatch: :undefined`
  (`BeTree.Domain`). A predicate that reads an undefined attribute is false, and so are `<>`, `not in` and `none of`. Only `is null` is
  true. `not` makes a false predicate true: with `age` undefined, `not (age > 3)` is true, and `age <= 3` is false.

  Computed numbers are exact integers of 64 bits, or floats if one operand is a float or the operator is `/`. A number is
  undefined if an attribute is, if an integer does not fit 64 bits, after a division by zero, and if a float is not finite. The
  size of a list of integers is its number of distinct elements. The length of a string is its number of characters. A time is in
  microseconds.

  ## Handles, processes and errors

  A tree is a handle to one instance of the index module. It changes in place, and its memory is freed once no process
  refers to it. A tree runs one operation at a time. Any process may use it: a process that finds the tree busy waits for
  its turn, in order, for at most the call's `:timeout`, `:infinity` by default. To search concurrently, publish the tree
  (`publish/2`). Every search function accepts a tree, a published index or the name of a server.

  Functions return `{:error, %BeTree.Error{}}` for a wrong schema, id, expression, constant or event. The error has a kind
  and a message that says how to mend it. A failed call changes nothing. Functions raise an `ArgumentError` for unknown or
  wrong options. Each function has a variant with `!` that raises the `BeTree.Error`.

  ## Names in other libraries

    * upsert, update, replace: `put/4`; remove: `delete/3`; bulk load, import: `insert_all/3` and `BeTree.Files`;
    * percolate, match, query, filter: `search/3`; debug: `explain/4`; hot reload: `BeTree.Server.swap/3`;
    * regex: `matches`; wildcard, glob: `like`; case-insensitive: `lower`; CIDR, IP address, subnet: `ip in (...)`; geo, geofence:
      `geo_within_radius`; null, nil, missing: `is null`;
    * backpressure: `BeTree.Output` and `BeTree.PubSub`; persistence, save to disk: `dir:` of `BeTree.Server`, and `BeTree.Image`;
    * TTL, expiry, complex event processing (CEP): `BeTree.Rules`.
  """

  import BeTree.Input.Limits, only: [is_name: 1]

  alias BeTree.{Domain, Error, Event, Explanation, Fuel, Guest, Index, Profile, Search, Stats, Target, Tree}
  alias BeTree.Call.{Instance, InstanceOptions}
  alias BeTree.Target.Shards
  alias BeTree.Tree.Contents
  alias BeTree.Error.Bang
  alias BeTree.Input.{Check, Options, Subscription}
  alias BeTree.Input.Options.Common
  alias BeTree.Processes.Deadline
  alias BeTree.Profile.Recorder
  alias BeTree.Search.Batch

  @typedoc "A tree, see `BeTree.Tree`."
  @type t :: Tree.t()

  @typedoc "A value that search functions take: a tree, a published index, the name of a `BeTree.Server`, or a `BeTree.Cluster`."
  @type target :: t | Index.t() | BeTree.Server.name() | BeTree.Cluster.t()

  @typedoc "A value that functions which change subscriptions take."
  @type changed :: t | BeTree.Server.name() | BeTree.Cluster.t()

  @typedoc "The id of a subscription: an unsigned 64-bit integer, or any term in a server with `ids: :term` (`BeTree.Server`)."
  @type id :: 0..0xFFFF_FFFF_FFFF_FFFF | term

  @typedoc "The constants of an expression by name, such as `flight_id`: signed 64-bit integers."
  @type constants :: [{atom | String.t(), integer}] | %{optional(atom | String.t()) => integer}

  @typedoc "The attributes of an index, in order, as `BeTree.Domain` describes them."
  @type schema :: [{atom | String.t(), Domain.fields()} | Domain.t()]

  @typedoc "An option of `explain/4` and of `profile/3`."
  @type explain_option :: {:timeout, timeout} | {:on_mismatch, Domain.on_mismatch()}

  @type subscription :: {id, String.t()} | {id, String.t(), constants: constants}

  @type new_option ::
          {:on_mismatch, Domain.on_mismatch()}
          | {:memory, pos_integer}
          | {:fuel_per_reduction, pos_integer}
          | {:runtime, module}
          | {:guest, binary | Guest.t()}

  @new_options Common.on_mismatch_of_schema() ++ InstanceOptions.take([:memory, :fuel_per_reduction, :guest, :runtime])

  @wait_options Common.wait()

  @change_options Common.put_and_delete() ++ Common.change()

  @validate_options Common.take([:constants]) ++ @wait_options

  @publish_options InstanceOptions.take([:replicas, :queue]) ++ @wait_options

  # Milliseconds for which an event of a stream waits for others.
  @default_linger 5

  @stream_defaults Map.merge(Search.check([]), %{max_concurrency: nil, linger: @default_linger})

  @profile_options Common.timeout("milliseconds until the call ends with the error `:timeout`, or `:infinity`") ++
                     Common.take([:on_mismatch])

  @many_options Common.take([:fuel, :slice, :timeout, :ids, :as, :strict, :on_mismatch])

  @stream_options [
                    max_concurrency: [
                      type: :positive,
                      default_doc: "the number of online schedulers, and to 1 for a tree or a cluster",
                      doc:
                        "the number of processes that search at the same time. With 1 the consumer searches itself. A tree " <>
                          "runs one search at a time, and the shards of a cluster search at the same time"
                    ],
                    linger: [
                      type: :timeout,
                      default: @default_linger,
                      doc:
                        "milliseconds for which an event of a lazy source waits for more events before it is searched. With 0 or " <>
                          "`:infinity` the source runs in the consumer, see below"
                    ]
                  ] ++ Common.take([:fuel, :slice, :timeout, :ids, :as, :strict, :on_mismatch])

  @doc """
  Returns an empty tree over `schema`, a list of attributes (`BeTree.Domain`).

  The first tree of a VM loads the code of the index module, in about 10 milliseconds, or compiles the module in seconds, on a thread
  of the runtime, if the build has no code for this CPU. Later trees take well under a millisecond.

  ## Options

  #{Options.docs(@new_options)}

  Returns `{:error, error}` with the kind `:type` or `:out_of_bounds` for the schema, `:bad_module` for the guest, or
  `:out_of_memory`.

      iex> {:ok, tree} = BeTree.new([ip: {:ip, optional: true}, name: :string], on_mismatch: :undefined)
      iex> BeTree.insert!(tree, 1, "name = 'DeleteTrail'")
      iex> {:ok, [1], stats} = BeTree.search(tree, %{ip: "sts.amazonaws.com", name: "DeleteTrail"}, stats: true)
      iex> stats.mismatches
      1

      iex> {:ok, tree} = BeTree.new([{"age", :integer}, {"tags", {:string_list, optional: true}}])
      iex> BeTree.search(tree, %{"age" => 3})
      {:ok, []}

      iex> {:error, error} = BeTree.new(age: {:integer, min: 9, max: 0})
      iex> Exception.message(error)
      "min: of `age` is 9, above its max: 0"
  """
  @spec new(schema, [new_option]) :: {:ok, t} | {:error, Error.t()}
  def new(schema, options \\ []) do
    options = Options.validate!(options, @new_options)

    with {:ok, schema} <- Domain.parse(schema, options[:on_mismatch]),
         {:ok, guest} <- load(options[:guest], options[:runtime]),
         {:ok, instance} <- Instance.begin(guest, schema, options[:memory]) do
      {:ok,
       %Tree{
         runtime: guest.runtime,
         instance: instance,
         fuel_per_reduction: options[:fuel_per_reduction],
         guest: guest,
         schema: schema,
         forgiving: Domain.forgiving?(schema),
         memory: options[:memory]
       }}
    end
  end

  @doc """
  Like `new/2`, but returns the tree and raises on error.

      iex> inspect(BeTree.new!(age: :integer)) =~ "#BeTree<0 expressions, "
      true
  """
  @spec new!(schema, [new_option]) :: t
  def new!(schema, options \\ []), do: Bang.unwrap!(new(schema, options))

  defp load(nil, runtime), do: Instance.built_in(runtime)
  defp load(%Guest{} = guest, _runtime), do: {:ok, guest}
  defp load(wasm, runtime) when is_binary(wasm), do: Guest.load(wasm, runtime)

  @doc """
  Inserts one subscription: `expression` under `id`.

  On a tree the insertion runs on a dirty scheduler for about 20 microseconds, mostly to switch between schedulers. A server
  returns when every later search sees the subscription, in about 50 microseconds.

  ## Options

  #{Options.docs(Common.insert())}

  Returns `{:error, error}` with the kind

    * `:syntax`, with the column;
    * `:unknown_attribute` for an attribute outside the schema;
    * `:type` for a predicate that does not fit its attribute;
    * `:out_of_bounds` for a constant outside the bounds of its attribute;
    * `:missing_attribute` for a constant that is not given;
    * `:duplicate_id`, `:out_of_memory` or `:timeout`;
    * `:no_server` when no server of this name runs or it ends during the call.

  An expression inserted, and one refused:

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert(tree, 1, "age >= 21")
      :ok
      iex> {:error, error} = BeTree.insert(tree, 2, "age >= ")
      iex> {error.kind, error.text}
      {:syntax, "age >= "}
  """
  @spec insert(changed, id, String.t(), constants: constants, timeout: timeout) :: :ok | {:error, Error.t()}
  def insert(target, id, expression, options \\ []), do: Target.insert(target, id, expression, options)

  @doc """
  Like `insert/4`, but raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 18_446_744_073_709_551_615, "age >= 21")
      :ok
  """
  @spec insert!(changed, id, String.t(), constants: constants, timeout: timeout) :: :ok
  def insert!(tree, id, expression, options \\ []), do: Bang.unwrap!(insert(tree, id, expression, options))

  @doc """
  Inserts one subscription, or replaces the one with this id (an upsert). A search sees the old or the new one.

  On a tree a replacement runs on a dirty scheduler and takes two insertions and two deletions: the tree tries the new subscription
  before it deletes the old one.

  ## Options

  #{Options.docs(Common.insert())}

  Returns `{:error, error}` with the kinds of `insert/4` except `:duplicate_id`. The old subscription then remains. A tree whose
  index module has no export `be_tree_put` returns the kind `:bad_module`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.put(tree, 1, "age >= 21")
      :ok
      iex> BeTree.put(tree, 1, "age >= 65")
      :ok
      iex> BeTree.search(tree, %{age: 30})
      {:ok, []}
      iex> {:error, error} = BeTree.put(tree, 1, "age >= ")
      iex> {error.kind, BeTree.search(tree, %{age: 70})}
      {:syntax, {:ok, [1]}}
  """
  @spec put(changed, id, String.t(), constants: constants, timeout: timeout) :: :ok | {:error, Error.t()}
  def put(target, id, expression, options \\ []), do: Target.put(target, id, expression, options)

  @doc """
  Like `put/4`, but raises on error.

      iex> BeTree.put!(BeTree.new!(age: :integer), 1, "age >= 21")
      :ok
  """
  @spec put!(changed, id, String.t(), constants: constants, timeout: timeout) :: :ok
  def put!(tree, id, expression, options \\ []), do: Bang.unwrap!(put(tree, id, expression, options))

  @doc """
  Inserts many subscriptions, all of them or none, and returns their number.

  `subscriptions` is an enumerable of `{id, expression}` and `{id, expression, constants: constants}`. All of them are copied
  into the sandbox at once. The insertion runs on a dirty scheduler, about 10 microseconds per subscription.

  ## Options

  #{Options.docs(Common.change())}

  Returns `{:error, error}` with the kinds of `insert/4`. The error has the `position` of the first wrong subscription, from 0,
  and its `text`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all(tree, [{1, "age >= 21"}, {2, "age < 65"}])
      {:ok, 2}
      iex> {:error, error} = BeTree.insert_all(tree, [{3, "age = 1"}, {4, "size = 2"}])
      iex> {error.kind, error.attribute, error.position, error.text}
      {:unknown_attribute, "size", 1, "size = 2"}
      iex> BeTree.search(tree, %{age: 1})
      {:ok, [2]}
  """
  @spec insert_all(changed, Enumerable.t(), timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def insert_all(target, subscriptions, options \\ []), do: Target.insert_all(target, subscriptions, options)

  @doc """
  Like `insert_all/3`, but returns the count and raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "age > \#{id}"}))
      1000
  """
  @spec insert_all!(changed, Enumerable.t(), timeout: timeout) :: non_neg_integer
  def insert_all!(tree, subscriptions, options \\ []), do: Bang.unwrap!(insert_all(tree, subscriptions, options))

  @doc """
  Deletes the subscription `id`. The id can be used again.

  The deletion runs on a dirty scheduler for about 15 microseconds. When it leaves the tree empty, and the tree takes much
  more memory than a new one, the tree starts over with a new instance and returns that memory.

  ## Options

  #{Options.docs(Common.change())}

  Returns `{:error, error}` with the kind `:not_found` or `:timeout`, and `:type` or `:out_of_bounds` when `id` is not an
  id.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.delete(tree, 1)
      :ok
      iex> {:error, error} = BeTree.delete(tree, 1)
      iex> error.kind
      :not_found
  """
  @spec delete(changed, id, timeout: timeout) :: :ok | {:error, Error.t()}
  def delete(target, id, options \\ []), do: Target.delete(target, id, options)

  @doc """
  Like `delete/3`, but raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.delete!(tree, 1)
      :ok
  """
  @spec delete!(changed, id, timeout: timeout) :: :ok
  def delete!(tree, id, options \\ []), do: Bang.unwrap!(delete(tree, id, options))

  @doc """
  Makes several changes of a tree as one, all or nothing, as `BeTree.Server.change/2` does with a server. An id may occur only once in the
  lists. A tree has no texts, so it replaces equal expressions, too. Runs on a dirty scheduler, as `insert_all/3` does. An expression that
  replaces another one is compiled twice: while it is on trial, the other one stays.

  ## Options

  #{Options.docs(@change_options)}

  Returns `{:ok, %{put: count, deleted: count}}`, or `{:error, error}` and changes nothing, with the kinds of `insert_all/3` and
  `delete/3`; `:duplicate_id` is the kind for an id that occurs twice in the lists.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age < 21"}])
      iex> BeTree.change(tree, put: [{2, "age >= 30"}, {3, "age = 30"}], delete: [1])
      {:ok, %{put: 2, deleted: 1}}
      iex> BeTree.search(tree, %{age: 30})
      {:ok, [2, 3]}
      iex> {:error, error} = BeTree.change(tree, put: [{4, "true"}], delete: [1])
      iex> {error.kind, BeTree.search(tree, %{age: 30})}
      {:not_found, {:ok, [2, 3]}}
  """
  @spec change(t, put: Enumerable.t(), delete: Enumerable.t(), timeout: timeout) ::
          {:ok, %{put: non_neg_integer, deleted: non_neg_integer}} | {:error, Error.t()}
  def change(tree, changes) do
    check_contents!(tree)
    options = Options.validate!(changes, @change_options)

    with {:ok, wires} <- Subscription.new_all(options[:put], :integer),
         {:ok, ids} <- Subscription.ids(options[:delete], :integer),
         :ok <- Subscription.check_once(Enum.map(wires, &elem(&1, 0)) ++ ids),
         do: Contents.change(tree, wires, ids, options[:timeout])
  end

  @doc """
  Like `change/2`, but returns the counts and raises on error.

      iex> BeTree.change!(BeTree.new!(age: :integer), put: [{1, "age >= 21"}])
      %{put: 1, deleted: 0}
  """
  @spec change!(t, put: Enumerable.t(), delete: Enumerable.t(), timeout: timeout) ::
          %{put: non_neg_integer, deleted: non_neg_integer}
  def change!(tree, changes), do: Bang.unwrap!(change(tree, changes))

  @doc """
  Checks an expression as `insert/4` does, without inserting it into the tree. `BeTree.Server.validate/3` does that for a server.

  ## Options

  #{Options.docs(@validate_options)}

  Returns `:ok`, or `{:error, error}` with the kinds of `insert/4` except `:duplicate_id`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.validate(tree, "age >= 21")
      :ok
      iex> {:error, error} = BeTree.validate(tree, "age >= ")
      iex> {error.kind, error.column}
      {:syntax, 8}
  """
  @spec validate(t, String.t(), constants: constants, timeout: timeout) :: :ok | {:error, Error.t()}
  def validate(tree, expression, options \\ []) do
    check_contents!(tree)
    {timeout, options} = options |> Options.validate!(@validate_options) |> Keyword.pop!(:timeout)

    with {:ok, wire} <- Subscription.new(0, expression, options, :integer),
         do: Contents.check(tree, wire, timeout)
  end

  @doc """
  Like `validate/3`, but raises on error.

      iex> BeTree.validate!(BeTree.new!(age: :integer), "age >= 21")
      :ok
  """
  @spec validate!(t, String.t(), constants: constants, timeout: timeout) :: :ok
  def validate!(tree, expression, options \\ []), do: Bang.unwrap!(validate(tree, expression, options))

  @doc """
  Returns the ids of all subscriptions of a tree, in ascending order. `BeTree.Server.ids/2` does that for a server.

  A tree has no texts. A server has those of its subscriptions (`BeTree.Server.fetch/3`).

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:timeout` or `:out_of_memory`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{2, "age >= 21"}, {1, "age < 21"}])
      iex> BeTree.ids(tree)
      {:ok, [1, 2]}
  """
  @spec ids(t, timeout: timeout) :: {:ok, [id]} | {:error, Error.t()}
  def ids(tree, options \\ []) do
    check_contents!(tree)
    Contents.ids(tree, Check.timeout!(options))
  end

  @doc """
  Like `ids/2`, but returns the ids and raises on error.

      iex> BeTree.ids!(BeTree.new!(age: :integer))
      []
  """
  @spec ids!(t, timeout: timeout) :: [id]
  def ids!(tree, options \\ []), do: Bang.unwrap!(ids(tree, options))

  @doc """
  Returns whether a tree has the subscription `id`. Raises a `BeTree.Error` after the timeout, and for a term that is no id.

  ## Options

  #{Options.docs(@wait_options)}

  A subscription that is there, and one that is not:

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {BeTree.member?(tree, 1), BeTree.member?(tree, 2)}
      {true, false}
  """
  @spec member?(t, id, timeout: timeout) :: boolean
  def member?(tree, id, options \\ []) do
    check_contents!(tree)
    Bang.unwrap!(Contents.member(tree, id, Check.timeout!(options)))
  end

  @doc """
  Returns the number of subscriptions of a tree. `BeTree.Server.count/2` does that for a server.

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:timeout`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.count(tree)
      {:ok, 1}
  """
  @spec count(t, timeout: timeout) :: {:ok, non_neg_integer} | {:error, Error.t()}
  def count(tree, options \\ []) do
    check_contents!(tree)
    Contents.count(tree, Check.timeout!(options))
  end

  @doc """
  Like `count/2`, but returns the number and raises on error.

      iex> BeTree.count!(BeTree.new!(age: :integer))
      0
  """
  @spec count!(t, timeout: timeout) :: non_neg_integer
  def count!(tree, options \\ []), do: Bang.unwrap!(count(tree, options))

  @doc """
  Returns an immutable `BeTree.Index` with the subscriptions of the tree. Many processes can search it at once.

  Publishing copies the tree's memory on a dirty scheduler, about 2 GB per second, and compiles nothing. It holds the tree
  for that time, as a change does. The index does not see later changes of the tree.

  ## Options

  #{Options.docs(@publish_options)}

  Returns `{:error, error}` with the kind `:out_of_memory`, `:timeout`, `:trap` for a damaged tree, or `:bad_module` for a
  guest that has state outside its memory ([the ABI](abi.md)).

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, index} = BeTree.publish(tree, replicas: 2)
      iex> BeTree.insert!(tree, 2, "age >= 30")
      iex> BeTree.search(index, %{age: 30})
      {:ok, [1]}
      iex> inspect(index) =~ "#BeTree.Index<1 expression, "
      true
  """
  @spec publish(t, [Index.option() | {:timeout, timeout}]) :: {:ok, Index.t()} | {:error, Error.t()}
  def publish(tree, options \\ []) do
    check_tree(tree)
    {timeout, limits} = options |> Options.validate!(@publish_options) |> Keyword.pop!(:timeout)
    limits = [memory: tree.memory] ++ limits

    with {:ok, snapshot} <- tree.runtime.snapshot(tree.instance, timeout),
         do: Index.new(tree.guest, tree.schema, snapshot, tree.fuel_per_reduction, limits)
  end

  @doc """
  Like `publish/2`, but returns the index and raises on error.

      iex> index = BeTree.publish!(BeTree.new!(age: :integer))
      iex> BeTree.search!(index, %{age: 30})
      []
  """
  @spec publish!(t, [Index.option() | {:timeout, timeout}]) :: Index.t()
  def publish!(tree, options \\ []), do: Bang.unwrap!(publish(tree, options))

  @doc """
  Returns the ids of the subscriptions that `event` makes true, in ascending order.

  `BeTree.Event` lists the forms of an event. The search runs in slices on the scheduler of the calling process, and yields
  to other processes between slices (`BeTree.Search`). With a small event, the call costs about 2 microseconds in addition
  to the work of the index.

  ## Options

  #{Options.docs(Common.search())}

  Returns `{:error, error}` with the kind

    * `:missing_attribute` when the event lacks a required attribute;
    * `:unknown_attribute`, with `strict: true`, when the event has a name that the schema lacks;
    * `:type` or `:out_of_bounds` for a value of the event or an id;
    * `:syntax` for JSON, with the column;
    * `:no_server` when no server of this name runs, and `:not_ready` before it has an index;
    * `:out_of_fuel`, `:timeout`, `:out_of_memory`, `:trap` or `:overloaded`.

  Three searches, and two that fail:

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "country = 'CA'"}, {3, "age > 20 and country = 'CA'"}])
      iex> BeTree.search(tree, %{"age" => 30, "country" => "CA"})
      {:ok, [1, 2, 3]}
      iex> BeTree.search(tree, [age: 30, country: "CA"], ids: [3, 2, 77])
      {:ok, [2, 3]}
      iex> {:ok, [1], %BeTree.Stats{slices: 1}} = BeTree.search(tree, %{age: 30}, stats: true)
      iex> {:error, error} = BeTree.search(tree, %{country: "CA"})
      iex> {error.kind, error.attribute}
      {:missing_attribute, "age"}
      iex> {:error, error} = BeTree.search(tree, %{age: 30}, fuel: 10)
      iex> error.kind
      :out_of_fuel
  """
  @spec search(target, Event.t(), [Search.option() | {:stats, boolean}]) ::
          {:ok, Search.found()} | {:ok, Search.found(), Stats.t()} | {:error, Error.t()}
  def search(target, event, options \\ []), do: Target.search(target, event, options)

  @doc """
  Like `search/3`, but returns the ids, or `{ids, stats}`, and raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.search!(tree, %{age: 30})
      [1]
  """
  @spec search!(target, Event.t(), [Search.option() | {:stats, boolean}]) ::
          Search.found() | {Search.found(), Stats.t()}
  def search!(target, event, options \\ []), do: Bang.unwrap!(search(target, event, options))

  @doc """
  Returns a list with the ids for each of `events`, in order.

  One call searches up to 256 events, with one copy into the sandbox and one out of it. An event costs less this way than in
  a call of its own, and much less when the index holds many dense boolean expressions, which are evaluated for all these
  events at once. For long results the function first enlarges the heap of the caller to the size that all results need,
  at most 128 MB, unless the heap has a `max_heap_size`.

  ## Options

  #{Options.docs(@many_options)}

  `:fuel` and `:timeout` hold for all events together, and `:as` for each list of ids.

  Returns `{:error, error}` with the kinds of `search/3` for the first event that fails, with its `position`, from 0.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> BeTree.search_many(tree, [%{age: 30}, [age: 3], {:json, ~s({"age": 21})}])
      {:ok, [[1], [], [1]]}
      iex> {:error, error} = BeTree.search_many(tree, [%{age: 30}, %{}])
      iex> {error.kind, error.position}
      {:missing_attribute, 1}
  """
  @spec search_many(target, Enumerable.t(), [Search.option()]) :: {:ok, [Search.found()]} | {:error, Error.t()}
  def search_many(target, events, options \\ []), do: Target.search_many(target, events, options)

  @doc """
  Like `search_many/3`, but returns the lists and raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.search_many!(tree, [%{age: 1}, %{age: 2}])
      [[], []]
  """
  @spec search_many!(target, Enumerable.t(), [Search.option()]) :: [Search.found()]
  def search_many!(target, events, options \\ []), do: Bang.unwrap!(search_many(target, events, options))

  @doc """
  Returns a stream with a pair `{event, result}` for each of `events`, in order. The result is `{:ok, ids}`, or `{:error, error}` for
  a failed event.

  The stream searches when it is consumed. The consumer searches the first events, one by one or in small parts. Other processes
  search the later ones, up to 256 at a time, as `search_many/3` does. The memory of a stream is bounded for any number of events.
  When the consumer halts, nothing is left running.

  ## A source that is slow, or quiet

  The results of the events read so far do not wait for the source. A part of 256 events is searched at once, and a smaller one when its
  first event has waited for `linger:`. The first event after a pause of that length does not wait. While the source is quiet, all
  results arrive.

  A process that waits in a source can do nothing else, so another process reads a lazy source. The stream starts it, and ends it. The
  consumer itself reads lists, ranges, maps and sets. They never wait, and `linger:` does not apply to them.

  | `linger:` | the source runs in | a result waits for |
  | --- | --- | --- |
  | milliseconds, 5 by default | a process of its own | other events, for at most this time |
  | 0 | the consumer | no other event |
  | `:infinity` | the consumer | full parts for all searching processes, or the end of the source |

  A process of its own takes 0.5 to 2 microseconds more an event, to send the event to the consumer, and reads up to 512 events ahead.
  With 0 the consumer searches each event before it asks the source for the next, so only one process searches. `:infinity` takes the least
  processor time: it suits files and other sources that never wait.

  Choose 0 or `:infinity` for a source that depends on the process in which it runs. Such a source receives messages of the consumer, of
  a socket, a port or a subscription, or it is an `Ecto.Repo.stream/2` in a transaction. In a process of its own it waits for ever, or
  raises. A source that opens the socket or subscribes itself, as in the start function of `Stream.resource/3`, runs anywhere. The
  process of a source has the consumer among its `$callers`, as a task has.

  The consumer gets an exception, a throw or an exit of the source with its stack trace, after the results of the events before it. If the
  consumer halts, the source halts too, before the next event. A source that is quiet then has 100 milliseconds to return. After that its
  process ends, with all that it owns, and its after function runs in another process. If the consumer is killed, the source's process is
  killed.

  ## Options

  #{Options.docs(@stream_options)}

  The budget and the timeout hold for each event. With one of them, each event is searched by a call of its own, as `search/3` does,
  which costs some microseconds more than in a part. An error that concerns no single event, such as `:out_of_memory`, is the result
  of each event that was not searched because of it.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> events = Stream.map(20..1_000_000, &%{age: &1})
      iex> tree |> BeTree.stream(events) |> Enum.take(3)
      [{%{age: 20}, {:ok, []}}, {%{age: 21}, {:ok, [1]}}, {%{age: 22}, {:ok, [1]}}]
      iex> stream = BeTree.stream(tree, [%{age: 30}, %{}, %{age: 40}])
      iex> for {event, {:error, error}} <- stream, do: {event, error.kind}
      [{%{}, :missing_attribute}]
  """
  @spec stream(target, Enumerable.t(), [
          {:max_concurrency, pos_integer}
          | {:linger, timeout}
          | {:fuel, Fuel.budget()}
          | {:slice, Fuel.budget()}
          | {:timeout, timeout}
          | {:ids, [id]}
          | {:as, Search.form()}
          | {:strict, boolean}
          | {:on_mismatch, Domain.on_mismatch()}
        ]) :: Enumerable.t()
  def stream(target, events, options \\ []) do
    with {:error, error} <- Check.events(events), do: raise(ArgumentError, error.message)
    most = concurrency(target)
    {given, options} = @stream_defaults |> Options.put!(options, @stream_options) |> Map.pop!(:max_concurrency)
    {linger, options} = Map.pop!(options, :linger)
    concurrency = given || most

    case target do
      %Shards{} when options.as != :list -> raise ArgumentError, "a stream of a cluster has lists of ids"
      %Shards{} -> Batch.stream(target, events, options, 1, linger)
      _other -> Batch.stream(target, events, options, concurrency, linger)
    end
  end

  defp concurrency(%Tree{}), do: 1
  defp concurrency(%Shards{}), do: 1

  # A server is asked for its index again for each chunk, so it need not run yet.
  defp concurrency(target) do
    _index_or_server = Target.handle(target)
    System.schedulers_online()
  end

  @doc """
  Returns a `BeTree.Explanation` of why the subscription `id` matches `event`, or does not.

  The call evaluates the whole expression on a dirty scheduler.

  ## Options

  #{Options.docs(Common.explain())}

  Returns `{:error, error}` with the kinds of `search/3` for the event, `:not_found` for the id, or `:timeout`.

      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> BeTree.insert!(tree, 3, "age >= 21 and country in ('CA', 'US')")
      iex> {:ok, why} = BeTree.explain(tree, %{age: 30}, 3)
      iex> why.match
      false
      iex> why
      #BeTree.Explanation<3: no match
      └─ and: false
         ├─ age >= 21: true (age is 30)
         └─ country in ('CA', 'US'): false (country is undefined)>
  """
  @spec explain(target, Event.t(), id, [explain_option]) :: {:ok, Explanation.t()} | {:error, Error.t()}
  def explain(target, event, id, options \\ []), do: Target.explain(target, event, id, options)

  @doc """
  Like `explain/4`, but returns the explanation and raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 3, "age >= 21")
      iex> to_string(BeTree.explain!(tree, %{age: 30}, 3))
      "match\\n└─ age >= 21: true (age is 30)"
  """
  @spec explain!(target, Event.t(), id, [explain_option]) :: Explanation.t()
  def explain!(target, event, id, options \\ []), do: Bang.unwrap!(explain(target, event, id, options))

  @doc """
  Returns `{:ok, profile}`, which tells where the fuel of the searches for `events` goes (`BeTree.Profile`).

  The searches run in a private copy of the target, one after the other, on the scheduler of the calling process. An event
  costs some five times the fuel of its search, and a copy takes the memory that its searches write. The target stays as it
  is, and may be changed and searched meanwhile.

  ## Options

  #{Options.docs(@profile_options)}

  Returns `{:error, error}` with the kinds of `search/3` and the position of the event that is refused, or `:bad_module` when
  the index module of the target has no profiles.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age < 65"}])
      iex> {:ok, profile} = BeTree.profile(tree, [%{age: 30}, %{age: 70}])
      iex> {:ok, _ids, stats} = BeTree.search(tree, %{age: 30}, stats: true)
      iex> Enum.find(profile.events, &(&1.position == 0)).fuel == stats.fuel
      true
  """
  @spec profile(target, Enumerable.t(), [explain_option]) :: {:ok, Profile.t()} | {:error, Error.t()}
  def profile(target, events, options \\ []) do
    options = Options.validate!(options, @profile_options)
    deadline = Deadline.new(options[:timeout])

    with :ok <- Check.events(events),
         {:ok, source, snapshot} <- Target.snapshot(target, Deadline.left(deadline)),
         do: Recorder.profile(source, snapshot, events, deadline, options[:on_mismatch])
  end

  @doc """
  Like `profile/3`, but returns the profile and raises on error.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.profile!(tree, [%{age: 30}]).searches
      1
  """
  @spec profile!(target, Enumerable.t(), [explain_option]) :: Profile.t()
  def profile!(target, events, options \\ []), do: Bang.unwrap!(profile(target, events, options))

  @doc """
  Returns a map of counts and sizes.

    * `:expressions` - the number of subscriptions;
    * `:predicates` - the predicates of all expressions, repeated ones included;
    * `:strings` - the distinct strings of all expressions;
    * `:nodes`, `:entries`, `:depth` - the nodes of the index, the entries in them, and the number of levels;
    * `:unindexed` - the entries that every search visits;
    * `:code_bytes` - the bytes of the compiled expressions;
    * `:memory_bytes` - the bytes of memory that the index takes.

  For a tree or a server the call runs on a dirty scheduler for about 15 microseconds. A published index keeps the counts of the moment
  when it was published, so the call costs nothing.

  The map of a server has the keys of `BeTree.Server.info/2` too. That of a cluster has the sums over its shards (`BeTree.Cluster.info/2`).

  ## Options

  #{Options.docs(@wait_options)}

  Returns `{:error, error}` with the kind `:timeout`, or `:no_server` when no server of this name runs.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age < 65"}])
      iex> {:ok, %{expressions: 2, memory_bytes: bytes}} = BeTree.info(tree)
      iex> bytes < 10_000_000
      true
  """
  @spec info(target, timeout: timeout) :: {:ok, %{atom => term}} | {:error, Error.t()}
  def info(target, options \\ []), do: Target.info(target, options)

  @doc """
  Like `info/2`, but returns the map and raises on error.

      iex> BeTree.info!(BeTree.new!(age: :integer)).expressions
      0
  """
  @spec info!(target, timeout: timeout) :: %{atom => term}
  def info!(target, options \\ []), do: Bang.unwrap!(info(target, options))

  defp check_tree(%Tree{}), do: :ok

  defp check_tree(name) when is_name(name) do
    raise ArgumentError, "a server is not published: BeTree.Server.index/2 returns its index as a BeTree.Index"
  end

  defp check_tree(other), do: Check.no_tree!(other)

  defp check_contents!(%Tree{}), do: :ok
  defp check_contents!(other), do: Check.expected!("a tree (BeTree.Server has the functions for a server)", other)
end

defmodule BeTree.Tenants do
  @moduledoc """
  Many small indexes on a node, one a tenant, each with its statistics, its history, its quota and its bill of fuel.

      children = [
        {BeTree.Tenants, name: MyApp.Tenants, schema: [plan: :string, price: {:float, optional: true}], dir: "/var/lib/my_app"}
      ]

      {:ok, _pid} = Supervisor.start_link(children, strategy: :one_for_one)
      {:ok, _counts} = BeTree.Tenants.change(MyApp.Tenants, "acme", put: [{1, "plan = 'free'"}, {2, "price > 100.0"}])
      {:ok, [1]} = BeTree.Tenants.match(MyApp.Tenants, "acme", %{plan: "free"})

  A tenant is any term. It exists from its first change. All tenants have the schema of the supervisor, and each has its own
  expressions: an event of a tenant is matched with the expressions of this tenant only. The guide [Tenants](tenants.md) has a
  worked case.

  ## Memory

  Some hundred tenants share an instance of the index module, a *shard*, in which each has an index of its own. The ids, the
  errors and the fuel of a tenant do not depend on the other tenants of its shard. One exception is less than a thousandth of the fuel, which
  the allocator burns when an expression first matches on a day and gets its counts. A tenant has an instance of its own if it asks for one
  (`change/4`), or if it has more than 10,000 expressions when it is loaded.

  A tenant is loaded when it is used, once for concurrent callers, and evicted when more than `:hot` tenants or `:memory` bytes are in
  memory. The least recently used tenant of a partition goes first.

  ## Statistics

  Each match counts, in the same call: the events of the tenant, and the matches of each expression. `:stats` declares more: for the
  tenant, or for an expression in its place. A figure has a name, a kind and an attribute of the event:

  | figure | it is |
  | --- | --- |
  | `{:uniques, attribute}` | the number of different values, exact up to 500, then with an error of 1.7 % |
  | `{:sum, attribute}` | the count, the sum, the least and the greatest value of a number |
  | `{:top, attribute, k}` | the `k` most frequent values, at most 100, and 10 unless it is given |
  | `{:quantiles, attribute}` | quantiles of a number, with a relative error of 1 % |
  | `{:members, attribute, n}` | the set of the values, up to `n`, which is at most 1,000, and 100 unless it is given |

  An event counts once or not at all: not if its match returned an error, timed out, or ran out of fuel. A match whose process is
  killed counts once or not at all.

  Statistics belong to a day in UTC. The first match of a later day ends the day before; the days that ended are kept for `:retention` days.
  When the clock goes back, events count on the latest day that has begun.

  ## Quotas and bills

  A quota is a token bucket of fuel, and a limit of memory (`change/4`). A match is admitted while fuel is left in the bucket. Its fuel is
  known when it ends, so the bucket may owe the fuel of the last match of each caller, which later matches wait for. Fuel is the same
  on each machine for the same module and the same calls in the same order, so a bill can be checked (`usage/2`).

  ## What a crash may lose

  | event | expressions | statistics and bills |
  | --- | --- | --- |
  | a process below the supervisor is killed | nothing | nothing |
  | a shard traps | nothing | statistics of its tenants since they were last written; without `:dir`, since the tenants were loaded |
  | the node is killed, with `:dir` | nothing that was acknowledged | those since they were last written |
  | the power fails, with `:dir` | what `:durability` says | what `:durability` says, and those since they were last written |
  | the supervisor or the node ends, without `:dir` | everything | everything |

  With `:dir`, the statistics of tenants that were used are written every second with `durability: :sync`, and every `ms` milliseconds
  with `durability: {:interval, ms}`. Writing takes at most a twentieth of the time of a partition, so a round over thousands of
  tenants with many sketches takes longer than that: `info/1` tells how long the last one took. Statistics are also written when a day ends, when a
  tenant is evicted, and when the supervisor is stopped.

  ## Dumps and moves

  A tenant is dumped (`dump/3`), restored (`restore/3`) and moved to another node (`move/4`) by one call each, with its expressions,
  settings, statistics and bills. Each copy of a tenant counts under a name of its own, its *origin*, and keeps what other copies counted beside
  it. So a dump may be restored again, late, and on nodes that also counted: reports and bills have everything that any of
  them counted, once. After a netsplit a dump of one side that is restored on the other merges both.

  The folder of a supervisor is locked by one process at a time, the lock is freed when that process ends, also by `kill -9`, and
  `:lock_timeout` is the time for which a start waits for it. So the lock is the lease of what the folder holds, such as a partition of a broker.

  ## Costs

  `match/3` looks the tenant up and calls its shard in the calling process; no other process takes part, unless the tenant is not in
  memory, or it is the tenant's first match of a day. Matches of tenants in the same shard run one at a time.
  """

  use Supervisor

  import BeTree.Input.Limits, only: [is_atom_name: 1]

  alias BeTree.Call.Instance
  alias BeTree.{Domain, Error, Event, Journal}
  alias BeTree.Error.{Attempt, Bang}
  alias BeTree.Input.{Check, Describe, Limits, Options}
  alias BeTree.Input.Options.Common
  alias BeTree.Processes.Supervised

  alias BeTree.Tenants.{
    Bill,
    Change,
    Declaration,
    Directory,
    Match,
    Partition,
    Quota,
    Report,
    Request,
    Shard,
    Store,
    Transfer
  }

  @default_hot 10_000
  @default_retention 30
  @max_retention 3_650
  # Milliseconds between two writes of statistics with `durability: :sync`.
  @sync_interval_ms 1_000
  @min_interval_ms 10
  # Ends of processes below the supervisor in a minute before it ends too.
  @max_restarts 1_000
  @restart_seconds 60
  # Tenants with the most fuel that info/1 names.
  @dearest 10

  @options [
    name: [
      type: {:check, "an atom", &__MODULE__.name?/1},
      required: true,
      doc: "an atom. All functions take it. The supervisor is registered under it, and it is the name of an ETS table"
    ],
    schema: [type: :any, required: true, doc: "the schema of all tenants, as `BeTree.new/2` takes it"],
    dir: [
      type: {:nullable, {:check, "the path of a folder, a string that is not empty", &Check.folder?/1}},
      default: nil,
      doc: "a folder that keeps the tenants, on a disk of this machine. Without one, they end with the supervisor"
    ],
    hot: [
      type: :positive,
      default: @default_hot,
      default_doc: "10,000",
      doc: "the number of tenants in memory"
    ],
    memory: [
      type: {:bytes, 1, Limits.max_u64()},
      default: Limits.default_memory(),
      default_doc: "1 GiB",
      doc: "the bytes that the indexes and statistics in memory take"
    ],
    lock_timeout: [
      type: :timeout,
      default: Journal.lock_timeout(),
      default_doc: "1,000",
      doc:
        "with `:dir`, milliseconds for which the start waits while another process has the folder, or `:infinity`. It looks every 20 to " <>
          "40 milliseconds. The caller, such as a supervisor, waits meanwhile"
    ],
    retention: [
      type: {:integer, 1, @max_retention},
      default: @default_retention,
      doc: "the days that ended whose statistics and bills are kept"
    ],
    stats: [
      type: :any,
      default: nil,
      doc: "the statistics of tenants that have no others: names with figures, such as `[users: {:uniques, :user}]`"
    ],
    quota: [
      type: {:check, "nil, or a keyword list with :rate, :burst, :memory and :overflow", &Quota.valid?/1},
      default: nil,
      doc: "the quota of tenants that have no other (`change/4`), or `nil` for none"
    ],
    durability: [
      type: {:check, ":sync or {:interval, milliseconds}", &__MODULE__.durability?/1},
      default: :sync,
      doc:
        "with `:dir`, the promise of an acknowledged change. `:sync`: it is on the disk. `{:interval, ms}`: it survives the " <>
          "end of the node, and is on the disk about `ms` milliseconds later"
    ]
  ]

  @match_options Common.take([:fuel, :timeout, :strict, :on_mismatch]) ++
                   [
                     count: [
                       type: :boolean,
                       default: true,
                       doc:
                         "`false` leaves the event out of the statistics, the bill and the quota: for an event that was counted already, such as " <>
                           "one that a broker delivers again"
                     ]
                   ]
  @match_defaults %{fuel: :infinity, timeout: :infinity, strict: false, on_mismatch: :error, count: true}
  @change_options Common.timeout(
                    "milliseconds that the call may wait, or `:infinity`. A change whose call passed its timeout may still be made"
                  )

  @restore_definitions [
    existing: [
      type: {:one_of, [:error, :keep, :replace]},
      default: :error,
      doc:
        "if the tenant exists: `:error` refuses the dump with the kind `:exists`; `:keep` adds its statistics and bills alone; `:replace` also " <>
          "replaces the expressions, statistics, quota and instance that the tenant has"
    ]
  ]
  @restore_options @restore_definitions ++
                     Common.timeout(
                       "milliseconds that the call may wait, or `:infinity`. A dump whose call passed its timeout may still be restored"
                     )

  @dump_options Common.timeout(
                  "milliseconds that the call may wait for the process that writes statistics, or `:infinity`"
                )

  @move_options Common.timeout(
                  "milliseconds that the call may wait, or `:infinity`. After a timeout the tenant may still move, or be in both places; another " <>
                    "move ends that"
                )

  @report_options Common.timeout(
                    "milliseconds that the call may wait for the processes that load tenants, or `:infinity`"
                  )

  @typedoc "The name of a supervisor of tenants on this node."
  @type name :: atom

  @typedoc "Any term of at most 65,536 bytes. With `:dir` it has no process, port, reference or function in it."
  @type tenant :: term

  @typedoc "A figure of statistics."
  @type figure ::
          {:uniques | :sum | :quantiles, attribute :: atom | String.t()}
          | {:top | :members, attribute :: atom | String.t()}
          | {:top | :members, attribute :: atom | String.t(), pos_integer}

  @typedoc "Figures by name."
  @type stats :: [{atom | String.t(), figure}] | %{(atom | String.t()) => figure} | nil

  @typedoc "A quota, described at `change/4`."
  @type quota ::
          [{:rate, pos_integer} | {:burst, pos_integer} | {:memory, pos_integer} | {:overflow, :error | :sample}] | nil

  @typedoc "An option of `start_link/1`."
  @type option ::
          {:name, name}
          | {:schema, BeTree.schema()}
          | {:dir, Path.t() | nil}
          | {:hot, pos_integer}
          | {:memory, pos_integer}
          | {:lock_timeout, timeout}
          | {:retention, pos_integer}
          | {:stats, stats}
          | {:quota, quota}
          | {:durability, :sync | {:interval, non_neg_integer}}

  @typedoc "A part of a change."
  @type part ::
          {:put, [{BeTree.id(), String.t()} | {BeTree.id(), String.t(), keyword}]}
          | {:delete, [BeTree.id()]}
          | {:stats, stats}
          | {:quota, quota}
          | {:instance, :shared | :own}

  @typedoc "An option of `match/4`."
  @type match_option ::
          {:fuel, BeTree.Fuel.budget()}
          | {:timeout, timeout}
          | {:strict, boolean}
          | {:on_mismatch, Domain.on_mismatch()}
          | {:count, boolean}

  @typedoc "The result of a match: the ids, or `:skipped` for the quota with `overflow: :sample`."
  @type result :: {:ok, [BeTree.id()]} | :skipped | {:error, Error.t()}

  @doc """
  Starts a supervisor of tenants that is linked to the calling process. A supervisor calls this function for
  `{BeTree.Tenants, options}`.

  ## Options

  #{Options.docs(@options)}

  Returns `{:ok, pid}` with the pid of the supervisor, `{:error, {:already_started, pid}}` when a process has this name, or
  `{:error, %BeTree.Error{}}` with the kinds of `BeTree.new/2`, and `:file`, `:damaged`, `:locked` or `:other_schema` for the folder.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Shops, schema: [price: :float, country: {:string, optional: true}])
      iex> {:ok, _counts} = BeTree.Tenants.change(Shops, "acme", put: [{1, "price > 100.0"}, {2, "country = 'CA'"}])
      iex> BeTree.Tenants.match(Shops, "acme", %{price: 120.0, country: "CA"})
      {:ok, [1, 2]}
      iex> {:error, error} = BeTree.Tenants.match(Shops, "other", %{price: 120.0})
      iex> error.kind
      :not_found
  """
  @spec start_link([option]) :: Supervisor.on_start() | {:error, Error.t()}
  def start_link(options), do: start_link(options, %{})

  @doc false
  # `internal` has what only tests set: the clock, the number of partitions, and how many ends of processes the supervisor bears.
  @spec start_link([option], map) :: Supervisor.on_start() | {:error, Error.t()}
  def start_link(options, internal) do
    options = options |> Options.validate!(@options) |> Map.new()
    %{name: name} = options

    with {:ok, schema} <- Domain.parse(options.schema),
         {:ok, stats} <- Declaration.new(options.stats, schema),
         {:ok, guest} <- Instance.built_in(BeTree.Runtime.default()) do
      options = %{options | schema: schema, stats: stats, quota: Quota.new!(options.quota)}
      argument = %{name: name, guest: guest, options: options |> with_defaults() |> Map.merge(internal)}
      Supervised.start_link(__MODULE__, argument, name)
    end
  end

  # More partitions than schedulers, because a match waits for the shard that another match uses.
  defp with_defaults(options) do
    Map.merge(options, %{
      clock: nil,
      max_restarts: @max_restarts,
      partitions: 2 * System.schedulers_online(),
      interval: interval(options.durability),
      memory_of_shard: Limits.default_memory(),
      kind: if(options.dir, do: :portable, else: :term)
    })
  end

  defp interval(:sync), do: @sync_interval_ms
  defp interval({:interval, ms}), do: max(ms, @min_interval_ms)

  @doc """
  Returns the child specification of a supervisor of tenants, with which `{BeTree.Tenants, options}` stands in a list of children. Its
  `:id` is `{BeTree.Tenants, name}`, so one supervisor can have many.

      iex> BeTree.Tenants.child_spec(name: Shops, schema: [price: :float]).id
      {BeTree.Tenants, Shops}
  """
  @spec child_spec([option]) :: Supervisor.child_spec()
  def child_spec(options), do: Supervised.child_spec(__MODULE__, options)

  # This process owns the tables, so it ends only if it is stopped, or if the processes below end again and again. Each of those can start
  # again alone. The partitions end before the store, which takes their last statistics.
  @impl Supervisor
  def init(%{name: name, guest: guest, options: options}) do
    store = Store.table()
    directory = Directory.new(%{name: name, store: store, guest: guest, options: options, digest: digest()})

    store_options = %{
      table: store,
      dir: options.dir && Path.expand(options.dir),
      durability: options.durability,
      lock_timeout: options.lock_timeout,
      retention: options.retention,
      identity: Domain.encode(options.schema)
    }

    partitions = for partition <- 0..(options.partitions - 1), do: Partition.child_spec({directory, partition})

    Supervisor.init([Store.child_spec(store_options) | partitions],
      strategy: :one_for_one,
      max_restarts: options.max_restarts,
      max_seconds: @restart_seconds
    )
  end

  defp digest do
    wasm = :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read!()
    :sha256 |> :crypto.hash(wasm) |> Base.encode16(case: :lower)
  end

  @doc false
  def name?(name), do: is_atom_name(name)

  @doc false
  def durability?(:sync), do: true
  def durability?({:interval, ms}), do: is_integer(ms) and ms >= 0 and ms <= Limits.max_timeout()
  def durability?(_other), do: false

  @doc """
  Changes a tenant, all or nothing: deletes expressions, then inserts or replaces others, and sets its statistics and its quota. Creates the
  tenant if it does not exist.

  `changes` is a keyword list:

  #{Change.docs()}

  A quota is a keyword list:

  #{Quota.docs()}

  ## Options

  #{Options.docs(@change_options)}

  Returns `{:ok, counts}` when the change is stored, with the numbers of expressions `:put` and `:deleted`, and the `:bytes` of the
  tenant's index and statistics. A match may see the change before that.

  Returns `{:error, error}` with the kinds of `BeTree.Server.change/2` for the expressions, `:unknown_attribute` or `:type` for
  statistics, `:quota` when expressions are put and the tenant has no fuel left or would exceed its memory, `:file` when the folder cannot be written,
  `:no_server`, or `:timeout`.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: ChangingTenants, schema: [price: :float, user: {:integer, optional: true}])
      iex> changes = [put: [{1, "price > 100.0"}, {2, "price < 1.0", stats: [users: {:uniques, :user}]}], quota: [rate: 1_000_000]]
      iex> {:ok, counts} = BeTree.Tenants.change(ChangingTenants, "acme", changes)
      iex> {counts.put, counts.deleted}
      {2, 0}
      iex> {:error, error} = BeTree.Tenants.change(ChangingTenants, "acme", put: [{3, "prize > 1.0"}], delete: [1])
      iex> {error.kind, error.position}
      {:unknown_attribute, 0}
      iex> BeTree.Tenants.match(ChangingTenants, "acme", %{price: 120.0})
      {:ok, [1]}
  """
  @spec change(name, tenant, [part], timeout: timeout) ::
          {:ok, %{put: non_neg_integer, deleted: non_neg_integer, bytes: non_neg_integer}} | {:error, Error.t()}
  def change(tenants, tenant, changes, options \\ []) do
    %{timeout: timeout} = Options.put!(%{timeout: :infinity}, options, @change_options)

    with {:ok, directory} <- fetch(tenants),
         %{schema: schema, kind: kind} = directory.options,
         :ok <- Change.check_tenant(tenant, kind),
         {:ok, change} <- Change.new(changes, schema),
         do: Request.change(directory, tenant, change, timeout)
  end

  @doc "Like `change/4`, but returns the counts and raises on error."
  @spec change!(name, tenant, [part], timeout: timeout) :: %{atom => non_neg_integer}
  def change!(tenants, tenant, changes, options \\ []), do: Bang.unwrap!(change(tenants, tenant, changes, options))

  @doc """
  Matches an event of a tenant with its expressions, and counts it in the tenant's statistics.

  The calling process runs the match. It first loads the tenant if that is not in memory.

  ## Options

  #{Options.docs(@match_options)}

  Returns `{:ok, ids}` with the ids in ascending order, or `:skipped` if the tenant's quota is used up and has `overflow: :sample`.

  Returns `{:error, error}` with the kinds of `BeTree.search/3`, `:not_found` for a tenant that does not exist, `:quota`, whose
  `:retry_after` is the number of milliseconds until there is fuel again, or `:no_server`. Such an event is not counted. Its fuel is.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Matching, schema: [price: :float])
      iex> BeTree.Tenants.change!(Matching, {:shop, 1}, put: [{7, "price > 100.0"}])
      iex> BeTree.Tenants.match(Matching, {:shop, 1}, %{price: 120.0})
      {:ok, [7]}
      iex> {:error, error} = BeTree.Tenants.match(Matching, {:shop, 1}, %{price: "dear"})
      iex> {error.kind, error.attribute}
      {:type, "price"}
  """
  @spec match(name, tenant, Event.t(), [match_option]) :: result
  def match(tenants, tenant, event, options \\ [])

  def match(tenants, tenant, event, []) when is_atom_name(tenants),
    do: Match.one(tenants, tenant, event, @match_defaults)

  def match(tenants, tenant, event, options),
    do: tenants |> check_name!() |> Match.one(tenant, event, Options.put!(@match_defaults, options, @match_options))

  @doc "Like `match/4`, but returns the ids or `:skipped`, and raises on error."
  @spec match!(name, tenant, Event.t(), [match_option]) :: [BeTree.id()] | :skipped
  def match!(tenants, tenant, event, options \\ []) do
    with result when result != :skipped <- match(tenants, tenant, event, options), do: Bang.unwrap!(result)
  end

  @doc """
  Matches events of many tenants: a list of `{tenant, event}`. Events of one tenant are matched together, which takes less time than one
  by one.

  ## Options

  Those of `match/4`. `:fuel` is for up to 64 events of one tenant, and `:timeout` for the whole call.

  Returns `{:ok, results}` with a result of `match/4` for each event, in their order. An event that is refused is an error in its
  place, and the others are matched and counted. Returns `{:error, error}` with the kind `:type` if `events` is not a list of pairs.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: MatchingMany, schema: [price: :float])
      iex> BeTree.Tenants.change!(MatchingMany, "a", put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.change!(MatchingMany, "b", put: [{2, "price < 1.0"}])
      iex> {:ok, results} = BeTree.Tenants.match_many(MatchingMany, [{"a", %{price: 120.0}}, {"b", %{price: 0.5}}, {"a", %{price: nil}}])
      iex> [{:ok, [1]}, {:ok, [2]}, {:error, error}] = results
      iex> error.kind
      :missing_attribute
  """
  @spec match_many(name, Enumerable.t(), [match_option]) :: {:ok, [result]} | {:error, Error.t()}
  def match_many(tenants, events, options \\ []) do
    options = Options.put!(@match_defaults, options, @match_options)

    with {:ok, _directory} <- fetch(tenants),
         :ok <- Check.events(events),
         {:ok, events} <- events |> Enum.with_index() |> Attempt.map(&pair/1),
         do: {:ok, Match.many(tenants, events, options)}
  end

  defp pair({{_tenant, _event} = pair, _position}), do: {:ok, pair}

  defp pair({_other, position}),
    do: {:error, %Error{kind: :type, message: "events of tenants are pairs {tenant, event}", position: position}}

  @doc "Like `match_many/3`, but returns the results and raises on error."
  @spec match_many!(name, Enumerable.t(), [match_option]) :: [result]
  def match_many!(tenants, events, options \\ []), do: Bang.unwrap!(match_many(tenants, events, options))

  @doc """
  Returns the bill of a tenant: `{:ok, usage}` with

    * `:days` - by date, the fuel of each kind of call, `:search`, `:change` and `:load`, and the numbers of `:events` that were matched,
      `:skipped` and `:refused` for the quota;
    * `:module` - the SHA-256 of the index module that counts the fuel;
    * `:modules` - by date, that of another module that counted fuel of the day;
    * `:quota` - `:left`, the fuel that is left, and `:rate`, `:burst` and `:memory` of the quota; `nil` without one. `:left` is `nil` for a
      tenant that is not in memory.

  The fuel of a search has that of counting. It is the sum of the fuel of all calls, also of those that returned an error. A match that is
  under way has no fuel yet, and one whose process was killed has none. Fuel of a change that was refused, and of a match with
  `count: false`, is not counted.

  Returns `{:error, error}` with the kind `:not_found`, `:damaged`, `:file` or `:no_server`.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Billing, schema: [price: :float])
      iex> BeTree.Tenants.change!(Billing, "acme", put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.match!(Billing, "acme", %{price: 120.0})
      iex> {:ok, usage} = BeTree.Tenants.usage(Billing, "acme")
      iex> days = Map.values(usage.days)
      iex> for kind <- [:events, :search, :change], do: Enum.sum(for day <- days, do: day[kind]) > 0
      [true, true, true]
  """
  @spec usage(name, tenant) :: {:ok, map} | {:error, Error.t()}
  def usage(tenants, tenant) do
    with {:ok, directory} <- fetch(tenants), do: Bill.usage(directory, tenant)
  end

  @doc """
  Returns a report over the statistics of one tenant, several or all: it merges any days, expressions and tenants.

  `query` is a keyword list:

  #{Report.docs()}

  Returns `{:ok, sections}`: for each of `:sections` a list of entries, in the order of tenants as given, days and ids. An entry is a map with

    * `:tenant`, `:day` and `:id`, as far as the section groups by them. The day is a `Date`;
    * `:events`, the events of the tenants, and `:matched`, those that matched any expression, unless the section groups by `:id`;
    * `:matches`, the matches of the expressions that count;
    * `:stats`, a list of figures: maps with `:name`, `:kind`, `:attribute` and the value. Figures of the same name, kind and
      attribute are merged.

  | kind | value |
  | --- | --- |
  | `:uniques` | `:count`, and `:exact`, whether it is exact |
  | `:sum` | `:count`, `:sum`, `:min` and `:max` |
  | `:top` | `:count` of all values, and `:values`, a list of maps with `:value`, `:count`, and `:error`, by which that count may be too great |
  | `:quantiles` | `:count`, `:min`, `:max`, and `:quantiles`, a list of maps with `:quantile` and `:value` |
  | `:members` | `:values`, and `:more`, whether there were more |

  The report has all events whose match returned before. It runs in an instance of its own, and reads the store in the calling process. The
  statistics of all days and tenants of the query are in memory meanwhile.

  ## Options

  #{Options.docs(@report_options)}

  Returns `{:error, error}` with the kind `:not_found` for a tenant in the list that does not exist, `:file`, `:damaged`,
  `:out_of_memory`, `:no_server` or `:timeout`.

      iex> stats = [users: {:uniques, :user}, total: {:sum, :price}]
      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Reported, schema: [price: :float, user: :integer], stats: stats)
      iex> BeTree.Tenants.change!(Reported, "acme", put: [{1, "price > 100.0"}, {2, "price > 0.0"}])
      iex> for user <- [1, 2, 2], do: BeTree.Tenants.match!(Reported, "acme", %{price: 110.0, user: user})
      iex> BeTree.Tenants.match!(Reported, "acme", %{price: 1.0, user: 3})
      iex> {:ok, [[totals], by_id]} = BeTree.Tenants.report(Reported, tenants: ["acme"], sections: [[], [:id]])
      iex> {totals.events, totals.matched, totals.matches}
      {4, 4, 7}
      iex> for entry <- by_id, do: {entry.id, entry.matches, Enum.find(entry.stats, &(&1.name == "users")).count}
      [{1, 3, 2}, {2, 4, 3}]
  """
  @spec report(name, keyword, timeout: timeout) :: {:ok, [[map]]} | {:error, Error.t()}
  def report(tenants, query, options \\ []) do
    %{timeout: timeout} = Options.put!(%{timeout: :infinity}, options, @report_options)
    query = Report.query!(query)
    with {:ok, directory} <- fetch(tenants), do: Report.run(directory, query, timeout)
  end

  @doc "Like `report/3`, but returns the sections and raises on error."
  @spec report!(name, keyword, timeout: timeout) :: [[map]]
  def report!(tenants, query, options \\ []), do: Bang.unwrap!(report(tenants, query, options))

  @doc """
  Returns a report as JSON, for other programs: `{:ok, json}`, a list of sections. Takes the arguments of `report/3`, and returns its
  errors. Dates are in the form of ISO 8601. A tenant that is no string, atom or number is written as Elixir prints it.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Written, schema: [price: :float])
      iex> BeTree.Tenants.change!(Written, "acme", put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.match!(Written, "acme", %{price: 110.0})
      iex> BeTree.Tenants.to_json(Written, tenants: ["acme"], sections: [[:tenant]])
      {:ok, ~S([[{"events":1,"matched":1,"matches":1,"stats":[],"tenant":"acme"}]])}
  """
  @spec to_json(name, keyword, timeout: timeout) :: {:ok, String.t()} | {:error, Error.t()}
  def to_json(tenants, query, options \\ []) do
    with {:ok, sections} <- report(tenants, query, options), do: {:ok, Report.json(sections)}
  end

  @doc "Like `to_json/3`, but returns the JSON and raises on error."
  @spec to_json!(name, keyword, timeout: timeout) :: String.t()
  def to_json!(tenants, query, options \\ []), do: Bang.unwrap!(to_json(tenants, query, options))

  @doc """
  Forgets a tenant: its expressions, statistics, days and bills. Returns `:ok` when that is stored, or `{:error, error}` with the kind
  `:not_found`, `:file` or `:no_server`.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Dropping, schema: [price: :float])
      iex> BeTree.Tenants.change!(Dropping, "acme", put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.drop(Dropping, "acme")
      :ok
      iex> {:error, error} = BeTree.Tenants.match(Dropping, "acme", %{price: 120.0})
      iex> error.kind
      :not_found
  """
  @spec drop(name, tenant) :: :ok | {:error, Error.t()}
  def drop(tenants, tenant) do
    with {:ok, directory} <- fetch(tenants), do: Request.drop(directory, tenant, :infinity)
  end

  @doc """
  Returns a tenant as bytes, for `restore/3`: its expressions with their constants and statistics, its own statistics, quota, instance and debt
  of fuel, and all days that are kept. Its present statistics are written to the store before, so they take part.

  The dump is compressed, and has a digest that finds damage. It is not signed or encrypted.

  ## Options

  #{Options.docs(@dump_options)}

  Returns `{:ok, binary}`, or `{:error, error}` with the kind `:not_found`, `:type` for a tenant with a process, port, reference or function in it,
  `:out_of_memory` for more than 1 GiB, `:file`, `:damaged`, `:timeout` or `:no_server`.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Dumping, schema: [price: :float])
      iex> BeTree.Tenants.change!(Dumping, "acme", put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.match!(Dumping, "acme", %{price: 120.0})
      iex> {:ok, dump} = BeTree.Tenants.dump(Dumping, "acme")
      iex> BeTree.Tenants.drop(Dumping, "acme")
      iex> {:ok, counts} = BeTree.Tenants.restore(Dumping, dump)
      iex> {counts.tenant, counts.expressions}
      {"acme", 1}
      iex> BeTree.Tenants.match!(Dumping, "acme", %{price: 120.0})
      iex> [[total]] = BeTree.Tenants.report!(Dumping, tenants: ["acme"])
      iex> total.events
      2
  """
  @spec dump(name, tenant, timeout: timeout) :: {:ok, binary} | {:error, Error.t()}
  def dump(tenants, tenant, options \\ []) do
    %{timeout: timeout} = Options.put!(%{timeout: :infinity}, options, @dump_options)
    with {:ok, directory} <- fetch(tenants), do: Transfer.dump(directory, tenant, timeout)
  end

  @doc "Like `dump/3`, but returns the dump and raises on error."
  @spec dump!(name, tenant, timeout: timeout) :: binary
  def dump!(tenants, tenant, options \\ []), do: Bang.unwrap!(dump(tenants, tenant, options))

  @doc """
  Restores a tenant from a dump (`dump/3`): creates it, or merges the dump with the tenant that exists.

  The statistics and bills of the dump and of the tenant are both kept, and nothing counts twice, however often a dump is restored. So after
  a netsplit, in which two nodes matched events of the same tenant, a dump of one node that is restored on the other with
  `existing: :keep` brings all counts together. Days before the retention are left out.

  ## Options

  #{Options.docs(@restore_options)}

  Returns `{:ok, counts}` when the store has all of it, with the `:tenant`, the number of its `:expressions`, and of the `:days` whose figures
  the dump changed.

  Returns `{:error, error}` with the kind `:exists`, `:damaged` for bytes that are no dump or were changed, `:other_schema`, `:quota` if
  the tenant would exceed the memory of its quota, `:file`, `:timeout`, `:no_server`, and for expressions and settings those of
  `change/4`. Then nothing has changed. The dump may come from anywhere: every part of it is checked.
  """
  @spec restore(name, binary, existing: :error | :keep | :replace, timeout: timeout) ::
          {:ok, %{tenant: tenant, expressions: non_neg_integer, days: non_neg_integer}} | {:error, Error.t()}
  def restore(tenants, dump, options \\ []) do
    %{existing: existing, timeout: timeout} =
      Options.put!(%{existing: :error, timeout: :infinity}, options, @restore_options)

    with {:ok, directory} <- fetch(tenants),
         do: Transfer.restore(directory, check_dump!(dump), existing, timeout)
  end

  @doc "Like `restore/3`, but returns the counts and raises on error."
  @spec restore!(name, binary, existing: :error | :keep | :replace, timeout: timeout) :: map
  def restore!(tenants, dump, options \\ []), do: Bang.unwrap!(restore(tenants, dump, options))

  @doc """
  Moves a tenant with all that it has to the tenants of another node: `target` is a node, where they have the same name, or `{name, node}`.
  They have the same schema.

  The tenant leaves memory, is restored at the target with `existing: :replace`, and dropped here when the store there has it. Calls that
  concern this tenant wait until then; those that began before are in its statistics, and in its bill if they return before the move
  ends. Other tenants go on. If the target does not take the tenant, it stays here.

  If this node, or the process of the tenant, ends during a move, both places may have the tenant. Another move, in either direction, ends that,
  and nothing counts twice.

  ## Options

  #{Options.docs(@move_options)}

  Returns `{:ok, counts}` as `restore/3` does.

  Returns `{:error, error}` with the kind `:not_found`, `:no_server` if the target cannot be reached, `:exists` if the target is where the tenant
  is, `:file`, `:timeout`, and those of `dump/3` and `restore/3`.

      iex> for name <- [MovingFrom, MovingTo], do: {:ok, _pid} = BeTree.Tenants.start_link(name: name, schema: [price: :float])
      iex> BeTree.Tenants.change!(MovingFrom, "acme", put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.match!(MovingFrom, "acme", %{price: 120.0})
      iex> {:ok, _counts} = BeTree.Tenants.move(MovingFrom, "acme", {MovingTo, node()})
      iex> {BeTree.Tenants.tenants(MovingFrom), BeTree.Tenants.tenants(MovingTo)}
      {{:ok, []}, {:ok, ["acme"]}}
      iex> [[total]] = BeTree.Tenants.report!(MovingTo, tenants: ["acme"])
      iex> total.events
      1
  """
  @spec move(name, tenant, node | {name, node}, timeout: timeout) ::
          {:ok, %{tenant: tenant, expressions: non_neg_integer, days: non_neg_integer}} | {:error, Error.t()}
  def move(tenants, tenant, target, options \\ []) do
    %{timeout: timeout} = Options.put!(%{timeout: :infinity}, options, @move_options)

    with {:ok, directory} <- fetch(tenants),
         target = check_target!(target, tenants),
         :ok <- check_elsewhere(target, tenants, tenant),
         do: Request.move(directory, tenant, target, timeout)
  end

  @doc "Like `move/4`, but returns the counts and raises on error."
  @spec move!(name, tenant, node | {name, node}, timeout: timeout) :: map
  def move!(tenants, tenant, target, options \\ []), do: Bang.unwrap!(move(tenants, tenant, target, options))

  @doc """
  Returns `{:ok, tenants}` with all tenants that exist, in no order, or `{:error, error}` with the kind `:no_server`. Reads a table in the
  calling process.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Listed, schema: [price: :float])
      iex> for tenant <- ["acme", "zeta"], do: BeTree.Tenants.change!(Listed, tenant, put: [{1, "price > 100.0"}])
      iex> {:ok, tenants} = BeTree.Tenants.tenants(Listed)
      iex> Enum.sort(tenants)
      ["acme", "zeta"]
  """
  @spec tenants(name) :: {:ok, [tenant]} | {:error, Error.t()}
  def tenants(tenants) do
    with {:ok, directory} <- fetch(tenants), do: list(directory)
  end

  defp list(directory) do
    {:ok, Enum.to_list(Store.tenants(directory.store))}
  rescue
    # The supervisor ended, and its tables with it.
    ArgumentError -> Directory.missing(directory.name)
  end

  @doc """
  Writes a body of a tenant, with its expressions and statistics, in place of the changes since the last one. Tenants are written at
  times anyway; a snapshot makes the next load faster, and keeps what was counted until now. Matches of the tenant wait for some
  microseconds.

  Returns `:ok`, or `{:error, error}` with the kind `:not_found`, `:file`, `:damaged` or `:no_server`.
  """
  @spec snapshot(name, tenant) :: :ok | {:error, Error.t()}
  def snapshot(tenants, tenant) do
    with {:ok, directory} <- fetch(tenants), do: Request.snapshot(directory, tenant, :infinity)
  end

  @doc """
  Writes what tenants have counted until now: their statistics and bills. All of them share few syncs, so one call for the tenants of a
  batch takes much less time than `snapshot/2` for each. When a tenant's result is `:ok`, its counts survive what `:durability` says. A
  consumer of a broker calls this before it acknowledges the events that it matched.

  Returns `{:ok, results}` with a result of `snapshot/2` for each tenant, in their order, or `{:error, error}` with the kind `:no_server`.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Batched, schema: [price: :float])
      iex> for tenant <- ["a", "b"], do: BeTree.Tenants.change!(Batched, tenant, put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.match_many!(Batched, [{"a", %{price: 120.0}}, {"b", %{price: 0.5}}])
      [{:ok, [1]}, {:ok, []}]
      iex> {:ok, [:ok, :ok, {:error, error}]} = BeTree.Tenants.snapshot_many(Batched, ["a", "b", "c"])
      iex> error.kind
      :not_found
  """
  @spec snapshot_many(name, [tenant]) :: {:ok, [:ok | {:error, Error.t()}]} | {:error, Error.t()}
  def snapshot_many(tenants, list) do
    with {:ok, directory} <- fetch(tenants), do: {:ok, Request.snapshot_many(directory, check_tenants!(list))}
  end

  @doc """
  Removes a tenant from memory. Its statistics are written before. The next match loads it.

  Returns `:ok`, also if the tenant is not in memory, or `{:error, error}` with the kind `:not_found`, `:file`, `:damaged` or
  `:no_server`. When the folder cannot be written the tenant stays in memory.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Evicting, schema: [price: :float])
      iex> BeTree.Tenants.change!(Evicting, "acme", put: [{1, "price > 100.0"}])
      iex> BeTree.Tenants.evict(Evicting, "acme")
      :ok
      iex> BeTree.Tenants.info!(Evicting).hot
      0
      iex> BeTree.Tenants.match(Evicting, "acme", %{price: 120.0})
      {:ok, [1]}
  """
  @spec evict(name, tenant) :: :ok | {:error, Error.t()}
  def evict(tenants, tenant) do
    with {:ok, directory} <- fetch(tenants), do: Request.evict(directory, tenant, :infinity)
  end

  @doc """
  Returns `{:ok, map}` that describes the tenants. Reads tables, and asks the process of the store.

    * `:tenants` - the tenants that exist; `:hot` - those in memory; `:bytes` - those that their indexes and statistics take;
    * `:shards` - the number of shards; `:shard_bytes` - the memory of their instances, which does not shrink when tenants leave;
    * `:loads`, `:evictions` - since the start; `:rebuilds` - the shards that trapped;
    * `:round_ms` - the milliseconds in which the statistics of all used tenants were last written once;
    * `:dearest` - the up to 10 tenants with the most fuel on their latest day, each with that fuel;
    * `:store` - a map with `:memory`, the bytes of its tables, `:journal_bytes`, `:bodies_bytes` and `:days_bytes`, those of its folder,
      and `:error`, the last error of the disk or `nil`.

  Returns `{:error, error}` with the kind `:no_server`.

      iex> {:ok, _pid} = BeTree.Tenants.start_link(name: Described, schema: [price: :float])
      iex> for tenant <- 1..3, do: BeTree.Tenants.change!(Described, tenant, put: [{1, "price > 100.0"}])
      iex> info = BeTree.Tenants.info!(Described)
      iex> {info.tenants, info.hot, info.loads}
      {3, 3, 0}
  """
  @spec info(name) :: {:ok, map} | {:error, Error.t()}
  def info(tenants) do
    with {:ok, directory} <- fetch(tenants),
         {:ok, store} <- Store.info(directory.store) do
      {hot, bytes} = Directory.sizes(directory)
      shards = :ets.tab2list(directory.shards)

      {:ok,
       %{
         tenants: store.tenants,
         hot: hot,
         bytes: bytes,
         shards: length(shards),
         shard_bytes: shards |> Enum.map(fn {_id, shard, _next} -> Shard.memory(shard) end) |> Enum.sum(),
         loads: Directory.total(directory, :loads),
         evictions: Directory.total(directory, :evictions),
         rebuilds: Directory.total(directory, :rebuilds),
         round_ms: Directory.round_ms(directory),
         dearest: Directory.dearest(directory, @dearest),
         store: Map.delete(store, :tenants)
       }}
    end
  rescue
    # The supervisor ended, and its tables with it.
    ArgumentError -> Directory.missing(tenants)
  end

  @doc "Like `info/1`, but returns the map and raises on error."
  @spec info!(name) :: map
  def info!(tenants), do: Bang.unwrap!(info(tenants))

  defp fetch(tenants), do: tenants |> check_name!() |> Directory.fetch()

  defp check_tenants!(list),
    do: if(Check.proper_list?(list), do: list, else: Check.expected!("a list of tenants", list))

  defp check_dump!(dump) when is_binary(dump), do: dump
  defp check_dump!(other), do: Check.expected!("a dump of a tenant, a binary", other)

  defp check_target!({name, node}, _tenants) when is_atom_name(name) and is_atom_name(node), do: {name, node}
  defp check_target!(node, tenants) when is_atom_name(node), do: {tenants, node}
  defp check_target!(other, _tenants), do: Check.expected!("a node, or {name, node} of a BeTree.Tenants", other)

  defp check_elsewhere({tenants, node}, tenants, tenant) when node == node() do
    message = "the tenant #{Describe.value(tenant)} cannot move to the tenants in which it is"
    {:error, %Error{kind: :exists, message: message}}
  end

  defp check_elsewhere(_target, _tenants, _tenant), do: :ok

  defp check_name!(name) when is_atom_name(name), do: name
  defp check_name!(other), do: Check.expected!("the name of a BeTree.Tenants, an atom", other)
end

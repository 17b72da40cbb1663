defmodule BeTree.Rules.Server do
  @moduledoc ~S"""
  A supervised server that owns rules and their facts, sends notices to processes, moves time, and keeps everything on disk.

      children = [
        {BeTree.Rules.Server, name: Fraud, rules: File.read!("fraud.rules"), clock: :system, dir: "/var/lib/app/fraud"}
      ]

      :ok = BeTree.Rules.Server.subscribe(Fraud)
      {:ok, page} = BeTree.Rules.Server.assert(Fraud, {:login, user: "ann", ok: false})

      receive do
        {BeTree.Rules.Server, Fraud, notices} -> notices
      end

  ## Notices

  The server sends `{BeTree.Rules.Server, name, notices}` with a list of `BeTree.Rules.Notice` to each process that subscribed
  (`subscribe/2`) and to those of the option `:notify`, once to each. So the pages that its functions return have none. The notices of a
  call are sent before it returns. A server that recovers sends no notice again, unless a process asks for it.

  Back-pressure protects the memory of the node from slow processes. When the mailbox of a process holds `:max_pending` notices, the
  server drops later notices for this process, and logs that. Once at most half of them wait, the process gets

      {BeTree.Rules.Server, name, {:dropped, count}}

  with the number of dropped notices, and then notices again. So the process knows where the gap is, and can ask for the dropped ones
  (Numbers). `:dropped` of `info/2` has the sum, and the event `[:be_tree, :rules, :dropped]` of `BeTree.Telemetry` each loss.

  A process acknowledges nothing. The server counts the notices that it sends, and from time to time reads the length of the mailbox. It
  takes all messages there for notices, so a process with many other messages counts as slow too. If calls send long lists of notices,
  `:max_pending` must have room for several lists. A process on another node counts as full if its connection is busy, or its node does
  not reply within a second. Each partition counts and drops by itself.

  A process stays subscribed when the server starts again. If the server, or one of its partitions, had crashed, its subscribers and
  the processes of `:notify` first get

      {BeTree.Rules.Server, name, :restarted}

  The notices of a call that had not returned may not have been sent, and without a folder the facts are lost. With a folder, the process
  asks for the notices that it missed (Numbers); without one, it reads `facts/3`. A server that was stopped has sent all notices, and its
  next start sends no such message.

  Facts are never dropped. A rule asserts a fact for work that must not be lost, and a process retracts the fact when the work is done.

  ## Numbers

  The notices of a server have the numbers 1, 2, 3 and so on, in the field `:number`, also after a restart. A process that remembers the
  number of the last notice that it handled asks for those after it:

      :ok = BeTree.Rules.Server.subscribe(Fraud, since: number)

  The server sends the notices after that number in one message, and then the later ones, without a gap. With a folder this includes
  the notices of a call that the server had written when it was killed, and repeated when it started again. So a process that stores
  the number together with its work for the notice does that work once for each notice:

      def handle_info({BeTree.Rules.Server, Fraud, notices}, last) when is_list(notices) do
        # An earlier number is a repetition. Before a later one notices are missing, which follow.
        {:noreply, Enum.reduce(notices, last, fn notice, last -> if notice.number == last + 1, do: work(notice), else: last end)}
      end

      def handle_info({BeTree.Rules.Server, Fraud, {:dropped, _count}}, last), do: subscribe(last)
      def handle_info({BeTree.Rules.Server, Fraud, :restarted}, last), do: subscribe(last)
      def handle_info(:subscribe, last), do: subscribe(last)

      defp subscribe(last) do
        case BeTree.Rules.Server.subscribe(Fraud, since: last) do
          :ok -> :ok
          # It is starting again.
          {:error, %{kind: :no_server}} -> Process.send_after(self(), :subscribe, 100)
        end

        {:noreply, last}
      end

  The server keeps at least the last notices that `:kept_notices` tells, but at most 16 MiB of them in their external form. A base has
  the kept notices, and a restart with a folder adds those of the calls that it repeats. Without a folder a restart keeps the last number
  alone. `first_notice` of `info/2` is the number of the first that the server has, `last_notice` that of the last that it sent. If
  notices after the number of a process are gone, `subscribe/2` returns an error of kind `:not_found`, and the process knows of its loss.

  Each partition numbers its notices by itself. The field `:partition` names it, and `since:` takes a map: `%{0 => 17, 1 => 12}`.

  A server killed with the machine loses the last calls unless its `:durability` is `:sync`. Then other notices get their numbers.
  `subscribe/2` returns `:out_of_bounds` for a number that the server has not reached.

  ## Time

  With `clock: :facts`, the default, time moves by the times of facts and by `advance/3` only. With `clock: :system` the server
  moves time to that of its clock, in milliseconds since 1970, before each call, and when the next window closes. A fact without `at`
  then has the time at which it came.

  One fact of tomorrow would close all windows of today, and time never goes back. So with `clock: :system` the server refuses a fact
  whose `at` is more than `:max_skew` ahead of its clock, as `:out_of_bounds` with the position, and changes nothing. `advance/3` has
  the same bound.

  The server's clock is the monotonic clock of the VM, and follows the system clock:

    * A difference below `:max_skew` is followed at once if the system clock is ahead. If it is behind, the server's clock goes 1 % slower
      until the difference is gone. It neither goes back nor stands still, so a window lasts at most 1 % too long.
    * A jump of the system clock by `:max_skew` or more is logged, and not followed at first. Open windows close by the monotonic clock,
      and a jump that is reversed in time has no effect. Once a jump has lasted `:max_skew`, the server's clock follows it, and logs
      that: forward at once, as after a sleep of the machine, and back by going 1 % slower. Until it has caught up, the server refuses
      facts ahead of its clock.
    * If the facts in the folder are more than `:max_skew` ahead of the system clock when the server starts, its clock goes on from their
      time, and logs that.

  If the system clock was wrong for longer than `:max_skew`, the server's clock may be hours ahead. Facts with the right `at` are late
  until the difference is gone. If that takes too long, insert the facts that you need into a new server.

  To start with a history, start the server with `clock: :facts`, insert the history, and call `go_live/2`.
  [The guide](rules.md#history) works that out.

  With `lateness: ms` rules see facts in the order of their times, if none is later than that (`BeTree.Rules`, Time). Windows close and
  notices come later by the lateness. The lateness of a folder cannot change: a start with another one returns `:other_schema`.

  The option `:source` of `assert/3` and `advance/3` names the source of facts, and `end_source/3` forgets a source. With partitions, a
  call with a source moves time in all of them, so it calls each; after the first such call, calls without a source do so, too. Before
  it, facts without a source move the time of all sources, so name the sources to `advance/3` before the first fact. With
  `clock: :system` all sources have the time of the system at least.

  ## On disk

  With the option `:dir` the server writes each call to a write-ahead journal. From time to time it writes a base, the memory of the
  rules. A restart reads the base and repeats the later calls without notices. It fires the same rules, because firings depend only on
  the calls and their limits `:firings` and `:facts`, and the journal has both. It skips calls that were rolled back. So each start may
  have other options. New limits apply to later calls. Facts beyond a new limit stay. `:durability` says when a call is on the disk, as
  for `BeTree.Server`.

  A server whose facts need more memory than `:memory` starts with as much as they need, and refuses new facts until some are retracted.

  If the option `:rules` has another text than the folder, the start swaps the rules (`swap/3`).

  The folder also has the module that wrote it, 1.8 MB. A later version of BeTree runs that module to recover, and moves the facts to its
  own: [Upgrading](upgrading.md#rules). Facts then have new numbers.

  ## Calls

  The server makes calls one at a time, in the order of arrival. Each call is atomic: a call that returns an error is rolled back. Then
  its facts are not there, no rule has fired, time has not moved, and no notice was sent. A call is rolled back if it

    * fires more rules than the option `:firings` allows (`:out_of_bounds`): its rules fire one another without end, or need a larger limit;
    * uses up its `:fuel` (`:out_of_fuel`);
    * needs more memory or inserts more facts than the options allow (`:out_of_memory`, `:out_of_bounds`), its notices among them.

  There are two exceptions. An `advance/3` over very many events that fails has moved time to an event before the failing one, and sends
  the notices up to there. In a server with partitions the parts of a call in other partitions stay.

  Rolling back needs memory, at most three times as much as the facts that the call changed. An eighth of `:memory` is reserved for rolling back, notices
  and reads. A call that still waits for its turn when its `:timeout` passes is not made.

  While the process of the server starts again after a crash, calls return an error of kind `:no_server`, and so does the call during which it
  ended: that call may be made or not. Repeat a call after a pause. A repeated `assert/3` inserts its facts a second time if the first call
  was made, so look for them with `facts/3` before.

  When the clock or another partition moves time, an event can fail in the same ways. Then time stops before the event, an error is
  logged, and `info/2` has the time and the error under `:held`. Calls continue at that time. The server tries again after a second,
  then with exponential back-off up to a minute, and at once after a retraction or a swap.

  ## Partitions

  One engine uses one scheduler at a time. With `partitions: 8` there are eight engines, each with a process, a journal and a
  timer of its own, and facts of the same key always go to the same one:

      {BeTree.Rules.Server,
       name: Orders,
       rules: text,
       partitions: System.schedulers_online(),
       partition_by: %{order: :id, payment: :order, holiday: :all}}

  `:partition_by` has the field of each fact type that is its key: an integer, a string or a boolean. If all types have the same
  field, its name is enough: `partition_by: :user`. The facts of a type with `:all` are in every partition: few facts that change
  rarely, such as a list of trusted devices. Facts whose key is undefined lie together in one partition.

  Rules must find in partitions what they find in one engine. So a start refuses, with the place in the text,

    * a rule with a condition, `none` or aggregate that does not state that its key equals that of the first condition with a key;
    * a rule that gives a fact which it inserts or modifies another key than that of its conditions;
    * a rule that inserts, modifies or retracts a fact of a type with `:all`;
    * a rule over facts of types with `:all` alone, which would fire in every partition.

  Then the server fires the same rules for the same facts as without partitions, whatever the number of partitions:

    * The firings of one key, and their notices, have the same order as without partitions. Those of different keys have no order
      among each other, if they lie in different partitions. Priorities order the firings of a partition.
    * Time is that of the latest fact of all partitions. A window closes by it, also in a partition that got no facts meanwhile.
    * The facts of a list are all checked before the first is inserted. Then each partition inserts its own, at the same time as the
      others. If one fails, for instance because its memory is full, those of the others stand. The error has the smallest
      position.
    * `:memory`, `:facts`, `:firings`, `:fuel`, `:base_bytes`, `:max_pending` and `:kept_notices` hold for each partition.
    * `last_rule` of a page is `nil` if rules fired in several partitions. `facts/3` returns the facts of a key newest first, and
      those of different partitions by their numbers. `explain/3` explains the partition whose facts come farthest.
    * A swap changes the rules of all partitions or of none, by a two-phase commit. A partition that ends before it has prepared the new
      rules refuses the swap for all, as `:no_server`. A partition that ends later takes the new rules when it starts again. Calls
      wait during a swap.
    * If the process of a partition ends, it starts again, and recovers from its part of the folder. Without a folder only the facts of
      that partition are lost.
    * If the disk fails and a partition cannot open its part of the folder, the calls to this partition return that error. It tries again
      with exponential back-off, from 100 milliseconds to half a minute. The other partitions continue. A failed write is an error of
      its call, as without partitions.

  A fact stays in the partition of its key, so the number of partitions and the keys of a folder cannot change. To change them, insert
  the facts into a new server.
  """

  import BeTree.Input.Limits, only: [is_atom_name: 1, is_name: 1]

  alias BeTree.Input.{Check, Options}
  alias BeTree.Processes.Deadline
  alias BeTree.Input.Options.Common
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Fact, Operation, Page}
  alias BeTree.Rules.Server.{Layout, Owner, Partitions, Request, Routes, Shared, Subscribers}
  alias BeTree.Server.Names

  @typedoc "The name of a server."
  @type name :: atom | {:via, module, term}

  @typedoc "The key of all fact types, or that of each."
  @type key ::
          atom | String.t() | %{(atom | String.t()) => atom | String.t()} | [{atom | String.t(), atom | String.t()}]

  @type option ::
          {:name, name}
          | {:rules, String.t()}
          | {:clock, :facts | :system}
          | {:max_skew, pos_integer}
          | {:notify, [pid | atom]}
          | {:max_pending, pos_integer}
          | {:kept_notices, non_neg_integer}
          | {:dir, Path.t() | nil}
          | {:durability, :sync | {:interval, non_neg_integer} | :none}
          | {:base_bytes, pos_integer}
          | {:partitions, pos_integer | nil}
          | {:partition_by, key | nil}
          | Rules.new_option()

  @typedoc "The number of a notice, or with partitions a number for each."
  @type since :: non_neg_integer | %{(partition :: non_neg_integer) => non_neg_integer}

  @typedoc "An option of a call that fires rules."
  @type call_option :: {:fuel, BeTree.Fuel.budget()} | {:slice, BeTree.Fuel.budget()} | {:timeout, timeout}

  @typedoc "An option of a call with facts or a time."
  @type source_option :: call_option | {:source, Rules.source() | nil}

  @key_type {:check, "a field, or a map or a keyword list of fields by fact type", &Routes.key?/1}

  @options [
    name: [
      type: {:check, "an atom or {:via, module, term}", &__MODULE__.name?/1},
      required: true,
      doc:
        "an atom, or `{:via, module, term}`, such as `{:via, Registry, {MyApp.Registry, id}}` or `{:via, :global, term}`. Calls and messages " <>
          "have this name"
    ],
    rules: [type: {:check, "a string", &is_binary/1}, required: true, doc: "the text of the rules"],
    clock: [type: {:one_of, [:facts, :system]}, default: :facts, doc: "the clock that moves time"],
    max_skew: [
      type: :positive,
      default: 60_000,
      default_doc: "60,000, a minute",
      doc:
        "with the system's clock, the milliseconds by which a fact may be ahead of the server's clock. A jump of the system clock by as much " <>
          "is followed after that time only"
    ],
    notify: [
      type: {:check, "a list of processes or their names", &__MODULE__.processes?/1},
      default: [],
      doc: "processes or their registered names, to which notices are sent"
    ],
    max_pending: [
      type: :positive,
      default: 10_000,
      default_doc: "10,000",
      doc: "the most notices that wait in the mailbox of a process. Later ones are dropped, and counted"
    ],
    kept_notices: [
      type: {:integer, 0, 1_000_000},
      default: 10_000,
      default_doc: "10,000",
      doc:
        "the number of the last notices that a process can ask for, at most 1,000,000, and at most 16 MiB of them. With 0, none is kept"
    ],
    dir: [
      type: {:nullable, {:check, "the path of a folder, a string that is not empty", &Check.folder?/1}},
      default: nil,
      doc: "the folder, or `nil` to keep nothing"
    ],
    durability: [
      type: {:check, ":sync, {:interval, milliseconds} or :none", &__MODULE__.durability?/1},
      default: :sync,
      doc: "when a call is on the disk"
    ],
    base_bytes: [
      type: :positive,
      default: 0x400_0000,
      default_doc: "64 MiB",
      doc: "the bytes of the journal after which a base is written"
    ],
    partitions: [
      type: {:nullable, {:integer, 1, 1_024}},
      default: nil,
      default_doc: "no partitions",
      doc: "the number of partitions, at most 1,024"
    ],
    partition_by: [
      type: @key_type,
      default: nil,
      default_doc: "no partitions",
      doc: "the field that is the key of all fact types, or a map with the field of each, or `:all`"
    ]
  ]
  @new_options [:memory, :facts, :firings, :notices, :lateness, :fuel_per_reduction, :runtime]

  @timeout Common.timeout(
             "milliseconds, or `:infinity`. A call whose turn has not come by then is not made. One that has begun is made to its end, " <>
               "but the function returns an error of kind `:timeout`"
           )
  @call_options Common.take([:fuel, :slice]) ++ @timeout
  @source_options @call_options ++
                    [
                      source: [
                        type: {:nullable, {:check, "the name of a source, an atom or a string", &Rules.source?/1}},
                        default: nil,
                        default_doc: "none",
                        doc: "the source of the facts, an atom or a string"
                      ]
                    ]
  @subscribe_options [
    since: [
      type:
        {:nullable,
         {:check, "the number of a notice from 0, or a map of such numbers by the numbers of partitions",
          &__MODULE__.since?/1}},
      default: nil,
      default_doc: "none: only later notices",
      doc:
        "the number of the last notice that the process has handled, 0 for all. With partitions, a map with the number of each partition; " <>
          "one that is not there has 0"
    ]
  ]
  @swap_options [
                  partition_by: [
                    type: @key_type,
                    default: nil,
                    default_doc: "the keys so far",
                    doc:
                      "the keys of a server with partitions, where new rules have fact types that the keys so far lack"
                  ]
                ] ++ @timeout
  @call_defaults Rules.default_options()

  @doc false
  def name?(name), do: is_name(name)

  @doc false
  def processes?(list), do: Check.proper_list?(list) and Enum.all?(list, &(is_pid(&1) or is_atom_name(&1)))

  @doc false
  def since?(numbers) when is_map(numbers) and not is_struct(numbers),
    do: Enum.all?(numbers, fn {partition, number} -> number?(partition) and number?(number) end)

  def since?(number), do: number?(number)

  defp number?(number), do: is_integer(number) and number >= 0

  @doc false
  def durability?({:interval, ms}), do: is_integer(ms) and ms >= 0
  def durability?(durability), do: durability in [:sync, :none]

  @doc """
  Returns the specification of a child for a supervisor, with the id `{BeTree.Rules.Server, name}`.

      iex> BeTree.Rules.Server.child_spec(name: Fraud, rules: "fact a(x: integer)").id
      {BeTree.Rules.Server, Fraud}
  """
  @spec child_spec([option]) :: Supervisor.child_spec()
  def child_spec(options) do
    Options.keyword!(options)
    # It ends when its last calls are on the disk.
    shutdown = if options[:partitions], do: :infinity, else: 60_000
    type = if options[:partitions], do: :supervisor, else: :worker

    %{
      id: {__MODULE__, options[:name]},
      start: {__MODULE__, :start_link, [options]},
      type: type,
      shutdown: shutdown
    }
  end

  @doc """
  Starts a server, linked to the calling process. `GenServer.stop/1` with its name stops it.

  ## Options

  #{Options.docs(@options)}

  And those of `BeTree.Rules.new/2`, except `:fuel` and `:timeout`.

  Returns `{:error, error}` with the kinds of `BeTree.Rules.new/2`, with `:file`, `:damaged`, `:locked`, `:other_schema` or
  `:bad_module` for the folder, and for partitions with `:missing_attribute`, `:unknown_attribute`, `:type` or `:out_of_bounds` for a
  key or a rule, or `{:error, {:already_started, pid}}`. Raises an `ArgumentError` for an unknown or wrong option.
  """
  @spec start_link([option]) :: GenServer.on_start()
  def start_link(options), do: start_link(options, %{})

  @doc false
  # Starts a server with options that are for tests only: `:clocks`, the functions that read the system's clocks, and `:files`, the
  # operations on files of the journals.
  @spec start_link([option], map) :: GenServer.on_start()
  def start_link(options, private) do
    Options.keyword!(options)
    {new, own} = Keyword.split(options, @new_options)
    own = own |> Options.validate!(@options) |> Map.new() |> Map.put(:sender, __MODULE__) |> Map.merge(private)
    Names.check!(own.name)

    case {own.partitions, own.partition_by} do
      {nil, nil} ->
        with :ok <- Layout.none(own.dir),
             {:ok, clock} <- Layout.clock(own.dir, own.clock),
             do: Owner.start_link({nil, %{own | clock: clock}, new})

      {partitions, key} when partitions != nil and key != nil ->
        # They raise for wrong options, as without partitions.
        _ = Rules.limit(new, :memory)
        with {:ok, clock} <- Layout.clock(own.dir, own.clock), do: Partitions.start_link(%{own | clock: clock}, new)

      _one_of_them ->
        raise ArgumentError, "the options :partitions and :partition_by need each other; give both or none"
    end
  end

  @doc """
  Makes the calling process receive the notices from now on, until it ends or unsubscribes. A server that starts again under this name
  keeps its subscribers.

  With `since:`, the server first sends the notices after that number, also to a process that is subscribed already. A process of the
  option `:notify` may call this function to get them, and still receives each later notice once. If as many notices as `:max_pending`
  wait in the mailbox then, the rest is dropped and counted.

  ## Options

  #{Options.docs(@subscribe_options)}

  Returns `{:error, error}` with the kind

    * `:no_server` if the server does not run;
    * `:not_found` if the server no longer has all notices after the number. The message has the number of the first one, which is
      `first_notice` of `info/2`, too. With `since: first - 1` the process continues there;
    * `:out_of_bounds` if the server has not numbered as many notices.

  Then the process is subscribed as before, but with partitions it may have got the notices of some. Raises an `ArgumentError` for an
  unknown or wrong option.
  """
  @spec subscribe(name, since: since | nil) :: :ok | {:error, Error.t()}
  def subscribe(name, options \\ []) do
    [since: since] = Options.validate!(options, @subscribe_options)

    case {since, partitions(name)} do
      {nil, _partitions} ->
        to_front(name, {:subscribe, self(), nil})

      {number, nil} when is_integer(number) ->
        Request.call(name, name, {:subscribe, self(), number}, :infinity)

      {numbers, partitions} when is_map(numbers) and partitions != nil ->
        for {number, _since} <- numbers, number >= partitions, do: no_partition!(name, partitions, number)
        Partitions.subscribe(name, partitions, self(), numbers)

      {_numbers, nil} ->
        raise ArgumentError, "the server #{inspect(name)} has no partitions; give since: a number"

      {_number, _partitions} ->
        raise ArgumentError, "the server #{inspect(name)} has partitions; give since: a map with the number of each"
    end
  end

  defp no_partition!(name, partitions, number) do
    raise ArgumentError,
          "the server #{inspect(name)} has the partitions 0 to #{partitions - 1}, and none with the number #{number} of since:"
  end

  @doc "Ends the subscription of the calling process."
  @spec unsubscribe(name) :: :ok
  def unsubscribe(name) do
    Subscribers.remove(Request.name!(name), self())
    :ok
  end

  defp to_front(name, request, deadline \\ :infinity) do
    process = if partitions(name), do: Shared.front(name), else: name
    Request.call(process, name, request, deadline)
  end

  @doc """
  Inserts a fact, as `BeTree.Rules.assert/3` does.

  ## Options

  #{Options.docs(@source_options)}

  Returns `{:error, error}` with the kinds of `BeTree.Rules.assert/3`, `:no_server` if the server does not run or ends before it
  replies, or with those of the journal, `:file`. Raises an `ArgumentError` for an unknown or wrong option.
  """
  @spec assert(name, Rules.fact(), [source_option]) :: {:ok, Page.t()} | {:error, Error.t()}
  def assert(name, fact, options \\ []) do
    options = source_options(options)
    insert(name, [fact], options)
  end

  @doc "Inserts facts, as `BeTree.Rules.assert_all/3` does. Takes the options of `assert/3`, and returns its errors."
  @spec assert_all(name, Enumerable.t(), [source_option]) :: {:ok, Page.t()} | {:error, Error.t()}
  def assert_all(name, facts, options \\ []) do
    options = source_options(options)
    with :ok <- Check.enumerable(facts, "facts"), do: insert(name, Enum.to_list(facts), options)
  end

  defp insert(name, facts, options) do
    input = Operation.encode(facts)

    case partitions(name) do
      nil -> operate_source(name, {:assert, input}, options)
      partitions -> Partitions.insert(name, partitions, input, named(options))
    end
  end

  @doc """
  Retracts a fact by its number, as `BeTree.Rules.retract/3` does. Takes the options of `assert/3` apart from `:source`, and returns its
  errors.
  """
  @spec retract(name, Rules.id(), [call_option]) :: {:ok, Page.t()} | {:error, Error.t()}
  def retract(name, id, options \\ [])

  def retract(name, id, options) when is_integer(id) and id >= 0 and id <= 0xFFFF_FFFF_FFFF_FFFF do
    options = call_options(options)

    case partitions(name) do
      nil -> operate(name, {:retract, id}, options)
      partitions -> Partitions.retract(name, partitions, id, options)
    end
  end

  def retract(_name, other, _options), do: Check.expected!("the number of a fact, an unsigned 64-bit integer", other)

  @doc "Moves time, as `BeTree.Rules.advance/3` does. Takes the options of `assert/3`, and returns its errors."
  @spec advance(name, Rules.time() | DateTime.t(), [source_option]) :: {:ok, Page.t()} | {:error, Error.t()}
  def advance(name, now, options \\ [])

  def advance(name, now, options) when is_integer(now) do
    options = source_options(options)

    case partitions(name) do
      nil -> operate_source(name, {:advance, now}, options)
      partitions -> Partitions.advance(name, partitions, now, named(options))
    end
  end

  def advance(name, %DateTime{} = now, options), do: advance(name, DateTime.to_unix(now, :millisecond), options)

  def advance(_name, other, _options),
    do: Check.expected!("a time, an integer of milliseconds or a DateTime", other)

  @doc """
  Makes the clock of a server with `clock: :facts` the system's, for good, and moves time there. Takes the options of `assert/3`.

  Before it, insert the history that the rules are to know, with the time of each fact: time moves by these times, as it did then. The
  rules that become due between the last fact and now fire, and their notices are sent. A server with a folder is live after each
  restart, also with `clock: :facts`; with partitions all of them are live, or none. A server that is live already only moves time.

  Returns the errors of `assert/3`. After `:file` or `:no_server` the server may be live or not: call again. After another error it is
  live, and the next call goes on.
  """
  @spec go_live(name, [call_option]) :: {:ok, Page.t()} | {:error, Error.t()}
  def go_live(name, options \\ []) do
    options = call_options(options)

    case partitions(name) do
      nil ->
        deadline = Deadline.new(options.timeout)
        Request.call(name, name, {:go_live, %{options | timeout: :infinity}, deadline}, deadline)

      partitions ->
        Partitions.go_live(name, partitions, options)
    end
  end

  @doc """
  Forgets a source, as `BeTree.Rules.end_source/3` does. Takes the options of `retract/3`, and returns the errors of `assert/3`.
  """
  @spec end_source(name, Rules.source(), [call_option]) :: {:ok, Page.t()} | {:error, Error.t()}
  def end_source(name, source, options \\ []) do
    options = call_options(options)
    source = to_string(Rules.check_source!(source))

    case partitions(name) do
      nil -> operate(name, {:end_source, source}, options)
      partitions -> Partitions.end_source(name, partitions, source, options)
    end
  end

  @doc """
  Returns the times of the sources, as `BeTree.Rules.sources/2` does with its options.
  """
  @spec sources(name, timeout: timeout) ::
          {:ok, %{(String.t() | nil) => Rules.time()}} | {:error, Error.t()}
  def sources(name, options \\ []) do
    options = [timeout: Check.timeout!(options)]

    case partitions(name) do
      nil -> with {:ok, {rules, _counts, options}} <- read(name, options), do: Rules.sources(rules, options)
      partitions -> Partitions.sources(name, partitions, options)
    end
  end

  defp operate_source(name, operation, %{source: nil} = options), do: operate(name, operation, options)

  defp operate_source(name, operation, %{source: source} = options) do
    operation = Tuple.insert_at(operation, tuple_size(operation), to_string(source))
    operate(name, operation, %{options | source: nil})
  end

  defp named(%{source: nil} = options), do: options
  defp named(options), do: %{options | source: to_string(options.source)}

  defp operate(name, operation, options) do
    deadline = Deadline.new(options.timeout)
    Request.call(name, name, {:operate, operation, %{options | timeout: :infinity}, deadline}, deadline)
  end

  @doc """
  Replaces the rules and keeps the facts, which get new numbers.

  The new rules see a kept fact as one that they have fired for: they fire when later facts, or the end of a window that is open
  still, complete a match.

  ## Options

  #{Options.docs(@swap_options)}

  Returns `{:error, error}` with the kinds of `BeTree.Rules.new/2`, with those of `BeTree.Rules.assert/3` if the new rules do not take a
  kept fact, `:other_schema` if `:partition_by` changes the key of a fact type, `:timeout`, or `:no_server`. Then nothing has changed,
  except that a swap which had begun when its timeout passed is still made.
  """
  @spec swap(name, String.t(), partition_by: key | nil, timeout: timeout) :: :ok | {:error, Error.t()}
  def swap(name, text, options \\ [])

  def swap(name, text, options) when is_binary(text) do
    options = Options.validate!(options, @swap_options)
    deadline = Deadline.new(options[:timeout])

    cond do
      partitions(name) ->
        to_front(name, {:swap, text, options[:partition_by], deadline}, deadline)

      options[:partition_by] ->
        raise ArgumentError, "the server #{inspect(name)} has no partitions; leave :partition_by out"

      true ->
        to_front(name, {:swap, text, deadline}, deadline)
    end
  end

  def swap(_name, other, _options), do: Check.expected!("the text of rules, a string", other)

  @doc "Returns the facts of a type, as `BeTree.Rules.facts/3` does with its options."
  @spec facts(name, atom | String.t(), limit: pos_integer | nil, before: Rules.id() | nil, timeout: timeout) ::
          {:ok, [Fact.t()]} | {:error, Error.t()}
  def facts(name, type, options \\ []) do
    {type, options} = Rules.check_facts!(type, options)

    case partitions(name) do
      nil -> with {:ok, {rules, _counts, options}} <- read(name, options), do: Rules.facts(rules, type, options)
      partitions -> Partitions.facts(name, partitions, type, options)
    end
  end

  @doc "Explains a rule, as `BeTree.Rules.explain/3` does with its options."
  @spec explain(name, atom | String.t(), timeout: timeout) :: {:ok, [Rules.Explanation.t()]} | {:error, Error.t()}
  def explain(name, rule, options \\ []) do
    rule = Rules.check_rule!(rule)
    options = [timeout: Check.timeout!(options)]

    case partitions(name) do
      nil -> with {:ok, {rules, _counts, options}} <- read(name, options), do: Rules.explain(rules, rule, options)
      partitions -> Partitions.explain(name, partitions, rule, options)
    end
  end

  @doc """
  Returns the counts and sizes of `BeTree.Rules.info/2`, with its options, and

    * `:journal_bytes`, `:journal_age` - the bytes of the calls after the newest base in the folder, and the microseconds since the oldest of
      them, or since the start if that was later; 0 without a folder;
    * `:dropped` - the notices that were not sent because as many as `:max_pending` waited, counted for each receiver since the server
      started;
    * `:first_notice`, `:last_notice` - the numbers of the first notice that a process can ask for, and of the last one (Numbers);
      with partitions, maps of them by the number of the partition. If none is kept, `:first_notice` is the number of the next one;
    * `:held` - `nil`, or `%{at: time, error: error}` if time is held before an event that ends with an error.

  Of a server with partitions `:journal_age` is that of the oldest, and the others are sums. `:facts` and `:types` count a fact that is in every partition once. `:partitions` is a list
  of maps with the `:facts`, `:firings` and `:memory_bytes` of each partition, which show whether the keys are spread evenly.
  """
  @spec info(name, timeout: timeout) :: {:ok, map} | {:error, Error.t()}
  def info(name, options \\ []) do
    options = [timeout: Check.timeout!(options)]

    case partitions(name) do
      nil ->
        with {:ok, {rules, counts, options}} <- read(name, options),
             {:ok, info} <- Rules.info(rules, options),
             do: {:ok, Map.merge(info, counts)}

      partitions ->
        Partitions.info(name, partitions, options)
    end
  end

  # Returns the rules, which are read in the calling process, the counts of the server's process, and the options with the time that
  # is left.
  defp read(name, options) do
    deadline = Deadline.new(options[:timeout])

    with {:ok, {rules, counts}} <- Request.call(name, name, {:read, deadline}, deadline),
         do: {:ok, {rules, counts, Keyword.put(options, :timeout, Deadline.left(deadline))}}
  end

  defp partitions(name), do: name |> Request.name!() |> Shared.partitions()

  defp source_options([]), do: @call_defaults
  defp source_options(options), do: Options.put!(@call_defaults, options, @source_options)

  defp call_options([]), do: @call_defaults
  defp call_options(options), do: Options.put!(@call_defaults, options, @call_options)
end

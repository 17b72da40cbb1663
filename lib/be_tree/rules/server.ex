defmodule BeTree.Rules.Server do
  @moduledoc ~S"""
  A supervised process that owns rules and their facts, sends notices to other processes, moves time, and keeps everything on disk.

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
  (`subscribe/1`) and to those of the option `:notify`. So the pages that its functions return have none. A notice is sent once: not
  again when the server recovers.

  ## Time

  With `clock: :facts`, the default, time moves by the times of facts and by `advance/2` only. With `clock: :system` the server
  moves time to the system's, in milliseconds since 1970, before each call, and when the next window closes. A fact without `at`
  then has the time at which it came.

  ## On disk

  With the option `:dir` the server writes each call to a journal before it makes it, and now and then a base, the memory of the
  rules. A restart reads the base and repeats the calls since, without notices. It fires the same rules, because nothing else than
  the calls decides. `:durability` says when a call is on the disk, as for `BeTree.Server`.

  If the text of the option `:rules` is another one than that on disk, the start swaps the rules (`swap/2`). A base can be read by the
  version of BeTree that wrote it only; another one refuses the folder as `:bad_module`.

  ## Calls

  Calls are made one at a time, in the order in which they come. A call that fired as many rules as the option `:firings` says is
  ended as `:out_of_bounds`; what it did stands, and the next call goes on.
  """

  use GenServer
  use BeTree.Engine.CrashReport

  alias BeTree.Engine.{Check, Journal, Options}
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Fact, Keeping, Operation, Page}

  @typedoc "The registered name of a server."
  @type name :: atom

  @type option ::
          {:name, name}
          | {:rules, String.t()}
          | {:clock, :facts | :system}
          | {:notify, [pid | atom]}
          | {:dir, Path.t() | nil}
          | {:durability, Journal.durability()}
          | {:base_bytes, pos_integer}
          | Rules.new_option()

  @options [
    name: [type: {:check, "an atom", &__MODULE__.name?/1}, required: true, doc: "the name, an atom"],
    rules: [type: {:check, "a string", &is_binary/1}, required: true, doc: "the text of the rules"],
    clock: [type: {:one_of, [:facts, :system]}, default: :facts, doc: "the clock that moves time"],
    notify: [
      type: {:check, "a list of processes or their names", &__MODULE__.processes?/1},
      default: [],
      doc: "processes or their registered names, to which notices are sent"
    ],
    dir: [
      type: {:nullable, {:check, "a path", &Check.path?/1}},
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
    ]
  ]
  @new_options [:memory, :facts, :firings, :notices, :fuel_per_reduction, :runtime]

  @doc false
  def name?(name), do: is_atom(name) and name not in [nil, true, false]

  @doc false
  def processes?(list), do: Check.proper_list?(list) and Enum.all?(list, &(is_pid(&1) or name?(&1)))

  @doc false
  def durability?({:interval, ms}), do: is_integer(ms) and ms >= 0
  def durability?(durability), do: durability in [:sync, :none]

  @doc """
  Starts a server, linked to the calling process.

  ## Options

  #{Options.docs(@options)}

  And those of `BeTree.Rules.new/2`.

  Returns `{:error, error}` with the kinds of `BeTree.Rules.new/2`, and `:file`, `:damaged`, `:locked`, `:other_schema` or
  `:bad_module` for the folder, or `{:error, {:already_started, pid}}`. Raises an `ArgumentError` for an unknown or wrong option.
  """
  @spec start_link([option]) :: GenServer.on_start()
  def start_link(options) do
    Options.keyword!(options)
    {new, own} = Keyword.split(options, @new_options)
    own = Options.validate!(own, @options)
    GenServer.start_link(__MODULE__, {Map.new(own), new}, name: own[:name])
  end

  @doc "Makes the calling process receive the notices from now on, until it ends or unsubscribes."
  @spec subscribe(name) :: :ok | {:error, Error.t()}
  def subscribe(name), do: call(name, {:subscribe, self()})

  @doc "Ends the subscription of the calling process."
  @spec unsubscribe(name) :: :ok | {:error, Error.t()}
  def unsubscribe(name), do: call(name, {:unsubscribe, self()})

  @doc "Inserts a fact, as `BeTree.Rules.assert/3` does."
  @spec assert(name, Rules.fact()) :: {:ok, Page.t()} | {:error, Error.t()}
  def assert(name, fact), do: call(name, {:operate, {:assert, Operation.encode([fact])}})

  @doc "Inserts facts, as `BeTree.Rules.assert_all/3` does."
  @spec assert_all(name, Enumerable.t()) :: {:ok, Page.t()} | {:error, Error.t()}
  def assert_all(name, facts) do
    with :ok <- Check.enumerable(facts, "facts"),
         do: call(name, {:operate, {:assert, Operation.encode(Enum.to_list(facts))}})
  end

  @doc "Retracts a fact by its number, as `BeTree.Rules.retract/3` does."
  @spec retract(name, Rules.id()) :: {:ok, Page.t()} | {:error, Error.t()}
  def retract(name, id) when is_integer(id) and id >= 0 and id <= 0xFFFF_FFFF_FFFF_FFFF,
    do: call(name, {:operate, {:retract, id}})

  def retract(_name, other), do: Check.expected!("the number of a fact, an unsigned 64-bit integer", other)

  @doc "Moves time, as `BeTree.Rules.advance/3` does."
  @spec advance(name, Rules.time()) :: {:ok, Page.t()} | {:error, Error.t()}
  def advance(name, now) when is_integer(now), do: call(name, {:operate, {:advance, now}})
  def advance(_name, other), do: Check.expected!("a time, an integer of milliseconds", other)

  @doc """
  Replaces the rules and keeps the facts, which get new numbers.

  The new rules see a kept fact as one that they have fired for: they fire when later facts, or the end of a window that is open
  still, complete a match. Returns `{:error, error}` with the kinds of `BeTree.Rules.new/2`, and with those of
  `BeTree.Rules.assert/3` if the new rules do not take a kept fact. Then nothing has changed.
  """
  @spec swap(name, String.t()) :: :ok | {:error, Error.t()}
  def swap(name, text) when is_binary(text), do: call(name, {:swap, text})
  def swap(_name, other), do: Check.expected!("the text of rules, a string", other)

  @doc "Returns the facts of a type, as `BeTree.Rules.facts/3` does with its options."
  @spec facts(name, atom | String.t(), keyword) :: {:ok, [Fact.t()]} | {:error, Error.t()}
  def facts(name, type, options \\ []), do: with_rules(name, &Rules.facts(&1, type, options))

  @doc "Explains a rule, as `BeTree.Rules.explain/3` does."
  @spec explain(name, atom | String.t()) :: {:ok, [Rules.Explanation.t()]} | {:error, Error.t()}
  def explain(name, rule), do: with_rules(name, &Rules.explain(&1, rule))

  @doc "Returns the counts and sizes of `BeTree.Rules.info/2`, and `:journal_bytes`, 0 without a folder."
  @spec info(name) :: {:ok, map} | {:error, Error.t()}
  def info(name) do
    with {:ok, journal_bytes} <- call(name, :journal_bytes),
         {:ok, info} <- with_rules(name, &Rules.info/1),
         do: {:ok, Map.put(info, :journal_bytes, journal_bytes)}
  end

  # These run in the calling process.
  defp with_rules(name, function), do: with({:ok, rules} <- call(name, :rules), do: function.(rules))

  defp call(name, request) do
    unless name?(name), do: Check.expected!("the name of a server, an atom", name)

    try do
      GenServer.call(name, request, :infinity)
    catch
      :exit, {reason, {GenServer, :call, _arguments}} when reason in [:noproc, :normal, :shutdown, :killed] ->
        {:error, %Error{kind: :no_server, message: "no server #{inspect(name)} runs; start it under a supervisor"}}
    end
  end

  ## The process

  @impl GenServer
  def init({options, new}) do
    Process.flag(:trap_exit, true)

    case Keeping.open(options, new) do
      {:ok, rules, text, journal} ->
        state = %{
          options: options,
          new: new,
          rules: rules,
          text: text,
          journal: journal,
          subscribers: %{},
          timer: nil,
          keeper: nil
        }

        {:ok, state, {:continue, :begin}}

      {:error, error} ->
        {:stop, error}
    end
  end

  @impl GenServer
  # The text may be another one since the last start. Then windows may have closed meanwhile.
  def handle_continue(:begin, state) do
    with {:ok, state} <- swap_if_changed(state) do
      {_reply, state} = if state.options.clock == :system, do: operate({:advance, now()}, state), else: {nil, state}
      {:noreply, arm(state, next_due(state))}
    else
      {:error, error} -> {:stop, error, state}
    end
  end

  defp swap_if_changed(%{text: text, options: %{rules: text}} = state), do: {:ok, state}

  defp swap_if_changed(state) do
    with {:ok, state} <- swap_rules(state, state.options.rules), do: {:ok, state}
  end

  @impl GenServer
  def handle_call({:operate, operation}, _from, state) do
    operation = if state.options.clock == :system, do: {:at, now(), operation}, else: operation
    {reply, state} = operate(operation, state)
    {:reply, reply, state |> arm_by(reply) |> keep_if_long()}
  end

  def handle_call({:swap, text}, _from, state) do
    case swap_rules(state, text) do
      {:ok, state} -> {:reply, :ok, state |> arm(next_due(state)) |> keep_if_long()}
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  def handle_call({:subscribe, pid}, _from, state) do
    subscribers = Map.put_new_lazy(state.subscribers, pid, fn -> Process.monitor(pid) end)
    {:reply, :ok, %{state | subscribers: subscribers}}
  end

  def handle_call({:unsubscribe, pid}, _from, state) do
    {monitor, subscribers} = Map.pop(state.subscribers, pid)
    if monitor, do: Process.demonitor(monitor, [:flush])
    {:reply, :ok, %{state | subscribers: subscribers}}
  end

  def handle_call(:rules, _from, state), do: {:reply, {:ok, state.rules}, state}

  def handle_call(:journal_bytes, _from, %{journal: nil} = state), do: {:reply, {:ok, 0}, state}
  def handle_call(:journal_bytes, _from, state), do: {:reply, {:ok, Journal.bytes(state.journal)}, state}

  # A message of no use.
  @impl GenServer
  def handle_cast(_message, state), do: {:noreply, state}

  @impl GenServer
  def handle_info({:timeout, timer, :due}, %{timer: {timer, _at}} = state) do
    {reply, state} = operate({:advance, now()}, %{state | timer: nil})
    {:noreply, state |> arm_by(reply) |> keep_if_long()}
  end

  def handle_info({:timeout, _earlier, :due}, state), do: {:noreply, state}

  def handle_info({:kept, keeper, outcome}, %{keeper: keeper} = state) do
    journal =
      with {:ok, version} <- outcome, {:ok, journal} <- Journal.trim(state.journal, version) do
        journal
      else
        {:error, error} -> report(error, state.journal)
        {:error, error, journal} -> report(error, journal)
      end

    {:noreply, %{state | keeper: nil, journal: journal}}
  end

  def handle_info({:EXIT, keeper, _reason}, %{keeper: keeper} = state), do: {:noreply, %{state | keeper: nil}}
  def handle_info({:EXIT, _other, :normal}, state), do: {:noreply, state}
  def handle_info({:EXIT, _parent, reason}, state), do: {:stop, reason, state}

  def handle_info({:DOWN, _monitor, :process, pid, _reason} = message, state) do
    if is_map_key(state.subscribers, pid),
      do: {:noreply, %{state | subscribers: Map.delete(state.subscribers, pid)}},
      else: {:noreply, journal_message(state, message)}
  end

  def handle_info(message, state), do: {:noreply, journal_message(state, message)}

  defp journal_message(%{journal: nil} = state, _message), do: state

  defp journal_message(state, message) do
    case Journal.info(state.journal, message) do
      {:ok, journal} -> %{state | journal: journal}
      :unknown -> state
    end
  end

  @impl GenServer
  def terminate(_reason, %{journal: nil}), do: :ok
  def terminate(_reason, state), do: Journal.close(state.journal)

  defp report(error, journal) do
    :logger.error("BeTree: #{Exception.message(error)}; the journal stays as it is", %{domain: [:be_tree]})
    journal
  end

  # Writes an operation to the journal, makes it, and sends its notices.
  defp operate(operation, state) do
    case Keeping.append(state.journal, operation) do
      {:ok, journal} ->
        {Keeping.make(state.rules, operation, state.new, &send_notices(state, &1)), %{state | journal: journal}}

      {:error, error, journal} ->
        {{:error, error}, %{state | journal: journal}}
    end
  end

  defp send_notices(_state, []), do: :ok

  defp send_notices(state, notices) do
    message = {__MODULE__, state.options.name, notices}
    for pid <- Map.keys(state.subscribers), do: send(pid, message)
    for process <- state.options.notify, is_pid(process) or Process.whereis(process), do: send(process, message)
    :ok
  end

  defp swap_rules(state, text) do
    with {:ok, rules} <- Keeping.swapped(state.rules, text, state.new),
         {:ok, journal} <- Keeping.append(state.journal, {:swap, text}) do
      {:ok, %{state | rules: rules, text: text, journal: journal}}
    else
      {:error, error} -> {:error, error}
      {:error, error, _journal} -> {:error, error}
    end
  end

  defp now, do: System.os_time(:millisecond)

  defp next_due(%{options: %{clock: :facts}}), do: nil

  defp next_due(state) do
    case Rules.info(state.rules) do
      {:ok, info} -> info.next_due
      {:error, _error} -> nil
    end
  end

  defp arm_by(%{options: %{clock: :facts}} = state, _reply), do: state
  defp arm_by(state, {:ok, %Page{next_due: next_due}}), do: arm(state, next_due)
  defp arm_by(state, {:error, _error}), do: arm(state, next_due(state))

  # The longest time that a timer takes.
  @longest 0xFFFF_FFFF

  defp arm(%{options: %{clock: :facts}} = state, _next_due), do: state
  defp arm(%{timer: {_timer, at}} = state, at), do: state

  defp arm(state, next_due) do
    with {timer, _at} <- state.timer, do: :erlang.cancel_timer(timer)

    case next_due do
      nil -> %{state | timer: nil}
      at -> %{state | timer: {start_timer(at), at}}
    end
  end

  defp start_timer(at) do
    :erlang.start_timer((at - now()) |> max(0) |> min(@longest), self(), :due)
  end

  defp keep_if_long(%{journal: journal, keeper: nil, options: options} = state) when journal != nil do
    if Journal.bytes(journal) > options.base_bytes, do: keep(state), else: state
  end

  defp keep_if_long(state), do: state

  defp keep(state) do
    with {:ok, journal} <- Journal.flush(state.journal),
         {:ok, keeper} <- Keeping.keep(state.rules, state.text, journal) do
      %{state | journal: journal, keeper: keeper}
    else
      {:error, error} -> %{state | journal: report(error, state.journal)}
      {:error, error, journal} -> %{state | journal: report(error, journal)}
    end
  end
end

defmodule BeTree.Rules.Server.Owner do
  @moduledoc false
  # The process that owns an engine, writes its journal, and arms its timer: a whole server, or a partition of one.
  #
  # A partition has what all of them share in the server's table (BeTree.Rules.Server.Shared). After each call it moves time to that of
  # all partitions if one of its windows has closed by then.

  use GenServer
  use BeTree.Engine.CrashReport

  alias BeTree.Engine.{Journal, Stray}
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Fact, Keeping, Page}
  alias BeTree.Rules.Server.{Request, Shared, Subscribers}

  @identity "BeTree rules 1"

  @typedoc "The options of a server, the module that its notices name as their sender, and for a partition the server's table."
  @type options :: %{required(:name) => atom, required(:sender) => module, optional(atom) => term}

  @spec child_spec({non_neg_integer, options, keyword}) :: Supervisor.child_spec()
  def child_spec({number, _options, _new} = argument),
    do: %{id: {__MODULE__, number}, start: {__MODULE__, :start_link, [argument]}}

  @doc "Starts the process of a partition, or, with `nil` for its number, that of a whole server, under the server's name."
  @spec start_link({non_neg_integer | nil, options, keyword}) :: GenServer.on_start()
  def start_link({nil, options, new}), do: GenServer.start_link(__MODULE__, {nil, options, new}, name: options.name)
  def start_link({number, options, new}), do: GenServer.start_link(__MODULE__, {number, options, new})

  @impl GenServer
  def init({number, options, new}) do
    Process.flag(:trap_exit, true)
    options = options_of(number, options)

    case Keeping.open(options, new) do
      {:ok, rules, text, journal} ->
        state = %{
          options: options,
          number: number,
          new: new,
          most: Rules.limit(new, :firings),
          rules: rules,
          text: text,
          journal: journal,
          subscribers: %{},
          timer: nil,
          next_due: nil,
          moved_to: nil,
          keeper: nil,
          # The bytes that the journal had written when the last base began.
          kept_at: 0
        }

        with {:ok, state} <- begin(state), do: {:ok, state, {:continue, :keep}}

      {:error, error} ->
        {:stop, error}
    end
  end

  # The text may be another one since the last start, and windows may have closed meanwhile.
  defp begin(state) do
    case swap_if_changed(state) do
      {:ok, state} ->
        {_reply, state} = if state.options.clock == :system, do: operate({:advance, now()}, state), else: {nil, state}
        state = note_due(state)
        if state.number, do: join(state), else: {:ok, state}

      {:error, error} ->
        if state.journal, do: Journal.release(state.journal)
        {:stop, error}
    end
  end

  defp options_of(nil, options), do: Map.put(options, :identity, @identity)

  # The rules may have been swapped since the server started.
  defp options_of(number, options) do
    Map.merge(options, %{
      rules: Shared.text(options.table),
      dir: options.dir && Shared.folder(options.dir, number),
      identity: "#{@identity}, partition #{number} of #{options.partitions}"
    })
  end

  # A swap that was made since this process read the rules is made here, or else its maker finds this process.
  defp join(%{options: %{table: table}} = state) do
    Shared.started(table, state.number, self(), time(state))

    case swap_if_changed(put_in(state.options.rules, Shared.text(table))) do
      {:ok, state} -> {:ok, note_due(state)}
      {:error, error} -> {:stop, error}
    end
  end

  defp swap_if_changed(%{text: text, options: %{rules: text}} = state), do: {:ok, state}

  defp swap_if_changed(state) do
    with {:ok, fresh} <- Keeping.swapped(state.rules, state.options.rules, state.new),
         do: put_rules(state, fresh, state.options.rules)
  end

  defp time(state) do
    {:ok, info} = Rules.info(state.rules)
    info.latest
  end

  # A base may be due from before the start.
  @impl GenServer
  def handle_continue(:keep, state), do: {:noreply, keep_if_long(state)}

  @impl GenServer
  def handle_call({:operate, operation, options, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      operation = if state.options.clock == :system, do: {:at, now(), operation}, else: operation
      {reply, state} = operate(operation, state, options)
      state |> note_due(reply) |> catch_up(reply)
    end)
  end

  # Closes the windows that the time of all partitions closes.
  def handle_call({:catch_up, deadline}, _from, state) do
    in_turn(deadline, state, fn -> catch_up(state, {:ok, %Page{operation: nil, next_due: state.next_due}}) end)
  end

  # Retracts a copy of a fact that is in every partition: the one at a position among equal facts, newest first.
  def handle_call({:retract_copy, fact, position, options, deadline}, from, state) do
    case copy(state.rules, fact, position) do
      {:ok, id} -> handle_call({:operate, {:retract, id}, options, deadline}, from, state)
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  def handle_call({:swap, text, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      with {:ok, fresh} <- Keeping.swapped(state.rules, text, state.new),
           {:ok, state} <- put_rules(state, fresh, text) do
        {:ok, note_due(state)}
      else
        {:error, error} -> {{:error, error}, state}
      end
    end)
  end

  # Partitions swap in two steps: each makes the new rules, and waits until all have.
  def handle_call({:prepare_swap, text, swap}, {front, _tag} = from, state) do
    state = move(state)

    case Keeping.swapped(state.rules, text, state.new) do
      {:ok, fresh} ->
        monitor = Process.monitor(front)
        GenServer.reply(from, {:ok, :prepared})
        decision = receive_decision(swap, monitor, text, state.options.table)
        Process.demonitor(monitor, [:flush])
        decide(decision, fresh, text, state)

      {:error, error} ->
        {:reply, {:error, error}, state}
    end
  end

  # The rules of all partitions may be others since this process read them.
  def handle_call(:take_rules, _from, state) do
    case swap_if_changed(put_in(state.options.rules, Shared.text(state.options.table))) do
      {:ok, state} -> {:reply, :ok, state |> note_due() |> keep_if_long()}
      {:error, error} -> {:stop, error, {:error, error}, state}
    end
  end

  def handle_call({:subscribe, pid}, _from, state) do
    {:reply, :ok, %{state | subscribers: Subscribers.add(state.subscribers, pid)}}
  end

  def handle_call({:unsubscribe, pid}, _from, state) do
    {:reply, :ok, %{state | subscribers: Subscribers.remove(state.subscribers, pid)}}
  end

  # The rules for a caller that reads them. Facts that the time of all partitions drops are gone.
  def handle_call({:read, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      state = move(state)
      {{:ok, {state.rules, journal_bytes(state.journal)}}, state}
    end)
  end

  def handle_call(call, _from, state), do: {:reply, Stray.refuse(call), state}

  # Makes a call that returns its reply and the state, unless its deadline has passed.
  defp in_turn(deadline, state, make) do
    with :ok <- Request.in_time(deadline) do
      {reply, state} = make.()
      {:reply, reply, keep_if_long(state)}
    else
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  defp journal_bytes(nil), do: 0
  defp journal_bytes(journal), do: Journal.bytes(journal)

  # A front process that ends before it tells its decision has decided if the table has the rules.
  defp receive_decision(swap, monitor, text, table) do
    receive do
      {^swap, decision} -> decision
      {:DOWN, ^monitor, :process, _front, _reason} -> if Shared.text(table) == text, do: :commit, else: :abort
    end
  end

  defp decide(:abort, _fresh, _text, state), do: {:noreply, state}

  # If the journal does not take the swap, this process starts anew, with the rules of all partitions.
  defp decide(:commit, fresh, text, state) do
    case put_rules(state, fresh, text) do
      {:ok, state} -> {:noreply, state |> note_due() |> keep_if_long()}
      {:error, error} -> {:stop, error, state}
    end
  end

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  @impl GenServer
  def handle_info({:timeout, timer, :due}, %{timer: {timer, _at}} = state) do
    {reply, state} = operate({:advance, now()}, %{state | timer: nil})
    {:noreply, state |> note_due(reply) |> keep_if_long()}
  end

  def handle_info({:timeout, _earlier, :due}, state), do: {:noreply, state}

  def handle_info({:kept, keeper, outcome}, %{keeper: keeper} = state) do
    with {:ok, version} <- outcome, {:ok, journal} <- Journal.trim(state.journal, version) do
      {:noreply, %{state | keeper: nil, journal: journal}}
    else
      {:error, error} -> {:noreply, keep_again(%{state | journal: report(error, state.journal)})}
      {:error, error, journal} -> {:noreply, keep_again(%{state | journal: report(error, journal)})}
    end
  end

  def handle_info({:EXIT, keeper, _reason}, %{keeper: keeper} = state), do: {:noreply, keep_again(state)}
  def handle_info({:EXIT, _other, :normal}, state), do: {:noreply, state}
  def handle_info({:EXIT, _parent, reason}, state), do: {:stop, reason, state}

  def handle_info({:DOWN, _monitor, :process, pid, _reason} = message, state) do
    if is_map_key(state.subscribers, pid),
      do: {:noreply, %{state | subscribers: Subscribers.remove(state.subscribers, pid)}},
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

  ## Operations

  # Writes an operation to the journal, makes it, and sends its notices.
  defp operate(operation, state, options \\ Rules.default_options()) do
    with {:ok, journal} <- Keeping.append(state.journal, operation) do
      # A late fact may have passed its life already, and is dropped when time moves next.
      state = %{state | journal: journal, moved_to: nil}

      case Keeping.make(state.rules, operation, state.most, options, &send_notices(state, &1)) do
        {:error, error, cut} -> record_cut(state, error, cut)
        reply -> {reply, state}
      end
    else
      {:error, error, journal} -> {{:error, error}, %{state | journal: journal}}
    end
  end

  # If the journal does not take the record, a restart makes the whole operation. The error of the journal says so to the caller.
  defp record_cut(state, error, cut) do
    case Keeping.append(state.journal, cut) do
      {:ok, journal} -> {{:error, error}, %{state | journal: journal}}
      {:error, error, journal} -> {{:error, error}, %{state | journal: journal}}
    end
  end

  defp send_notices(_state, []), do: :ok

  defp send_notices(state, notices) do
    message = {state.options.sender, state.options.name, notices}
    for pid <- subscribers(state), do: send(pid, message)
    for process <- state.options.notify, is_pid(process) or Process.whereis(process), do: send(process, message)
    :ok
  end

  defp subscribers(%{number: nil} = state), do: Map.keys(state.subscribers)
  defp subscribers(state), do: Shared.subscribers(state.options.table)

  defp put_rules(state, rules, text) do
    case Keeping.append(state.journal, {:swap, text}) do
      {:ok, journal} -> {:ok, %{state | rules: rules, text: text, journal: journal}}
      {:error, error, _journal} -> {:error, error}
    end
  end

  defp copy(rules, fact, position) do
    with {:ok, facts} <- Rules.facts(rules, fact.type) do
      equal = Fact.equal(facts, fact)

      case Enum.at(equal, position) || List.last(equal) do
        nil -> {:error, %Error{kind: :not_found, message: "a partition has no such fact; it was retracted or dropped"}}
        id -> {:ok, id}
      end
    end
  end

  ## Time

  defp now, do: System.os_time(:millisecond)

  # Moves time to that of all partitions, where it is behind.
  defp move(%{number: nil} = state), do: state

  defp move(%{moved_to: moved_to} = state) do
    case Shared.time(state.options.table) do
      time when time == nil or time == moved_to ->
        state

      time ->
        {reply, state} = operate({:advance, time}, state)
        note_due(%{state | moved_to: time}, reply)
    end
  end

  # Moves time to that of all partitions if a window has closed by then.
  defp catch_up(%{number: nil} = state, reply), do: {reply, state}

  defp catch_up(%{next_due: due} = state, reply) do
    time = Shared.time(state.options.table)

    if due != nil and time != nil and due <= time do
      {caught_up, state} = operate({:advance, time}, state)
      {joined(reply, caught_up), note_due(state, caught_up)}
    else
      {reply, state}
    end
  end

  defp joined({:ok, page}, {:ok, next}), do: {:ok, Page.join(page, next)}
  defp joined({:ok, _page}, {:error, error}), do: {:error, error}
  defp joined({:error, error}, _next), do: {:error, error}

  # Notes when a window closes next: for the timer, and for the other partitions.
  defp note_due(state, {:ok, %Page{next_due: next_due}}), do: put_due(state, next_due)
  defp note_due(state, {:error, _error}), do: note_due(state)

  defp note_due(state) do
    case Rules.info(state.rules) do
      {:ok, info} -> put_due(state, info.next_due)
      {:error, _error} -> put_due(state, nil)
    end
  end

  defp put_due(state, next_due) do
    if state.number, do: Shared.put_due(state.options.table, state.number, next_due)
    arm(%{state | next_due: next_due}, next_due)
  end

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

  ## Bases

  defp keep_if_long(%{journal: journal, keeper: nil, options: options} = state) when journal != nil do
    if Journal.written(journal) - state.kept_at > options.base_bytes or Journal.fragmented?(journal),
      do: keep(state),
      else: state
  end

  defp keep_if_long(state), do: state

  # The next call makes the base that failed.
  defp keep_again(state), do: %{state | keeper: nil, kept_at: 0}

  defp keep(state) do
    with {:ok, journal} <- Journal.flush(state.journal),
         {:ok, keeper} <- Keeping.keep(state.rules, state.text, journal) do
      %{state | journal: journal, keeper: keeper, kept_at: Journal.written(journal)}
    else
      {:error, error} -> %{state | journal: report(error, state.journal)}
      {:error, error, journal} -> %{state | journal: report(error, journal)}
    end
  end
end

defmodule BeTree.Rules.Server.Owner do
  @moduledoc false
  # The process that owns an engine, writes its journal, and arms its timer: a whole server, or a partition of one.
  #
  # A partition has what all of them share in the server's table (BeTree.Rules.Server.Shared). After each call it moves time to that of
  # all partitions if one of its windows has closed by then.

  use GenServer
  use BeTree.Processes.CrashReport

  alias BeTree.Journal
  alias BeTree.Processes.Stray
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Fact, Operation, Page, Swap}
  alias BeTree.Rules.Server.{Base, Change, Clock, Closed, Delivery, History, Layout, Request, Shared, Subscribers}

  @identity "BeTree rules 2"

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
  def init(argument) do
    Process.flag(:trap_exit, true)
    Delivery.begin(elem(argument, 1))
    was_open? = Closed.was_open?(argument)

    case open(argument) do
      {:ok, state} -> {:ok, state, {:continue, :keep}}
      {:error, error} when was_open? -> {:ok, Closed.new(argument, error)}
      {:error, error} -> {:stop, error}
    end
  end

  defp open({number, options, new} = argument) do
    options = options_of(number, options)

    case History.open(options, new) do
      {:ok, rules, text, journal} ->
        begin(%{
          argument: argument,
          options: options,
          number: number,
          new: new,
          most: Rules.limit(new, :firings),
          rules: rules,
          text: text,
          journal: journal,
          subscribers: %{},
          clock: clock(number, options),
          timer: nil,
          next_due: nil,
          moved_to: nil,
          # The time beyond which an error holds time, see `hold/3`.
          held: nil,
          # The record of an operation that was undone, until the journal takes it.
          undone: nil,
          keeper: nil,
          # The bytes that the journal had written when the last base began.
          kept_at: 0
        })

      {:error, error} ->
        {:error, error}
    end
  end

  # The text may be another one since the last start, and windows may have closed meanwhile.
  defp begin(state) do
    case swap_if_changed(state) do
      {:ok, state} ->
        state = catch_up_with_clock(state)
        if state.number, do: join(state), else: {:ok, state}

      {:error, error, state} ->
        release(state, error)
    end
  end

  defp clock(nil, %{clock: :facts}), do: nil
  defp clock(nil, options), do: Clock.new(options)
  defp clock(_number, options), do: {:shared, options.table}

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
    {time, event_times} = times(state)
    Shared.started(table, state.number, self(), time, event_times)

    case swap_if_changed(put_in(state.options.rules, Shared.text(table))) do
      {:ok, state} -> {:ok, note_due(state)}
      {:error, error, state} -> release(state, error)
    end
  end

  # Frees the folder, and whatever writes to it, for another start.
  defp release(state, error) do
    with {timer, _at} <- state.timer, do: :erlang.cancel_timer(timer)
    if state.keeper, do: end_keeper(state.keeper)
    if state.journal, do: Journal.release(state.journal)
    {:error, error}
  end

  defp end_keeper(keeper) do
    monitor = Process.monitor(keeper)
    Process.unlink(keeper)
    Process.exit(keeper, :kill)
    receive(do: ({:DOWN, ^monitor, :process, ^keeper, _reason} -> :ok))
    # It may have ended before.
    receive(do: ({:EXIT, ^keeper, _reason} -> :ok), after: (0 -> :ok))
  end

  # The process of a partition goes on without its folder, until that can be opened.
  defp close(state, error) do
    {:error, error} = release(state, error)
    Closed.new(state.argument, error)
  end

  defp swap_if_changed(%{text: text, options: %{rules: text}} = state), do: {:ok, state}

  defp swap_if_changed(state) do
    case Swap.swapped(state.rules, state.options.rules, state.new) do
      {:ok, fresh} -> put_rules(state, fresh, state.options.rules)
      {:error, error} -> {:error, error, state}
    end
  end

  defp time(state), do: Rules.info!(state.rules).latest

  # Returns the time that all partitions have with this one, and the event times of its sources. Without named sources all facts are
  # from one source, whose event time is that time.
  defp times(state) do
    case Rules.event_times(state.rules) do
      {:ok, _floor, sources} when sources == %{} or (map_size(sources) == 1 and is_map_key(sources, nil)) ->
        {time(state), %{}}

      {:ok, floor, sources} ->
        {floor, sources}
    end
  end

  # A base may be due from before the start.
  @impl GenServer
  def handle_continue(:keep, state), do: {:noreply, keep_if_long(state)}

  @impl GenServer
  def handle_call(_call, _from, %Closed{error: error} = closed), do: {:reply, {:error, error}, closed}

  def handle_call({:operate, operation, options, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      {now, latest, state} = read_clock(state)

      with :ok <- Request.check_time(operation, latest) do
        {reply, state} = operate_now(operation, now, state, Operation.up_to(options, latest))
        state |> note_due(reply) |> catch_up(reply)
      else
        {:error, error} -> {{:error, error}, state}
      end
    end)
  end

  # Makes the clock of a server without partitions the system's, and moves time there.
  def handle_call({:go_live, options, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      with {:ok, state} <- go_live(state) do
        {now, _latest, state} = read_clock(state)
        {reply, stopped, state} = operate({:advance, now}, state, options)
        {reply, if(stopped, do: move_to(now, state), else: note_due(state, reply))}
      else
        {:error, error} -> {{:error, error}, state}
      end
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
      with {:ok, fresh} <- Swap.swapped(state.rules, text, state.new),
           {:ok, state} <- put_rules(state, fresh, text) do
        {:ok, note_due(state)}
      else
        {:error, error} -> {{:error, error}, state}
        {:error, error, state} -> {{:error, error}, state}
      end
    end)
  end

  # Partitions swap in two steps: each makes the new rules, and waits until all have.
  def handle_call({:prepare_swap, text, swap}, {front, _tag} = from, state) do
    state = move(state)

    case Swap.swapped(state.rules, text, state.new) do
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
      {:error, error, state} -> {:reply, {:error, error}, close(state, error)}
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
      {{:ok, {state.rules, counts(state)}}, state}
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

  # What the server adds to the counts and sizes of its rules.
  defp counts(%{journal: journal, held: held}) do
    %{
      journal_bytes: if(journal, do: Journal.bytes(journal), else: 0),
      dropped: Delivery.dropped(),
      held: held && Map.take(held, [:at, :error])
    }
  end

  # A front process that ends before it tells its decision has decided if the table has the rules.
  defp receive_decision(swap, monitor, text, table) do
    receive do
      {^swap, decision} -> decision
      {:DOWN, ^monitor, :process, _front, _reason} -> if Shared.text(table) == text, do: :commit, else: :abort
    end
  end

  defp decide(:abort, _fresh, _text, state), do: {:noreply, state}

  # If the journal does not take the swap, this process opens the folder anew, with the rules of all partitions.
  defp decide(:commit, fresh, text, state) do
    case put_rules(state, fresh, text) do
      {:ok, state} -> {:noreply, state |> note_due() |> keep_if_long()}
      {:error, error, state} -> {:noreply, close(state, error)}
    end
  end

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  @impl GenServer
  def handle_info(message, state) do
    if Delivery.info(message), do: {:noreply, state}, else: handle(message, state)
  end

  defp handle({:timeout, timer, :open}, %Closed{timer: timer} = closed) do
    case open(closed.argument) do
      {:ok, state} ->
        Closed.opened(closed)
        {:noreply, state, {:continue, :keep}}

      {:error, error} ->
        {:noreply, Closed.again(closed, error)}
    end
  end

  defp handle({:EXIT, _parent, reason}, %Closed{} = closed) when reason != :normal, do: {:stop, reason, closed}
  # Of what ran before it closed.
  defp handle(_message, %Closed{} = closed), do: {:noreply, closed}

  defp handle({:timeout, timer, :due}, %{timer: {timer, at}} = state) do
    {now, _latest, state} = read_clock(%{state | timer: nil})
    {:noreply, if(now < at, do: arm(state), else: keep_if_long(move_to(now, state)))}
  end

  defp handle({:timeout, _earlier, :due}, state), do: {:noreply, state}

  defp handle({:timeout, retry, :held}, %{held: %{retry: retry, until: until}} = state) do
    {now, _latest, state} = read_clock(state)
    {:noreply, keep_if_long(move_to(max(until, now || until), %{state | held: %{state.held | retry: nil}}))}
  end

  defp handle({:timeout, _earlier, :held}, state), do: {:noreply, state}

  defp handle({:kept, keeper, outcome}, %{keeper: keeper} = state) do
    with {:ok, version} <- outcome, {:ok, journal} <- Journal.trim(state.journal, version) do
      {:noreply, %{state | keeper: nil, journal: journal}}
    else
      {:error, error} -> {:noreply, keep_again(%{state | journal: report(error, state.journal)})}
      {:error, error, journal} -> {:noreply, keep_again(%{state | journal: report(error, journal)})}
    end
  end

  defp handle({:EXIT, keeper, _reason}, %{keeper: keeper} = state), do: {:noreply, keep_again(state)}
  defp handle({:EXIT, _other, :normal}, state), do: {:noreply, state}
  defp handle({:EXIT, _parent, reason}, state), do: {:stop, reason, state}

  defp handle({:DOWN, _monitor, :process, pid, _reason} = message, state) do
    if is_map_key(state.subscribers, pid),
      do: {:noreply, %{state | subscribers: Subscribers.remove(state.subscribers, pid)}},
      else: {:noreply, journal_message(state, message)}
  end

  defp handle(message, state), do: {:noreply, journal_message(state, message)}

  defp journal_message(%{journal: nil} = state, _message), do: state

  defp journal_message(state, message) do
    case Journal.info(state.journal, message) do
      {:ok, journal} -> %{state | journal: journal}
      :unknown -> state
    end
  end

  @impl GenServer
  def terminate(_reason, %Closed{}), do: :ok
  def terminate(_reason, %{journal: nil}), do: :ok
  def terminate(_reason, state), do: Journal.close(state.journal)

  defp report(error, journal) do
    :logger.error("BeTree: #{Exception.message(error)}; the journal stays as it is", %{domain: [:be_tree]})
    journal
  end

  ## Operations

  # Moves time to the clock's, if the server has a clock, and makes the operation in the same change. If an event on the way fails, time
  # is held before the event, and the operation is made there.
  defp operate_now(operation, now, %{held: nil} = state, options) when now != nil do
    case operate({:at, now, operation}, state, options) do
      {{:error, _error}, :time, state} -> operate_now(operation, now, find_time(now, state), options)
      {reply, _stopped, state} -> {reply, state}
    end
  end

  defp operate_now(operation, _now, state, options) do
    {reply, _stopped, state} = operate(operation, state, options)
    {reply, retried_soon(state, operation, reply)}
  end

  # Writes an operation to the journal, makes it, and sends its notices. Returns the reply and the part that an error stopped.
  defp operate(operation, state, options \\ Rules.default_options()) do
    with {:ok, state} <- append_undone(state),
         {:ok, journal} <- History.append(state.journal, operation) do
      # A late fact may have passed its life already, and is dropped when time moves next.
      state = %{state | journal: journal, moved_to: nil}

      case Change.make(state.rules, operation, state.most, options) do
        {:ok, page, notices} ->
          send_notices(state, notices)
          {{:ok, page}, nil, state}

        {:error, error, stopped, saved} ->
          {error, state} = undo(error, saved, state)
          {{:error, error}, stopped, state}
      end
    else
      {:error, error, journal} -> {{:error, error}, :operation, %{state | journal: journal}}
    end
  end

  # If the journal does not take the record now, it is written before the next one.
  defp undo(error, saved, state) do
    state = %{state | undone: {:undone, saved}}

    case append_undone(state) do
      {:ok, state} -> {error, state}
      {:error, journal_error, journal} -> {journal_error, %{state | journal: journal}}
    end
  end

  defp append_undone(%{undone: nil} = state), do: {:ok, state}

  defp append_undone(state) do
    with {:ok, journal} <- History.append(state.journal, state.undone),
         do: {:ok, %{state | journal: journal, undone: nil}}
  end

  defp send_notices(_state, []), do: :ok
  defp send_notices(state, notices), do: Delivery.send_all(subscribers(state) ++ state.options.notify, notices)

  defp subscribers(%{number: nil} = state), do: Map.keys(state.subscribers)
  defp subscribers(state), do: Shared.subscribers(state.options.table)

  defp put_rules(state, rules, text) do
    with {:ok, state} <- append_undone(state),
         {:ok, journal} <- History.append(state.journal, {:swap, text}) do
      {:ok, retried_soon(%{state | rules: rules, text: text, journal: journal})}
    else
      {:error, error, journal} -> {:error, error, %{state | journal: journal}}
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

  # Returns the time of the clock, or `nil` if time moves by facts alone, and the latest time that a fact may have. The facts of
  # partitions are checked before they are divided.
  defp read_clock(state) do
    {now, latest, clock} = Clock.read(state.clock)
    {now, if(state.number, do: nil, else: latest), %{state | clock: clock}}
  end

  # Goes on from the engine's time if that is far ahead of the clock.
  defp catch_up_with_clock(state) do
    {now, _latest, state} = read_clock(state)

    if now do
      {now, _latest, state} = read_clock(%{state | clock: Clock.move_to(state.clock, time(state))})
      move_to(now, state)
    else
      note_due(state)
    end
  end

  defp go_live(%{clock: nil} = state) do
    with :ok <- Layout.go_live(state.options.dir) do
      {_now, _latest, state} = read_clock(%{state | clock: Clock.new(state.options)})
      {:ok, %{state | clock: Clock.move_to(state.clock, time(state))}}
    end
  end

  defp go_live(state), do: {:ok, state}

  # Moves time to that of all partitions, where it is behind.
  defp move(%{number: nil} = state), do: state

  defp move(%{moved_to: moved_to} = state) do
    case Shared.time(state.options.table) do
      time when time == nil or time == moved_to -> state
      time -> %{move_to(time, state) | moved_to: time}
    end
  end

  # Moves time to that of all partitions if a window has closed by then.
  defp catch_up(%{number: nil} = state, reply), do: {reply, state}

  defp catch_up(%{next_due: due} = state, reply) do
    time = Shared.time(state.options.table)

    if due != nil and time != nil and due <= time do
      {page, state} = move_counted(time, state)
      {joined(reply, page), state}
    else
      {reply, state}
    end
  end

  defp joined({:ok, page}, next), do: {:ok, Page.join(page, next)}
  defp joined({:error, error}, _next), do: {:error, error}

  # Moves time to `time`, or to the first event that ends with an error.
  defp move_to(time, state), do: time |> move_counted(state) |> elem(1)

  # Returns the page of the move, too.
  defp move_counted(time, %{held: %{retry: retry, at: at} = held} = state) when retry != nil and time >= at,
    do: {%Page{operation: nil, next_due: state.next_due}, %{state | held: %{held | until: max(held.until, time)}}}

  defp move_counted(time, state) do
    case operate({:advance, time}, state) do
      {{:ok, page}, _stopped, state} -> {page, state |> released() |> note_due({:ok, page})}
      {{:error, _error}, _stopped, state} -> hold(time, note_due(state), %Page{operation: nil})
    end
  end

  defp find_time(time, state), do: time |> hold(note_due(state), %Page{operation: nil}) |> elem(1)

  # An event of this time, or before it, ends with an error: rules that fire one another without end, or a fact or a notice without room.
  # Calls go on without it. So time moves event by event, and is held before the one with the error, until a timer, a retraction, or
  # other rules let it try again.
  defp hold(until, %{next_due: due} = state, sum) do
    time = if due != nil and due < until, do: due, else: until

    case operate({:advance, time}, state) do
      {{:ok, page}, _stopped, state} when time < until ->
        hold(until, note_due(state, {:ok, page}), Page.join(sum, page))

      {{:ok, page}, _stopped, state} ->
        {Page.join(sum, page), state |> released() |> note_due({:ok, page})}

      {{:error, error}, _stopped, state} ->
        {%{sum | next_due: due}, hold_at(error, time, until, state)}
    end
  end

  # The milliseconds after which time tries again, the first time and at the most.
  @first_retry 1_000
  @last_retry 60_000

  defp hold_at(error, at, until, state) do
    pause = if state.held, do: min(2 * state.held.pause, @last_retry), else: @first_retry

    if state.held == nil do
      :logger.error(
        "BeTree: the time of the rules of #{inspect(state.options.name)} is held at #{at}: #{Exception.message(error)}",
        %{domain: [:be_tree]}
      )
    end

    held = %{at: at, until: until, error: error, pause: pause, retry: :erlang.start_timer(pause, self(), :held)}
    arm(%{state | held: held})
  end

  defp released(%{held: nil} = state), do: state

  defp released(%{held: held} = state) do
    if held.retry, do: :erlang.cancel_timer(held.retry)
    %{state | held: nil}
  end

  # A retraction and other rules may remove the cause of an error.
  defp retried_soon(state, {:retract, _id}, {:ok, _page}), do: retried_soon(state)
  defp retried_soon(state, _operation, _reply), do: state

  defp retried_soon(%{held: nil} = state), do: state

  defp retried_soon(%{held: held} = state) do
    if held.retry, do: :erlang.cancel_timer(held.retry)
    %{state | held: %{held | retry: :erlang.start_timer(0, self(), :held)}}
  end

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
    arm(%{state | next_due: next_due})
  end

  # The longest time that a timer takes.
  @longest 0xFFFF_FFFF

  # While time is held, another timer tries again.
  defp arm(%{timer: {_timer, at}, next_due: at, held: nil} = state), do: state

  defp arm(%{next_due: next_due, held: held} = state) do
    with {timer, _at} <- state.timer, do: :erlang.cancel_timer(timer)
    {now, _latest, state} = read_clock(%{state | timer: nil})

    # The clock is read now and then, because it may jump.
    if now && next_due && held == nil,
      do: %{state | timer: {start_timer(min(next_due - now, Clock.look(state.clock))), next_due}},
      else: state
  end

  defp start_timer(ms), do: :erlang.start_timer(ms |> max(0) |> min(@longest), self(), :due)

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
         {:ok, keeper} <- Base.write(state.rules, History.head(state.text, state.new), journal) do
      %{state | journal: journal, keeper: keeper, kept_at: Journal.written(journal)}
    else
      {:error, error} -> %{state | journal: report(error, state.journal)}
      {:error, error, journal} -> %{state | journal: report(error, journal)}
    end
  end
end

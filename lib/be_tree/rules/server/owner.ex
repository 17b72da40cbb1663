defmodule BeTree.Rules.Server.Owner do
  @moduledoc false
  # The process that owns an engine, writes its journal, and arms its timer: a whole server, or a partition of one.
  #
  # Partitions share the server's table (BeTree.Rules.Server.Shared). After each call a partition moves its time to that of all
  # partitions if one of its windows has closed by then.

  use BeTree.Processes.Server

  alias BeTree.Journal
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Fact, Operation, Page, Swap}

  alias BeTree.Rules.Server.{
    Clock,
    Closed,
    Delivery,
    History,
    Kept,
    Layout,
    Operations,
    Request,
    Shared,
    State,
    Subscribers,
    Time
  }

  @typedoc "The options of a server, the module that its notices name as their sender, and for a partition the server's table."
  @type options :: %{required(:name) => BeTree.Rules.Server.name(), required(:sender) => module, optional(atom) => term}

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
    {number, options, _new} = argument
    Delivery.begin(options)
    was_open? = Closed.was_open?(argument)
    if Subscribers.crashed?(options.name, number), do: Delivery.tell_restart(Operations.receivers(options, number))

    case open(argument) do
      {:ok, state} -> {:ok, started(state), {:continue, :keep}}
      {:error, error} when was_open? -> {:ok, Closed.new(argument, error)}
      {:error, error} -> {:stop, error}
    end
  end

  defp started(state) do
    Subscribers.started(state.options.name, state.number)
    state
  end

  defp open({number, options, new} = argument) do
    options = options_of(number, options)

    case History.open(options, number, new) do
      {:ok, rules, text, kept, journal} ->
        begin(%State{
          argument: argument,
          options: options,
          number: number,
          new: new,
          max_firings: Rules.limit(new, :firings),
          rules: rules,
          text: text,
          kept: kept,
          fired: Operations.fired(rules),
          journal: journal,
          clock: clock(number, options)
        })

      {:error, error} ->
        {:error, error}
    end
  end

  # The rules may have changed since the last start, and windows may have closed meanwhile.
  defp begin(state) do
    case swap_if_changed(state) do
      {:ok, state} ->
        state = Time.catch_up_with_clock(state)
        if state.number, do: join(state), else: {:ok, state}

      {:error, error, state} ->
        release(state, error)
    end
  end

  defp clock(nil, %{clock: :facts}), do: nil
  defp clock(nil, options), do: Clock.new(options)
  defp clock(_number, options), do: {:shared, options.table}

  defp options_of(nil, options), do: Map.put(options, :identity, Layout.identity())

  # The rules may have been swapped since the server started.
  defp options_of(number, options) do
    Map.merge(options, %{
      rules: Shared.text(options.table),
      dir: options.dir && Shared.folder(options.dir, number),
      identity: Layout.identity(number, options.partitions)
    })
  end

  # Takes a swap that was decided after this process read the rules. A later swap finds this process in the table.
  defp join(%{options: %{table: table}} = state) do
    {time, event_times} = Time.shared(state)
    Shared.started(table, state.number, self(), time, event_times)

    case swap_if_changed(put_in(state.options.rules, Shared.text(table))) do
      {:ok, state} -> {:ok, Time.note_due(state)}
      {:error, error, state} -> release(state, error)
    end
  end

  # Frees the folder, and whatever writes to it, for another start.
  defp release(state, error) do
    with {timer, _at} <- state.timer, do: :erlang.cancel_timer(timer)
    Journal.Owner.release(state.journal)
    {:error, error}
  end

  # The process of a partition goes on without its folder, until that can be opened.
  defp close(state, error) do
    {:error, error} = release(state, error)
    Closed.new(state.argument, error)
  end

  defp put_rules(state, rules, text),
    do: with({:ok, state} <- Operations.put_rules(state, rules, text), do: {:ok, Time.retry_soon(state)})

  defp swap_if_changed(%{text: text, options: %{rules: text}} = state), do: {:ok, state}

  defp swap_if_changed(state) do
    case Swap.swapped(state.rules, state.options.rules, state.new) do
      {:ok, fresh} -> put_rules(state, fresh, state.options.rules)
      {:error, error} -> {:error, error, state}
    end
  end

  # A base may be due from before the start.
  @impl GenServer
  def handle_continue(:keep, state), do: {:noreply, write_base_if_due(state)}

  @impl GenServer
  def handle_call(_call, _from, %Closed{error: error} = closed), do: {:reply, {:error, error}, closed}

  def handle_call({:operate, operation, options, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      {now, latest, state} = Time.read_clock(state)

      with :ok <- Request.check_time(operation, latest) do
        {reply, state} = Time.operate_at(operation, now, state, Operation.up_to(options, latest))
        state |> Time.note_due(reply) |> Time.catch_up(reply)
      else
        {:error, error} -> {{:error, error}, state}
      end
    end)
  end

  # Makes the clock of a server without partitions the system's, and moves time there.
  def handle_call({:go_live, options, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      with {:ok, state} <- Time.go_live(state) do
        {now, _latest, state} = Time.read_clock(state)
        {reply, stopped, state} = Operations.operate({:advance, now}, state, options)
        {reply, if(stopped, do: Time.move_to(now, state), else: Time.note_due(state, reply))}
      else
        {:error, error} -> {{:error, error}, state}
      end
    end)
  end

  # Closes the windows that the time of all partitions closes.
  def handle_call({:catch_up, deadline}, _from, state) do
    in_turn(deadline, state, fn -> Time.catch_up(state, {:ok, %Page{operation: nil, next_due: state.next_due}}) end)
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
        {:ok, Time.note_due(state)}
      else
        {:error, error} -> {{:error, error}, state}
        {:error, error, state} -> {{:error, error}, state}
      end
    end)
  end

  # Partitions swap in two steps: each makes the new rules, and waits until all have.
  def handle_call({:prepare_swap, text, swap}, {front, _tag} = from, state) do
    state = Time.move(state)

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
      {:ok, state} -> {:reply, :ok, state |> Time.note_due() |> write_base_if_due()}
      {:error, error, state} -> {:reply, {:error, error}, close(state, error)}
    end
  end

  def handle_call(:flush, _from, state) do
    {reply, journal} = Journal.Owner.flush(state.journal)
    {:reply, reply, %{state | journal: journal}}
  end

  def handle_call({:subscribe, pid, nil}, _from, state) do
    Subscribers.add(state.options.name, pid, :all)
    {:reply, :ok, state}
  end

  # Later notices come from this process, too, so they follow these.
  def handle_call({:subscribe, pid, since}, _from, %{options: options} = state) do
    with {:ok, notices} <- Kept.since(state.kept, since) do
      Subscribers.add(options.name, pid, state.number || :all)
      Delivery.send_again(Operations.receiver(options, pid), notices)
      {:reply, :ok, state}
    else
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  # The rules for a caller that reads them. Facts that the time of all partitions drops are gone.
  def handle_call({:read, deadline}, _from, state) do
    in_turn(deadline, state, fn ->
      state = Time.move(state)
      {{:ok, {state.rules, counts(state)}}, state}
    end)
  end

  def handle_call(call, from, state), do: super(call, from, state)

  # Makes a call that returns its reply and the state, unless its deadline has passed.
  defp in_turn(deadline, state, make) do
    with :ok <- Request.in_time(deadline) do
      {reply, state} = make.()
      {:reply, reply, write_base_if_due(state)}
    else
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  # Returns the counts that the server adds to those of its rules.
  defp counts(%{journal: journal, held: held, kept: kept}) do
    %{
      journal_bytes: Journal.Owner.bytes(journal),
      journal_age: journal |> Journal.Owner.oldest() |> Journal.Owner.age(),
      dropped: Delivery.dropped(),
      first_notice: Kept.first(kept),
      last_notice: kept.last,
      held: held && Map.take(held, [:at, :error])
    }
  end

  # If the front process ends before it sends its decision, the table has it: the new rules mean commit.
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
      {:ok, state} -> {:noreply, state |> Time.note_due() |> write_base_if_due()}
      {:error, error, state} -> {:noreply, close(state, error)}
    end
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
        {:noreply, Closed.retry_later(closed, error)}
    end
  end

  defp handle({:EXIT, _parent, reason}, %Closed{} = closed) when reason != :normal, do: {:stop, reason, closed}
  # A late message from the time before the partition closed.
  defp handle(_message, %Closed{} = closed), do: {:noreply, closed}

  defp handle({:timeout, timer, :due}, %{timer: {timer, at}} = state) do
    {now, _latest, state} = Time.read_clock(%{state | timer: nil})
    {:noreply, if(now < at, do: Time.arm(state), else: write_base_if_due(Time.move_to(now, state)))}
  end

  defp handle({:timeout, _earlier, :due}, state), do: {:noreply, state}

  defp handle({:timeout, retry, :held}, %{held: %{retry: retry, until: until}} = state) do
    {now, _latest, state} = Time.read_clock(state)
    {:noreply, write_base_if_due(Time.move_to(max(until, now || until), %{state | held: %{state.held | retry: nil}}))}
  end

  defp handle({:timeout, _earlier, :held}, state), do: {:noreply, state}

  defp handle(message, state) do
    case {Journal.Owner.info(state.journal, message), message} do
      {{:ok, journal}, _message} -> {:noreply, write_base_if_due(%{state | journal: journal})}
      {:unknown, {:EXIT, _parent, reason}} when reason != :normal -> {:stop, reason, state}
      {:unknown, _other} -> {:noreply, state}
    end
  end

  @impl GenServer
  def terminate(_reason, %Closed{}), do: :ok

  def terminate(reason, state) do
    if reason in [:normal, :shutdown] or match?({:shutdown, _reason}, reason), do: stopped(state)
    Journal.Owner.close(state.journal)
  end

  # There may be any number of names that are no atoms.
  defp stopped(%{options: %{name: name} = options, number: number}) do
    Subscribers.stopped(name, number)

    if not is_atom(name) and Operations.receivers(options, number) == [],
      do: Subscribers.forget_last_notice(name, number)
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

  ## Bases

  defp write_base_if_due(state) do
    source = {state.rules, state.text, state.kept, state.new}
    %{state | journal: Journal.Owner.write_base_if_due(state.journal, source, 0)}
  end
end

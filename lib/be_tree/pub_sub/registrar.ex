defmodule BeTree.PubSub.Registrar do
  @moduledoc false
  # The process that makes and ends subscriptions. It monitors the subscribers.
  #
  # A subscription that ends loses its rows at once, so no later publish sends for it. Its expression leaves the index afterwards,
  # together with others. A process that ends, or ends all of its subscriptions, is forgotten with one write to its account
  # (BeTree.PubSub.Credit), and its rows are deleted in parts.
  #
  # New subscriptions whose requests are in the mailbox already enter the index in one change.
  #
  # This process may be killed at any moment. The tables (BeTree.PubSub.Table) say what the next one must settle, and a caller sends
  # its request again, with the same id.

  use BeTree.Processes.Server

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Processes.Deadline
  alias BeTree.PubSub.{Credit, Disconnected, Index, Table}

  # Subscriptions that enter, or leave, the index in one change. More than 1,000 would make a new base of the index at once.
  @max_inserted 100
  @max_deleted 500

  # Milliseconds before a request is sent again.
  @pause 5

  @enforce_keys [:table]
  defstruct @enforce_keys ++ [inserts: [], deletes: [], leaving: [], is_working: false]

  @typedoc """
    * `:inserts` - the requests and callers of new subscriptions, last one first;
    * `:deletes` - ids without rows, which the index may have;
    * `:leaving` - processes whose subscriptions end;
    * `:is_working` - whether the message by which this process works on these is on its way.
  """
  @type t :: %__MODULE__{}

  @type request :: %{
          wire: BeTree.Input.Subscription.wire(),
          pid: pid,
          tag: term,
          why: boolean,
          limit: pos_integer | nil,
          overflow: :drop_new | :disconnect | nil,
          waiting: non_neg_integer
        }

  @spec start_link(Table.t()) :: GenServer.on_start()
  def start_link(table), do: GenServer.start_link(__MODULE__, table)

  @doc "Makes a subscription."
  @spec subscribe(Table.t(), request, timeout) :: :ok | {:error, Error.t()}
  def subscribe(table, %{wire: {id, _text, _constants}} = request, timeout) do
    with {:error, %Error{kind: :timeout}} = error <- call(table, {:subscribe, request}, Deadline.new(timeout), timeout) do
      # The request may still be in the mailbox, ahead of this one.
      cast(table, {:unsubscribe, id})
      error
    end
  end

  @doc "Ends the subscription with this id, if there is one."
  @spec unsubscribe(Table.t(), pos_integer, timeout) :: :ok | {:error, Error.t()}
  def unsubscribe(table, id, timeout), do: call(table, {:unsubscribe, id}, Deadline.new(timeout), timeout)

  @doc "Ends all subscriptions of a process."
  @spec leave(Table.t(), pid, timeout) :: :ok | {:error, Error.t()}
  def leave(table, pid, timeout), do: call(table, {:leave, pid}, Deadline.new(timeout), timeout)

  @doc "Ends all subscriptions of a process that has this account, and tells it."
  @spec disconnect(Table.t(), pid, Credit.t()) :: :ok
  def disconnect(table, pid, credit), do: cast(table, {:disconnect, pid, credit})

  defp cast(table, request) do
    GenServer.cast(Table.process(table.name, :registrar), request)
  rescue
    # The pubsub has ended, and its table with it.
    ArgumentError -> :ok
  end

  # All requests can be repeated.
  defp call(%{name: name} = table, request, deadline, timeout) do
    GenServer.call(Table.process(name, :registrar), request, Deadline.left(deadline))
  rescue
    ArgumentError -> Table.missing(table.name)
  catch
    :exit, {:timeout, _call} -> late(table, timeout)
    :exit, {_ended, _call} -> call_later(table, request, deadline, timeout)
  end

  defp call_later(table, request, deadline, timeout) do
    # A pubsub of the same name that was started meanwhile has other tables.
    case Table.fetch(table.name) do
      {:ok, ^table} ->
        Process.sleep(@pause)
        if Deadline.passed?(deadline), do: late(table, timeout), else: call(table, request, deadline, timeout)

      _ended ->
        Table.missing(table.name)
    end
  end

  defp late(table, timeout) do
    {:error, %Error{kind: :timeout, message: "#{Describe.value(table.name)} did not reply within #{timeout} ms"}}
  end

  ## Callbacks

  @impl GenServer
  def init(table) do
    {:ok, %__MODULE__{table: table}, {:continue, :settle}}
  end

  # Continues where the process before ended.
  @impl GenServer
  def handle_continue(:settle, %{table: table} = state) do
    for {pid, credit, _monitor} <- :ets.tab2list(table.subscribers),
        do: :ets.insert(table.subscribers, {pid, credit, Process.monitor(pid)})

    leaving = for {pid, credit, _monitor} <- :ets.tab2list(table.subscribers), Credit.forgotten?(credit), do: pid
    {kept, dropped} = Enum.split_with(:ets.tab2list(table.intents), fn {id} -> Table.committed?(table, id) end)
    wires = for {id} <- kept, wire <- :ets.lookup(table.texts, id), do: wire
    for part <- Enum.chunk_every(wires, @max_inserted), do: Index.repeat(table, part)
    for {id} <- kept, do: :ets.delete(table.intents, id)
    pids = for {id} <- dropped, pid = Table.delete(table, id), uniq: true, do: pid
    for pid <- pids, do: discharge(state, pid)
    # Before the first request: a caller repeats its request with an id that this may delete.
    state = delete_all(%{state | deletes: for({id} <- dropped, do: id), leaving: leaving})
    # Requests wait for this. A caller finds the process of before until then, and asks again.
    Table.put_process(table, :registrar)
    {:noreply, work(state)}
  end

  @impl GenServer
  def handle_call({:subscribe, %{wire: {id, _text, _constants}} = request}, from, %{table: table} = state) do
    # A caller repeats its request when the process before was killed.
    if Table.committed?(table, id),
      do: {:reply, :ok, state},
      else: {:noreply, work(%{state | inserts: [{request, from} | state.inserts]})}
  end

  def handle_call({:unsubscribe, id}, _from, state), do: {:reply, :ok, unsubscribed(state, id)}

  def handle_call({:leave, pid}, _from, state), do: {:reply, :ok, left(state, pid)}
  def handle_call(call, from, state), do: super(call, from, state)

  @impl GenServer
  def handle_cast({:unsubscribe, id}, state) do
    inserts = Enum.reject(state.inserts, fn {%{wire: {of, _text, _constants}}, _from} -> of == id end)
    {:noreply, unsubscribed(%{state | inserts: inserts}, id)}
  end

  def handle_cast({:disconnect, pid, credit}, %{table: table} = state) do
    case :ets.lookup(table.subscribers, pid) do
      [{_pid, ^credit, _monitor}] ->
        unless Credit.forgotten?(credit),
          do: send(pid, %Disconnected{pubsub: table.name, dropped: Credit.take_dropped(credit)})

        {:noreply, left(state, pid)}

      _another_or_none ->
        {:noreply, state}
    end
  end

  def handle_cast(cast, state), do: super(cast, state)

  @impl GenServer
  def handle_info(:work, state) do
    state = insert(%{state | is_working: false})
    {:noreply, state |> leave_in_part() |> delete() |> continue()}
  end

  def handle_info({:DOWN, _monitor, :process, pid, _reason}, state), do: {:noreply, left(state, pid)}

  def handle_info(message, state), do: super(message, state)

  # Requests that are in the mailbox already join the work.
  defp work(%{is_working: true} = state), do: state

  defp work(state) do
    send(self(), :work)
    %{state | is_working: true}
  end

  defp continue(%{inserts: [], leaving: [], deletes: []} = state), do: state
  defp continue(state), do: work(state)

  ## New subscriptions

  defp insert(%{inserts: []} = state), do: state

  defp insert(%{table: table, inserts: inserts} = state) do
    # The first requests are the last ones of the list.
    {later, entries} = Enum.split(inserts, max(length(inserts) - @max_inserted, 0))
    entries = Enum.reverse(entries)
    state = Enum.reduce(entries, %{state | inserts: later}, fn {request, _from}, state -> enrol(state, request) end)
    wires = for {%{wire: wire}, _from} <- entries, do: wire
    intents = for {id, _text, _constants} <- wires, do: {id}
    :ets.insert(table.intents, intents)
    generation = Table.generation(table)
    {_accepted, refused} = Index.insert(table, wires)
    refused = Map.new(refused)
    {entries, failed} = Enum.split_with(entries, fn {%{wire: {id, _, _}}, _from} -> not is_map_key(refused, id) end)
    for {request, _from} <- entries, do: put(table, request)
    # The index began with the texts before these were there.
    if Table.generation(table) != generation, do: Index.repeat(table, for({%{wire: wire}, _from} <- entries, do: wire))
    for {id} <- intents, do: :ets.delete(table.intents, id)
    for {%{pid: pid}, _from} <- failed, do: discharge(state, pid)
    for {_request, from} <- entries, do: GenServer.reply(from, :ok)
    for {%{wire: {id, _, _}}, from} <- failed, do: GenServer.reply(from, {:error, Map.fetch!(refused, id)})
    state
  end

  # Opens the account of a process, if it has none.
  defp enrol(%{table: table} = state, %{pid: pid, limit: limit, overflow: overflow} = request) do
    case :ets.lookup(table.subscribers, pid) do
      [] ->
        credit = Credit.new(limit || table.limit, overflow || table.overflow, request.waiting)
        :ets.insert(table.subscribers, {pid, credit, Process.monitor(pid)})
        state

      [{_pid, credit, _monitor}] ->
        if Credit.forgotten?(credit) do
          state |> leave_wholly(pid) |> enrol(request)
        else
          Credit.set(credit, limit, overflow)
          state
        end
    end
  end

  defp put(table, %{wire: {id, text, constants}, pid: pid, tag: tag, why: why}) do
    [{_pid, credit, _monitor}] = :ets.lookup(table.subscribers, pid)
    Table.put(table, {id, pid, credit, tag, why}, text, constants)
  end

  ## Subscriptions that end

  defp unsubscribed(%{table: table} = state, id) do
    if :ets.member(table.rows, id), do: work(remove(state, [id])), else: state
  end

  # Deletes the rows of subscriptions. The index follows.
  defp remove(%{table: table} = state, ids) do
    :ets.insert(table.intents, for(id <- ids, do: {id}))
    pids = for id <- ids, pid = Table.delete(table, id), uniq: true, do: pid
    for pid <- pids, do: discharge(state, pid)
    %{state | deletes: ids ++ state.deletes}
  end

  # Closes the account of a process without subscriptions.
  defp discharge(%{table: table}, pid) do
    if Table.ids(table, pid, 1) == [] do
      for {_pid, credit, monitor} <- :ets.take(table.subscribers, pid) do
        Credit.forget(credit)
        Process.demonitor(monitor, [:flush])
      end
    end

    :ok
  end

  # Ends the subscriptions of a process. The account tells publishers and the next registrar.
  defp left(%{table: table} = state, pid) do
    case :ets.lookup(table.subscribers, pid) do
      [{_pid, credit, _monitor}] ->
        Credit.forget(credit)
        work(%{state | leaving: [pid | state.leaving]})

      [] ->
        state
    end
  end

  # The process may have left before, and may have come back.
  defp leave_in_part(%{leaving: []} = state), do: state

  defp leave_in_part(%{table: table, leaving: [pid | others], deletes: deletes} = state) do
    room = @max_deleted - length(deletes)

    cond do
      room <= 0 -> state
      not has_left?(table, pid) -> leave_in_part(%{state | leaving: others})
      true -> state |> remove_some(pid, room) |> leave_in_part()
    end
  end

  defp leave_wholly(%{table: table} = state, pid) do
    if has_left?(table, pid), do: state |> remove_some(pid, @max_deleted) |> leave_wholly(pid), else: state
  end

  # Removes at most `count` subscriptions of a process that has left, and its account with the last one.
  defp remove_some(%{table: table} = state, pid, count) do
    state = remove(state, Table.ids(table, pid, count))
    discharge(state, pid)
    state
  end

  defp has_left?(%{subscribers: subscribers}, pid) do
    case :ets.lookup(subscribers, pid) do
      [{_pid, credit, _monitor}] -> Credit.forgotten?(credit)
      [] -> false
    end
  end

  defp delete_all(%{deletes: []} = state), do: state
  defp delete_all(state), do: state |> delete() |> delete_all()

  defp delete(%{deletes: []} = state), do: state

  defp delete(%{table: table, deletes: deletes} = state) do
    {now, later} = Enum.split(deletes, @max_deleted)
    Index.delete(table, now)
    for id <- now, do: :ets.delete(table.intents, id)
    %{state | deletes: later}
  end
end

defmodule BeTree.PubSub.Gauge do
  @moduledoc false
  # Closes the accounts of subscribers that reached their limit, and opens them again once at most half of the limit waits. A process
  # for each of these subscribers looks at its mailbox, so one that does not reply delays no other. With `overflow: :disconnect` that
  # process tells the registrar, which forgets the subscriber.
  #
  # A publisher that finds a mailbox full tells this process. If the message is lost with the process, the account stays open, and the
  # next publisher looks.

  use BeTree.Processes.Server

  alias BeTree.PubSub.{Credit, Registrar, Table}
  alias BeTree.Telemetry

  # Milliseconds between two looks.
  @first_pause 1
  @max_pause 50

  @enforce_keys [:table]
  defstruct @enforce_keys ++ [watchers: %{}]

  @spec start_link(Table.t()) :: GenServer.on_start()
  def start_link(table), do: GenServer.start_link(__MODULE__, table)

  @doc "Tells the gauge that the mailbox of a subscriber is full."
  @spec full(atom, pid, Credit.t(), non_neg_integer | :unknown) :: :ok
  def full(name, pid, credit, waiting) do
    with gauge when is_pid(gauge) <- Table.process(name, :gauge),
         do: GenServer.cast(gauge, {:full, pid, credit, waiting})

    :ok
  rescue
    # The pubsub has ended, and its table with it.
    ArgumentError -> :ok
  end

  @impl GenServer
  def init(table) do
    # Publishers look for themselves until this process has closed an account.
    Process.flag(:priority, :high)
    Process.flag(:trap_exit, true)
    Table.put_process(table, :gauge)
    subscribers = :ets.tab2list(table.full)
    {:ok, Enum.reduce(subscribers, %__MODULE__{table: table}, fn {pid, credit}, state -> watch(state, pid, credit) end)}
  end

  @impl GenServer
  def handle_cast({:full, pid, credit, waiting}, %{table: table} = state) do
    # A process that was forgotten and has come back has another account.
    if :ets.lookup(table.full, pid) == [{pid, credit}] do
      {:noreply, state}
    else
      :ets.insert(table.full, {pid, credit})
      Credit.close(credit)
      emit(:full, if(is_integer(waiting), do: %{waiting: waiting}, else: %{}), pid, table)
      {:noreply, watch(state, pid, credit)}
    end
  end

  def handle_cast(cast, state), do: super(cast, state)

  @impl GenServer
  def handle_info({:EXIT, watcher, reason}, %{watchers: watchers} = state) when is_map_key(watchers, watcher) do
    {{pid, credit} = row, watchers} = Map.pop!(watchers, watcher)
    state = %{state | watchers: watchers}

    case reason do
      {:shutdown, {:drained, waiting}} ->
        :ets.delete_object(state.table.full, row)
        Credit.open(credit, waiting)
        emit(:recovered, %{waiting: waiting}, pid, state.table)
        {:noreply, state}

      {:shutdown, :gone} ->
        :ets.delete_object(state.table.full, row)
        {:noreply, state}

      _killed ->
        {:noreply, watch(state, pid, credit)}
    end
  end

  def handle_info(message, state), do: super(message, state)

  defp emit(event, measurements, pid, %{name: name}),
    do: Telemetry.event([:pub_sub, event], measurements, %{pubsub: name, process: pid})

  defp watch(%{table: table} = state, pid, credit) do
    watcher = spawn_link(fn -> look(table, pid, credit, @first_pause) end)
    put_in(state.watchers[watcher], {pid, credit})
  end

  defp look(table, pid, credit, pause) do
    # Repeated, because the registrar may have been killed.
    if Credit.overflow(credit) == :disconnect, do: Registrar.disconnect(table, pid, credit)
    waiting = if not Credit.forgotten?(credit), do: Credit.length_of(pid)

    cond do
      waiting == nil -> exit({:shutdown, :gone})
      waiting <= div(Credit.limit(credit), 2) -> exit({:shutdown, {:drained, waiting}})
      true -> Process.sleep(pause)
    end

    look(table, pid, credit, min(2 * pause, @max_pause))
  end
end

defmodule BeTree.Runtime.Wasmex.Checkout do
  @moduledoc false
  # A lease of machines, in groups: each machine is lent to one process at a time, and other processes queue in order.
  #
  # A row of the table is a machine in use, {{group, number}, holder, call, contended}. The process that inserts the row
  # holds the machine, and deleting the row releases it. `call` is 0 while the holder runs, and the number of the call
  # while it is suspended. While no process waits, no message is sent. This process alone sets `contended`, for the
  # machines of a group that another process waits for. A contended machine is returned to this process, which passes it
  # on. It monitors the holders of contended machines and the waiting processes.
  #
  # A group is a reference. Nothing here keeps a machine alive or uses one.

  use BeTree.Processes.Server

  @table __MODULE__

  # The interval of the sweep for rows whose holder died while no process waited. A process that finds such a row need not
  # wait for the sweep.
  @sweep_interval_ms 10_000

  @type group :: reference

  @doc """
  Takes a machine of a group, numbered from 0 to `count` - 1. If none is free, the function waits up to `timeout`
  milliseconds. It returns `:full` if `limit` processes wait already, and `:held` if the caller itself holds all machines
  by suspended calls.
  """
  @spec check_out(group, pos_integer, timeout, non_neg_integer | :infinity) ::
          {:ok, non_neg_integer} | :held | :full | :timeout
  def check_out(group, count, timeout, limit) do
    case claim(group, count) do
      nil -> wait(group, count, timeout, limit)
      number -> {:ok, number}
    end
  rescue
    # Creates the table at its first use.
    ArgumentError ->
      start()
      check_out(group, count, timeout, limit)
  end

  # Takes the first free machine, so that machines which were used before are used again.
  defp claim(group, count) do
    Enum.find(0..(count - 1), &:ets.insert_new(@table, {{group, &1}, self(), 0, false}))
  end

  defp start do
    case GenServer.start(__MODULE__, [], name: __MODULE__) do
      {:ok, _pid} -> :ok
      {:error, {:already_started, _pid}} -> :ok
    end
  end

  defp wait(group, count, timeout, limit) do
    reference = Process.monitor(__MODULE__)
    send(__MODULE__, {:wait, {self(), reference}, group, count, limit})

    receive do
      {^reference, reply} ->
        Process.demonitor(reference, [:flush])
        reply

      {:DOWN, ^reference, :process, _pid, _reason} ->
        check_out(group, count, timeout, limit)
    after
      timeout -> withdraw(group, reference)
    end
  end

  # The turn may have come meanwhile.
  defp withdraw(group, reference) do
    GenServer.call(__MODULE__, {:withdraw, group, reference}, :infinity)
    Process.demonitor(reference, [:flush])

    receive do
      {^reference, {:ok, number}} -> check_in(group, number)
    after
      0 -> :ok
    end

    :timeout
  end

  @doc "Releases a machine that the calling process holds."
  @spec check_in(group, non_neg_integer) :: :ok
  def check_in(group, number) do
    case :ets.select_delete(@table, [{{{group, number}, self(), :_, false}, [], [true]}]) do
      1 -> :ok
      0 -> send(__MODULE__, {:left, group, number, self()})
    end

    :ok
  end

  @doc "Marks the caller's machine as held by a suspended call."
  @spec suspend(group, non_neg_integer, pos_integer) :: :ok
  def suspend(group, number, call) do
    :ets.update_element(@table, {group, number}, {3, call})
    :ok
  end

  @doc "Takes the machine of a suspended call, for any process. Returns false if the call is gone."
  @spec resume(group, non_neg_integer, pos_integer) :: boolean
  def resume(group, number, call) do
    key = {group, number}
    resumed = {{{:const, key}, {:const, self()}, 0, :"$1"}}

    case :ets.select_replace(@table, [{{key, :_, call, :"$1"}, [], [resumed]}]) do
      1 ->
        # The holder is monitored if another process waits.
        if :ets.lookup_element(@table, key, 4), do: send(__MODULE__, {:moved, group, number})
        true

      0 ->
        false
    end
  end

  @doc "Returns the states of the machines of a group, and the number of waiting processes."
  @spec status(group, pos_integer) :: {:free | :running | :suspended, non_neg_integer}
  def status(group, count) do
    rows = for number <- 0..(count - 1), row <- :ets.lookup(@table, {group, number}), do: row

    state =
      cond do
        length(rows) < count -> :free
        Enum.all?(rows, fn {_key, _holder, call, _contended} -> call > 0 end) -> :suspended
        true -> :running
      end

    contended? = Enum.any?(rows, fn {_key, _holder, _call, contended} -> contended end)
    {state, if(contended?, do: GenServer.call(__MODULE__, {:waiting, group}, :infinity), else: 0)}
  rescue
    # The table exists after the first call.
    ArgumentError -> {:free, 0}
  end

  defmodule Group do
    @moduledoc false
    # A group with waiting processes. `queue` has the references of those processes, in order, and of some that no longer
    # wait. `waiting` has those that still wait, each with its monitor. `holders` has the monitor of each machine's
    # holder.

    @enforce_keys [:count]
    defstruct [:count, queue: :queue.new(), waiting: %{}, holders: %{}]
  end

  # The state: the groups with waiting processes, and the purpose of each monitor.
  @impl GenServer
  def init([]) do
    :ets.new(@table, [:named_table, :public, read_concurrency: true, write_concurrency: true])
    sweep_later()
    {:ok, %{groups: %{}, monitors: %{}}}
  end

  @impl GenServer
  def handle_call({:withdraw, group, reference}, _from, state), do: {:reply, :ok, remove(state, group, reference)}
  def handle_call({:waiting, group}, _from, state), do: {:reply, waiting(state, group), state}
  def handle_call(call, from, state), do: super(call, from, state)

  @impl GenServer
  def handle_info({:wait, {pid, _reference} = waiter, group, count, limit}, state) do
    number = contend(group, count, pid)

    cond do
      number != nil ->
        GenServer.reply(waiter, {:ok, number})
        {:noreply, state}

      all_suspended_by?(group, count, pid) ->
        GenServer.reply(waiter, :held)
        {:noreply, state}

      # No number is greater than an atom.
      waiting(state, group) >= limit ->
        GenServer.reply(waiter, :full)
        {:noreply, state}

      true ->
        {:noreply, append(state, group, count, waiter)}
    end
  end

  def handle_info({:left, group, number, pid}, state), do: {:noreply, take_over(state, group, number, pid)}
  def handle_info({:moved, group, number}, state), do: {:noreply, watch(state, group, number)}

  def handle_info({:DOWN, monitor, :process, pid, _reason}, state) do
    case pop_in(state.monitors[monitor]) do
      {{:holder, group, number}, state} -> {:noreply, take_over(state, group, number, pid)}
      {{:waiter, group, reference}, state} -> {:noreply, remove(state, group, reference)}
      {nil, state} -> {:noreply, state}
    end
  end

  def handle_info(:sweep, state) do
    for {{group, number}, holder, _call, false} <- :ets.tab2list(@table), not Process.alive?(holder) do
      :ets.select_delete(@table, [{{{group, number}, holder, :_, false}, [], [true]}])
    end

    sweep_later()
    {:noreply, state}
  end

  def handle_info(message, state), do: super(message, state)

  defp sweep_later, do: Process.send_after(self(), :sweep, @sweep_interval_ms)

  # Takes a machine for `pid` if one is free. Otherwise marks all as contended. While other processes wait, none is free.
  defp contend(group, count, pid), do: Enum.find(0..(count - 1), &contend_for({group, &1}, pid))

  defp contend_for(key, pid) do
    cond do
      :ets.insert_new(@table, {key, pid, 0, true}) -> true
      :ets.update_element(@table, key, {4, true}) -> false
      # The machine was released just now.
      true -> contend_for(key, pid)
    end
  end

  defp all_suspended_by?(group, count, pid) do
    Enum.all?(0..(count - 1), fn number ->
      match?([{_key, ^pid, call, _contended}] when call > 0, :ets.lookup(@table, {group, number}))
    end)
  end

  # Takes the machine from `holder` and passes it on, unless another process has it by now.
  defp take_over(state, group, number, holder) do
    key = {group, number}
    mine = {{{:const, key}, {:const, self()}, 0, true}}

    case :ets.select_replace(@table, [{{key, holder, :_, :_}, [], [mine]}]) do
      1 -> hand_on(state, group, number)
      0 -> watch(state, group, number)
    end
  end

  defp hand_on(state, group, number) do
    case pop(state, group) do
      {nil, state} ->
        :ets.delete(@table, {group, number})
        state

      {{pid, _reference} = waiter, state} ->
        :ets.insert(@table, {{group, number}, pid, 0, waiting(state, group) > 0})
        GenServer.reply(waiter, {:ok, number})
        watch(state, group, number)
    end
  end

  defp waiting(%{groups: groups}, group) do
    case groups do
      %{^group => %Group{waiting: waiting}} -> map_size(waiting)
      %{} -> 0
    end
  end

  defp append(state, group, count, {pid, reference} = waiter) do
    {monitor, state} = monitor(state, pid, {:waiter, group, reference})
    known? = is_map_key(state.groups, group)
    held = Map.get(state.groups, group, %Group{count: count})

    held = %{
      held
      | queue: :queue.in(reference, held.queue),
        waiting: Map.put(held.waiting, reference, {waiter, monitor})
    }

    state = put_in(state.groups[group], held)
    if known?, do: state, else: Enum.reduce(0..(count - 1), state, &watch(&2, group, &1))
  end

  # Returns the first waiting process, which then waits no longer.
  defp pop(state, group) do
    with %{^group => held} <- state.groups,
         {{:value, reference}, queue} <- :queue.out(held.queue) do
      state = put_in(state.groups[group].queue, queue)

      case held.waiting do
        %{^reference => {waiter, _monitor}} -> {waiter, remove(state, group, reference)}
        %{} -> pop(state, group)
      end
    else
      _nobody -> {nil, state}
    end
  end

  defp remove(state, group, reference) do
    case state.groups do
      %{^group => %Group{waiting: %{^reference => {_waiter, monitor}} = waiting} = held} ->
        state = forget(state, monitor)
        left = Map.delete(waiting, reference)

        if left == %{} do
          Enum.reduce(held.holders, %{state | groups: Map.delete(state.groups, group)}, fn {_number, monitor}, state ->
            forget(state, monitor)
          end)
        else
          put_in(state.groups[group].waiting, left)
        end

      %{} ->
        state
    end
  end

  # Monitors the holder of a contended machine.
  defp watch(state, group, number) do
    case state.groups do
      %{^group => %Group{holders: holders}} ->
        state = if monitor = holders[number], do: forget(state, monitor), else: state

        case :ets.lookup(@table, {group, number}) do
          [{_key, holder, _call, _contended}] ->
            {monitor, state} = monitor(state, holder, {:holder, group, number})
            put_in(state.groups[group].holders[number], monitor)

          # Only this process releases a contended machine.
          [] ->
            state
        end

      %{} ->
        state
    end
  end

  defp monitor(state, pid, purpose) do
    monitor = Process.monitor(pid)
    {monitor, put_in(state.monitors[monitor], purpose)}
  end

  defp forget(state, monitor) do
    Process.demonitor(monitor, [:flush])
    %{state | monitors: Map.delete(state.monitors, monitor)}
  end
end

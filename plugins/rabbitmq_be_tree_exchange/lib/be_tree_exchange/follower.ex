defmodule BeTreeExchange.Follower do
  @moduledoc false
  # The process that follows the broker's store on this node. It starts and ends the indexes of exchanges, and sends them the
  # changes of their bindings. It never waits for an index, so that the events of the store do not pile up.

  use GenServer

  import BeTreeExchange.Records

  alias BeTreeExchange.{Config, Index, Prometheus, Readiness, Records, Store, Table}

  @type_name :"x-be-tree"
  # Milliseconds between two looks at the store for exchanges that were deleted on another node, which Khepri does not report.
  @sweep 5_000

  @spec start_link(term) :: GenServer.on_start()
  def start_link(_arguments), do: GenServer.start_link(__MODULE__, [], name: __MODULE__)

  @doc """
  Returns the process of the index of an exchange, which is started if there is none, or the reason for which there is none. Waits up to
  `timeout` milliseconds.
  """
  @spec ensure(Records.exchange(), timeout) :: {:ok, pid} | {:error, :not_running | :timeout | String.t()}
  def ensure(exchange, timeout) do
    GenServer.call(__MODULE__, {:ensure, exchange}, timeout)
  catch
    :exit, {:timeout, _call} -> {:error, :timeout}
    :exit, _not_running -> {:error, :not_running}
  end

  @doc "Returns after all events of Mnesia that this node has sent by now have reached the indexes."
  @spec flush() :: :ok
  def flush, do: GenServer.call(__MODULE__, :flush, :infinity)

  @doc "Returns whether the plugin has started."
  @spec running?() :: boolean
  def running?, do: Process.whereis(__MODULE__) != nil

  @doc "Ends the index of an exchange that this node deleted."
  @spec deleted(Records.name()) :: :ok
  def deleted(name), do: GenServer.cast(__MODULE__, {:deleted, name})

  @doc "Ends the index of an exchange. The next publish starts it again, if the exchange exists."
  @spec forget(Records.name()) :: :ok
  def forget(name), do: GenServer.call(__MODULE__, {:forget, name}, :infinity)

  @doc "Gives the index of an exchange another configuration."
  @spec reconfigure(Records.exchange()) :: :ok
  def reconfigure(exchange), do: GenServer.cast(__MODULE__, {:reconfigure, exchange})

  @impl GenServer
  def init([]) do
    # Without the process of the subscriptions their events are lost: then all indexes begin anew.
    Process.flag(:trap_exit, true)
    Table.clear()
    Store.subscribe()
    if pid = Process.whereis(:mnesia_subscr), do: Process.monitor(pid)
    Process.send_after(self(), :sweep, @sweep)
    state = Enum.reduce(Store.exchanges(@type_name), %{pids: %{}, names: %{}}, &start(&2, &1))
    Readiness.started()
    {:ok, state}
  end

  @impl GenServer
  def handle_call({:ensure, exchange(name: name, arguments: arguments) = exchange}, _from, state) do
    state =
      case state.pids do
        %{^name => {pid, ^arguments, _slot}} ->
          if Process.alive?(pid), do: state, else: state |> stop(name) |> start(exchange)

        %{^name => _other_exchange} ->
          state |> stop(name) |> start(exchange)

        _none ->
          start(state, exchange)
      end

    case state.pids do
      %{^name => {pid, _arguments, _slot}} -> {:reply, {:ok, pid}, state}
      _refused -> {:reply, {:error, "its arguments are refused"}, state}
    end
  end

  def handle_call({:forget, name}, _from, state), do: {:reply, :ok, stop(state, name)}
  def handle_call(:flush, _from, state), do: {:reply, :ok, state}

  @impl GenServer
  def handle_cast({:deleted, name}, state), do: {:noreply, stop_unless_present(state, name)}
  def handle_cast({:reconfigure, exchange}, state), do: {:noreply, put(state, exchange)}

  @impl GenServer
  def handle_info({:mnesia_table_event, event}, state), do: {:noreply, follow(event, state)}

  # The next publish or sweep starts it again.
  def handle_info({:EXIT, pid, _reason}, %{names: names} = state) when is_map_key(names, pid) do
    {:noreply, forget(state, Map.fetch!(names, pid))}
  end

  def handle_info({:DOWN, _monitor, :process, _mnesia, _reason}, state), do: {:stop, :store_ended, state}

  def handle_info(:sweep, state) do
    Process.send_after(self(), :sweep, @sweep)
    Prometheus.register()
    exchanges = Store.exchanges(@type_name)
    present = MapSet.new(exchanges, &exchange(&1, :name))
    state = state.pids |> Map.keys() |> Enum.reject(&(&1 in present)) |> Enum.reduce(state, &stop(&2, &1))
    {:noreply, Enum.reduce(exchanges, state, &put(&2, &1))}
  end

  def handle_info(_other, state), do: {:noreply, state}

  defp follow({:write, {:rabbit_route, binding, _value}, _activity}, state), do: tell(state, {:put, binding})
  defp follow({:delete, {:rabbit_route, binding}, _activity}, state), do: tell(state, {:delete, binding})

  defp follow({:delete_object, {:rabbit_route, binding, _value}, _activity}, state),
    do: tell(state, {:delete, binding})

  defp follow({:delete, {:rabbit_exchange, name}, _activity}, state), do: stop(state, name)

  # Events have the name of the table in the place of the record's.
  defp follow({:write, record, _activity}, state) when elem(record, 0) == :rabbit_exchange,
    do: put(state, put_elem(record, 0, :exchange))

  defp follow(_other, state), do: state

  defp tell(state, {_operation, binding} = change) do
    name = binding_record(binding, :source)
    with %{^name => {pid, _arguments, _slot}} <- state.pids, do: Index.changed(pid, change)
    state
  end

  # A new exchange, or another policy of one.
  defp put(state, exchange(type: @type_name, name: name, arguments: arguments) = exchange) do
    case state.pids do
      %{^name => {pid, ^arguments, _slot}} -> configure(state, pid, exchange)
      %{^name => _other_exchange} -> state |> stop(name) |> start(exchange)
      _none -> start(state, exchange)
    end
  end

  defp put(state, _of_another_type), do: state

  defp configure(state, pid, exchange) do
    with {:ok, config} <- Config.read(exchange), do: send(pid, {:config, config})
    state
  end

  defp start(state, exchange(name: name, arguments: arguments) = exchange) do
    slot = free_slot(state)

    with {:ok, config} <- Config.read(exchange),
         {:ok, pid} <- Index.start_link({exchange, config, server(slot)}) do
      %{state | pids: Map.put(state.pids, name, {pid, arguments, slot}), names: Map.put(state.names, pid, name)}
    else
      # `validate` refuses such an exchange; an import of definitions may bring one.
      {:error, _reason} -> state
    end
  end

  # A server's name is an atom, which is never freed. So a new server takes the lowest free number.
  defp free_slot(state) do
    used = MapSet.new(state.pids, fn {_name, {_pid, _arguments, slot}} -> slot end)
    Enum.find(Stream.iterate(1, &(&1 + 1)), &(&1 not in used))
  end

  defp server(slot), do: :"rabbit_be_tree_server_#{slot}"

  # An exchange of the same name may have been declared since.
  defp stop_unless_present(state, name) do
    case Store.fetch(name) do
      {:ok, exchange} -> put(state, exchange)
      {:error, :not_found} -> stop(state, name)
    end
  end

  defp stop(state, name) do
    with %{^name => {pid, _arguments, _slot}} <- state.pids do
      Table.delete(name)
      Process.unlink(pid)
      # Ends it at once, because it traps no exits, and its server without an error in the broker's log.
      Process.exit(pid, :shutdown)
      wait_for_end(pid)
      forget(state, name)
    else
      _none -> state
    end
  end

  # The name of its server is free when it has ended.
  defp wait_for_end(pid) do
    monitor = Process.monitor(pid)

    receive do
      {:DOWN, ^monitor, :process, _pid, _reason} -> :ok
    end
  end

  defp forget(state, name) do
    Table.delete(name)
    {{pid, _arguments, _slot}, pids} = Map.pop!(state.pids, name)
    %{state | pids: pids, names: Map.delete(state.names, pid)}
  end
end

defmodule BeTreeExchange.Index do
  @moduledoc false
  # The index of an exchange on this node: a process that owns a server of expressions and follows the store.
  #
  # With Mnesia the follower sends it the changes of bindings. With Khepri it reads them from a table. Where changes are missing, it
  # compares all bindings of the store with its own.

  use GenServer, restart: :temporary

  import BeTreeExchange.Records

  alias BeTree.{Error, Server}
  alias BeTreeExchange.{Changes, Config, Counters, Destinations, Expression, Follower, Records, Store, Table}

  @enforce_keys [:name, :arguments, :config, :server, :destinations, :store, :last_change, :counters, :ids]
  defstruct @enforce_keys

  @spec start_link({Records.exchange(), Config.t(), atom}) :: GenServer.on_start()
  def start_link(start), do: GenServer.start_link(__MODULE__, start)

  # The changes that the first build hands to the server at once.
  @part 5_000

  # The number of the last change if it is unknown: stores number their changes otherwise.
  @unknown 0x7FFF_FFFF_FFFF_FFFF

  @doc """
  Waits up to `timeout` milliseconds until the index has the bindings that the store has now. Returns `{:error, :ended}` if the index
  ended, because its exchange was deleted or its process failed, or `{:error, :timeout}`.
  """
  @spec settle(pid, timeout) :: :ok | {:error, :ended | :timeout}
  def settle(pid, timeout) do
    GenServer.call(pid, :settle, timeout)
  catch
    :exit, {:timeout, _call} -> {:error, :timeout}
    :exit, _ended -> {:error, :ended}
  end

  @doc "Waits for the end of an index whose server has ended, but no longer than `timeout` milliseconds."
  @spec await_end(pid, timeout) :: true
  def await_end(pid, timeout) do
    monitor = Process.monitor(pid)

    receive do
      {:DOWN, ^monitor, :process, _pid, _reason} -> true
    after
      timeout -> Process.demonitor(monitor, [:flush])
    end
  end

  @doc "Lets the index take the bindings that the store has now, without waiting for it."
  @spec settle_later(pid) :: :settle
  def settle_later(pid), do: send(pid, :settle)

  @doc "Tells the index that a binding was added or removed."
  @spec changed(pid, {:put | :delete, Records.binding()}) :: term
  def changed(pid, change), do: send(pid, {:change, change})

  @impl GenServer
  def init({exchange(name: name, arguments: arguments), config, server}) do
    state = %__MODULE__{
      name: name,
      arguments: arguments,
      config: config,
      server: server,
      destinations: Destinations.new(),
      store: nil,
      last_change: :atomics.new(1, signed: true),
      counters: Counters.new(),
      ids: :ets.new(:rabbit_be_tree_ids, [:private])
    }

    # Building takes seconds with many bindings, and must hold neither the follower nor a channel.
    {:ok, state, {:continue, :build}}
  end

  @impl GenServer
  def handle_continue(:build, state) do
    %{config: config, server: server} = state
    wait_for_end(server)
    {:ok, _supervisor} = Server.start_link(name: server, schema: config.schema, memory: config.memory)
    :atomics.put(state.last_change, 1, @unknown)
    {time, state} = :timer.tc(fn -> settle_state(state) end)
    log_build(state, div(time, 1_000))
    {:noreply, state}
  end

  # Operators see here why a node that starts is not ready yet.
  defp log_build(state, milliseconds) do
    count = :ets.info(state.ids, :size)
    message = "x-be-tree: indexed #{count} bindings of #{describe(state.name)} in #{milliseconds} ms"
    :logger.info(~c"~ts", [message], %{domain: [:rabbitmq]})
  end

  # An earlier exchange may have had the name of this server.
  defp wait_for_end(server) do
    if pid = Process.whereis(server) do
      monitor = Process.monitor(pid)

      receive do
        {:DOWN, ^monitor, :process, _pid, _reason} -> :ok
      end
    end
  end

  @impl GenServer
  def handle_call(:settle, _from, state), do: {:reply, :ok, settle_if_due(state)}

  @impl GenServer
  # The index settles when a channel asks: a transaction of its own for each change would hold up those that make changes.
  def handle_info({:change, change}, state), do: {:noreply, apply_changes(state, [change | drain()])}
  def handle_info(:settle, state), do: {:noreply, settle_if_due(state)}

  def handle_info({:config, config}, state) do
    state = %{state | config: config}
    publish(state)
    {:noreply, state}
  end

  def handle_info(_other, state), do: {:noreply, state}

  defp publish(state) do
    row = Map.take(state, [:arguments, :config, :server, :store, :last_change, :counters])
    Table.put(state.name, Map.merge(row, %{pid: self(), destinations: state.destinations.table}))
  end

  # Many channels wait for the same change.
  defp settle_if_due(state), do: if(complete?(state), do: state, else: settle_state(state))

  defp complete?(state), do: :atomics.get(state.last_change, 1) == Store.last_change(state.store, state.name)

  # The number is read first: what the store has by then is in the changes that follow.
  defp settle_state(state) do
    state = apply_changes(state, drain())

    {store, last_change, changes} =
      case Store.settled_serial(state.name) do
        :khepri -> from_khepri(state)
        serial -> from_mnesia(state, serial)
      end

    state = if state.store, do: apply_changes(state, changes), else: fill(state, changes)
    :atomics.put(state.last_change, 1, last_change)
    followed(state, store)
  end

  defp followed(%{store: store} = state, store), do: state

  # The index is complete, or the broker has changed its store.
  defp followed(state, store) do
    state = %{state | store: store}
    publish(state)
    state
  end

  # All events are there after the first comparison: the follower subscribed to them before it started the index.
  defp from_mnesia(state, serial) do
    Follower.flush()
    changes = drain()
    {:mnesia, serial, if(state.store == :mnesia, do: changes, else: missing(state))}
  end

  defp from_khepri(state) do
    Changes.register()
    last = Changes.last_number(state.name)

    case Changes.since(state.name, last, :atomics.get(state.last_change, 1)) do
      {:ok, changes} ->
        {:khepri, last, changes}

      :gap ->
        # Khepri may fill the broker's table of bindings after that of changes.
        Store.await_tables(state.name)
        {:khepri, last || @unknown, missing(state)}
    end
  end

  # The changes that wait in the mailbox.
  defp drain do
    receive do
      {:change, change} -> [change | drain()]
    after
      0 -> []
    end
  end

  # The difference between the bindings of the store and those of the index.
  defp missing(state) do
    bindings = Store.bindings(state.name)
    added = for binding <- bindings, not :ets.member(state.ids, binding), do: {:put, binding}
    removed = if length(bindings) - length(added) < :ets.info(state.ids, :size), do: removed(state, bindings), else: []
    removed ++ added
  end

  defp removed(state, bindings) do
    bindings = MapSet.new(bindings)
    for {binding, _id} <- :ets.tab2list(state.ids), binding not in bindings, do: {:delete, binding}
  end

  # Applies the changes as one, so that a search sees all of them or none.
  defp apply_changes(state, changes) do
    plan = plan_all(state, changes)
    finish(state, plan, ask(state.server, texts(plan.puts), plan.deletes))
    state
  end

  # Applies the changes to an index that nobody searches yet, in parts: the server inserts one while this process plans the next. No
  # binding may be in two changes.
  defp fill(state, changes) do
    # Numbers of destinations, and with them ids, then ascend from part to part, which leaves the server less to sort.
    parts = changes |> Enum.sort_by(fn {_operation, binding} -> destination(binding) end) |> Enum.chunk_every(@part)
    parts |> Enum.reduce(nil, &start_part(state, &1, &2)) |> await_part(state)
    state
  end

  defp start_part(%{server: server} = state, changes, former) do
    plan = plan_all(state, changes)
    {puts, deletes} = {texts(plan.puts), plan.deletes}
    await_part(former, state)
    {plan, Task.async(fn -> ask(server, puts, deletes) end)}
  end

  defp await_part(nil, _state), do: :ok
  defp await_part({plan, change}, state), do: finish(state, plan, Task.await(change, :infinity))

  defp plan_all(state, changes) do
    plan = Enum.reduce(changes, %{puts: %{}, deletes: [], cancelled: []}, &plan(&1, &2, state))
    %{plan | puts: for({id, {binding, text}} <- Enum.sort(plan.puts), do: {id, text, binding})}
  end

  defp finish(state, plan, answer) do
    with {:error, error} <- answer, do: change_apart(state, plan.puts, plan.deletes, error)
    for id <- plan.cancelled ++ plan.deletes, do: Destinations.remove(state.destinations, id)
  end

  # The store may report a binding that was read from it before.
  defp plan({:put, binding}, plan, state) do
    with false <- :ets.member(state.ids, binding), {:ok, text} <- Expression.of(binding) do
      id = Destinations.add(state.destinations, destination(binding))
      :ets.insert(state.ids, {binding, id})
      put_in(plan.puts[id], {binding, text})
    else
      true -> plan
      {:error, reason} -> refuse(state, binding, reason, plan)
    end
  end

  defp plan({:delete, binding}, plan, state) do
    case :ets.take(state.ids, binding) do
      [{_binding, :refused}] -> plan
      [{_binding, id}] when is_map_key(plan.puts, id) -> cancel(plan, id)
      [{_binding, id}] -> %{plan | deletes: [id | plan.deletes]}
      [] -> plan
    end
  end

  defp cancel(plan, id), do: %{plan | puts: Map.delete(plan.puts, id), cancelled: [id | plan.cancelled]}

  defp destination(binding), do: binding_record(binding, :destination)
  defp texts(puts), do: for({id, text, _binding} <- puts, do: {id, text})

  defp change(state, puts, deletes) do
    with {:error, error} <- ask(state.server, texts(puts), deletes), do: change_apart(state, puts, deletes, error)
  end

  defp ask(_server, [], []), do: {:ok, %{put: 0, deleted: 0}}
  defp ask(server, puts, deletes), do: Server.change(server, put: puts, delete: deletes, timeout: :infinity)

  # A binding that the index refuses must not keep out the others. It was checked when it was bound, so it exceeds the memory or
  # the `count` of an attribute.
  defp change_apart(state, [{id, _text, binding}], [], %Error{} = error) do
    Destinations.remove(state.destinations, id)
    refuse(state, binding, error.message, :ok)
  end

  defp change_apart(state, [], deletes, _error) do
    for id <- deletes, do: Server.delete(state.server, id)
    :ok
  end

  defp change_apart(state, puts, deletes, _error) do
    {first, second} = Enum.split(puts, div(length(puts) + 1, 2))
    change(state, [], deletes)
    change(state, first, [])
    change(state, second, [])
  end

  defp refuse(state, binding, reason, outcome) do
    :ets.insert(state.ids, {binding, :refused})
    Counters.add(state.counters, :refused_bindings)

    Counters.log(state.counters, fn ->
      "x-be-tree: #{describe(state.name)} does not route to #{describe(destination(binding))}: #{reason}"
    end)

    outcome
  end
end

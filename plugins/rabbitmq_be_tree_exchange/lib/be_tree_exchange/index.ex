defmodule BeTreeExchange.Index do
  @moduledoc false
  # The index of an exchange on this node: a process that owns a server of expressions and follows the store.
  #
  # With Mnesia the follower sends it the changes of bindings. With Khepri it compares the bindings of the store with its own when
  # the serial number of the exchange has moved.

  use GenServer, restart: :temporary

  import BeTreeExchange.Records

  alias BeTree.{Error, Server}
  alias BeTreeExchange.{Config, Counters, Expression, Follower, Records, Store, Table}

  @enforce_keys [:name, :arguments, :config, :server, :destinations, :serial, :counters, :ids, :next]
  defstruct @enforce_keys

  @spec start_link({Records.exchange(), Config.t(), atom}) :: GenServer.on_start()
  def start_link(start), do: GenServer.start_link(__MODULE__, start)

  @doc """
  Waits until the index has the bindings that the store has now. Returns `:ok`, or `:error` if the index ended, because its exchange
  was deleted or its process failed.
  """
  @spec settle(pid) :: :ok | :error
  def settle(pid) do
    GenServer.call(pid, :settle, :infinity)
  catch
    :exit, _ended -> :error
  end

  @doc "Tells the index that bindings have changed. `change` is `{:put, binding}`, `{:delete, binding}` or `:serial`."
  @spec changed(pid, {:put | :delete, Records.binding()} | :serial) :: term
  def changed(pid, change), do: send(pid, {:change, change})

  @impl GenServer
  def init({exchange(name: name, arguments: arguments), config, server}) do
    state = %__MODULE__{
      name: name,
      arguments: arguments,
      config: config,
      server: server,
      destinations: :ets.new(:rabbit_be_tree_destinations, [:public, read_concurrency: true]),
      serial: :atomics.new(1, signed: false),
      counters: Counters.new(),
      ids: :ets.new(:rabbit_be_tree_ids, [:private]),
      next: 1
    }

    # Building takes seconds with many bindings, and must hold neither the follower nor a channel.
    {:ok, state, {:continue, :build}}
  end

  @impl GenServer
  def handle_continue(:build, state) do
    %{config: config, server: server} = state
    wait_for_end(server)
    {:ok, _supervisor} = Server.start_link(name: server, schema: config.schema, memory: config.memory)
    state = state |> apply_changes(missing(state)) |> settle_state()
    publish(state)
    {:noreply, state}
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
  def handle_call(:settle, _from, state) do
    # Many channels wait for the same change.
    if :atomics.get(state.serial, 1) == Store.serial(state.name),
      do: {:reply, :ok, state},
      else: {:reply, :ok, settle_state(state)}
  end

  @impl GenServer
  def handle_info({:change, change}, state), do: {:noreply, settle_state(state, [change])}

  def handle_info({:config, config}, state) do
    state = %{state | config: config}
    publish(state)
    {:noreply, state}
  end

  def handle_info(_other, state), do: {:noreply, state}

  defp publish(state) do
    row = Map.take(state, [:arguments, :config, :server, :destinations, :serial, :counters])
    Table.put(state.name, row)
  end

  # The number is read first: what the store has by then is in the changes that follow.
  defp settle_state(state, changes \\ []) do
    state = apply_changes(state, changes ++ drain())
    serial = Store.settled_serial(state.name)
    state = apply_changes(state, following(state))
    :atomics.put(state.serial, 1, serial)
    state
  end

  defp following(state) do
    case Follower.flush() do
      :mnesia -> drain()
      :khepri -> missing(state)
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
    bindings = MapSet.new(Store.bindings(state.name))
    added = for binding <- bindings, not :ets.member(state.ids, binding), do: {:put, binding}
    removed = for {binding, _id} <- :ets.tab2list(state.ids), binding not in bindings, do: {:delete, binding}
    removed ++ added
  end

  # Applies the changes as one, so that a search sees all of them or none.
  defp apply_changes(state, changes) do
    {puts, deletes, next} = Enum.reduce(changes, {%{}, [], state.next}, &plan(&1, &2, state))
    puts = Enum.sort(puts)
    for {id, {binding, _text}} <- puts, do: :ets.insert(state.destinations, {id, binding_record(binding, :destination)})
    change(state, for({id, {binding, text}} <- puts, do: {id, text, binding}), deletes)
    for id <- deletes, do: :ets.delete(state.destinations, id)
    %{state | next: next}
  end

  # The store may report a binding that was read from it before.
  defp plan({:put, binding}, {puts, deletes, next}, state) do
    with false <- :ets.member(state.ids, binding), {:ok, text} <- Expression.of(binding) do
      :ets.insert(state.ids, {binding, next})
      {Map.put(puts, next, {binding, text}), deletes, next + 1}
    else
      true -> {puts, deletes, next}
      {:error, reason} -> refuse(state, binding, reason, {puts, deletes, next})
    end
  end

  defp plan({:delete, binding}, {puts, deletes, next}, state) do
    case :ets.take(state.ids, binding) do
      [{_binding, :refused}] -> {puts, deletes, next}
      [{_binding, id}] when is_map_key(puts, id) -> {Map.delete(puts, id), deletes, next}
      [{_binding, id}] -> {puts, [id | deletes], next}
      [] -> {puts, deletes, next}
    end
  end

  defp plan(:serial, plan, _state), do: plan

  defp change(_state, [], []), do: :ok

  defp change(state, puts, deletes) do
    put = for {id, text, _binding} <- puts, do: {id, text}

    case Server.change(state.server, put: put, delete: deletes, timeout: :infinity) do
      {:ok, _counts} -> :ok
      {:error, error} -> change_apart(state, puts, deletes, error)
    end
  end

  # A binding that the index refuses must not keep out the others. It was checked when it was bound, so it exceeds the memory or
  # the `count` of an attribute.
  defp change_apart(state, [{id, _text, binding}], [], %Error{} = error) do
    :ets.delete(state.destinations, id)
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
      "x-be-tree: #{describe(state.name)} does not route to #{describe(binding_record(binding, :destination))}: #{reason}"
    end)

    outcome
  end
end

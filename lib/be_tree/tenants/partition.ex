defmodule BeTree.Tenants.Partition do
  @moduledoc false
  # The process that loads, changes, evicts, moves and drops the tenants of a partition, and owns some shards.
  #
  # A match of a tenant in memory never comes here. The operations of one tenant run one after another. While one waits for the store, or
  # for another node, later operations of its tenant wait in the tenant's queue, and those of other tenants run, so many operations share
  # a sync. The continuation of a waiting operation is a function (`BeTree.Tenants.Partition.State.wait/4`).
  #
  # The process may be killed at any moment. The tables (BeTree.Tenants.Directory) outlive it, with the copies in memory and the operations
  # that have begun. The next process recovers (BeTree.Tenants.Partition.Recovery): it saves the statistics of each copy with an
  # unfinished operation and drops that copy, so the next match loads the tenant from the store. A caller repeats an interrupted load. An
  # interrupted change may have been made or not.
  #
  # A shard that trapped is forgotten, and its tenants are loaded into others when they are used. What they counted since the store last
  # got their statistics is lost.

  use BeTree.Processes.Server

  alias BeTree.Error
  alias BeTree.Processes.CrashReport
  alias BeTree.Tenants.{Body, Copy, Directory, Store}
  alias BeTree.Tenants.Partition.{Changing, Leaving, Loading, Moving, Recovery, Restoring, Rounds, State}

  # Milliseconds that the end of the process waits for the store.
  @end_timeout_ms 60_000
  # Milliseconds after which the supervisor ends the process. The store may have ended before.
  @shutdown_ms 120_000

  @doc "Starts a partition."
  @spec start_link({Directory.t(), non_neg_integer}) :: GenServer.on_start()
  def start_link(argument), do: GenServer.start_link(__MODULE__, argument)

  @doc "Returns the child specification of a partition."
  @spec child_spec({Directory.t(), non_neg_integer}) :: Supervisor.child_spec()
  def child_spec({_directory, partition} = argument) do
    # The last statistics of all tenants are written when it is stopped.
    %{id: {__MODULE__, partition}, start: {__MODULE__, :start_link, [argument]}, shutdown: @shutdown_ms}
  end

  @impl GenServer
  def init({directory, partition}) do
    Process.flag(:trap_exit, true)
    Directory.put_partition(directory, partition)
    state = State.new(directory, partition)
    tick(state)
    {:ok, state, {:continue, :begin}}
  end

  # Not before the supervisor goes on: this waits for the store, which the supervisor may have to start again.
  @impl GenServer
  def handle_continue(:begin, state), do: {:noreply, Recovery.run(state)}

  defp tick(%{directory: %{options: %{interval: interval}}}), do: Process.send_after(self(), :tick, interval)

  @impl GenServer
  def handle_call({:lost, id}, _from, state), do: {:reply, :ok, Loading.lose(state, id)}

  def handle_call(request, from, state)
      when elem(request, 0) in [:load, :statistics, :write, :snapshot, :evict, :change, :drop, :restore, :move] do
    {:noreply, begin({request, from}, state)}
  end

  def handle_call(call, from, state), do: super(call, from, state)

  @impl GenServer
  def handle_cast(:shed, state), do: {:noreply, Leaving.shed(state, nil)}
  def handle_cast(cast, state), do: super(cast, state)

  @impl GenServer
  def handle_info({reference, reply}, %{pending: pending} = state) when is_map_key(pending, reference),
    do: {:noreply, answer(state, reference, reply)}

  # A process that moved a tenant has its result as the reason of its end.
  def handle_info({:DOWN, reference, :process, _pid, reason}, %{pending: pending} = state)
      when is_map_key(pending, reference),
      do: {:noreply, answer(state, reference, reason)}

  def handle_info({:EXIT, _mover, _reason}, state), do: {:noreply, state}

  def handle_info(:tick, state) do
    tick(state)
    handle_info(:round, state)
  end

  # Writes statistics, and whatever time has made due.
  def handle_info(:round, state), do: {:noreply, Rounds.begin(state)}
  def handle_info(:save, state), do: {:noreply, Rounds.save(state)}

  # The process that asked for the change gets an error too.
  def handle_info({Store, :refused, _tenant, _error}, state), do: {:noreply, state}
  def handle_info(message, state), do: super(message, state)

  @impl GenServer
  def terminate(_reason, state), do: CrashReport.guard(fn -> Rounds.write_last(state, @end_timeout_ms) end)

  # Begins the operations that waited. If one of them waits too, the others follow it.
  defp answer(state, reference, reply) do
    {waiting, state} = State.answer(state, reference, reply)
    Enum.reduce(waiting, state, &begin/2)
  end

  defp begin({request, from} = operation, %{busy: busy} = state) do
    tenant = elem(request, 1)

    case busy do
      %{^tenant => waiting} -> %{state | busy: %{busy | tenant => [operation | waiting]}}
      _free -> operate(request, from, state)
    end
  end

  defp operate({:load, tenant, day}, from, state) do
    case Loading.ensure(state, tenant) do
      {:ok, copy, state} ->
        GenServer.reply(from, {:ok, Loading.row_of(copy, day, state.directory)})
        Leaving.shed(state, tenant)

      {:error, error, state} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  defp operate({:statistics, tenant}, from, %{directory: directory} = state) do
    with %Copy{} = copy <- Map.get(state.copies, tenant),
         :ok <- Copy.settle(copy, directory),
         {:ok, fields} <- Copy.statistics(copy, directory) do
      GenServer.reply(from, {:ok, struct!(Body, Map.put(fields, :origin, copy.origin))})
      state
    else
      nil ->
        GenServer.reply(from, :cold)
        state

      {:error, %Error{kind: :trap}} ->
        GenServer.reply(from, :cold)
        Loading.lose(state, state.copies[tenant].shard_id)

      {:error, error} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  defp operate({:write, tenant}, from, state), do: on_copy(state, tenant, from, &Rounds.write/3)
  defp operate({:snapshot, tenant}, from, state), do: on_copy(state, tenant, from, &save/3)
  defp operate({:evict, tenant}, from, state), do: on_copy(state, tenant, from, &Leaving.leave/3)

  defp operate({:drop, tenant}, from, %{directory: directory} = state) do
    with nil <- Map.get(state.copies, tenant),
         {:error, %Error{kind: :not_found} = error} <- Copy.read(directory, tenant) do
      GenServer.reply(from, {:error, error})
      state
    else
      %Copy{} = copy -> state |> Leaving.remove(copy) |> drop(tenant, from)
      # A damaged tenant can be dropped.
      _stored -> drop(state, tenant, from)
    end
  end

  defp operate({:change, tenant, change}, from, state), do: Changing.change(state, tenant, change, from)

  defp operate({:restore, _tenant, content, existing}, from, state),
    do: Restoring.restore(state, content, existing, from)

  defp operate({:move, tenant, target, deadline}, from, state), do: Moving.move(state, tenant, target, deadline, from)

  # Makes an operation on a tenant that is in memory, with a function that replies to the caller.
  defp on_copy(%{copies: copies, directory: directory} = state, tenant, from, operation) do
    done = fn reply, state ->
      GenServer.reply(from, reply)
      state
    end

    case copies do
      %{^tenant => copy} -> operation.(state, copy, done)
      _cold -> done.(known(directory, tenant), state)
    end
  end

  defp save(%{directory: directory} = state, copy, done) do
    case Copy.save(copy, directory) do
      {:ok, copy} -> done.(:ok, State.put_copy(state, copy))
      {:error, _error} = refused -> done.(refused, state)
    end
  end

  # The statistics of a tenant that is not in memory were written when it left.
  defp known(directory, tenant), do: with({:ok, _body} <- Copy.read(directory, tenant), do: :ok)

  defp drop(%{directory: directory} = state, tenant, from) do
    reference = make_ref()
    :ok = Store.drop(directory.store, tenant, {self(), reference})

    State.wait(state, tenant, reference, fn reply, state ->
      if reply == :ok, do: Directory.put_usage(directory, tenant, [])
      GenServer.reply(from, reply)
      state
    end)
  end
end

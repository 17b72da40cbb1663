defmodule BeTree.Server.Writer do
  @moduledoc false
  # The process that takes a server's changes, one after the other, and publishes them.
  #
  # A change goes into the tree, which checks it, and into the tables, which outlive this process. Then it is
  # acknowledged. Searches use a view: a published base, and the delta, the changes since. To show new changes, the writer
  # publishes only the delta. When the delta is large, another process builds the next base. So neither searches nor
  # changes wait in proportion to the size of the index. The writer publishes its whole tree only if building the base would
  # take longer because of many changes.

  use GenServer
  use BeTree.Engine.CrashReport

  import BeTree.Engine.Limits, only: [is_id: 1]

  alias BeTree.{Error, Guest, Index}
  alias BeTree.Engine.{Describe, Stray}
  alias BeTree.Server.{Builder, Changes, Delta, Table, View}

  @none %{inserted: [], deleted: []}

  # Beyond this number of changes at once, and one per this many bytes of the base, copying the whole index takes less time
  # than putting the changes into the delta's tree.
  @few 1_000
  @bytes 80_000

  # After an error of these kinds the tree may be damaged.
  @doubtful [:trap, :out_of_fuel, :out_of_memory, :bad_module]

  @enforce_keys [:table, :options]
  defstruct [
    :table,
    :options,
    # All subscriptions, their number, and the number at which they last exceeded the memory limit.
    :tree,
    :count,
    :unfit,
    # The last change, and the last one that is shown.
    :version,
    :shown,
    :base,
    :delta,
    # The process that builds the next base, and the caller that waits for it.
    :builder,
    # The present view, and the callers that wait for the next one.
    :view,
    watchers: [],
    timer: nil,
    error: nil,
    counts: %{views: 0, bases: 0}
  ]

  @spec start_link({Table.t(), map}) :: GenServer.on_start()
  def start_link({table, options}), do: GenServer.start_link(__MODULE__, {table, options}, name: table.name)

  @doc """
  Waits until the server `name` shows another base than that of this name, or another version. Returns the name of its
  base, the view, and the ids that were deleted from the base.
  """
  @spec next_view(atom, reference | nil, non_neg_integer | nil) ::
          {reference, View.t(), [{BeTree.id(), pos_integer}]} | {:raise, String.t()}
  def next_view(name, base, version), do: GenServer.call(name, {:next_view, base, version}, :infinity)

  @impl GenServer
  def init({table, options}) do
    # A builder ends with this process, but not the other way round.
    Process.flag(:trap_exit, true)

    case begin(%__MODULE__{table: table, options: options}, Table.recover(table)) do
      {:ok, state} ->
        # Changes have priority over any number of searches. Long work runs elsewhere, so that no caller waits for this
        # process.
        Process.flag(:priority, :high)
        {:ok, state}

      {:error, error} ->
        {:stop, error}
    end
  end

  defp begin(%{options: options} = state, nil) do
    with {:ok, tree} <- BeTree.new(options.schema, options.new),
         {:ok, index} <- BeTree.publish(tree, options.publish),
         do: rebase(%{state | version: 0}, base(index, 0, true))
  end

  defp begin(state, %{base: base, version: version, changes: changes}) do
    rebase(%{state | version: version}, base, changes)
  end

  defp base(index, version, complete), do: %{id: make_ref(), index: index, version: version, complete: complete}

  @impl GenServer
  def handle_call({:insert, wires}, _from, state) when is_list(wires) do
    state = fit(state)

    with :ok <- check_memory(state),
         {:ok, count} <- Changes.insert(state.tree, wires) do
      {:reply, {:ok, count}, inserted(state, wires, count), {:continue, :due}}
    else
      {:error, error} -> refuse(error, state)
    end
  end

  def handle_call({:delete, id}, _from, state) when is_id(id) do
    case Changes.delete(state.tree, id) do
      :ok -> {:reply, :ok, deleted(state, id), {:continue, :due}}
      {:error, error} -> refuse(error, state)
    end
  end

  def handle_call(:publish, _from, state) do
    state = publish(state)
    {:reply, if(state.error, do: {:error, state.error}, else: :ok), state}
  end

  def handle_call({:swap, %Index{} = index}, _from, state) do
    version = state.version + 1
    state = stop_building(state)

    case rebase(%{state | version: version}, base(index, version, false)) do
      {:ok, state} -> {:reply, :ok, state}
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  def handle_call({:swap, %Guest{} = guest}, from, %{base: %{complete: true}} = state) do
    state = stop_building(state)
    builder = Builder.with_guest(guest, state.base.index.schema, state.table, state.version, state.options)
    {:noreply, %{state | builder: {builder, from}}}
  end

  def handle_call({:swap, %Guest{}}, _from, state) do
    message = "the index was swapped in without its expressions; swap in an index that was made with the new guest"
    {:reply, {:error, %Error{kind: :not_found, message: message}}, state}
  end

  def handle_call({:next_view, id, version}, from, %{base: %{id: id}, shown: version} = state) do
    watchers = Enum.filter(state.watchers, fn {pid, _tag} -> Process.alive?(pid) end)
    {:noreply, %{state | watchers: [from | watchers]}}
  end

  def handle_call({:next_view, _id, _version}, _from, state), do: {:reply, shown(state), state}

  def handle_call(:read_options, _from, state), do: {:reply, {:ok, state.options.read}, state}
  def handle_call(:info, _from, state), do: {:reply, {:ok, info(state)}, state}

  def handle_call(:index, _from, state) do
    state = whole(state)
    {:reply, if(state.error, do: {:error, state.error}, else: {:ok, state.base.index}), state}
  end

  def handle_call(call, _from, state), do: {:reply, Stray.refuse(call), state}

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  # An acknowledged change is published when it is due. Its caller does not wait for that.
  @impl GenServer
  def handle_continue(:due, %{options: %{changes: changes}} = state) do
    if Delta.pending(state.delta) >= changes, do: {:noreply, publish(state)}, else: {:noreply, wait(state)}
  end

  @impl GenServer
  def handle_info(:publish, state), do: {:noreply, publish(%{state | timer: nil})}

  def handle_info({:later, pid, version}, %{builder: {pid, _from}} = state) do
    Builder.tell(pid, state.version, Delta.since(state.delta, version))
    {:noreply, state}
  end

  def handle_info({:built, pid, outcome}, %{builder: {pid, from}} = state) do
    {:noreply, built(%{state | builder: nil}, outcome, from)}
  end

  def handle_info({:EXIT, pid, reason}, %{builder: {pid, from}} = state) do
    error = %Error{kind: :trap, message: "building the next base ended with #{Describe.reason(reason)}"}
    {:noreply, built(%{state | builder: nil}, {:error, error}, from)}
  end

  # Messages of a builder that was told to stop, or that has finished.
  def handle_info({:EXIT, _pid, _reason}, state), do: {:noreply, state}
  def handle_info({step, pid, _outcome}, state) when step in [:later, :built] and is_pid(pid), do: {:noreply, state}

  def handle_info(message, state) do
    Stray.ignore(:message, message)
    {:noreply, state}
  end

  ## Changes

  defp inserted(state, [], 0), do: state

  defp inserted(state, wires, count) do
    version = state.version + 1
    Table.insert(state.table, wires, version)
    %{state | version: version, count: state.count + count, delta: Delta.insert(state.delta, wires, version)}
  end

  defp deleted(state, id) do
    version = state.version + 1
    Table.delete(state.table, id, version)
    %{state | version: version, count: state.count - 1, delta: Delta.delete(state.delta, id, version)}
  end

  defp refuse(error, state) do
    state = if error.kind in @doubtful, do: restore(state), else: state
    {:reply, {:error, error}, state}
  end

  # A change that was cut off may have damaged the tree. Every later call then returns that error, so the tree is made anew.
  defp restore(%{count: count} = state) do
    case BeTree.info(state.tree) do
      {:ok, %{expressions: ^count}} ->
        state

      _damaged ->
        {:ok, tree} = Changes.tree_again(state.base.index, Delta.changes(state.delta), state.options.memory)
        %{state | tree: tree, unfit: unfit(tree, state)}
    end
  end

  # A tree that was made anew may exceed the limit. It then takes no insertions until it fits again, which is checked after
  # deletions.
  defp unfit(tree, %{options: options, count: count}), do: if(tree.memory > options.memory, do: count)

  defp fit(%{unfit: unfit, count: count} = state) when is_integer(unfit) and count < unfit do
    case Changes.tree(state.base.index, Delta.changes(state.delta), state.options.memory) do
      {:ok, tree} -> %{state | tree: tree, unfit: nil}
      {:error, _error} -> %{state | unfit: count}
    end
  end

  defp fit(state), do: state

  defp check_memory(%{unfit: nil}), do: :ok

  defp check_memory(%{options: %{memory: memory}}) do
    message =
      "the subscriptions take more than the server's memory limit of #{memory} bytes since its process was started " <>
        "again; delete some, or start the server with a higher limit"

    {:error, %Error{kind: :out_of_memory, message: message}}
  end

  ## Publishing

  defp wait(%{timer: nil, options: %{interval: interval}} = state) when is_integer(interval) do
    %{state | timer: Process.send_after(self(), :publish, interval)}
  end

  defp wait(state), do: state

  defp publish(%{version: version, shown: version} = state), do: %{state | error: nil}

  defp publish(state) do
    with false <- Delta.full?(state.delta) or many_at_once?(state),
         {:ok, state} <- show(state) do
      build_if_due(state)
    else
      # If there is no memory for a delta, there may be enough for a tree that shares that of the base.
      _many_or_error -> whole(state)
    end
  end

  defp many_at_once?(%{base: base, delta: delta}) do
    Delta.pending(delta) > max(@few, div(base.index.info.memory_bytes, @bytes))
  end

  # Shows the base with the present delta.
  defp show(%{base: base} = state) do
    with {:ok, delta} <- Delta.publish(state.delta, state.options.publish) do
      view = %View{
        base: base.index,
        delta: delta.index,
        deleted: Delta.deleted_set(delta),
        version: state.version,
        expressions: state.count
      }

      View.show(view, state.table.name)
      counts = Map.update!(state.counts, :views, &(&1 + 1))
      state = %{state | delta: delta, view: view, shown: state.version, error: nil, counts: counts}
      for watcher <- state.watchers, do: GenServer.reply(watcher, shown(state))
      {:ok, %{state | watchers: []}}
    end
  end

  defp shown(state), do: {state.base.id, state.view, state.delta.deleted}

  # Publishes the tree with all its subscriptions.
  defp whole(%{version: version, base: %{version: version}} = state), do: %{state | error: nil}

  defp whole(state) do
    state = stop_building(state)

    with {:ok, index} <- BeTree.publish(state.tree, state.options.publish),
         {:ok, state} <- rebase(state, base(index, state.version, state.base.complete)) do
      state
    else
      {:error, error} -> wait(%{state | error: error})
    end
  end

  # Continues with another base, and the changes since. The tree begins as the base, and shares its memory.
  defp rebase(%{options: options} = state, %{index: index} = base, changes \\ @none) do
    delta = index |> Delta.new(options.new) |> Delta.add(changes)

    with {:ok, tree} <- Changes.tree_again(index, changes, options.memory),
         do: take_over(state, base, tree, delta)
  end

  defp take_over(state, base, tree, delta) do
    with {:ok, %{expressions: count}} <- BeTree.info(tree) do
      state = %{state | base: base, tree: tree, delta: delta, count: count}
      state = %{state | unfit: unfit(tree, state)}
      if Delta.full?(delta), do: publish_over(state), else: show_base_or_whole(state)
    end
  end

  # If there is no memory for a tree of the delta, there may be enough for a tree with everything.
  defp show_base_or_whole(%{delta: delta} = state) do
    with {:error, %Error{kind: :out_of_memory}} = error <- show_base(state) do
      if Delta.size(delta) > 0, do: publish_over(state), else: error
    end
  end

  # The changes since are too many for a delta.
  defp publish_over(%{base: base} = state) do
    with {:ok, index} <- BeTree.publish(state.tree, state.options.publish),
         do: rebase(state, base(index, state.version, base.complete))
  end

  defp show_base(state) do
    with {:ok, state} <- show(state) do
      Table.put_base(state.table, state.base)
      {:ok, %{state | counts: Map.update!(state.counts, :bases, &(&1 + 1))}}
    end
  end

  ## Building the next base

  defp build_if_due(%{builder: nil, base: base, delta: delta} = state) do
    if Delta.large?(delta) do
      builder = Builder.next(base.index, Delta.changes(delta), state.version, state.options)
      %{state | builder: {builder, nil}}
    else
      state
    end
  end

  defp build_if_due(state), do: state

  defp stop_building(%{builder: nil} = state), do: state

  defp stop_building(%{builder: {pid, from}} = state) do
    Process.unlink(pid)
    Process.exit(pid, :kill)
    message = "another swap, or too many changes, came before this one was done; try again"
    reply(from, {:error, %Error{kind: :overloaded, message: message}})
    %{state | builder: nil}
  end

  defp built(state, outcome, from) do
    with {:ok, built} <- outcome,
         {:ok, built} <- Builder.add(built, Delta.since(state.delta, built.added), state.version),
         base = base(built.index, built.version, state.base.complete),
         {:ok, state} <- take_over(state, base, built.tree, built.delta) do
      reply(from, :ok)
      state
    else
      {:error, error} ->
        reply(from, {:error, error})
        if from, do: state, else: %{state | error: error}
    end
  end

  defp reply(nil, _reply), do: :ok
  defp reply(from, reply), do: GenServer.reply(from, reply)

  defp info(%{base: base, delta: delta} = state) do
    memory = fn index -> if index, do: index.info.memory_bytes, else: 0 end

    Map.merge(state.counts, %{
      expressions: state.count,
      version: state.version,
      shown: state.shown,
      inserted: map_size(delta.inserted),
      deleted: delta.deleted_count,
      building: state.builder != nil,
      memory: memory.(base.index) + memory.(delta.index),
      error: state.error
    })
  end
end

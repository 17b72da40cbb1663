defmodule BeTree.Server.Writer do
  @moduledoc false
  # The process that makes a server's changes, one after the other.
  #
  # It makes a change in the primary tree (BeTree.Server.Primary), which accepts or refuses it. With a folder, the change then waits
  # for the journal in a group (BeTree.Server.Group). Then the process appends it to the log in the server's table and to the log of
  # the replicas (BeTree.Server.Replication), and acknowledges it. Each replica applies the log before its next search, so a search
  # that begins after the acknowledgement sees the change.

  use BeTree.Processes.Server

  alias BeTree.{Error, Guest, Index, Telemetry}
  alias BeTree.Input.Subscription
  alias BeTree.Processes.{CrashReport, Stray}
  alias BeTree.Journal.Owner

  alias BeTree.Server.{
    Bases,
    Changes,
    Group,
    Lineage,
    Migration,
    Primary,
    Queue,
    Replication,
    Start,
    Store,
    Swap,
    Sync,
    Table
  }

  alias BeTree.Target.{Ids, View}

  # The rows of deleted ids that a change drops.
  @max_dropped 4

  # After an error of these kinds the tree may be damaged.
  @doubtful [:trap, :out_of_fuel, :out_of_memory, :bad_module]

  @enforce_keys [:table, :options, :replication, :journal, :lineage, :waiting]
  defstruct @enforce_keys ++ [group: %Group{}, dropping: false]

  @typedoc """
    * `:replication` - the primary tree and the replicas;
    * `:journal` - the journal, or `nil` without a folder;
    * `:group` - the changes that the tree has and the journal lacks;
    * `:lineage` - with a folder: whether the present lineage is that of an earlier process (`:former`), was begun by this one
      (`:begun`), or is in the folder too (`:kept`). The first change begins one, if this process has not, and its record names it;
    * `:waiting` - the callers that wait for a version;
    * `:dropping` - whether a message is on its way by which rows of deleted ids are dropped.
  """
  @type t :: %__MODULE__{}

  @spec start_link({Table.t(), map}) :: GenServer.on_start()
  def start_link({table, options}), do: GenServer.start_link(__MODULE__, {table, options})

  @impl GenServer
  def init({table, options}) do
    # A builder ends with this process, but not the other way round.
    Process.flag(:trap_exit, true)
    Table.claim(table)
    Table.put_ids(table, table.ids)

    with {:ok, start} <- Start.run(table, options),
         {:ok, replication} <- Replication.begin(start, table, options) do
      # Changes have priority over any number of searches. Long work runs elsewhere, so that no caller waits for this
      # process.
      Process.flag(:priority, :high)
      Table.put_process(table, self())
      # The process before may have ended between an id and its subscription.
      if Table.started?(table), do: Ids.sweep(table.ids, table.texts)
      {:ok, state(start, replication, table, options), {:continue, :due}}
    else
      {:error, error} -> {:stop, error}
    end
  end

  defp state(%Start{journal: journal, lineage: lineage}, replication, table, options) do
    %__MODULE__{
      table: table,
      options: options,
      replication: replication,
      journal: journal,
      lineage: lineage,
      waiting: Queue.new()
    }
  end

  ## Calls

  # Every other call first flushes the changes that wait for the journal.
  @impl GenServer
  def handle_call(call, from, %{group: %Group{entries: [_ | _]}} = state)
      when not is_tuple(call) or
             (elem(call, 0) not in [:insert, :delete] and not (elem(call, 0) == :change and elem(call, 2) == [])) do
    handle_call(call, from, flush(state))
  end

  def handle_call({:insert, wires}, from, state) when is_list(wires),
    do: insert(wires, {:ok, length(wires)}, from, state)

  # An insertion that a cluster may revoke.
  def handle_call({:insert, wires, :version}, from, state) when is_list(wires),
    do: insert(wires, {:ok, state.replication.version + 1}, from, state)

  # Deletes the subscriptions that a version inserted and no other change has replaced or deleted since.
  def handle_call({:revoke, version, ids}, from, %{table: table} = state) do
    base = base(state)

    if base.complete or version > base.version do
      keys = for id <- ids, Table.version(table, id) == version, {:ok, key} <- [Ids.present(table.ids, id)], do: key
      put_and_delete([], keys, [], fn _deleted -> %{deleted: length(keys)} end, from, state)
    else
      message = "the index was swapped meanwhile, so the server does not know what the version #{version} inserted"
      {:reply, {:error, %Error{kind: :not_found, message: message}}, state}
    end
  end

  def handle_call({:delete, id}, from, state) do
    with {:ok, key} <- Ids.present(state.table.ids, id),
         {:ok, primary} <- Primary.delete(state.replication.primary, key) do
      record(:ok, [key], [], from, primary, state)
    else
      {:error, error} -> refuse(error, from, state)
    end
  end

  def handle_call({:change, wires, ids}, from, state) when is_list(wires) and is_list(ids) do
    with {:ok, keys} <- present_keys(ids, state) do
      counts = fn _deleted -> %{deleted: length(ids)} end
      put_and_delete(wires, keys, [], counts, from, state)
    else
      {:error, error} -> refuse(error, from, state)
    end
  end

  # Deletes those of `ids` that are there, and returns the others.
  def handle_call({:change, wires, ids, :skip_missing}, from, state) when is_list(wires) and is_list(ids) do
    keys = for id <- ids, {:ok, key} <- [Ids.present(state.table.ids, id)], do: key

    counts = fn deleted ->
      deleted = MapSet.new(deleted, &Ids.id/1)
      missing = Enum.reject(ids, &MapSet.member?(deleted, &1))
      %{deleted: length(ids) - length(missing), missing: missing}
    end

    put_and_delete(wires, [], keys, counts, from, state)
  end

  # The group was flushed, so the table has all changes that were acknowledged.
  def handle_call(:begin_sync, _from, state), do: {:reply, Sync.check_texts(base(state)), state}

  # Puts and deletes the subscriptions that no other change has touched since `BeTree.Server.Sync` compared them. The identifier is that of
  # the table that it read: another server of this name may have started since.
  def handle_call({:sync, tid, puts, absent}, from, %{table: %{tid: tid} = table} = state)
      when is_list(puts) and is_list(absent) do
    with :ok <- Sync.check_texts(base(state)) do
      wires = for {{id, _text, _constants} = wire, version} <- puts, Table.version(table, id) == version, do: wire
      ids = for {id, version} <- absent, Table.version(table, id) == version, do: id
      handle_call({:change, wires, ids}, from, state)
    else
      {:error, error} -> refuse(error, from, state)
    end
  end

  def handle_call({:sync, _former, _puts, _absent}, _from, %{table: %{server: name}} = state),
    do: {:reply, View.no_server(name), state}

  def handle_call({:check, wires}, from, state) when is_list(wires) do
    case Changes.check(state.replication.primary.tree, wires) do
      :ok -> {:reply, :ok, state}
      {:error, error} -> refuse(error, from, state)
    end
  end

  def handle_call({:swap, %Index{} = index}, _from, state) do
    %{replication: %{version: last} = replication} = state = stop_building(state)

    with {:ok, index, primary} <- Swap.prepare(index, state.table, base(state), state.options),
         base = %{base(state) | index: index, version: last + 1, origin: last + 1, complete: false},
         base = %{base | history: next_history(state, last)},
         {:ok, journal} <- Store.replace(state.journal, base) do
      replication = Replication.swap(replication, base, primary)
      {:reply, :ok, renew(%{state | replication: replication, journal: journal, lineage: :kept})}
    else
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  def handle_call({:swap, %Guest{} = guest}, from, state) do
    with :ok <- Swap.check_texts(base(state)) do
      %{replication: %{bases: bases, version: version}} = state = stop_building(state)
      {:noreply, put_in(state.replication.bases, Bases.build_with_guest(bases, guest, version, from))}
    else
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  def handle_call({:migrate, schema}, from, state) when is_list(schema) do
    base = base(state)

    with false <- Migration.done?(base.index, schema),
         :ok <- Migration.check_texts(base) do
      %{replication: %{bases: bases, version: version}} = state = stop_building(state)
      {:noreply, put_in(state.replication.bases, Bases.migrate(bases, schema, version, from))}
    else
      true -> {:reply, :ok, state}
      {:error, error} -> {:reply, {:error, error}, state}
    end
  end

  def handle_call({:await, wanted, timeout}, from, state) do
    {:noreply, %{state | waiting: Queue.add(state.waiting, from, wanted, timeout, present(state))}}
  end

  def handle_call(:flush, _from, state) do
    {reply, journal} = Owner.flush(state.journal)
    {:reply, reply, %{state | journal: journal}}
  end

  def handle_call(:version, _from, state), do: {:reply, {:ok, state.replication.version}, state}

  def handle_call(:position, _from, state) do
    {history, version} = present(state)
    {:reply, {:ok, {Lineage.id(history), version}}, state}
  end

  def handle_call(:read_options, _from, state), do: {:reply, {:ok, state.options.read}, state}
  def handle_call(:info, _from, state), do: {:reply, {:ok, info(state)}, state}
  def handle_call(call, from, state), do: super(call, from, state)

  # The caller of an acknowledged change does not wait for this.
  @impl GenServer
  def handle_continue(:due, state) do
    {:noreply, state |> flush() |> advance() |> build_if_due() |> write_base_if_due() |> drop(@max_dropped)}
  end

  ## Messages

  @impl GenServer
  def handle_info(:collect, state) do
    :erlang.garbage_collect()
    {:noreply, state}
  end

  def handle_info(:commit, state), do: {:noreply, flush(state), {:continue, :due}}

  def handle_info(message, state) do
    # A message about a waiting caller does not flush, so it does not split a group that shares a sync.
    if Queue.info(state.waiting, message), do: {:noreply, state}, else: handle(message, flush(state))
  end

  defp handle(:drop, state), do: {:noreply, drop(%{state | dropping: false}, Ids.max_dropped())}

  defp handle(message, state) do
    with :unknown <- Replication.info(state.replication, message),
         :unknown <- Owner.info(state.journal, message) do
      # The exit of a finished or stopped helper process is expected.
      unless match?({:EXIT, _pid, _reason}, message), do: Stray.ignore(:message, message)
      {:noreply, state}
    else
      {:ok, %Replication{} = replication} -> {:noreply, %{state | replication: replication}}
      {:migration, made, from, replication} -> {:noreply, migrate(made, from, %{state | replication: replication})}
      {:ok, journal} -> {:noreply, write_base_if_due(%{state | journal: journal})}
    end
  end

  # Flushes the group, and syncs the journal. The guard of the other callbacks leaves this one out.
  @impl GenServer
  def terminate(_reason, state), do: CrashReport.guard(fn -> Owner.close(flush(state).journal) end)

  ## Changes

  defp insert(wires, reply, from, state) do
    state = fit(state)
    wires = Ids.add_keys(state.table.ids, wires)

    with :ok <- Primary.check_memory(state.replication.primary),
         {:ok, primary} <- Primary.insert(state.replication.primary, wires),
         do: record(reply, [], wires, from, primary, state),
         else: ({:error, error} -> refuse(error, from, release(wires, state)))
  end

  # Deletes `keys`, and those of `optional` that are there, and puts the subscriptions of `wires` that differ from the present ones.
  # `counts` returns the part of the reply about the keys that were deleted.
  defp put_and_delete(wires, keys, optional, counts, from, state) do
    state = fit(state)
    given = Ids.add_keys(state.table.ids, wires)
    pending = pending(state.group, given)
    wires = Enum.reject(given, &same?(&1, pending, state.table))
    replaced = optional ++ replaced(wires, pending, state)

    with :ok <- if(wires == [], do: :ok, else: Primary.check_memory(state.replication.primary)),
         # An insertion that follows no deletion checks everything itself, and is all or nothing.
         :ok <- if(keys ++ replaced == [], do: :ok, else: Changes.check(state.replication.primary.tree, wires)) do
      put = %{put: length(wires), unchanged: length(given) - length(wires)}
      change(wires, keys, replaced, &{:ok, Map.merge(put, counts.(&1))}, &place(&1, wires, given), from, state)
    else
      {:error, error} -> refuse(place(error, wires, given), from, release(wires, state))
    end
  end

  # Returns the error with the position in the list that the caller gave.
  defp place(%Error{position: position} = error, wires, given) when position != nil do
    {key, _text, _constants} = Enum.at(wires, position)
    %{error | position: Enum.find_index(given, &(elem(&1, 0) == key))}
  end

  defp place(error, _wires, _given), do: error

  # Deletes and then inserts, all or nothing.
  defp change(wires, keys, replaced, reply, place, from, state) do
    case Primary.change(state.replication.primary, keys, replaced, wires) do
      {:ok, deleted, primary} -> record(reply.(deleted), deleted, wires, from, primary, state)
      {:error, error, :unchanged} -> refuse(place.(error), from, release(wires, state))
      {:error, error, :torn} -> refused(place.(error), from, rebuild(release(wires, state)))
    end
  end

  # Returns, by key, the subscriptions of `wires` in the changes that wait for the journal: the table lacks these changes. A deleted
  # subscription is `:error`.
  defp pending(%Group{entries: []}, _wires), do: %{}

  defp pending(group, wires) do
    keys = MapSet.new(wires, &elem(&1, 0))

    for {_version, deleted, wires} <- Group.rows(group), reduce: %{} do
      pending ->
        pending = for key <- deleted, key in keys, into: pending, do: {key, :error}
        for {key, text, constants} <- wires, key in keys, into: pending, do: {key, {:ok, {text, constants}}}
    end
  end

  defp present_text(key, pending, table), do: Map.get_lazy(pending, key, fn -> Table.text(table, key) end)

  defp same?({key, text, constants}, pending, table),
    do: Subscription.same?({text, constants}, present_text(key, pending, table))

  # Returns the keys of the subscriptions that `wires` may replace.
  defp replaced(wires, pending, %{table: table} = state) do
    may_be? = fn key -> not base(state).complete or present_text(key, pending, table) != :error end
    for {key, _text, _constants} <- wires, may_be?.(key), do: key
  end

  # Without texts, the deletion itself finds out which ids are there.
  defp present_keys(ids, %{table: table} = state),
    do: if(base(state).complete, do: Table.present_keys(table, ids), else: {:ok, ids})

  # Records a change that the primary tree has accepted. With a journal it waits for a sync, which it shares with all changes that
  # are in the mailbox already. Without one it is made and acknowledged at once.
  defp record(reply, [], [], from, _primary, state), do: reply_without_change(reply, from, state)

  defp record(reply, deleted, wires, from, primary, %{group: group, replication: replication} = state) do
    version = replication.version + 1
    state = %{state | replication: %{replication | primary: primary, version: version}}
    row = {version, deleted, wires}

    if state.journal do
      if group.entries == [], do: send(self(), :commit)
      state = %{state | group: Group.add(group, from, reply, row)}
      if Group.full?(state.group), do: {:noreply, flush(state), {:continue, :due}}, else: {:noreply, state}
    else
      {:reply, reply, make([row], state), {:continue, :due}}
    end
  end

  # Writes the group to the journal, makes its changes, and acknowledges them. If they cannot be written, none is made.
  defp flush(%{group: %Group{entries: []}} = state), do: state

  defp flush(%{group: group, replication: %{version: last} = replication} = state) do
    rows = Group.rows(group)
    former = last - length(rows)
    history = next_history(state, former)
    records = Store.records(rows, if(state.lineage != :kept, do: Lineage.id(history)))
    state = %{state | group: Group.new()}

    case write(state, records) do
      {:ok, journal} ->
        state = make_in(history, rows, %{state | journal: journal})
        Group.acknowledge(group)
        state

      {:error, error, journal} ->
        state = rebuild(%{state | journal: journal, replication: %{replication | version: former, error: error}})
        state = for {_version, _deleted, wires} <- rows, reduce: state, do: (state -> release(wires, state))
        Group.refuse(group, error)
        state
    end
  end

  defp write(%{table: %{server: server}, options: %{durability: durability}, journal: journal}, records) do
    metadata = %{server: server, durability: durability}

    Telemetry.span(:journal, metadata, fn -> Owner.append(journal, records) end, fn _outcome ->
      %{changes: length(records), bytes: IO.iodata_length(records)}
    end)
  end

  # Returns the history of the change after the version `last`. Followers may have seen changes that the folder has lost, so the
  # first change of a process begins a lineage, unless the process began one at its start.
  defp next_history(%{journal: journal, lineage: lineage} = state, last) do
    %{history: history} = base(state)
    if journal != nil and lineage == :former, do: Lineage.begin(history, last), else: history
  end

  # Makes changes that the folder has, the first of them perhaps the first of a lineage. The history comes before the rows, so that no
  # courier sends them as changes of the lineage before.
  defp make_in(_history, rows, %{lineage: lineage} = state) when rows == [] or lineage == :kept, do: make(rows, state)

  defp make_in(history, rows, state) do
    state = update_in(state.replication.bases, &Bases.put_history(&1, history))
    renew(make(rows, %{state | lineage: :kept}))
  end

  # Swaps the index of the new schema in, after the folder has it. If the process is killed between the two, the next one finds both
  # schemas in the table, and opens the folder under the one that it has.
  defp migrate(made, from, %{table: table, replication: %{version: last} = replication} = state) do
    with {:ok, index, primary} <- Migration.complete(made, table, last, state.options),
         base = %{base(state) | index: index, version: last + 1, origin: last + 1, history: next_history(state, last)},
         Table.put_schemas(table, [index.schema, base(state).index.schema]),
         {:ok, journal} <- Store.migrate(state.journal, table, base) do
      replication = Replication.swap(replication, base, primary)
      GenServer.reply(from, :ok)
      renew(%{state | replication: replication, journal: journal, lineage: :kept})
    else
      {:error, error} ->
        GenServer.reply(from, {:error, error})
        build_if_due(state)
    end
  end

  defp make(rows, state), do: %{state | replication: Replication.make(state.replication, rows)}

  defp refuse(error, from, %{replication: replication, group: group} = state) do
    replication = if error.kind in @doubtful, do: Replication.repair(replication, Group.rows(group)), else: replication

    refused(error, from, %{state | replication: replication})
  end

  defp refused(error, from, state), do: reply_without_change({:error, error}, from, state)

  # The cause of a refusal, or the subscription that a put equals, may be a change that waits for the journal. So its caller waits too.
  defp reply_without_change(reply, _from, %{group: %Group{entries: []}} = state), do: {:reply, reply, state}

  defp reply_without_change(reply, from, %{group: group} = state),
    do: {:noreply, %{state | group: Group.add(group, from, reply, nil)}}

  defp rebuild(%{replication: replication, group: group} = state),
    do: %{state | replication: Replication.rebuild(replication, Group.rows(group))}

  defp fit(%{replication: %{primary: primary}} = state) do
    if Primary.may_fit?(primary) do
      state = flush(state)
      %{state | replication: Replication.fit(state.replication)}
    else
      state
    end
  end

  # Releases the keys of refused subscriptions.
  defp release(wires, %{table: %{ids: ids}} = state) do
    if ids, do: Ids.release(ids, Enum.map(wires, &elem(&1, 0)))
    drop(state, 0)
  end

  defp drop(%{table: %{ids: ids, texts: texts}, dropping: dropping} = state, count),
    do: %{state | dropping: Ids.drop(ids, texts, count, dropping)}

  ## Bases

  defp base(%{replication: %{bases: %{base: base}}}), do: base
  defp build_if_due(state), do: %{state | replication: Replication.build_if_due(state.replication)}
  defp stop_building(state), do: %{state | replication: Replication.stop_building(state.replication)}

  defp write_base_if_due(%{journal: journal, table: table, replication: %{primary: %{count: count}}} = state),
    do: %{state | journal: Owner.write_base_if_due(journal, table, count)}

  ## Callers that wait, and descriptions

  defp present(%{replication: %{version: version}} = state), do: {base(state).history, version}

  defp advance(%{waiting: waiting, replication: %{version: version}} = state),
    do: %{state | waiting: Queue.advance(waiting, version)}

  defp renew(%{waiting: waiting} = state), do: %{state | waiting: Queue.renew(waiting, present(state))}

  defp info(%{replication: replication, journal: journal} = state) do
    Map.merge(Replication.describe(replication), %{
      ids: Ids.info(state.table.ids),
      journal: Owner.status(journal),
      error: replication.error || (journal && journal.error)
    })
  end
end

defmodule BeTree.Server.Writer do
  @moduledoc false
  # The process that makes a server's changes, one after the other.
  #
  # It makes a change in its own tree, which accepts or refuses it, and appends it to the log in the server's table, and to the
  # log of the replicas. Then it acknowledges it. Each replica applies the log before its next search, so a search that begins
  # after the acknowledgement sees the change. When the log since the base is long, another process builds the next base.

  use GenServer
  use BeTree.Processes.CrashReport

  alias BeTree.{Domain, Error, Guest, Image, Index, Telemetry}
  alias BeTree.Journal
  alias BeTree.Input.{Describe, Subscription}
  alias BeTree.Processes.{CrashReport, Heap, Stray}
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Builder, Changes, Ids, Lineage, Maintainer, Queue, Store, Table, View}

  # The log since the base has at most this share of the base's expressions, within these limits, before the next base is built.
  @share 16
  @least 512
  @most 4_096
  # The texts in the log take at most this share of the base's memory. A log below the least bytes makes no base.
  @least_bytes 1_000_000
  @share_of_bytes 8
  # A change of more subscriptions makes a base at once: to apply it would take each replica longer than to begin anew.
  @many 1_000
  # The milliseconds until a base is built again after that failed.
  @again 1_000

  # The most rows of the log that are dropped with a change, once no base and no follower needs them, and the most rows of ids.
  @dropped 4

  # The most changes that share a sync.
  @group 256
  # A base is written to the folder when the changes since the last one reach this number and this share of the subscriptions,
  # when their records reach this number of bytes, or when many starts have left them in many small segments.
  @kept_changes 10_000
  @kept_share 4
  @kept_bytes 0x100_0000

  # After an error of these kinds the tree may be damaged.
  @doubtful [:trap, :out_of_fuel, :out_of_memory, :bad_module]

  @enforce_keys [:table, :options]
  defstruct [
    :table,
    :options,
    # The tree with all subscriptions, their number, and the number at which they last exceeded the memory limit.
    :tree,
    :count,
    :unfit,
    # The last change, and the bytes of texts in the log since the base.
    :version,
    :base,
    :bytes,
    # Whether the replicas of the runtime have a log.
    :log,
    :maintainer,
    # The process that builds the next base, and the caller that waits for it. A timer while a failed build waits.
    :builder,
    :retry,
    # With a folder: its journal; the changes that the tree has and the journal lacks, the last one first, each with its caller
    # and reply; the process that writes a base, and the version of the last base; the bytes of changes since.
    :journal,
    :keeping,
    group: [],
    # With a folder: whether the present lineage is that of an earlier process, was begun by this one, or is in the folder too. The
    # first change begins one, if this process has not, and its record names it.
    lineage: :former,
    # The log is not needed up to this version.
    oldest: 0,
    kept: 0,
    kept_bytes: 0,
    # Whether a message is on its way by which rows of deleted ids are dropped.
    dropping: false,
    # The callers that wait for a version.
    waiting: nil,
    error: nil,
    bases: 0
  ]

  @spec start_link({Table.t(), map}) :: GenServer.on_start()
  def start_link({table, options}), do: GenServer.start_link(__MODULE__, {table, options})

  @impl GenServer
  def init({table, options}) do
    # A builder ends with this process, but not the other way round.
    Process.flag(:trap_exit, true)
    Table.claim(table)

    Table.put_ids(table, table.ids)

    with {:ok, journal} <- open(options, table),
         state = %__MODULE__{table: table, options: options, journal: journal, waiting: Queue.new()},
         {:ok, state} <- begin(state, Table.recover(table)) do
      # Changes have priority over any number of searches. Long work runs elsewhere, so that no caller waits for this
      # process.
      Process.flag(:priority, :high)
      Table.put_process(table, self())
      # The process before may have ended between an id and its subscription.
      if Table.started?(table), do: Ids.sweep(table.ids, table.texts)
      {:ok, state, {:continue, :due}}
    else
      {:error, error} -> {:stop, error}
    end
  end

  defp open(%{dir: nil}, _table), do: {:ok, nil}

  defp open(%{dir: dir, durability: durability, schema: schema}, table) do
    with {:ok, schema} <- Domain.parse(schema), do: Store.open(dir, schema, Ids.kind(table.ids), durability)
  end

  defp begin(%{journal: %Journal{} = journal, table: table, options: options} = state, nil) do
    case Store.recover(journal, table, options) do
      {:ok, nil} -> begin_new(state)
      {:ok, recovered} -> begin_with(state, recovered)
      {:error, error} -> {:error, error}
    end
  end

  defp begin(%{options: %{image: image}} = state, nil) when image != nil do
    with {:ok, index} <- Image.read(image, state.options.read),
         {:ok, schema} <- Domain.parse(state.options.schema),
         :ok <-
           same_schema(
             index.schema,
             schema,
             "the image has another schema than the server; give the server the schema of the image"
           ),
         {:ok, index} <- own(index, state.options),
         do: begin_with(state, %{index: index, version: 0, history: [], complete: false})
  end

  defp begin(%{options: %{load: {module, function, arguments}}} = state, nil) do
    case apply(module, function, arguments) do
      {:error, error} -> {:error, error}
      {:ok, subscriptions} -> begin_loaded(state, subscriptions)
      subscriptions -> begin_loaded(state, subscriptions)
    end
  end

  defp begin(state, nil), do: begin_new(state)

  defp begin(%{journal: %Journal{} = journal, table: table} = state, {base, rows}) do
    # The process can have been killed between the journal and the log.
    with {:ok, more} <- Store.later(journal, table, base.version + length(rows)) do
      if base.version + length(rows ++ more) == Journal.last(journal) do
        for row <- more, do: append_again(row, table)
        begin_again(with_kept(state), {base, rows ++ more})
      else
        # It was killed in the middle of a swap, which the folder has.
        Table.forget_texts(table)
        begin(state, nil)
      end
    end
  end

  defp begin(state, recovered), do: begin_again(state, recovered)

  defp begin_loaded(%{table: table, options: options} = state, subscriptions) do
    with {:ok, wires} <- Subscription.new_all(subscriptions, Ids.kind(table.ids)),
         wires = with_keys(wires, table),
         {:ok, tree} <- BeTree.new(options.schema, options.new),
         {:ok, _count} <- Changes.insert(tree, wires),
         {:ok, index} <- Builder.publish(tree, options) do
      Table.put_texts(table, {0, [], wires})
      begin_with(state, %{index: index, version: 0, history: [], complete: true})
    end
  end

  defp begin_with(%{options: options} = state, %{index: index, version: version, history: history, complete: complete}) do
    with {:ok, tree} <- Changes.tree_again(index, [], options.memory) do
      {history, lineage} = if history == [], do: {Lineage.begin([], version), :begun}, else: {history, :former}
      base = %{history: history, index: index, version: version, origin: version, complete: complete}
      built = %{index: index, version: version, tree: tree, added: version}
      show(with_runtime(%{with_kept(state) | version: version, lineage: lineage}, index), base, built)
    end
  end

  # A base that the process before did not write is due at once.
  defp with_kept(%{journal: nil} = state), do: state

  defp with_kept(%{journal: journal} = state) do
    kept = if journal.base, do: journal.base.version, else: 0
    %{state | kept: kept, kept_bytes: Journal.bytes(journal)}
  end

  defp begin_new(%{options: options} = state) do
    with {:ok, tree} <- BeTree.new(options.schema, options.new),
         {:ok, index} <- Builder.publish(tree, options),
         {:ok, tree} <- Changes.tree_again(index, [], options.memory) do
      base = %{history: Lineage.begin([], 0), index: index, version: 0, origin: 0, complete: true}
      built = %{index: index, version: 0, tree: tree, added: 0}
      show(with_runtime(%{state | version: 0, lineage: :begun}, index), base, built)
    end
  end

  # The process has crashed. The base and the log have all changes; the log of the replicas may lack the last ones.
  defp begin_again(%{options: options} = state, {%{index: index} = base, rows}) do
    state = with_runtime(%{state | version: base.version + length(rows)}, index)

    with {:ok, tree} <- Changes.tree_again(index, rows, options.memory),
         built = %{index: index, version: base.version, tree: tree, added: state.version},
         {:ok, state} <- show(state, base, built) do
      with {:ok, state} <- if(state.log, do: complete_log(state, rows), else: whole(state)) do
        Table.complete_texts(state.table, state.base, :infinity)
        {:ok, state}
      end
    end
  end

  # The tables have the terms of a change before a replica has their numbers.
  defp append_again({version, deleted, wires}, %{ids: ids} = table) do
    for {key, _text, _constants} <- wires, do: Ids.put(ids, key)
    Table.append(table, version, deleted, wires)
  end

  defp complete_log(%{base: base} = state, rows) do
    with :ok <- Builder.complete_log(base, rows), do: {:ok, build_if_due(state)}
  end

  defp with_runtime(%{table: table} = state, %Index{runtime: runtime}) do
    log = Changes.log?(runtime)
    %{state | log: log, maintainer: state.maintainer || if(log, do: Maintainer.start_link(table.server))}
  end

  # Everything but a change first needs the changes that wait for the journal.
  @impl GenServer
  def handle_call(call, from, %{group: [_ | _]} = state)
      when not is_tuple(call) or
             (elem(call, 0) not in [:insert, :delete] and not (elem(call, 0) == :change and elem(call, 2) == [])) do
    handle_call(call, from, flush(state))
  end

  def handle_call({:insert, wires}, from, state) when is_list(wires),
    do: insert(wires, {:ok, length(wires)}, from, state)

  # An insertion that a cluster may revoke.
  def handle_call({:insert, wires, :version}, from, state) when is_list(wires),
    do: insert(wires, {:ok, state.version + 1}, from, state)

  # Deletes what the change of a version inserted and no other change has replaced or deleted since.
  def handle_call({:revoke, version, ids}, from, %{base: base, table: table} = state) do
    if base.complete or version > base.version do
      keys = for id <- ids, Table.version(table, id) == version, {:ok, key} <- [present_key(id, table)], do: key
      change([], keys, from, state)
    else
      message = "the index was swapped meanwhile, so the server does not know what the version #{version} inserted"
      {:reply, {:error, %Error{kind: :not_found, message: message}}, state}
    end
  end

  def handle_call({:delete, id}, from, state) do
    with {:ok, key} <- present_key(id, state.table),
         :ok <- Changes.delete(state.tree, key) do
      change_made(:ok, [key], [], from, state)
    else
      {:error, error} -> refuse(error, from, state)
    end
  end

  def handle_call({:change, wires, ids}, from, state) when is_list(wires) and is_list(ids) do
    state = fit(state)
    wires = with_keys(wires, state.table)

    with :ok <- if(wires == [], do: :ok, else: check_memory(state)),
         {:ok, keys} <- present_keys(ids, state),
         :ok <- Changes.check(state.tree, wires) do
      change(wires, keys, from, state)
    else
      {:error, error} -> refuse(error, from, release(wires, state))
    end
  end

  def handle_call({:check, wires}, from, state) when is_list(wires) do
    case Changes.check(state.tree, wires) do
      :ok -> {:reply, :ok, state}
      {:error, error} -> refuse(error, from, state)
    end
  end

  def handle_call({:swap, %Index{}}, _from, %{table: %{ids: %Ids{}}} = state) do
    message =
      "an index has integers for ids, and this server takes any term; insert the subscriptions, or start another server"

    {:reply, {:error, %Error{kind: :type, message: message}}, state}
  end

  def handle_call({:swap, %Index{} = index}, _from, state) do
    state = stop_building(state)

    with :ok <- check_schema(index, state),
         {:ok, snapshot_index} <- own(index, state.options),
         {:ok, tree} <- Changes.tree_again(snapshot_index, [], state.options.memory),
         version = state.version + 1,
         base = %{state.base | index: snapshot_index, version: version, origin: version, complete: false},
         base = %{base | history: next_history(state, state.version)},
         built = %{index: snapshot_index, version: version, tree: tree, added: version},
         {:ok, state} <- keep_swapped(state, base),
         # The log does not lead to this base, so no row before it is kept.
         {:ok, state} <- show(with_runtime(%{state | version: version, base: nil}, index), base, built) do
      {:reply, :ok, renew(%{state | lineage: :kept})}
    else
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

  def handle_call({:await, wanted, timeout}, from, %{base: base} = state) do
    {:noreply, %{state | waiting: Queue.add(state.waiting, from, wanted, timeout, {base.history, state.version})}}
  end

  def handle_call(:flush, _from, %{journal: %Journal{}} = state) do
    case Journal.flush(state.journal) do
      {:ok, journal} -> {:reply, :ok, %{state | journal: journal}}
      {:error, error, journal} -> {:reply, {:error, error}, %{state | journal: journal}}
    end
  end

  def handle_call(:version, _from, state), do: {:reply, {:ok, state.version}, state}
  def handle_call(:position, _from, state), do: {:reply, {:ok, {Lineage.id(state.base.history), state.version}}, state}
  def handle_call(:read_options, _from, state), do: {:reply, {:ok, state.options.read}, state}
  def handle_call(:info, _from, state), do: {:reply, {:ok, info(state)}, state}
  def handle_call(call, _from, state), do: {:reply, Stray.refuse(call), state}

  @impl GenServer
  def handle_cast(cast, state) do
    Stray.ignore(:cast, cast)
    {:noreply, state}
  end

  # The caller of an acknowledged change does not wait for this.
  @impl GenServer
  def handle_continue(:due, state) do
    {:noreply, state |> flush() |> advance() |> build_if_due() |> keep_if_due() |> drop(@dropped)}
  end

  @impl GenServer
  def handle_info(:collect, state) do
    :erlang.garbage_collect()
    {:noreply, state}
  end

  # Before the flush below: callers that stop waiting do not end the sharing of a sync.
  def handle_info({:expired, waiter}, state) when is_reference(waiter) do
    Queue.remove(state.waiting, waiter)
    {:noreply, state}
  end

  def handle_info({:gone, waiter, :process, _pid, _reason}, state) do
    Queue.remove(state.waiting, waiter)
    {:noreply, state}
  end

  def handle_info(:commit, state), do: {:noreply, flush(state), {:continue, :due}}
  def handle_info(message, %{group: [_ | _]} = state), do: handle_info(message, flush(state))

  def handle_info({:kept, pid, outcome}, %{keeping: pid} = state) when is_pid(pid) do
    {:noreply, kept(%{state | keeping: nil}, outcome)}
  end

  def handle_info({:EXIT, pid, reason}, %{keeping: pid} = state) when is_pid(pid) do
    error = %Error{kind: :trap, message: "writing a base ended with #{Describe.reason(reason)}"}
    {:noreply, kept(%{state | keeping: nil}, {:error, error})}
  end

  def handle_info({:built, pid, outcome}, %{builder: {pid, from}} = state) do
    {:noreply, built(%{state | builder: nil}, outcome, from)}
  end

  def handle_info({:EXIT, pid, reason}, %{builder: {pid, from}} = state) do
    error = %Error{kind: :trap, message: "building the next base ended with #{Describe.reason(reason)}"}
    {:noreply, built(%{state | builder: nil}, {:error, error}, from)}
  end

  def handle_info({:EXIT, pid, _reason}, %{maintainer: pid, table: table} = state) when is_pid(pid) do
    {:noreply, %{state | maintainer: Maintainer.start_link(table.server)}}
  end

  # A replica of the present base could not apply the log. A base of the tree needs no log.
  def handle_info({:unfit, pid, instance, error}, %{maintainer: pid} = state) when is_pid(pid) do
    if instance == state.base.index.instance do
      state = stop_building(%{state | error: error})
      {:noreply, unless_failed(whole(state), state)}
    else
      {:noreply, state}
    end
  end

  def handle_info(:drop, state), do: {:noreply, drop(%{state | dropping: false}, Ids.most())}
  def handle_info({:build, timer}, %{retry: timer} = state), do: {:noreply, build_if_due(%{state | retry: nil})}

  # Messages of a builder that was told to stop, or that has finished.
  def handle_info({:EXIT, _pid, _reason}, state), do: {:noreply, state}
  def handle_info({:built, pid, _outcome}, state) when is_pid(pid), do: {:noreply, state}
  def handle_info({:kept, pid, _outcome}, state) when is_pid(pid), do: {:noreply, state}
  def handle_info(:keep, state), do: {:noreply, keep_if_due(%{state | keeping: nil})}

  def handle_info(message, state) do
    with %Journal{} = journal <- state.journal,
         {:ok, journal} <- Journal.info(journal, message) do
      {:noreply, %{state | journal: journal}}
    else
      _not_of_the_journal ->
        Stray.ignore(:message, message)
        {:noreply, state}
    end
  end

  # The changes that wait are made, and everything reaches the disk.
  @impl GenServer
  def terminate(_reason, %{journal: nil}), do: :ok

  # The guard of the other callbacks leaves this one out.
  def terminate(_reason, state), do: CrashReport.guard(fn -> close(state) end)

  defp close(state) do
    %{journal: journal} = flush(state)

    with {:error, error} <- Journal.close(journal) do
      :logger.error("BeTree: the last changes may not be on the disk: #{Exception.message(error)}", %{
        domain: [:be_tree]
      })
    end
  end

  ## Ids

  # Gives each id of a list its key.
  defp with_keys(wires, %{ids: nil}), do: wires

  defp with_keys(wires, %{ids: ids}),
    do: for({id, text, constants} <- wires, do: {Ids.key(ids, id), text, constants})

  defp present_key(id, %{ids: nil}), do: with(:ok <- Id.check(id, :integer), do: {:ok, id})

  defp present_key(id, %{ids: ids}) do
    case Ids.keys(ids, id) do
      [key | _former] -> {:ok, key}
      [] -> Ids.not_found(id)
    end
  end

  # The keys of subscriptions that are not inserted need not stay.
  defp release(wires, %{table: %{ids: ids}} = state) do
    if ids, do: Ids.release(ids, Enum.map(wires, &elem(&1, 0)))
    drop(state, 0)
  end

  defp drop(%{table: %{ids: ids, texts: texts}, dropping: dropping} = state, most),
    do: %{state | dropping: Ids.drop(ids, texts, most, dropping)}

  ## Changes

  defp insert(wires, reply, from, state) do
    state = fit(state)
    wires = with_keys(wires, state.table)

    with :ok <- check_memory(state),
         {:ok, _count} <- Changes.insert(state.tree, wires),
         do: change_made(reply, [], wires, from, state),
         else: ({:error, error} -> refuse(error, from, release(wires, state)))
  end

  # Deletes and then inserts, all or nothing.
  defp change(wires, keys, from, state) do
    case delete_each(state.tree, keys, Enum.map(wires, &elem(&1, 0)), []) do
      {:ok, deleted} ->
        case Changes.insert(state.tree, wires) do
          {:ok, count} ->
            change_made({:ok, %{put: count, deleted: length(keys)}}, deleted, wires, from, state)

          {:error, error} ->
            undo(error, deleted, from, release(wires, state))
        end

      {:error, error, deleted} ->
        undo(error, deleted, from, release(wires, state))
    end
  end

  # Deletes `ids`, and those of `replaced` that are there. Returns the deleted ids.
  defp delete_each(tree, [id | rest], replaced, deleted) do
    case Changes.delete(tree, id) do
      :ok -> delete_each(tree, rest, replaced, [id | deleted])
      {:error, error} -> {:error, error, deleted}
    end
  end

  defp delete_each(_tree, [], [], deleted), do: {:ok, Enum.reverse(deleted)}

  defp delete_each(tree, [], [id | rest], deleted) do
    case Changes.delete(tree, id) do
      :ok -> delete_each(tree, [], rest, [id | deleted])
      {:error, %Error{kind: :not_found}} -> delete_each(tree, [], rest, deleted)
      {:error, error} -> {:error, error, deleted}
    end
  end

  defp undo(error, [], from, state), do: refuse(error, from, state)
  defp undo(error, _deleted, from, state), do: refused(error, from, tree_again(state))

  # Returns the keys of ids, if all of them are there. Without texts, the deletion itself finds out.
  defp present_keys(ids, %{base: %{complete: false}}), do: {:ok, ids}

  defp present_keys(ids, %{table: table}) do
    Enum.reduce_while(ids, {:ok, []}, fn id, {:ok, keys} ->
      with {:ok, key} <- present_key(id, table), {:ok, _text} <- Table.text(table, key) do
        {:cont, {:ok, [key | keys]}}
      else
        :error -> {:halt, Ids.not_found(id)}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
    |> case do
      {:ok, keys} -> {:ok, Enum.reverse(keys)}
      {:error, error} -> {:error, error}
    end
  end

  # Records a change that the tree has accepted, and acknowledges it. A change that is to be durable waits for the journal, with
  # all that are in the mailbox already, and shares a sync with them.
  defp change_made(reply, [], [], _from, state), do: {:reply, reply, state}

  defp change_made(reply, deleted, wires, from, state) do
    row = {state.version + 1, deleted, wires}
    state = %{state | version: state.version + 1, count: state.count + length(wires) - length(deleted)}

    if state.journal do
      if state.group == [], do: send(self(), :commit)
      group = [{from, reply, row} | state.group]
      state = %{state | group: group}
      if length(group) < @group, do: {:noreply, state}, else: {:noreply, flush(state), {:continue, :due}}
    else
      {:reply, reply, make([row], state), {:continue, :due}}
    end
  end

  # Writes the changes that wait to the journal, makes them, and acknowledges them. If they cannot be written, none is made.
  defp flush(%{group: []} = state), do: state

  defp flush(%{group: group, journal: journal} = state) do
    group = Enum.reverse(group)
    rows = for {_from, _reply, row} <- group, row != nil, do: row
    history = next_history(state, state.version - length(rows))
    records = records(rows, history, state)

    case write(journal, records, state) do
      {:ok, journal} ->
        kept_bytes = state.kept_bytes + IO.iodata_length(records)
        state = make_in(history, rows, %{state | journal: journal, group: [], kept_bytes: kept_bytes})
        for {from, reply, _row} <- group, do: GenServer.reply(from, reply)
        state

      {:error, error, journal} ->
        state = unmake(%{state | journal: journal, group: [], version: state.version - length(rows), error: error})
        state = for {_version, _deleted, wires} <- rows, reduce: state, do: (state -> release(wires, state))
        for {from, _reply, _row} <- group, do: GenServer.reply(from, {:error, error})
        state
    end
  end

  # Returns the history of the next change, after the last version. Followers may have seen changes that the folder has lost, so the
  # first change of a process begins a lineage, unless the process began one at its start.
  defp next_history(%{journal: %Journal{}, lineage: :former, base: base}, last),
    do: Lineage.begin(base.history, last)

  defp next_history(%{base: base}, _last), do: base.history

  # Makes changes that the folder has, the first of them perhaps the first of a lineage. The history comes before the rows, so that no
  # courier sends them as changes of the lineage before.
  defp make_in(_history, rows, %{lineage: lineage} = state) when rows == [] or lineage == :kept, do: make(rows, state)

  defp make_in(history, rows, %{base: base, table: table} = state) do
    base = %{base | history: history}
    Table.renew_base(table, base)
    renew(make(rows, %{state | base: base, lineage: :kept}))
  end

  defp records([first | rest], history, %{lineage: lineage}) when lineage != :kept,
    do: [Store.record(first, Lineage.id(history)) | Enum.map(rest, &Store.record/1)]

  defp records(rows, _history, _state), do: Enum.map(rows, &Store.record/1)

  defp write(journal, records, %{table: %{server: server}, options: %{durability: durability}}) do
    metadata = %{server: server, durability: durability}

    Telemetry.span(:journal, metadata, fn -> Journal.append(journal, records) end, fn _outcome ->
      %{changes: length(records), bytes: IO.iodata_length(records)}
    end)
  end

  defp unmake(state) do
    state = tree_again(state)
    {:ok, %{expressions: count}} = BeTree.info(state.tree)
    %{state | count: count}
  end

  defp make(rows, state) do
    # The one place that each change passes, with its version, before it is acknowledged and before a search sees it.
    for {version, deleted, wires} <- rows, do: Table.append(state.table, version, deleted, wires)
    Table.forget(state.table, state.oldest, @dropped)
    bytes = for {_version, _deleted, wires} <- rows, reduce: 0, do: (bytes -> bytes + Changes.bytes(wires))
    state = put_into_replicas(%{state | bytes: state.bytes + bytes}, rows)
    for row <- rows, do: :ok = Table.put_new_texts(state.table, row, state.base)
    state
  end

  defp put_into_replicas(state, rows) do
    if state.log and not Enum.any?(rows, &large?/1) and not emptied?(state) do
      append(state, rows)
      for {version, _deleted, _wires} <- rows, do: Maintainer.wake(state.maintainer, version)
      state
    else
      put_whole(state, rows)
    end
  end

  defp large?({_version, deleted, wires}), do: Changes.size(deleted, wires) > @many

  defp append(%{base: %{index: %{runtime: runtime, instance: instance}}}, rows) do
    :ok = Builder.append(runtime, instance, rows)
  end

  # Without memory for another base, the replicas apply a large change too. The replicas of some runtimes cannot. They show the
  # change when there is memory again.
  defp put_whole(state, rows) do
    state = stop_building(state)

    case whole(state) do
      {:ok, state} ->
        state

      {:error, error} ->
        if state.log, do: append(state, rows)
        retry(%{state | error: error})
    end
  end

  # A tree that was emptied has moved to a new instance (BeTree.Call.Deletion), and takes much less memory than the base.
  defp emptied?(%{count: 0, tree: tree, base: base}),
    do: 2 * tree.runtime.info(tree.instance).memory < base.index.info.memory_bytes

  defp emptied?(_state), do: false

  defp refuse(error, from, state) do
    state = if error.kind in @doubtful, do: restore(state), else: state
    refused(error, from, state)
  end

  # A refusal may be due to a change that waits for the journal, so it is not returned before that one is made.
  defp refused(error, _from, %{group: []} = state), do: {:reply, {:error, error}, state}
  defp refused(error, from, state), do: {:noreply, %{state | group: [{from, {:error, error}, nil} | state.group]}}

  # A change that was cut off may have damaged the tree. Every later call then returns that error, so the tree is made anew.
  defp restore(%{count: count} = state) do
    case BeTree.info(state.tree) do
      {:ok, %{expressions: ^count}} -> state
      _damaged -> tree_again(state)
    end
  end

  defp tree_again(state) do
    {:ok, tree} = Changes.tree_again(state.base.index, since(state), state.options.memory)
    %{state | tree: tree, unfit: unfit(tree, state)}
  end

  defp since(%{table: table, base: base, group: group}) do
    Table.later(table, base.version) ++ for({_from, _reply, row} <- Enum.reverse(group), row != nil, do: row)
  end

  # A tree that was made anew may exceed the limit. It then takes no insertions until it fits again, which is checked after
  # deletions.
  defp unfit(tree, %{options: options, count: count}), do: if(tree.memory > options.memory, do: count)

  defp fit(%{unfit: unfit, count: count} = state) when is_integer(unfit) and count < unfit do
    state = flush(state)

    # A tree that was emptied is small again, and the base may not be.
    if state.tree.runtime.info(state.tree.instance).memory <= state.options.memory,
      do: unless_failed(whole(state), state),
      else: fit_again(state)
  end

  defp fit(state), do: state

  defp fit_again(%{count: count} = state) do
    case Changes.tree(state.base.index, since(state), state.options.memory) do
      {:ok, tree} -> %{state | tree: tree, unfit: nil}
      {:error, _error} -> %{state | unfit: count}
    end
  end

  defp check_memory(%{unfit: nil}), do: :ok

  defp check_memory(%{options: %{memory: memory}}) do
    message =
      "the subscriptions take more than the server's memory limit of #{memory} bytes since its process was started " <>
        "again; delete some, or start the server with a higher limit"

    {:error, %Error{kind: :out_of_memory, message: message}}
  end

  ## Bases

  # Publishes the tree as the base.
  defp whole(%{options: options, version: version} = state) do
    with {:ok, index} <- Builder.publish(state.tree, options),
         {:ok, tree} <- Changes.tree_again(index, [], options.memory) do
      base = %{state.base | index: index, version: version, origin: version}
      show(state, base, %{index: index, version: version, tree: tree, added: version})
    end
  end

  # Continues with a base that contains all changes, or has them in its log.
  defp show(%{table: table} = state, base, %{tree: tree, added: version}) do
    with {:ok, %{expressions: count}} <- BeTree.info(tree) do
      ^version = state.version
      # Followers may lack the rows since the base before.
      oldest = if state.base, do: state.base.version, else: base.version
      Table.put_base(table, base, View.new(base.index, table.server, table.ids), oldest)

      Heap.collect_later()
      bytes = Builder.bytes(Table.later(table, base.version))
      state = %{state | base: base, tree: tree, count: count, bytes: bytes, error: nil, bases: state.bases + 1}
      {:ok, %{state | unfit: unfit(tree, state)}}
    end
  end

  defp unless_failed({:ok, state}, _failed), do: state
  defp unless_failed({:error, _error}, failed), do: retry(failed)

  # An index that is swapped in may have other searches. The server's replicas are its own, and have its limits.
  defp own(%Index{} = index, options) do
    Index.new(index.guest, index.schema, index.snapshot, index.fuel_per_reduction, Builder.limits(options))
  end

  defp build_if_due(%{builder: nil, retry: nil, log: true} = state) do
    if due?(state) do
      builder = Builder.next(state.table, state.base, state.tree, state.options)
      %{state | builder: {builder, nil}}
    else
      state
    end
  end

  defp build_if_due(%{builder: nil, retry: nil, log: false, version: version, base: %{version: shown}} = state)
       when version > shown,
       do: unless_failed(whole(state), state)

  defp build_if_due(state), do: state

  defp due?(%{base: %{index: %{info: info}, version: version}} = state) do
    state.version - version > info.expressions |> div(@share) |> max(@least) |> min(@most) or
      state.bytes > max(div(info.memory_bytes, @share_of_bytes), @least_bytes)
  end

  # The folder of a server belongs to one schema.
  defp check_schema(_index, %{journal: nil}), do: :ok

  defp check_schema(%{schema: schema}, %{base: %{index: %{schema: own}}}) do
    message =
      "the folder of this server belongs to its schema; swap in an index of the same schema, or start another server"

    same_schema(schema, own, message)
  end

  defp same_schema(schema, other, message) do
    if Domain.encode(schema) == Domain.encode(other),
      do: :ok,
      else: {:error, %Error{kind: :other_schema, message: message}}
  end

  defp keep_swapped(%{journal: nil} = state, _base), do: {:ok, state}

  defp keep_swapped(%{journal: journal} = state, %{version: version} = base) do
    state = stop_keeping(state)

    with :ok <- Store.keep_swapped(journal, base) do
      case Journal.rebase(journal, version) do
        {:ok, journal} -> {:ok, %{state | journal: journal, kept: version, kept_bytes: 0}}
        # Older files are left over, and the next base removes them.
        {:error, error, journal} -> {:ok, %{state | journal: journal, kept: version, kept_bytes: 0, error: error}}
      end
    end
  end

  defp stop_keeping(%{keeping: pid} = state) when is_pid(pid) do
    Process.unlink(pid)
    Process.exit(pid, :kill)
    %{state | keeping: nil}
  end

  defp stop_keeping(state), do: state

  # Recovery takes time with the changes since the last base in the folder.
  defp keep_if_due(%{journal: %Journal{} = journal, keeping: nil, table: table} = state) do
    server = self()

    if state.version - state.kept > max(@kept_changes, div(state.count, @kept_share)) or state.kept_bytes > @kept_bytes or
         Journal.fragmented?(journal) do
      flush = fn -> GenServer.call(server, :flush, :infinity) end
      %{state | keeping: Store.keep(table, journal, flush), kept_bytes: 0}
    else
      state
    end
  end

  defp keep_if_due(state), do: state

  defp kept(%{journal: journal} = state, {:ok, version}) do
    case Journal.trim(journal, version) do
      {:ok, journal} -> %{state | journal: journal, kept: version}
      {:error, error, journal} -> %{state | journal: journal, kept: version, error: error}
    end
  end

  # The changes are in the journal, so nothing is lost. Another base is tried after a while.
  defp kept(state, {:error, error}) do
    Process.send_after(self(), :keep, @again)
    %{state | error: error, keeping: :later}
  end

  defp stop_building(%{builder: nil} = state), do: state

  defp stop_building(%{builder: {pid, from}} = state) do
    Process.unlink(pid)
    Process.exit(pid, :kill)
    message = "another swap, or too many changes, came before this one was done; try again"
    reply(from, {:error, %Error{kind: :overloaded, message: message}})
    %{state | builder: nil}
  end

  # The replicas and the tree continue as they are.
  defp built(%{table: table} = state, {:ok, {:renewed, index, version}}, nil) do
    oldest = state.base.version
    base = %{state.base | index: index, version: version}
    Table.renew_base(table, base)
    Heap.collect_later()

    case index.runtime.rebase(index.instance, index.snapshot) do
      :ok ->
        bytes = Builder.bytes(Table.later(table, version))
        build_if_due(%{state | base: base, oldest: oldest, bytes: bytes, bases: state.bases + 1, error: nil})

      {:error, error} ->
        retry(%{state | base: base, error: error})
    end
  end

  defp built(state, outcome, from) do
    with {:ok, built} <- outcome,
         {:ok, built} <- Builder.add(built, Table.later(state.table, built.added)),
         base = %{state.base | index: built.index, version: built.version, origin: built.version},
         {:ok, state} <- show(state, base, built) do
      reply(from, :ok)
      # The changes meanwhile may be too many again.
      build_if_due(state)
    else
      {:error, error} ->
        reply(from, {:error, error})
        if from, do: build_if_due(state), else: retry(%{state | error: error})
    end
  end

  defp retry(state) do
    timer = make_ref()
    Process.send_after(self(), {:build, timer}, @again)
    %{state | retry: timer}
  end

  defp reply(nil, _reply), do: :ok
  defp reply(from, reply), do: GenServer.reply(from, reply)

  defp advance(%{waiting: waiting, version: version} = state), do: %{state | waiting: Queue.advance(waiting, version)}

  defp renew(%{waiting: waiting, base: %{history: history}, version: version} = state),
    do: %{state | waiting: Queue.renew(waiting, {history, version})}

  defp info(%{base: %{index: %{runtime: runtime} = index} = base} = state) do
    {_length, lag} = if state.log, do: runtime.lag(index.instance), else: {0, 0}
    # A tree that a change has damaged is made anew with the next one.
    counts = with {:error, _error} <- BeTree.info(state.tree), do: {:ok, index.info}

    Map.merge(elem(counts, 1), %{
      expressions: state.count,
      version: state.version,
      lineage: Lineage.id(base.history),
      base: base.version,
      log: state.version - base.version,
      lag: lag,
      bases: state.bases,
      building: state.builder != nil,
      memory: index.info.memory_bytes,
      replicas: Builder.copies(index),
      ids: Ids.info(state.table.ids),
      journal: journal_info(state.journal),
      error: state.error
    })
  end

  defp journal_info(nil), do: nil
  defp journal_info(%Journal{} = journal), do: %{durable: journal.durable, error: journal.error}
end

defmodule BeTree.Tenants.Partition do
  @moduledoc false
  # The process that loads, changes, evicts and drops the tenants of a partition, and owns some shards.
  #
  # A match of a tenant in memory never comes here. The operations of one tenant run one after another, those of different tenants
  # share the syncs of the store: a change is made in the shard, which accepts or refuses it, then appended to the store, and
  # acknowledged when the store has it. If the store fails, the copy is replaced by what the store has. Meanwhile later operations of
  # that tenant wait in its queue, and other tenants go on.
  #
  # The process may be killed at any moment. Its tables (BeTree.Tenants.Directory) have the tenants in memory and the operations that were
  # under way, and a process that starts again settles those: it keeps the statistics of such a copy, and lets the tenant be loaded
  # from the store. A caller whose load was interrupted asks again; a change may have been made or not.
  #
  # A shard that trapped is forgotten, and its tenants are loaded into others when they are used. What they counted since the store last
  # got their statistics is lost.

  use BeTree.Processes.Server

  alias BeTree.{Error, Telemetry}
  alias BeTree.Input.Describe
  alias BeTree.Processes.CrashReport
  alias BeTree.Tenants.{Body, Clock, Copy, Directory, Quota, Shard, Shards, Store, Usage, Victims}

  # Tenants whose statistics are written before the next message.
  @max_saved_at_once 16
  # The process writes statistics for one part in so many of its time, because it has much to write: a thousand tenants with some
  # hundred sketches each are 50 MB.
  @save_share 20

  # Changes after a body before the next body.
  @max_tail 64

  # Tenants that leave at the same time, and share syncs of the store.
  @max_leaving 64

  # Milliseconds that the end of the process waits for the store.
  @end_timeout_ms 60_000
  # Milliseconds after which the supervisor ends the process. The store may have ended before.
  @shutdown_ms 120_000

  @enforce_keys [:directory, :partition, :shards]
  defstruct @enforce_keys ++
              [
                copies: %{},
                bytes: 0,
                busy: %{},
                pending: %{},
                leaving: 0,
                unsaved: [],
                round_began: nil,
                victims: Victims.new(),
                error: nil,
                stuck: false,
                expired: nil
              ]

  @typedoc """
    * `:copies` - the tenants in memory; `:bytes` - the sum of their bytes;
    * `:busy` - the tenants with an operation that waits for the store, each with the operations that wait for that, last one first;
    * `:pending` - by the reference of an answer of the store, what happens then;
    * `:leaving` - the copies whose statistics the store is writing, before they leave;
    * `:unsaved` - the tenants whose statistics the present round has still to write, and `:round_began` the time of its begin in
      milliseconds;
    * `:victims` - the least recently used tenants;
    * `:error` - the error of the store that was logged, `nil` after a success; `:stuck` - whether it failed since the last round, which
      stops evictions until the next;
    * `:expired` - the day on which this process last let the store remove old days.
  """
  @type t :: %__MODULE__{}

  @doc "Starts a partition."
  @spec start_link({Directory.t(), non_neg_integer}) :: GenServer.on_start()
  def start_link(argument), do: GenServer.start_link(__MODULE__, argument)

  @doc "Returns the child specification of a partition."
  @spec child_spec({Directory.t(), non_neg_integer}) :: Supervisor.child_spec()
  def child_spec({_directory, partition} = argument) do
    # The last statistics of all tenants are written when it is stopped.
    %{id: {__MODULE__, partition}, start: {__MODULE__, :start_link, [argument]}, shutdown: @shutdown_ms}
  end

  ## Start

  @impl GenServer
  def init({directory, partition}) do
    Process.flag(:trap_exit, true)
    state = %__MODULE__{directory: directory, partition: partition, shards: Shards.new(directory, partition)}
    Directory.put_partition(directory, partition)
    tick(state)
    {:ok, state, {:continue, :begin}}
  end

  # Not before the supervisor goes on: this waits for the store, which the supervisor may have to start again.
  @impl GenServer
  def handle_continue(:begin, state), do: {:noreply, state |> find_copies() |> settle_intents()}

  defp tick(%{directory: %{options: %{interval: interval}}}), do: Process.send_after(self(), :tick, interval)

  # The copies that the process before left. A tenant without a readable copy is loaded when it is used.
  defp find_copies(%{directory: directory, partition: partition} = state) do
    rows =
      for {{tenant}, shard, id, number, _day, _counters, slots, bucket, _clock} <- :ets.tab2list(directory.name),
          Directory.partition(directory, tenant) == partition,
          do: %Copy{
            tenant: tenant,
            shard: shard,
            shard_id: id,
            number: number,
            slots: slots,
            bucket: bucket
          }

    rows
    |> Enum.reduce(state, fn %{tenant: tenant} = copy, state ->
      with {:ok, body} <- Copy.read(directory, tenant),
           {:ok, copy} <- Copy.measure(%{copy | stats: body.stats, quota: body.quota, place: Body.place(body)}) do
        arrived(%{state | shards: Shards.found(state.shards, copy.shard_id)}, copy)
      else
        {:error, _error} ->
          Copy.hide(copy, directory)
          state
      end
    end)
    |> put_sizes()
  end

  defp settle_intents(%{directory: directory, partition: partition} = state) do
    intents =
      for {{_tenant, {^partition, _shard}, _number}, _intent} = entry <- :ets.tab2list(directory.intents), do: entry

    Enum.reduce(intents, state, &settle_intent/2)
  end

  defp settle_intent({{tenant, id, number} = key, intent}, %{directory: directory} = state) do
    state =
      case {intent, Shards.shard(directory, id)} do
        {_intent, nil} -> state
        {:load, shard} -> discard(state, shard, number)
        {_doubtful, shard} -> keep_statistics(state, tenant, id, shard, number)
      end

    :ets.delete(directory.intents, key)
    state
  end

  defp discard(state, shard, number) do
    # The number has no tenant if the process ended before the first call.
    _ = Shard.drop(shard, number)
    state
  end

  defp keep_statistics(%{directory: directory, copies: copies} = state, tenant, id, shard, number) do
    known = match?(%{number: ^number}, Map.get(copies, tenant))
    unknown = %Copy{tenant: tenant, shard: shard, shard_id: id, number: number, slots: Quota.new_slots()}
    copy = if known, do: copies[tenant], else: unknown
    if known, do: Copy.hide(copy, directory)

    outcome = with :ok <- Shard.freeze(shard, number), {:ok, _copy} <- Copy.save(copy, directory), do: :ok
    _ = Shard.drop(shard, number)
    state = if known, do: left(state, copy), else: state

    case outcome do
      :ok ->
        state

      # The process before created the tenant, and ended before the store had it.
      {:error, %Error{kind: :not_found}} ->
        Directory.put_usage(directory, tenant, [])
        state

      {:error, error} ->
        warn(state, error)
    end
  end

  ## Operations

  @impl GenServer
  def handle_call({:lost, id}, _from, state), do: {:reply, :ok, lose(state, id)}

  def handle_call(request, from, state)
      when elem(request, 0) in [:load, :statistics, :snapshot, :evict, :change, :drop] do
    {:noreply, begin(request, from, elem(request, 1), state)}
  end

  def handle_call(call, from, state), do: super(call, from, state)

  @impl GenServer
  def handle_cast(:shed, state), do: {:noreply, shed(state, nil)}
  def handle_cast(cast, state), do: super(cast, state)

  @impl GenServer
  def handle_info({reference, reply}, %{pending: pending} = state) when is_map_key(pending, reference) do
    {{tenant, finish}, pending} = Map.pop!(pending, reference)
    {waiting, busy} = Map.pop(state.busy, tenant, [])
    {:noreply, reply |> finish.(%{state | pending: pending, busy: busy}) |> begin_all(Enum.reverse(waiting), tenant)}
  end

  def handle_info(:tick, state) do
    tick(state)
    handle_info(:round, state)
  end

  # Writes statistics, and whatever time has made due.
  def handle_info(:round, state) do
    state = %{state | stuck: false} |> roll() |> expire()
    {:noreply, state |> begin_round() |> shed(nil)}
  end

  # The process that asked for the change gets an error too.
  def handle_info({Store, :refused, _tenant, _error}, state), do: {:noreply, state}

  def handle_info(:save, state) do
    {microseconds, state} = :timer.tc(fn -> save_some(state, @max_saved_at_once) end)

    if state.unsaved == [],
      do: Directory.put_round(state.directory, state.partition, now_ms() - state.round_began),
      else: Process.send_after(self(), :save, div(microseconds * (@save_share - 1), 1_000))

    {:noreply, state}
  end

  def handle_info(message, state), do: super(message, state)

  @impl GenServer
  def terminate(_reason, state) do
    CrashReport.guard(fn ->
      references =
        for {_tenant, copy} <- state.copies, changed?(copy, state.directory), do: write_last(copy, state.directory)

      for reference <- references,
          is_reference(reference),
          do: receive(do: ({^reference, _reply} -> :ok), after: (@end_timeout_ms -> :ok))
    end)
  end

  defp write_last(copy, directory) do
    with :ok <- Copy.settle(copy, directory), {:ok, fields} <- Copy.statistics(copy, directory) do
      reference = make_ref()
      :ok = Copy.write(copy, directory, fields, {self(), reference})
      reference
    end
  end

  defp begin(request, from, tenant, %{busy: busy} = state) do
    case busy do
      %{^tenant => waiting} -> %{state | busy: %{busy | tenant => [{request, from} | waiting]}}
      _free -> operate(request, from, state)
    end
  end

  # Begins operations that waited. If one of them waits for the store too, the others follow it.
  defp begin_all(state, waiting, tenant) do
    Enum.reduce(waiting, state, fn {request, from}, state -> begin(request, from, tenant, state) end)
  end

  # Makes later operations of the tenant wait until the store has replied to this process.
  defp wait(%{busy: busy, pending: pending} = state, tenant, reference, finish) do
    %{state | busy: Map.put(busy, tenant, []), pending: Map.put(pending, reference, {tenant, finish})}
  end

  defp operate({:load, tenant, day}, from, state) do
    case ensure(state, tenant) do
      {:ok, copy, state} ->
        GenServer.reply(from, {:ok, row_of(copy, day, state.directory)})
        shed(state, tenant)

      {:error, error, state} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  defp operate({:statistics, tenant}, from, %{directory: directory} = state) do
    with %Copy{} = copy <- Map.get(state.copies, tenant),
         :ok <- Copy.settle(copy, directory),
         {:ok, fields} <- Copy.statistics(copy, directory) do
      GenServer.reply(from, {:ok, struct!(Body, fields)})
      state
    else
      nil ->
        GenServer.reply(from, :cold)
        state

      {:error, %Error{kind: :trap}} ->
        GenServer.reply(from, :cold)
        lose(state, state.copies[tenant].shard_id)

      {:error, error} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  defp operate({:snapshot, tenant}, from, %{directory: directory} = state) do
    case state.copies do
      %{^tenant => copy} ->
        case Copy.save(copy, directory) do
          {:ok, copy} ->
            GenServer.reply(from, :ok)
            put_copy(state, copy)

          {:error, error} ->
            GenServer.reply(from, {:error, error})
            state
        end

      _cold ->
        GenServer.reply(from, with({:ok, _body} <- Copy.read(directory, tenant), do: :ok))
        state
    end
  end

  defp operate({:evict, tenant}, from, %{directory: directory} = state) do
    case state.copies do
      %{^tenant => copy} ->
        leave(state, copy, &GenServer.reply(from, &1))

      _cold ->
        GenServer.reply(from, with({:ok, _body} <- Copy.read(directory, tenant), do: :ok))
        state
    end
  end

  defp operate({:drop, tenant}, from, %{directory: directory} = state) do
    with nil <- Map.get(state.copies, tenant), {:error, error} <- Copy.read(directory, tenant) do
      # A damaged tenant can be dropped.
      if error.kind == :not_found, do: GenServer.reply(from, {:error, error})
      if error.kind == :not_found, do: state, else: drop_all(state, tenant, from)
    else
      _exists -> drop_all(state, tenant, from)
    end
  end

  defp operate({:change, tenant, change}, from, state) do
    case ensure(state, tenant) do
      {:ok, copy, state} ->
        change_copy(state, copy, change, from)

      {:error, %Error{kind: :not_found}, state} ->
        create(state, tenant, change, from)

      {:error, error, state} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  ## Loading

  # Returns the copy of a tenant, and loads it if it is not in memory.
  defp ensure(%{copies: copies} = state, tenant) do
    case copies do
      %{^tenant => copy} -> {:ok, copy, state}
      _cold -> load_cold(state, tenant)
    end
  end

  defp load_cold(%{directory: directory} = state, tenant) do
    started = System.monotonic_time()

    with {:ok, body} <- Copy.read(directory, tenant),
         {:ok, copy, state} <- enter(state, tenant, body) do
      Copy.show(copy, directory)
      state = arrived(state, copy)
      Directory.count(directory, :loads)
      emit(state, :load, %{duration: System.monotonic_time() - started, bytes: copy.bytes}, %{tenant: tenant})
      {:ok, copy, state}
    else
      {:error, error} -> {:error, error, state}
      {:error, error, state} -> {:error, error, state}
    end
  end

  # Brings a tenant into a shard. A caller makes the row, and `arrived/2` counts it.
  defp enter(%{directory: directory, shards: shards} = state, tenant, body, kind \\ :load) do
    case Shards.place(shards, Body.place(body)) do
      {:ok, {id, _shard, number} = place, shards} ->
        intent = {tenant, id, number}
        :ets.insert(directory.intents, {intent, :load})

        case Copy.enter(directory, tenant, body, place, kind) do
          {:ok, copy} ->
            :ets.delete(directory.intents, intent)
            {:ok, copy, %{state | shards: shards}}

          {:error, error} ->
            :ets.delete(directory.intents, intent)
            {:error, error, trapped(%{state | shards: Shards.release(shards, id)}, error, id)}
        end

      {:error, error} ->
        {:error, error, state}
    end
  end

  defp arrived(%{copies: copies, bytes: bytes} = state, copy),
    do: put_sizes(%{state | copies: Map.put(copies, copy.tenant, copy), bytes: bytes + copy.bytes})

  defp put_copy(%{copies: copies, bytes: bytes} = state, copy),
    do:
      put_sizes(%{
        state
        | copies: %{copies | copy.tenant => copy},
          bytes: bytes + copy.bytes - copies[copy.tenant].bytes
      })

  defp put_sizes(%{directory: directory, partition: partition} = state) do
    Directory.put_sizes(directory, partition, map_size(state.copies), state.bytes)
    state
  end

  # The counters of the row may be those of an earlier day.
  defp row_of(copy, day, directory) do
    case Directory.row(directory.name, copy.tenant) do
      {_key, _shard, _id, _number, present, _counters, _slots, _bucket, _clock} = row when present >= day -> row
      _earlier -> Copy.show(copy, directory)
    end
  end

  ## Changes

  defp create(state, tenant, change, from) do
    body = struct!(Body, Map.take(change, [:stats, :quota, :instance]))

    case enter(state, tenant, body, :change) do
      {:ok, copy, state} ->
        # Shown when the store has it.
        change_copy(arrived(state, copy), copy, change, from, true)

      {:error, error, state} ->
        GenServer.reply(from, {:error, error})
        state
    end
  end

  defp change_copy(state, copy, change, from, new? \\ false) do
    %{directory: directory} = state
    now = Clock.now(directory.options.clock)

    # Settings and deletions are for the operator, who may raise the quota.
    if change.put == [] or Quota.left(copy.bucket, copy.slots, now) > 0 do
      make(state, copy, change, from, new?)
    else
      GenServer.reply(from, {:error, Quota.refusal(copy.bucket, copy.slots, now)})
      state
    end
  end

  defp make(%{directory: directory} = state, copy, change, from, new?) do
    changed = struct!(copy, Map.take(change, [:stats, :quota]))
    clock = directory.options.clock
    intent = {copy.tenant, copy.shard_id, copy.number}
    :ets.insert(directory.intents, {intent, :change})
    {day, counters} = present(copy, directory, new?)

    outcome =
      Shard.change(copy.shard, copy.number, day, Copy.stats(changed, directory), change.delete, Copy.wires(change.put))

    case outcome do
      {:ok, %{fuel: fuel} = sizes} ->
        Usage.add(counters, :change, fuel)
        Quota.charge(copy.bucket, copy.slots, fuel, Clock.now(clock))
        changed = %{changed | bytes: sizes.index_bytes + sizes.statistics_bytes}
        within_memory(state, copy, changed, change, from, new?)

      {:error, error} ->
        :ets.delete(directory.intents, intent)
        GenServer.reply(from, {:error, error})
        state |> trapped(error, copy.shard_id) |> uncreate(copy, new?)
    end
  end

  defp present(copy, directory, true) do
    [{day, counters, _stored} | _earlier] = Directory.usage(directory, copy.tenant)
    {day, counters}
  end

  defp present(copy, directory, false) do
    today = Clock.day(directory.options.clock)
    {_key, _shard, _id, _number, day, counters, _slots, _bucket, _clock} = row_of(copy, today, directory)
    {day, counters}
  end

  # Deletions may leave a tenant above its memory.
  defp within_memory(%{directory: directory} = state, copy, changed, change, from, new?) do
    quota = Copy.quota(changed, directory)

    if quota != nil and quota.memory != nil and change.put != [] and changed.bytes > quota.memory do
      GenServer.reply(from, {:error, Quota.memory_refusal(quota, changed.bytes)})
      undo(put_copy(state, changed), copy.tenant, new?)
    else
      append(put_copy(state, changed), changed, change, from, new?)
    end
  end

  defp append(%{directory: directory} = state, copy, change, from, new?) do
    reference = make_ref()
    :ok = Store.append(directory.store, copy.tenant, change, {self(), reference})

    wait(state, copy.tenant, reference, fn reply, state ->
      case reply do
        :ok ->
          state = changed(%{state | error: nil}, copy, change, new?)
          :ets.delete(directory.intents, {copy.tenant, copy.shard_id, copy.number})
          counts = %{put: length(change.put), deleted: length(change.delete), bytes: copy.bytes}
          GenServer.reply(from, {:ok, counts})
          shed(state, copy.tenant)

        {:error, error} ->
          GenServer.reply(from, {:error, error})
          # This process forgets the change.
          _ = Store.resume(directory.store, copy.tenant)
          undo(warn(state, error), copy.tenant, new?)
      end
    end)
  end

  # The store has the change. The tenant may have left memory meanwhile, with its shard.
  defp changed(%{directory: directory, copies: copies} = state, %{tenant: tenant}, change, new?) do
    case copies do
      %{^tenant => copy} ->
        copy = %{copy | tail: copy.tail + 1}
        if new?, do: Copy.show(copy, directory)
        copy = if Map.has_key?(change, :quota) and not new?, do: renew_bucket(copy, directory), else: copy
        replace(put_copy(state, copy), copy, change)

      _lost ->
        state
    end
  end

  # The next match loads the tenant into an instance of the other kind.
  defp replace(state, %{place: place} = copy, %{instance: instance}) when instance != place,
    do: leave(state, copy, fn _reply -> :ok end)

  defp replace(state, _copy, _change), do: state

  defp renew_bucket(copy, directory) do
    debt = Quota.debt(copy.bucket, copy.slots, Clock.now(directory.options.clock))
    # Callers that hold the row before charge the atomics before.
    copy = Copy.put_bucket(%{copy | slots: Quota.new_slots()}, directory, debt)
    Quota.used(copy.slots, Clock.now(directory.options.clock))
    Copy.show(copy, directory)
    copy
  end

  # Removes the copy of a tenant, which has a change that the store lacks. Its statistics go to the store.
  defp undo(%{copies: copies} = state, tenant, new?) do
    case copies do
      %{^tenant => copy} -> if new?, do: remove(state, copy), else: leave(state, copy, fn _reply -> :ok end)
      _lost -> state
    end
  end

  defp uncreate(state, copy, true),
    do: if(Map.has_key?(state.copies, copy.tenant), do: remove(state, copy), else: state)

  defp uncreate(state, _copy, false), do: state

  # Removes a copy that the store does not know, or no longer.
  defp remove(%{directory: directory} = state, copy) do
    Copy.hide(copy, directory)
    _ = Shard.drop(copy.shard, copy.number)
    Directory.put_usage(directory, copy.tenant, [])
    :ets.delete(directory.intents, {copy.tenant, copy.shard_id, copy.number})
    left(state, copy)
  end

  ## Leaving

  # Brings the statistics of a copy to the store, and then removes it from its shard. Other operations of the tenant wait, and `done` gets
  # the outcome. If the store fails, the tenant goes on in another place with all that it counted.
  defp leave(%{directory: directory} = state, copy, done) do
    started = System.monotonic_time()
    :ets.insert(directory.intents, {{copy.tenant, copy.shard_id, copy.number}, :leave})
    Copy.hide(copy, directory)

    with :ok <- Shard.freeze(copy.shard, copy.number),
         :ok <- Copy.settle(copy, directory),
         {:changed, true} <- {:changed, changed?(copy, directory)},
         {:ok, fields} <- Copy.statistics(copy, directory) do
      reference = make_ref()
      :ok = Copy.write(copy, directory, fields, {self(), reference})

      wait(%{state | leaving: state.leaving + 1}, copy.tenant, reference, fn reply, state ->
        depart(reply, %{state | leaving: state.leaving - 1}, copy, started, done)
      end)
    else
      {:changed, false} -> depart(:ok, state, copy, started, done)
      {:error, error} -> depart({:error, error}, state, copy, started, done)
    end
  end

  defp depart(reply, %{directory: directory, copies: copies} = state, %{number: number} = copy, started, done) do
    state =
      case {reply, copies[copy.tenant]} do
        {:ok, %{number: ^number}} ->
          _ = Shard.drop(copy.shard, number)
          Directory.count(directory, :evictions)
          emit(state, :evict, %{duration: System.monotonic_time() - started, bytes: copy.bytes}, %{tenant: copy.tenant})
          left(state, copy)

        {{:error, %Error{kind: :trap}}, _copy} ->
          lose(state, copy.shard_id)

        {{:error, error}, %{number: ^number}} ->
          move(warn(state, error), copy)

        {_reply, _lost} ->
          state
      end

    :ets.delete(directory.intents, {copy.tenant, copy.shard_id, copy.number})
    done.(reply)
    state
  end

  # The store cannot take the statistics of a frozen copy: they go with the tenant to another number.
  defp move(%{directory: directory} = state, copy) do
    with {:ok, fields} <- Copy.statistics(copy, directory),
         {:ok, body} <- Copy.read(directory, copy.tenant),
         {:ok, moved, state} <- enter(state, copy.tenant, struct!(body, fields)) do
      _ = Shard.drop(copy.shard, copy.number)
      state = left(state, copy)
      Copy.show(moved, directory)
      arrived(state, %{moved | tail: copy.tail})
    else
      {:error, error} -> lost_statistics(state, copy, error)
      {:error, error, state} -> lost_statistics(state, copy, error)
    end
  end

  defp lost_statistics(state, copy, error) do
    text = "the statistics of a tenant since they were last written are lost: #{Exception.message(error)}"
    :logger.error(text, %{domain: [:be_tree]})
    _ = Shard.drop(copy.shard, copy.number)
    left(state, copy)
  end

  defp left(%{copies: copies, bytes: bytes, shards: shards} = state, copy) do
    {%{bytes: freed}, copies} = Map.pop!(copies, copy.tenant)
    put_sizes(%{state | copies: copies, bytes: bytes - freed, shards: Shards.release(shards, copy.shard_id)})
  end

  defp drop_all(%{directory: directory} = state, tenant, from) do
    state = with %{^tenant => copy} <- state.copies, do: remove(state, copy), else: (_cold -> state)
    reference = make_ref()
    :ok = Store.drop(directory.store, tenant, {self(), reference})

    wait(state, tenant, reference, fn reply, state ->
      if reply == :ok, do: Directory.put_usage(directory, tenant, [])
      GenServer.reply(from, reply)
      state
    end)
  end

  ## Shards that trapped

  defp trapped(state, %Error{kind: :trap}, id), do: lose(state, id)
  defp trapped(state, _error, _id), do: state

  defp lose(%{directory: directory} = state, id) do
    if Shards.shard(directory, id) do
      lost = for {_tenant, %{shard_id: ^id} = copy} <- state.copies, do: copy
      state = %{state | shards: Shards.forget(state.shards, id)}
      Directory.count(directory, :rebuilds)
      emit(state, :rebuild, %{lost: length(lost)}, %{})

      Enum.reduce(lost, state, fn copy, state ->
        Copy.hide(copy, directory)
        left(state, copy)
      end)
    else
      state
    end
  end

  ## Days and statistics

  # Shows the copies on a new day, so that few matches ask for that.
  defp roll(%{directory: directory} = state) do
    today = Clock.day(directory.options.clock)

    for {tenant, copy} <- state.copies,
        {_key, _shard, _id, _number, day, _c, _s, _b, _clock} <- List.wrap(Directory.row(directory.name, tenant)),
        day < today,
        do: Copy.show(copy, directory)

    state
  end

  # One partition lets the store remove the days before the retention.
  defp expire(%{partition: 0, directory: directory} = state) do
    case Clock.day(directory.options.clock) do
      today when today == state.expired ->
        state

      today ->
        case Store.expire(directory.store, today) do
          :ok -> %{state | expired: today}
          {:error, error} -> warn(state, error)
        end
    end
  end

  defp expire(state), do: state

  defp begin_round(%{unsaved: [], copies: copies, directory: directory} = state) do
    send(self(), :save)
    %{state | unsaved: for({tenant, copy} <- copies, due?(copy, directory), do: tenant), round_began: now_ms()}
  end

  # The round before has not ended.
  defp begin_round(state), do: state

  defp now_ms, do: System.monotonic_time(:millisecond)

  # Without a folder the statistics would be in the same memory twice.
  defp due?(copy, %{options: %{dir: nil}}), do: copy.tail >= @max_tail
  defp due?(copy, directory), do: changed?(copy, directory)

  defp changed?(copy, directory), do: copy.tail >= @max_tail or copy.mark != Copy.mark(copy, directory)

  defp save_some(state, count) when count == 0 or state.unsaved == [], do: state

  defp save_some(%{unsaved: [tenant | unsaved]} = state, count) do
    state = %{state | unsaved: unsaved}

    case state do
      %{busy: %{^tenant => _waiting}} -> save_some(state, count)
      %{copies: %{^tenant => copy}} -> state |> save(copy) |> save_some(count - 1)
      _cold -> save_some(state, count)
    end
  end

  # A long tail becomes a body; otherwise only the statistics are written.
  defp save(%{directory: directory} = state, %{tail: tail} = copy) when tail >= @max_tail do
    case Copy.save(copy, directory) do
      {:ok, copy} -> put_copy(%{state | error: nil}, copy)
      {:error, error} -> state |> trapped(error, copy.shard_id) |> warn(error)
    end
  end

  defp save(%{directory: directory} = state, copy) do
    mark = Copy.mark(copy, directory)

    with :ok <- Copy.settle(copy, directory),
         {:ok, fields} <- Copy.statistics(copy, directory),
         {:ok, copy} <- Copy.measure(copy) do
      reference = make_ref()
      :ok = Copy.write(copy, directory, fields, {self(), reference})

      finish = fn
        :ok, state -> %{state | error: nil}
        {:error, error}, state -> state |> unmark(copy.tenant) |> warn(error)
      end

      # No operation has to wait for it.
      state = %{state | pending: Map.put(state.pending, reference, {make_ref(), finish})}
      put_copy(state, %{copy | mark: mark})
    else
      {:error, error} -> state |> trapped(error, copy.shard_id) |> warn(error)
    end
  end

  defp unmark(%{copies: copies} = state, tenant) do
    case copies do
      %{^tenant => copy} -> %{state | copies: %{copies | tenant => %{copy | mark: nil}}}
      _cold -> state
    end
  end

  ## Evictions

  # Evicts the least recently used tenants while too much is in memory, except the one that is just used. If this partition has no other,
  # it asks the next one.
  defp shed(%{directory: directory, stuck: false, leaving: leaving} = state, tenant) when leaving < @max_leaving do
    %{options: %{hot: max_hot, memory: max_bytes}} = directory
    {hot, bytes} = Directory.sizes(directory)

    # Those that leave take the average memory.
    if hot - leaving > max_hot or bytes - leaving * div(bytes, max(hot, 1)) > max_bytes do
      case victim(state, tenant) do
        {nil, state} -> ask_next(state, hot)
        {copy, state} -> state |> leave(copy, fn _reply -> :ok end) |> shed(tenant)
      end
    else
      state
    end
  end

  # Evictions continue with the next answer of the store, or in the next round.
  defp shed(state, _tenant), do: state

  # One tenant alone stays.
  defp ask_next(%{directory: directory, partition: partition} = state, hot) when hot > 1 do
    with other when other != nil <- Directory.largest_other(directory, partition),
         pid when is_pid(pid) <- Directory.partition_process(directory, other),
         do: GenServer.cast(pid, :shed)

    state
  end

  defp ask_next(state, _hot), do: state

  defp victim(%{victims: victims, copies: copies, busy: busy} = state, except) do
    {copy, victims} = Victims.next(victims, copies, &(&1 != except and not is_map_key(busy, &1)))
    {copy, %{state | victims: victims}}
  end

  ## Events and errors

  defp emit(%{directory: directory}, event, measurements, metadata) do
    if Telemetry.enabled?(),
      do: Telemetry.event([:tenants, event], measurements, Map.put(metadata, :tenants, directory.name))
  end

  # Logs the first of several errors of the store.
  defp warn(%{error: nil, directory: directory} = state, error) do
    text = "the tenants #{Describe.value(directory.name)} cannot write to their store: #{Exception.message(error)}"
    :logger.error(text, %{domain: [:be_tree]})
    %{state | error: error, stuck: true}
  end

  defp warn(state, _error), do: %{state | stuck: true}
end

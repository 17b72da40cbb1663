defmodule BeTree.Tenants.Store.Writer do
  @moduledoc false
  # The process of a store. It takes waiting requests from the queue in groups: one write and one sync for all bodies of a group, one
  # for each of its days, and then one for its changes and the places of the bodies and days, in one record of the journal.
  #
  # A request stays in the queue until it is replied to. So when this process is killed, the next one finishes the group. It skips a
  # request whose sequence is in the tenant's row, because the journal, or the row without a folder, has it already. A repeated reply
  # reaches nobody, because a caller takes one.
  #
  # After a refused change the tenant is closed: all its requests but those of days are refused until its partition, which has a state
  # with the refused change, calls `BeTree.Tenants.Store.resume/2` and reads the tenant once more.

  use BeTree.Processes.Server

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Journal.{Fault, Owner}
  alias BeTree.Processes.Log
  alias BeTree.Tenants.Store.{Blobs, Compaction, History, Segments, Table}

  @max_group 1_000
  @max_group_bytes 0x40_0000
  # Garbage in the segments that makes their compaction due.
  @garbage_bytes 0x100_0000
  @expire_every_ms 3_600_000
  @seconds_per_day 86_400

  @enforce_keys [:table, :retention, :garbage_bytes]
  defstruct @enforce_keys ++
              [:journal, :segments, :cursor, :compactor, garbage: 0, compact_again: false, compaction_error: nil]

  @typedoc """
    * `:journal`, `:segments` - those of the folder, or `nil` without a folder;
    * `:cursor` - the place in the queue after the last group;
    * `:garbage` - the bytes in segments that became garbage since the last compaction began;
    * `:compactor` - the process that compacts segments, or `nil`; `:compact_again` - whether another compaction is due when it ends;
      `:compaction_error` - the error of the last one.
  """
  @type t :: %__MODULE__{}

  @spec start_link(map) :: GenServer.on_start()
  def start_link(%{table: %Table{}} = options) do
    case options[:name] do
      nil -> GenServer.start_link(__MODULE__, options)
      name -> GenServer.start_link(__MODULE__, options, name: name)
    end
  end

  @impl GenServer
  def init(options) do
    Process.flag(:trap_exit, true)
    garbage_bytes = Map.get(options, :garbage_bytes, @garbage_bytes)
    state = %__MODULE__{table: options.table, retention: options.retention, garbage_bytes: garbage_bytes}

    with {:ok, state} <- open(state, options.dir, options) do
      Table.put(state.table, :recovered, true)
      Table.put(state.table, :process, self())
      _timer = Process.send_after(self(), :expire, @expire_every_ms)
      {:ok, state, {:continue, :begin}}
    else
      {:error, error} -> {:stop, error}
    end
  end

  defp open(state, nil, _options) do
    Table.put(state.table, :location, nil)
    if Table.get(state.table, :recovered), do: Blobs.sweep(state.table)
    {:ok, state}
  end

  defp open(%{table: table} = state, folder, options) do
    folder = Path.expand(folder)

    with {:ok, journal} <- History.open(folder, options) do
      with {:ok, segments} <- Segments.open(folder, table, options),
           :ok <- recover(journal, table) do
        Table.put(table, :location, Segments.location(segments))
        {:ok, %{state | journal: journal, segments: segments}}
      else
        {:error, error} ->
          :ok = Owner.release(journal)
          {:error, error}
      end
    end
  end

  defp recover(journal, table),
    do: if(Table.get(table, :recovered), do: History.complete(journal, table), else: History.recover(journal, table))

  @impl GenServer
  def handle_continue(:begin, state) do
    {_result, state} = expire(state, div(System.os_time(:second), @seconds_per_day))
    {:noreply, state |> commit() |> start_compaction() |> base_if_due()}
  end

  @impl GenServer
  def handle_call(:flush, _from, state) do
    {reply, journal} = Owner.flush(state.journal)
    {:reply, reply, %{state | journal: journal}}
  end

  def handle_call({:expire, today}, _from, state) do
    {reply, state} = expire(state, today)
    {:reply, reply, start_compaction(state)}
  end

  # The moves are on the disk when this returns, so the compactor may remove the old segments.
  def handle_call({:move, operations}, _from, state) do
    {reply, state} = with {:ok, state} <- append(state, operations), do: flush(made(state, operations))
    {:reply, reply, base_if_due(state)}
  end

  def handle_call(:info, _from, state) do
    status = Owner.status(state.journal)
    info = %{journal_bytes: Owner.bytes(state.journal), error: (status && status.error) || state.compaction_error}
    {:reply, info, state}
  end

  def handle_call(call, from, state), do: super(call, from, state)

  @impl GenServer
  def handle_info(:wake, state), do: {:noreply, state |> commit() |> compact_if_due() |> base_if_due()}

  def handle_info(:expire, state) do
    _timer = Process.send_after(self(), :expire, @expire_every_ms)
    {_result, state} = expire(state, div(System.os_time(:second), @seconds_per_day))
    {:noreply, start_compaction(state)}
  end

  def handle_info({Compaction, pid, result}, %{compactor: pid} = state),
    do: {:noreply, compacted(%{state | compactor: nil}, result)}

  def handle_info({:EXIT, pid, reason}, %{compactor: pid} = state) do
    error = %Error{kind: :trap, message: "the compaction of bodies and days ended with #{Describe.reason(reason)}"}
    {:noreply, compacted(%{state | compactor: nil}, {:error, error})}
  end

  # The end of a compactor whose result has arrived.
  def handle_info({:EXIT, _pid, :normal}, state), do: {:noreply, state}

  def handle_info(message, state) do
    case Owner.info(state.journal, message) do
      {:ok, journal} -> {:noreply, base_if_due(%{state | journal: journal})}
      :unknown -> super(message, state)
    end
  end

  @impl GenServer
  def terminate(reason, state) do
    if reason in [:normal, :shutdown] or match?({:shutdown, _reason}, reason),
      do: state |> finish() |> stop_compactor() |> close(),
      else: state |> stop_compactor() |> release()
  end

  defp close(state) do
    if state.segments, do: Segments.close(state.segments)
    Owner.close(state.journal)
  end

  # After a crash this state may lack writes of the last group, so nothing more may be written with it.
  defp release(state) do
    if state.segments, do: Segments.close(state.segments)
    Owner.release(state.journal)
  end

  defp finish(%{table: table} = state), do: if(Table.idle?(table), do: state, else: state |> commit() |> finish())

  # The next owner of the folder must not find it at work.
  defp stop_compactor(%{compactor: nil} = state), do: state

  defp stop_compactor(%{compactor: pid} = state) do
    monitor = Process.monitor(pid)
    Process.unlink(pid)
    Process.exit(pid, :kill)
    receive(do: ({:DOWN, ^monitor, :process, ^pid, _reason} -> %{state | compactor: nil}))
  end

  ## Groups

  # Makes a group of waiting requests.
  defp commit(%{table: table} = state) do
    case Table.take(table, state.cursor, @max_group, @max_group_bytes) do
      {[], nil} when state.cursor == nil -> state
      # All that waits is before the cursor.
      {[], nil} -> commit(%{state | cursor: nil})
      {group, cursor} -> commit(group, %{state | cursor: cursor})
    end
  end

  defp commit(group, %{table: table} = state) do
    {results, state} = group |> Enum.map(&admit(&1, table)) |> write(state)
    {replies, state} = make(results, state)
    for {waiting, reply} <- replies, do: reply(waiting, reply, table)
    unless Table.idle?(table), do: send(self(), :wake)
    state
  end

  defp reply({_place, _request, from, _caller, _sequence} = waiting, reply, table) do
    if from, do: GenServer.reply(from, reply)
    Table.finish(table, waiting)
  end

  # Returns a request with its result, or with what is left to do.
  defp admit({{key, _number}, request, _from, _caller, sequence} = waiting, table) do
    row = Table.row(table, key)

    cond do
      request == :settle -> {waiting, {:done, :ok}}
      request == :resume -> {waiting, {:done, Table.forget(table, {:closed, key})}}
      sequence != nil and row != nil and elem(row, 1) >= sequence -> {waiting, {:done, result(request, row)}}
      error = closed(table, key, request) -> {waiting, {:done, {:error, error}}}
      expired?(table, request) -> {waiting, {:done, :ok}}
      true -> {waiting, :new}
    end
  end

  defp result({:body, _blob}, row), do: {:ok, elem(row, 2)}
  defp result(_request, _row), do: :ok

  defp closed(_table, _key, {:day, _day, _blob}), do: nil
  defp closed(_table, _key, :drop), do: nil
  defp closed(table, key, _request), do: Table.get(table, {:closed, key})

  defp expired?(table, {:day, day, _blob}), do: day < Table.first_day(table)
  defp expired?(_table, _request), do: false

  # Stores the blobs of a group, and returns its requests as operations of the journal. A part is named by its request and its position.
  defp write(group, state) do
    blobs =
      for {{{key, _number} = id, request, _from, _caller, _sequence}, :new} <- group,
          {part, position} <- Enum.with_index(parts(request)),
          {space, blob} <- blob(part),
          do: {space, {{id, position}, key, blob}}

    {written, state} =
      blobs
      |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))
      |> Enum.reduce({%{}, state}, fn {space, records}, {written, state} -> write(space, records, written, state) end)

    {Enum.map(group, &operations(&1, written, state.table)), state}
  end

  defp parts({:all, parts}), do: parts
  defp parts(request), do: [request]

  defp blob({:body, blob}), do: [{:bodies, blob}]
  defp blob({:statistics, _day, blob}), do: [{:bodies, blob}]
  defp blob({:day, day, blob}), do: [{{:day, day}, blob}]
  defp blob(_request), do: []

  defp write(space, records, written, %{table: table} = state) do
    case Blobs.write(state.segments, table, space, for({_part, key, blob} <- records, do: {key, blob})) do
      {:ok, places, segments} ->
        places = Enum.zip_with(records, places, fn {part, _key, _blob}, place -> {part, {:ok, place}} end)
        {Map.merge(written, Map.new(places)), %{state | segments: segments}}

      {:error, error, segments} ->
        failed = for {part, _key, _blob} <- records, into: %{}, do: {part, {:error, Fault.refused(error)}}
        {Map.merge(written, failed), %{state | segments: segments}}
    end
  end

  defp operations({waiting, {:done, reply}}, _written, _table), do: {waiting, {:done, reply}}

  defp operations({{{key, _number} = id, request, _from, _caller, _sequence} = waiting, :new}, written, table) do
    parts = for {part, position} <- Enum.with_index(parts(request)), do: {part, written[{id, position}]}

    # The blobs of other parts are garbage.
    case Enum.find(parts, &match?({_part, {:error, _error}}, &1)) do
      {_part, {:error, error}} ->
        {waiting, {:done, {:error, error}}}

      nil ->
        operations = for {part, place} <- parts, do: operation(part, key, Table.next_sequence(table), place)
        # The table has the request if it has its last part.
        :ok = Table.number(table, waiting, operations |> List.last() |> Table.sequence_of())
        {waiting, {:operations, operations}}
    end
  end

  defp operation({:change, record}, key, sequence, nil), do: {:change, key, sequence, record}
  defp operation({:body, _blob}, key, sequence, {:ok, place}), do: {:body, key, sequence, place}
  defp operation({:statistics, day, _blob}, key, sequence, {:ok, place}), do: {:statistics, key, sequence, day, place}
  defp operation({:day, day, _blob}, key, sequence, {:ok, place}), do: {:day, key, sequence, day, place}
  defp operation(:drop, key, sequence, nil), do: {:drop, key, sequence}

  # Returns each request with its reply.
  defp make(results, state) do
    operations = for {_waiting, {:operations, operations}} <- results, operation <- operations, do: operation

    case append(state, operations) do
      {:ok, state} -> {Enum.map(results, &accepted/1), made(state, operations)}
      {{:error, error}, state} -> refuse(results, error, state)
    end
  end

  defp accepted({waiting, {:done, reply}}), do: {waiting, reply}

  defp accepted({{_id, {:body, _blob}, _from, _caller, _sequence} = waiting, {:operations, [operation]}}) do
    {:body, _key, _number, place} = operation
    {waiting, {:ok, place}}
  end

  defp accepted({waiting, {:operations, _operations}}), do: {waiting, :ok}

  defp append(state, operations) do
    case History.append(state.journal, operations) do
      {:ok, journal} -> {:ok, %{state | journal: journal}}
      {:error, error, journal} -> {{:error, error}, %{state | journal: journal}}
    end
  end

  defp flush(state) do
    {reply, journal} = Owner.flush(state.journal)
    {reply, %{state | journal: journal}}
  end

  defp made(%{table: table} = state, operations) do
    freed = Enum.flat_map(operations, &made_one(&1, table))
    %{state | garbage: state.garbage + Blobs.free(state.segments, table, freed)}
  end

  defp made_one({:drop, key, _sequence} = operation, table) do
    :ok = Table.forget(table, {:closed, key})
    Table.apply(table, operation)
  end

  defp made_one(operation, table), do: Table.apply(table, operation)

  # Refuses the whole group. Closes the tenants of its changes, and sends their callers a message.
  defp refuse(results, error, %{table: table} = state) do
    places =
      for {_waiting, {:operations, operations}} <- results,
          operation <- operations,
          place <- place(operation),
          do: place

    state = %{state | garbage: state.garbage + Blobs.free(state.segments, table, places)}

    for {{{key, _number}, _request, _from, caller, _sequence}, {:operations, [{:change, key, _, _}]}} <- results do
      Table.put(table, {:closed, key}, error)
      tell(caller, {:refused, Table.tenant(key), error})
    end

    {for({waiting, result} <- results, do: {waiting, refused(result, error)}), state}
  end

  defp tell(nil, _message), do: :ok
  defp tell({pid, tag}, {kind, tenant, error}), do: send(pid, {tag, kind, tenant, error})

  defp place({:body, _key, _sequence, place}), do: [{:body, place}]
  defp place({:statistics, _key, _sequence, _day, place}), do: [{:statistics, place}]
  defp place({:day, _key, _sequence, day, place}), do: [{{:day, day}, place}]
  defp place(_operation), do: []

  defp refused({:done, reply}, _error), do: reply
  defp refused({:operations, _operations}, error), do: {:error, error}

  defp base_if_due(%{journal: nil} = state), do: state

  defp base_if_due(%{journal: journal, table: table} = state) do
    journal = Owner.write_base_if_due(journal, table, 0)
    # For the gauges, which do not wait for this process.
    Table.put(table, :journal, %{bytes: Owner.bytes(journal), oldest: Owner.oldest(journal)})
    %{state | journal: journal}
  end

  ## Retention and compaction

  # A clock that jumps forward must not remove days, so the last sealed day bounds it.
  defp expire(%{table: table, retention: retention} = state, today) do
    last = Table.last_day(table)
    first = last && min(today, last + 1) - retention

    if first && first > Table.first_day(table) do
      operations = [{:expire, Table.next_sequence(table), first}]

      with {:ok, state} <- append(state, operations) do
        state = made(state, operations)
        if state.segments == nil, do: Blobs.sweep(table)
        {:ok, state}
      end
    else
      {:ok, state}
    end
  end

  defp compact_if_due(%{garbage: garbage, garbage_bytes: due} = state) when garbage > due, do: start_compaction(state)
  defp compact_if_due(state), do: state

  defp start_compaction(%{segments: %Segments{} = segments, compactor: nil} = state),
    do: %{state | compactor: Compaction.start_link(segments), garbage: 0, compact_again: false}

  # The compaction that runs may have read the rows before the present garbage was made.
  defp start_compaction(%{segments: %Segments{}} = state), do: %{state | compact_again: true}
  defp start_compaction(state), do: state

  defp compacted(%{compact_again: true} = state, :ok), do: start_compaction(%{state | compaction_error: nil})
  defp compacted(state, :ok), do: %{state | compaction_error: nil}
  defp compacted(state, :more), do: start_compaction(%{state | compaction_error: nil})

  defp compacted(%{compaction_error: nil} = state, {:error, error}) do
    Log.error("#{Exception.message(error)}; the garbage of tenants stays in the folder")

    %{state | compaction_error: error}
  end

  defp compacted(state, {:error, error}), do: %{state | compaction_error: error}
end

defmodule BeTree.Bench.Tenants.Peer do
  @moduledoc false
  # The published design of LDB on ETS: what a tenant costs without a sandbox, and without matching.
  #
  # A customer has a process that starts with its first event and owns three tables of the day: counters, sets and HyperLogLog. The
  # caller adds to the counters with `:ets.update_counter/4`. A sketch is read, changed and written, so its owner does it
  # while the caller waits: without the owner concurrent updates get lost. The peer gets the ids that match with the event.
  #
  # Two forms: `update/5` calls the owner for each sketch, as the design describes it, and `update_together/5` once for all
  # sketches of an event, which is the best that the design allows.
  #
  # HyperLogLog has 4,096 registers (precision 12): a map until it has more than 256 of them, then a binary of a byte each.

  @registers 4_096
  @max_sparse 256
  # Bits of a hash beyond the number of the register.
  @rank_bits 20
  @hashes 0x1_0000_0000

  @doc "Makes the registry of the customers. The calling process owns it."
  def start, do: :ets.new(:customers, [:public, read_concurrency: true])

  @doc "Ends the processes of all customers, and with them their tables."
  def stop(registry) do
    for {_tenant, owner, _day, _tables} <- :ets.tab2list(registry), do: stop_owner(owner)
    :ets.delete(registry)
  end

  defp stop_owner(owner) do
    monitor = Process.monitor(owner)
    send(owner, :stop)
    receive do: ({:DOWN, ^monitor, :process, _pid, _reason} -> :ok)
  end

  @doc "Counts an event of a customer, with a call of the owner for each sketch."
  def update(registry, tenant, ids, device, day) do
    {owner, {counters, _sets, _sketches}} = tables(registry, tenant, day)
    count(counters, ids)
    hash = :erlang.phash2(device, @hashes)
    for id <- ids, do: call(owner, {:sketch, id, hash})
    :ok
  end

  @doc "Counts an event of a customer, with one call of the owner."
  def update_together(registry, tenant, ids, device, day) do
    {owner, {counters, _sets, _sketches}} = tables(registry, tenant, day)
    count(counters, ids)
    call(owner, {:sketches, ids, :erlang.phash2(device, @hashes)})
  end

  defp count(_counters, []), do: :ok

  defp count(counters, [id | ids]) do
    :ets.update_counter(counters, id, 1, {id, 0})
    count(counters, ids)
  end

  defp call(owner, request) do
    reference = make_ref()
    send(owner, {request, self(), reference})
    receive do: ({^reference, reply} -> reply)
  end

  # The process and the tables of a customer's day.
  defp tables(registry, tenant, day) do
    case :ets.lookup(registry, tenant) do
      [{_tenant, owner, ^day, tables}] ->
        {owner, tables}

      [{_tenant, owner, _earlier, _tables}] ->
        {owner, call(owner, {:day, day})}

      [] ->
        parent = self()
        {owner, monitor} = spawn_monitor(fn -> own(registry, tenant, day, parent) end)

        # A process that another one was faster than ends.
        receive do
          {^owner, :ready} -> Process.demonitor(monitor, [:flush])
          {:DOWN, ^monitor, :process, _pid, :normal} -> :ok
        end

        tables(registry, tenant, day)
    end
  end

  ## The process of a customer

  defp own(registry, tenant, day, parent) do
    tables = new_tables()

    if :ets.insert_new(registry, {tenant, self(), day, tables}) do
      send(parent, {self(), :ready})
      serve(registry, tenant, tables)
    end
  end

  defp new_tables do
    {:ets.new(:counters, [:public, write_concurrency: true]), :ets.new(:sets, [:public, :bag]),
     :ets.new(:sketches, [:public])}
  end

  defp serve(registry, tenant, {_counters, _sets, sketches} = tables) do
    receive do
      {{:sketch, id, hash}, from, reference} ->
        insert(sketches, id, hash)
        send(from, {reference, :ok})
        serve(registry, tenant, tables)

      {{:sketches, ids, hash}, from, reference} ->
        for id <- ids, do: insert(sketches, id, hash)
        send(from, {reference, :ok})
        serve(registry, tenant, tables)

      {{:snapshot, path}, from, reference} ->
        for {table, name} <- Enum.zip(Tuple.to_list(tables), names(path)), do: :ok = :ets.tab2file(table, name)
        send(from, {reference, :ok})
        serve(registry, tenant, tables)

      {{:day, day}, from, reference} ->
        tables = new_tables()
        :ets.insert(registry, {tenant, self(), day, tables})
        send(from, {reference, tables})
        serve(registry, tenant, tables)

      :stop ->
        :ok
    end
  end

  ## Sketches

  defp insert(sketches, id, hash) do
    register = rem(hash, @registers)
    rank = rank(div(hash, @registers), 1)

    case :ets.lookup(sketches, id) do
      [{_id, <<_before::binary-size(register), found, _behind::binary>>}] when found >= rank ->
        true

      [{_id, <<before::binary-size(register), _found, behind::binary>>}] ->
        :ets.insert(sketches, {id, <<before::binary, rank, behind::binary>>})

      [{_id, %{^register => found}}] when found >= rank ->
        true

      [{_id, sparse}] ->
        sparse = Map.put(sparse, register, rank)
        :ets.insert(sketches, {id, if(map_size(sparse) > @max_sparse, do: dense(sparse), else: sparse)})

      [] ->
        :ets.insert(sketches, {id, %{register => rank}})
    end
  end

  defp dense(sparse), do: for(register <- 0..(@registers - 1), into: <<>>, do: <<Map.get(sparse, register, 0)>>)

  defp rank(_bits, rank) when rank > @rank_bits, do: rank
  defp rank(bits, rank) when rem(bits, 2) == 1, do: rank
  defp rank(bits, rank), do: rank(div(bits, 2), rank + 1)

  defp estimate(sparse) when is_map(sparse), do: linear(@registers - map_size(sparse))

  defp estimate(dense) do
    {sum, empty} =
      for <<rank <- dense>>, reduce: {0.0, 0} do
        {sum, empty} -> {sum + :math.pow(2, -rank), if(rank == 0, do: empty + 1, else: empty)}
      end

    raw = 0.7213 / (1 + 1.079 / @registers) * @registers * @registers / sum
    if raw <= 2.5 * @registers and empty > 0, do: linear(empty), else: raw
  end

  # The estimate from the number of empty registers, which is better while there are many.
  defp linear(empty), do: @registers * :math.log(@registers / empty)

  ## Reports and snapshots

  @doc "Returns the matches by id of a customer."
  def counts(registry, tenant) do
    [{_tenant, _owner, _day, {counters, _sets, _sketches}}] = :ets.lookup(registry, tenant)
    Map.new(:ets.tab2list(counters))
  end

  @doc "Returns the estimated unique values by id of a customer."
  def uniques(registry, tenant) do
    [{_tenant, _owner, _day, {_counters, _sets, sketches}}] = :ets.lookup(registry, tenant)
    Map.new(:ets.tab2list(sketches), fn {id, sketch} -> {id, estimate(sketch)} end)
  end

  @doc "Writes the tables of a customer to files, while its process does nothing else."
  def snapshot(registry, tenant, path) do
    [{_tenant, owner, _day, _tables}] = :ets.lookup(registry, tenant)
    call(owner, {:snapshot, path})
  end

  @doc "Reads the tables of a snapshot, and deletes them."
  def load(path) do
    for name <- names(path) do
      {:ok, table} = :ets.file2tab(name)
      :ets.delete(table)
    end
  end

  defp names(path), do: for(table <- ~w(counters sets sketches), do: ~c"#{path}.#{table}")
end

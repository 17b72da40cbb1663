defmodule Workers.Partition do
  @moduledoc """
  Works on a partition of tenants while the broker delivers its events to this node.

  A message has the tenant as routing key and as header `tenant`. A change of an expression has the type `put` or `delete`, the id as
  message id, and the expression as body. An event has a JSON object as body, and its number, `sequence`, as a header and in the body: the
  tenant's events count from 1, and a publisher that got no confirm repeats an event with its number. The matches of an event are one message
  to the exchange of matches, with the tenant as routing key, the headers `tenant` and `sequence`, and a list of ids as JSON.

  The sequence is an attribute of the schema, and the statistics of the tenant have its maximum, which the expression 0 counts for every
  event. The counts and this maximum are written together, so a folder tells which events it has counted. A batch of events is acknowledged when

    1. the broker has confirmed its matches, and
    2. the folder has its counts.

  Both wait at the same time. After the end of a node the next one receives the events without an acknowledgement again, in their order. An
  event that the folder has counted is matched without counting, and its matches are published again: the node may have ended between the
  two. So each event counts once, and its matches are published at least once.
  """

  use GenServer

  alias Workers.{Amqp, Batch, Partitions}

  # While a batch is worked on, the broker delivers the next one.
  @batch 1_024
  @prefetch 2 * @batch
  # The expression that each event matches, because a statistic counts the events that match.
  @marker 0
  # Tenants that are changed at the same time, and share a sync.
  @max_changed_at_once 64
  # Errors that say nothing about the message.
  @retried [:no_server, :overloaded, :out_of_memory, :file]

  @doc """
  Options: `:broker`; `:exchange`; `:partition`, its number; `:matches`, an exchange; `:dir`, the folder of all partitions; `:schema`, to which
  `sequence` is added; `:report`, a process that receives `{:opened, partition, node}` when the folder is open.
  """
  def start_link(options), do: GenServer.start_link(__MODULE__, Map.new(options))

  @doc "Returns the name of the `BeTree.Tenants` of a partition."
  def name(exchange, partition), do: Module.concat([Workers.Tenants, "#{exchange}_#{partition}"])

  @impl GenServer
  def init(options) do
    channel = Amqp.open(options.broker, @prefetch)
    Amqp.declare_exchange(channel, options.matches, "fanout")
    Amqp.consume(channel, Partitions.queue(options.exchange, options.partition))
    # The folder is opened with the first event, because only the active consumer receives one.
    {:ok, Map.merge(options, %{channel: channel, name: nil, counted: %{}, touched: MapSet.new(), batch: Batch.new()})}
  end

  @impl GenServer
  def handle_info(:timeout, state), do: {:noreply, finish(state)}

  def handle_info(delivery, state) do
    case Batch.add(state.batch, delivery, @batch) do
      {:open, batch} -> {:noreply, %{state | batch: batch}, 0}
      {:full, batch} -> {:noreply, finish(%{state | batch: batch})}
    end
  end

  defp finish(%{batch: {0, []}} = state), do: state

  defp finish(state) do
    state = if state.name, do: state, else: open(state)
    messages = Batch.messages(state.batch)
    state = messages |> Enum.chunk_by(& &1.type) |> Enum.reduce(state, &work/2) |> secure()
    Amqp.ack(state.channel, List.last(messages).tag)
    %{state | batch: Batch.new()}
  end

  # The lock of the folder is the lease of the partition.
  defp open(%{exchange: exchange, partition: partition} = state) do
    name = name(exchange, partition)

    options = [
      name: name,
      dir: Path.join(state.dir, Partitions.queue(exchange, partition)),
      schema: [{:sequence, :integer} | state.schema],
      stats: [sequence: {:sum, :sequence}],
      lock_timeout: :infinity
    ]

    {:ok, _tenants} = BeTree.Tenants.start_link(options)
    if state[:report], do: send(state.report, {:opened, partition, node()})
    %{state | name: name}
  end

  # A change that is delivered again has the same result. The events before a change are secured first: after the change they would
  # have other matches.
  defp work([%{type: type} | _] = changes, state) when type in ["put", "delete"] do
    %{name: name, counted: counted} = state = changes |> tenants() |> know(secure(state))

    by_tenant =
      for {tenant, changes} <- Enum.group_by(changes, & &1.headers["tenant"]),
          do: {tenant, changes, counted[tenant] == nil}

    by_tenant
    |> Task.async_stream(&change(name, &1), max_concurrency: @max_changed_at_once, timeout: :infinity)
    |> Stream.run()

    created = for {tenant, _changes, true} <- by_tenant, do: tenant
    %{state | counted: Map.merge(counted, last_of(name, created))}
  end

  defp work(events, state) do
    state = events |> tenants() |> know(state)
    {fresh, counted} = Enum.map_reduce(events, state.counted, &fresh/2)
    fresh = Enum.zip(events, fresh)
    match(for({event, true} <- fresh, do: event), true, state)
    match(for({event, false} <- fresh, do: event), false, state)
    %{state | counted: counted, touched: MapSet.union(state.touched, MapSet.new(tenants(events)))}
  end

  defp tenants(messages), do: messages |> Enum.map(& &1.headers["tenant"]) |> Enum.uniq()

  # Reads the last counted sequence of tenants that this process has not met. It is `nil` for a tenant that does not exist.
  defp know(tenants, state) do
    new = Enum.reject(tenants, &is_map_key(state.counted, &1))
    %{state | counted: Map.merge(state.counted, last_of(state.name, new))}
  end

  @doc """
  Returns, by tenant, the sequence of the last event that counted: 0 if none did, and `nil` for a tenant that does not exist. One report is for
  all of them, unless one does not exist.
  """
  def last_of(_name, []), do: %{}

  def last_of(name, tenants) do
    case BeTree.Tenants.report(name, tenants: tenants, sections: [[:tenant]]) do
      {:ok, [entries]} ->
        counted = for %{tenant: tenant, stats: [%{max: max}]} when max != nil <- entries, do: {tenant, trunc(max)}
        Map.merge(Map.new(tenants, &{&1, 0}), Map.new(counted))

      {:error, %BeTree.Error{kind: :not_found}} when tl(tenants) == [] ->
        %{hd(tenants) => nil}

      {:error, %BeTree.Error{kind: :not_found}} ->
        for tenant <- tenants, into: %{}, do: {tenant, last_of(name, [tenant])[tenant]}
    end
  end

  ## Changes

  # The changes of a tenant are made as one. If that is refused, they are made one by one, and those that are refused are dropped. The first
  # change of a tenant brings the expression that counts all events.
  defp change(name, {tenant, changes, new?}) do
    marker = if new?, do: [{@marker, "sequence >= 1"}], else: []

    with {:error, _error} <- BeTree.Tenants.change(name, tenant, merged(changes, marker)) do
      for change <- changes do
        case BeTree.Tenants.change(name, tenant, merged([change], marker)) do
          {:ok, _counts} -> :ok
          {:error, error} -> retry(error)
        end
      end
    end
  end

  defp merged(changes, marker) do
    latest = Map.new(changes, &{String.to_integer(&1.id), &1})
    puts = for {id, %{type: "put", body: text}} <- latest, do: {id, text}
    [put: marker ++ puts, delete: for({id, %{type: "delete"}} <- latest, do: id)]
  end

  # The end of the process closes its channel, and the broker delivers again.
  defp retry(%BeTree.Error{kind: kind} = error), do: if(kind in @retried, do: raise(error))

  ## Events

  # Returns whether the event has not been counted. An unknown tenant counts nothing.
  defp fresh(%{headers: %{"tenant" => tenant, "sequence" => sequence}}, counted) do
    case counted do
      %{^tenant => last} when is_integer(last) and sequence > last -> {true, %{counted | tenant => sequence}}
      _counted -> {false, counted}
    end
  end

  # An event that is refused has no matches, and is dropped.
  defp match([], _count?, _state), do: :ok

  defp match(events, count?, state) do
    pairs = for event <- events, do: {event.headers["tenant"], {:json, event.body}}
    {:ok, results} = BeTree.Tenants.match_many(state.name, pairs, count: count?)

    for {event, result} <- Enum.zip(events, results) do
      case result do
        {:ok, ids} -> publish(event, ids -- [@marker], state)
        {:error, error} -> retry(error)
      end
    end

    :ok
  end

  defp publish(_event, [], _state), do: :ok

  defp publish(%{headers: %{"tenant" => tenant, "sequence" => sequence}} = event, ids, state) do
    headers = [{"tenant", tenant}, {"sequence", sequence}]
    Amqp.publish(state.channel, state.matches, tenant, "[#{Enum.join(ids, ",")}]", id: event.id, headers: headers)
  end

  # Waits until the folder has the counts of all events so far, and the broker their matches. An unknown tenant has no counts.
  defp secure(%{touched: touched} = state) do
    if MapSet.size(touched) > 0 do
      {:ok, results} = BeTree.Tenants.snapshot_many(state.name, MapSet.to_list(touched))
      for {:error, %BeTree.Error{kind: kind} = error} <- results, kind != :not_found, do: raise(error)
      Amqp.await_confirms(state.channel)
    end

    %{state | touched: MapSet.new()}
  end
end

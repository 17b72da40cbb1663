defmodule Workers.Partition do
  @moduledoc """
  Works on a partition of tenants while the broker delivers its events to this node.

  A message has the tenant as routing key and as header `tenant`. A change of an expression has the type `put` or `delete`, the id as
  message id, and the expression as body. An event has a JSON object as body, and its number, `sequence`, as a header and in the body: the tenant's events count from 1, and a
  publisher that got no confirm repeats an event with its number. The sequence is an attribute of the schema, and the statistics of the tenant
  have its maximum, which the expression 0 counts for every event. The counts and this maximum are written together, so a folder tells which events it has counted. An event
  is acknowledged after they were written. After the end of a node the next one receives the events without an acknowledgement again, in
  their order, and drops those that the folder has counted. So each event counts once.
  """

  use GenServer

  alias Workers.{Amqp, Batch, Partitions}

  @prefetch 256
  # The expression that each event matches, because a statistic counts the events that match.
  @marker 0

  @doc """
  Options: `:broker`; `:exchange`; `:partition`, its number; `:dir`, the folder of all partitions; `:schema`, to which `sequence` is added;
  `:report`, a process that receives `{:opened, partition, node}` when the folder is open.
  """
  def start_link(options), do: GenServer.start_link(__MODULE__, Map.new(options))

  @doc "Returns the name of the `BeTree.Tenants` of a partition."
  def name(exchange, partition), do: Module.concat([Workers.Tenants, "#{exchange}_#{partition}"])

  @impl GenServer
  def init(options) do
    channel = Amqp.open(options.broker, @prefetch)
    Amqp.consume(channel, Partitions.queue(options.exchange, options.partition))
    # The folder is opened with the first event, because only the active consumer receives one.
    {:ok, Map.merge(options, %{channel: channel, name: nil, counted: %{}, batch: Batch.new()})}
  end

  @impl GenServer
  def handle_info(:timeout, state), do: {:noreply, finish(state)}

  def handle_info(delivery, state) do
    case Batch.add(state.batch, delivery, @prefetch) do
      {:open, batch} -> {:noreply, %{state | batch: batch}, 0}
      {:full, batch} -> {:noreply, finish(%{state | batch: batch})}
    end
  end

  defp finish(%{batch: {0, []}} = state), do: state

  defp finish(state) do
    state = if state.name, do: state, else: open(state)
    messages = Batch.messages(state.batch)

    counted =
      messages
      |> Enum.chunk_by(& &1.type)
      |> Enum.reduce(state.counted, &work(&1, &2, state.name))

    messages |> Enum.map(& &1.headers["tenant"]) |> Enum.uniq() |> Enum.each(&write(state.name, &1))
    Amqp.ack(state.channel, List.last(messages).tag)
    %{state | counted: counted, batch: Batch.new()}
  end

  # A change that is delivered again has the same result. A change or an event that is refused is dropped.
  defp work([%{type: type} | _] = changes, counted, name) when type in ["put", "delete"] do
    for change <- changes do
      tenant = change.headers["tenant"]
      marker = if last(name, tenant) == nil, do: [{@marker, "sequence >= 1"}], else: []
      BeTree.Tenants.change(name, tenant, parts(change, marker))
    end

    counted
  end

  defp work(events, counted, name) do
    {fresh, counted} = Enum.flat_map_reduce(events, counted, &fresh(&1, &2, name))
    pairs = for event <- fresh, do: {event.headers["tenant"], {:json, event.body}}
    {:ok, _results} = BeTree.Tenants.match_many(name, pairs)
    counted
  end

  defp parts(%{type: "put", id: id, body: text}, marker), do: [put: marker ++ [{String.to_integer(id), text}]]
  defp parts(%{type: "delete", id: id}, marker), do: [put: marker, delete: [String.to_integer(id)]]

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

  defp fresh(event, counted, name) do
    %{"tenant" => tenant, "sequence" => sequence} = event.headers
    counted = Map.put_new_lazy(counted, tenant, fn -> last(name, tenant) || 0 end)
    if sequence > counted[tenant], do: {[event], %{counted | tenant => sequence}}, else: {[], counted}
  end

  @doc "Returns the sequence of the last event of a tenant that counted, 0 if none did, or `nil` if there is no such tenant."
  def last(name, tenant) do
    case BeTree.Tenants.report(name, tenants: [tenant], sections: [[]]) do
      {:ok, [entries]} -> for(%{stats: [%{max: max}]} <- entries, max, do: max) |> Enum.max(fn -> 0 end) |> trunc()
      {:error, %BeTree.Error{kind: :not_found}} -> nil
    end
  end

  # An unknown tenant has no statistics. Its events are dropped.
  defp write(name, tenant) do
    with {:error, %BeTree.Error{kind: :not_found}} <- BeTree.Tenants.snapshot(name, tenant), do: :ok
  end
end

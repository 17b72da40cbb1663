defmodule BeTree.PubSub.Publication do
  @moduledoc false
  # Publishes events in the calling process: a search, a look-up for each matching subscription, and a message to each subscriber.

  alias BeTree.{Error, Explanation, Search, Telemetry}
  alias BeTree.PubSub.{Credit, Gauge, Index, Message, Peers, Table}

  @lenient Search.check([])
  @strict Search.check(strict: true)

  @doc "Publishes one event on all nodes."
  @spec publish(atom, BeTree.Event.t(), timeout) :: :ok | {:error, Error.t()}
  def publish(name, event, timeout) do
    case Table.publishing(name) do
      {:publishing, rows, index, strict, counters, peers} ->
        started = started()

        with {:ok, ids} <- find(name, index, event, options(strict), timeout) do
          unsent = if peers == [], do: 0, else: Peers.send_all(peers, [event])
          {delivered, dropped} = deliver(ids, event, rows, name, index)
          count(counters, 1, delivered, dropped)
          if started, do: emit(started, name, 1, delivered, dropped, unsent)
          :ok
        end

      error ->
        error
    end
  end

  @doc "Publishes events on all nodes, in order, or none of them if one is refused."
  @spec publish_many(atom, [BeTree.Event.t()], timeout) :: :ok | {:error, Error.t()}
  def publish_many(name, events, timeout) do
    case Table.publishing(name) do
      {:publishing, _rows, index, strict, _counters, peers} = publishing ->
        started = started()

        with {:ok, lists} <- Index.search(name, timeout, fn -> BeTree.search_many(index, events, strict: strict) end) do
          unsent = if peers == [], do: 0, else: Peers.send_all(peers, events)
          {delivered, dropped} = deliver_all(events, lists, name, publishing)
          if started, do: emit(started, name, length(events), delivered, dropped, unsent)
          :ok
        end

      error ->
        error
    end
  end

  @doc """
  Delivers events of another node to the subscribers of this one, and counts those that the schema of this one refuses. Waits while the
  index is being rebuilt.
  """
  @spec deliver_here(atom, [BeTree.Event.t()]) :: :ok | {:error, Error.t()}
  def deliver_here(name, events) do
    with {:publishing, rows, index, strict, counters, _peers} <- Table.publishing(name) do
      for event <- events do
        case find(name, index, event, options(strict), :infinity) do
          {:ok, ids} ->
            {delivered, dropped} = deliver(ids, event, rows, name, index)
            count(counters, 0, delivered, dropped)

          {:error, _error} ->
            Table.count(counters, :refused, 1)
        end
      end

      :ok
    end
  end

  defp options(false), do: @lenient
  defp options(true), do: @strict

  defp find(name, index, event, options, timeout) do
    case Search.ids_in_server(index, event, options) do
      {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] ->
        Index.search(name, timeout, fn -> Search.ids_in_server(index, event, options) end)

      result ->
        result
    end
  end

  defp deliver_all(events, lists, name, {:publishing, rows, index, _strict, counters, _peers}) do
    {count, delivered, dropped} =
      Enum.zip_reduce(events, lists, {0, 0, 0}, fn event, ids, {count, delivered, dropped} ->
        {more_delivered, more_dropped} = deliver(ids, event, rows, name, index)
        {count + 1, delivered + more_delivered, dropped + more_dropped}
      end)

    count(counters, count, delivered, dropped)
    {delivered, dropped}
  end

  ## Delivery

  # Returns the numbers of delivered and of dropped messages. The index may have an id without a row: of a subscription that is being
  # made, or of one that is gone.
  defp deliver([], _event, _rows, _name, _index), do: {0, 0}

  defp deliver([id], event, rows, name, index) do
    case :ets.lookup(rows, id) do
      [{_id, pid, credit, tag, why}] ->
        message = %Message{pubsub: name, event: event, tags: [tag]}
        post(pid, credit, message, if(why, do: [{id, tag}], else: []), index, 0, 0)

      [] ->
        {0, 0}
    end
  end

  # The sort is stable, so the subscriptions of a process stay in the order of their ids.
  defp deliver(ids, event, rows, name, index) do
    message = %Message{pubsub: name, event: event, tags: []}
    ids |> rows(rows) |> then(&:lists.keysort(2, &1)) |> deliver_rows(message, index, 0, 0)
  end

  defp rows([], _rows), do: []

  defp rows([id | rest], rows) do
    case :ets.lookup(rows, id) do
      [row] -> [row | rows(rest, rows)]
      [] -> rows(rest, rows)
    end
  end

  defp deliver_rows([], _message, _index, delivered, dropped), do: {delivered, dropped}

  defp deliver_rows([{id, pid, credit, tag, why} | rest], message, index, delivered, dropped) do
    {tags, asked, rest} = same(rest, pid, [tag], if(why, do: [{id, tag}], else: []))
    message = %{message | tags: tags}
    {delivered, dropped} = post(pid, credit, message, asked, index, delivered, dropped)
    deliver_rows(rest, message, index, delivered, dropped)
  end

  # Takes the rows of `pid` from the front. Returns their tags, and the ids and tags of those that ask why.
  defp same([{id, pid, _credit, tag, why} | rest], pid, tags, asked),
    do: same(rest, pid, [tag | tags], if(why, do: [{id, tag} | asked], else: asked))

  defp same(rest, _pid, [_tag] = tags, asked), do: {tags, asked, rest}
  defp same(rest, _pid, tags, asked), do: {:lists.reverse(tags), :lists.reverse(asked), rest}

  defp post(pid, credit, message, asked, index, delivered, dropped) do
    case Credit.take(credit, pid) do
      :ok ->
        send(pid, complete(message, credit, asked, index))
        {delivered + 1, dropped}

      :full ->
        {delivered, dropped + 1}

      {:full, waiting} ->
        Gauge.full(message.pubsub, pid, credit, waiting)
        {delivered, dropped + 1}

      :gone ->
        {delivered, dropped}
    end
  end

  defp complete(message, credit, asked, index) do
    case {Credit.take_dropped(credit), asked} do
      {0, []} -> message
      {dropped, asked} -> %{message | dropped: dropped, why: explain(asked, message.event, index)}
    end
  end

  # A subscription that is gone meanwhile has no explanation.
  defp explain(asked, event, index) do
    Enum.flat_map(asked, fn {id, tag} ->
      case BeTree.explain(index, event, id) do
        {:ok, %Explanation{} = explanation} -> [{tag, %{explanation | id: tag}}]
        {:error, %Error{kind: :not_found}} -> []
        {:error, error} -> [{tag, error}]
      end
    end)
  end

  ## Counts

  defp count(counters, published, delivered, dropped) do
    if published > 0, do: Table.count(counters, :published, published)
    if delivered > 0, do: Table.count(counters, :delivered, delivered)
    if dropped > 0, do: Table.count(counters, :dropped, dropped)
    :ok
  end

  defp started, do: if(Telemetry.enabled?(), do: System.monotonic_time())

  defp emit(started, name, events, delivered, dropped, unsent) do
    duration = System.monotonic_time() - started
    measurements = %{duration: duration, events: events, delivered: delivered, dropped: dropped, unsent: unsent}
    Telemetry.event([:pub_sub, :publish], measurements, %{pubsub: name})
  end
end

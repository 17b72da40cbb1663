defmodule Workers.Worker do
  @moduledoc """
  Consumes events, matches them in batches, and publishes the matches.

  An event is a message with a JSON object as body, an id as message id, and, if it asks for one, the header `version`: the version of
  the expressions that it must be matched with, or a later one. The matches of an event are one message to the exchange of matches, with
  the id of the event, the list of ids as JSON in the body, and the version that matched in the header `version`.

  An event is acknowledged when the broker has confirmed its matches. When the worker ends before that, the broker delivers
  the event to another worker, so each event is matched at least once. A consumer of matches drops ids that it has seen.
  """

  use GenServer

  alias Workers.{Amqp, Batch, Expressions}

  @prefetch 256

  @doc "Options: `:name` of the expressions; `:broker`; `:events`, a queue; `:matches`, an exchange; `:prefetch`, 256 by default."
  def start_link(options), do: GenServer.start_link(__MODULE__, options)

  @impl GenServer
  def init(options) do
    prefetch = Keyword.get(options, :prefetch, @prefetch)
    channel = Amqp.open(options[:broker], prefetch)
    Amqp.declare_queue(channel, options[:events])
    Amqp.declare_exchange(channel, options[:matches], "fanout")
    Amqp.consume(channel, options[:events])

    {:ok, %{name: options[:name], channel: channel, matches: options[:matches], prefetch: prefetch, batch: Batch.new()}}
  end

  @impl GenServer
  def handle_info(:timeout, state), do: {:noreply, finish(state)}

  def handle_info(delivery, state) do
    case Batch.add(state.batch, delivery, state.prefetch) do
      {:open, batch} -> {:noreply, %{state | batch: batch}, 0}
      {:full, batch} -> {:noreply, finish(%{state | batch: batch})}
    end
  end

  defp finish(%{batch: {0, []}} = state), do: state

  defp finish(state) do
    events = Batch.messages(state.batch)
    wanted = events |> Enum.map(&Map.get(&1.headers, "version", -1)) |> Enum.max()
    version = Expressions.await(state.name, wanted)

    {matched, refused} = match(state.name, events)
    for {event, ids} <- matched, ids != [], do: publish(state, event, ids, version)
    Amqp.await_confirms(state.channel)

    for event <- refused, do: Amqp.refuse(state.channel, event.tag)
    # The broker closes the channel for a tag that it no longer knows, such as that of a refused event.
    with {event, _ids} <- List.last(matched), do: Amqp.ack(state.channel, event.tag)
    %{state | batch: Batch.new()}
  end

  defp publish(state, event, ids, version) do
    body = "[#{Enum.join(ids, ",")}]"
    Amqp.publish(state.channel, state.matches, "", body, id: event.id, headers: [{"version", version}])
  end

  # Returns the events with their ids, and the events that no version of the index takes.
  defp match(name, events) do
    case BeTree.search_many(name, Enum.map(events, &{:json, &1.body})) do
      {:ok, found} ->
        {Enum.zip(events, found), []}

      {:error, %BeTree.Error{position: position}} when is_integer(position) ->
        {before, [refused | others]} = Enum.split(events, position)
        {first, []} = match(name, before)
        {second, more} = match(name, others)
        {first ++ second, [refused | more]}
    end
  end
end

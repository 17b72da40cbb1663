defmodule Workers.Expressions do
  @moduledoc """
  Follows the stream of changes, and keeps a `BeTree.Server` up to date.

  A change is a message of the stream: type `put` or `delete`, the id of the expression as message id, and the expression as body. The
  version is the offset of the last change that was applied, or -1. A process that starts reads the stream from the first offset, so
  all workers apply the same changes in the same order. An expression that the schema refuses is skipped by all of them.
  """

  use GenServer

  alias Workers.Amqp

  @prefetch 1_000
  @ack_every 100

  @doc "Options: `:name`, also the name of the `BeTree.Server`; `:schema`; `:broker`, with `:host` and `:port`; `:stream`."
  def start_link(options), do: GenServer.start_link(__MODULE__, options, name: process(options[:name]))

  def child_spec(options), do: %{id: {__MODULE__, options[:name]}, start: {__MODULE__, :start_link, [options]}}

  defp process(name), do: Module.concat(name, Expressions)

  @doc "Returns the version of this worker's expressions."
  def version(name), do: GenServer.call(process(name), :version, :infinity)

  @doc "Waits until this worker has a version, and returns the version that it has."
  def await(name, version), do: GenServer.call(process(name), {:await, version}, :infinity)

  @doc """
  Appends a change to the stream: `{:put, id, expression}` or `{:delete, id}`. Returns `{:ok, version}` when the broker has stored the
  change and this worker has applied it, or `{:error, %BeTree.Error{}}` if no worker applies it.
  """
  def change(name, change), do: GenServer.call(process(name), {:change, change}, :infinity)

  @impl GenServer
  def init(options) do
    stream = options[:stream]
    channel = Amqp.open(options[:broker], @prefetch)
    Amqp.declare_queue(channel, stream, [{"x-queue-type", :longstr, "stream"}])
    # The index ends with this process, because a new process applies the stream from its first offset.
    {:ok, _server} = BeTree.Server.start_link(name: options[:name], schema: options[:schema])
    Amqp.consume(channel, stream, [{"x-stream-offset", :longstr, "first"}])
    # An own change is known by this reference when the stream delivers it.
    own = Base.encode16(:crypto.strong_rand_bytes(8))

    {:ok,
     %{
       server: options[:name],
       channel: channel,
       stream: stream,
       own: own,
       sent: 0,
       callers: %{},
       version: -1,
       waiting: []
     }}
  end

  @impl GenServer
  def handle_call(:version, _caller, state), do: {:reply, state.version, state}
  def handle_call({:await, version}, _caller, %{version: had} = state) when had >= version, do: {:reply, had, state}

  def handle_call({:await, version}, caller, state),
    do: {:noreply, %{state | waiting: [{version, caller} | state.waiting]}}

  def handle_call({:change, change}, caller, state) do
    {kind, id, body} = written(change)
    type = "#{kind} #{state.own} #{state.sent}"
    Amqp.publish(state.channel, "", state.stream, body, type: type, id: Integer.to_string(id))
    {:noreply, %{state | sent: state.sent + 1, callers: Map.put(state.callers, type, caller)}}
  end

  defp written({:put, id, expression}), do: {"put", id, expression}
  defp written({:delete, id}), do: {"delete", id, ""}

  @impl GenServer
  def handle_info(delivery, state) do
    case Amqp.message(delivery) do
      {_stream, message} -> {:noreply, follow(message, state)}
      nil -> {:noreply, state}
    end
  end

  defp follow(message, state) do
    result = apply_change(message, state.server)
    version = message.headers["x-stream-offset"]
    # A stream keeps acknowledged messages: an acknowledgement only asks for more of them.
    if rem(message.tag, @ack_every) == 0, do: Amqp.ack(state.channel, message.tag)

    {caller, callers} = Map.pop(state.callers, message.type)
    if caller, do: GenServer.reply(caller, with(:ok <- result, do: {:ok, version}))

    {ready, waiting} = Enum.split_with(state.waiting, fn {wanted, _caller} -> wanted <= version end)
    for {_wanted, caller} <- ready, do: GenServer.reply(caller, version)
    %{state | version: version, callers: callers, waiting: waiting}
  end

  # The type may have more words, which tell the publisher its own changes.
  defp apply_change(%{type: "put" <> _own, id: id, body: expression}, server),
    do: BeTree.Server.put(server, String.to_integer(id), expression)

  defp apply_change(%{type: "delete" <> _own, id: id}, server), do: BeTree.Server.delete(server, String.to_integer(id))
end

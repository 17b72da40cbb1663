defmodule Workers.Amqp do
  @moduledoc """
  The few operations of AMQP 0-9-1 that the workers need, on the Erlang client `amqp_client`.

  A channel ends with the process that opened it, and that process ends with the channel: what was not acknowledged is then
  delivered again.
  """

  require Record

  @client Path.join(to_string(:code.lib_dir(:amqp_client)), "include/amqp_client.hrl")
  @framing Path.join(to_string(:code.lib_dir(:rabbit_common)), "include/rabbit_framing.hrl")
  # Seconds that the broker may take to confirm a group of messages.
  @confirm_seconds 300

  for name <- ~w(queue.declare queue.bind exchange.declare basic.qos basic.consume basic.publish basic.ack basic.reject
        basic.deliver confirm.select P_basic)a do
    alias_name = name |> Atom.to_string() |> String.downcase() |> String.replace(".", "_") |> String.to_atom()
    Record.defrecordp(alias_name, name, Record.extract(name, from: @framing))
  end

  Record.defrecordp(:network, :amqp_params_network, Record.extract(:amqp_params_network, from: @client))

  @typedoc "A message that was delivered. `headers` is a map of the values."
  @type message :: %{
          tag: non_neg_integer,
          redelivered: boolean,
          type: String.t() | nil,
          id: String.t() | nil,
          headers: %{String.t() => term},
          body: binary
        }

  @doc "Opens a connection and a channel with confirms and a limit of `prefetch` messages that are not acknowledged."
  def open(options, prefetch) do
    host = options |> Keyword.get(:host, "127.0.0.1") |> String.to_charlist()
    {:ok, connection} = :amqp_connection.start(network(host: host, port: Keyword.get(options, :port, 5672)))
    {:ok, channel} = :amqp_connection.open_channel(connection)
    Process.link(connection)
    Process.link(channel)
    :amqp_channel.call(channel, confirm_select())
    :amqp_channel.call(channel, basic_qos(prefetch_count: prefetch))
    channel
  end

  @doc "Declares a durable queue. `arguments` are triples such as `{\"x-queue-type\", :longstr, \"stream\"}`."
  def declare_queue(channel, queue, arguments \\ []) do
    {:"queue.declare_ok", ^queue, _messages, _consumers} =
      :amqp_channel.call(channel, queue_declare(queue: queue, durable: true, arguments: arguments))

    :ok
  end

  @doc "Declares a durable exchange."
  def declare_exchange(channel, exchange, type) do
    {:"exchange.declare_ok"} =
      :amqp_channel.call(channel, exchange_declare(exchange: exchange, type: type, durable: true))

    :ok
  end

  @doc "Binds a queue to an exchange."
  def bind(channel, queue, exchange, key) do
    {:"queue.bind_ok"} = :amqp_channel.call(channel, queue_bind(queue: queue, exchange: exchange, routing_key: key))
    :ok
  end

  @doc "Subscribes the calling process, which then receives deliveries for `message/1`. The tag names the queue."
  def consume(channel, queue, arguments \\ []) do
    method = basic_consume(queue: queue, consumer_tag: queue, arguments: arguments)
    :amqp_channel.subscribe(channel, method, self())

    receive do
      {:"basic.consume_ok", ^queue} -> :ok
    end
  end

  @doc "Returns `{queue, message}` for a delivery, and `nil` for any other term."
  @spec message(term) :: {String.t(), message} | nil
  def message(
        {basic_deliver(consumer_tag: queue, delivery_tag: tag, redelivered: again), {:amqp_msg, properties, body}}
      ) do
    p_basic(headers: headers, type: type, message_id: id) = properties
    headers = for {name, _type, value} <- defined(headers) || [], into: %{}, do: {name, value}
    {queue, %{tag: tag, redelivered: again, type: defined(type), id: defined(id), headers: headers, body: body}}
  end

  def message(_other), do: nil

  defp defined(:undefined), do: nil
  defp defined(value), do: value

  @doc "Publishes a persistent message. `await_confirms/1` waits until the broker has it."
  def publish(channel, exchange, key, body, properties \\ []) do
    headers = for {name, value} <- properties[:headers] || [], do: header(name, value)

    properties =
      p_basic(
        delivery_mode: 2,
        type: properties[:type] || :undefined,
        message_id: properties[:id] || :undefined,
        headers: headers
      )

    :ok =
      :amqp_channel.cast(channel, basic_publish(exchange: exchange, routing_key: key), {:amqp_msg, properties, body})
  end

  defp header(name, value) when is_integer(value), do: {name, :long, value}
  defp header(name, value) when is_binary(value), do: {name, :longstr, value}

  @doc "Waits until the broker has confirmed all messages of the channel. Raises if it refused one."
  def await_confirms(channel) do
    true = :amqp_channel.wait_for_confirms(channel, @confirm_seconds)
    :ok
  end

  @doc "Acknowledges the message with this tag and all before it."
  def ack(channel, tag), do: :amqp_channel.cast(channel, basic_ack(delivery_tag: tag, multiple: true))

  @doc "Refuses a message for good. It goes to the dead-letter exchange of its queue, if there is one."
  def refuse(channel, tag), do: :amqp_channel.cast(channel, basic_reject(delivery_tag: tag, requeue: false))
end

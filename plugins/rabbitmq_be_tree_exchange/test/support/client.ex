defmodule BeTreeExchange.Test.Client do
  @moduledoc """
  A client of the broker, on the Erlang client of the broker's package.
  """

  require Record

  alias BeTreeExchange.Test.Broker

  @framing Broker.header("rabbit_framing.hrl")

  for name <-
        ~w(exchange.declare exchange.delete exchange.bind exchange.unbind queue.declare queue.delete queue.bind queue.unbind
        queue.purge basic.publish basic.get basic.return confirm.select P_basic)a do
    Record.defrecordp(
      :"#{name |> Atom.to_string() |> String.replace(".", "_") |> String.downcase()}",
      name,
      Record.extract(name, from: @framing)
    )
  end

  Record.defrecordp(
    :network,
    :amqp_params_network,
    Record.extract(:amqp_params_network,
      from: Path.wildcard(Broker.plugins() <> "/amqp_client-*/include/amqp_client.hrl") |> hd()
    )
  )

  @doc "Opens a channel of a connection of its own. Both end with the calling process."
  def open(number) do
    {:ok, connection} = :amqp_connection.start(network(host: ~c"127.0.0.1", port: Broker.port(number)))
    channel(connection)
  end

  defp channel(connection) do
    {:ok, channel} = :amqp_connection.open_channel(connection)
    confirm_select() |> then(&:amqp_channel.call(channel, &1))
    :amqp_channel.register_return_handler(channel, self())
    %{connection: connection, channel: channel}
  end

  @doc "Returns another channel of the same connection, for use after the broker closed the channel."
  def reopen(client), do: channel(client.connection)

  def close(client), do: :amqp_connection.close(client.connection)

  @doc "Makes a call, and returns `:ok` or `{:error, reply_text}` if the broker closed the channel."
  def call(client, method) do
    monitor = Process.monitor(client.channel)

    try do
      :amqp_channel.call(client.channel, method)
      Process.demonitor(monitor, [:flush])
      :ok
    catch
      :exit, _closed ->
        receive do
          {:DOWN, ^monitor, :process, _channel, reason} -> {:error, reply_text(reason)}
        end
    end
  end

  defp reply_text({:shutdown, {:server_initiated_close, _code, text}}), do: text
  defp reply_text({:shutdown, {:connection_closing, {:server_initiated_close, _code, text}}}), do: text
  defp reply_text(other), do: inspect(other)

  @doc "Declares an exchange `x-be-tree`, unless `:type` says otherwise."
  def declare_exchange(client, name, arguments, options \\ []) do
    call(
      client,
      exchange_declare(
        exchange: name,
        type: options[:type] || "x-be-tree",
        durable: Keyword.get(options, :durable, false),
        arguments: arguments(arguments)
      )
    )
  end

  def delete_exchange(client, name), do: call(client, exchange_delete(exchange: name))

  def declare_queue(client, name, options \\ []),
    do: call(client, queue_declare(queue: name, durable: Keyword.get(options, :durable, false)))

  def delete_queue(client, name), do: call(client, queue_delete(queue: name))

  def bind(client, queue, exchange, arguments, key \\ "") do
    call(client, queue_bind(queue: queue, exchange: exchange, routing_key: key, arguments: arguments(arguments)))
  end

  def unbind(client, queue, exchange, arguments, key \\ "") do
    call(client, queue_unbind(queue: queue, exchange: exchange, routing_key: key, arguments: arguments(arguments)))
  end

  def bind_exchange(client, destination, source, arguments) do
    call(client, exchange_bind(destination: destination, source: source, arguments: arguments(arguments)))
  end

  @doc """
  Publishes a message and waits for its confirm. Returns whether it was routed. The broker refuses to confirm a message that it routed
  to a queue on a node that cannot be reached.
  """
  def publish(client, exchange, options \\ []) do
    properties =
      p_basic(headers: arguments(options[:headers] || []), content_type: options[:content_type] || :undefined)

    method = basic_publish(exchange: exchange, routing_key: options[:key] || "", mandatory: true)
    :ok = :amqp_channel.call(client.channel, method, {:amqp_msg, properties, options[:payload] || ""})
    confirmed = :amqp_channel.wait_for_confirms(client.channel, 300)
    true = is_boolean(confirmed)

    # A return comes before the confirm, from the same channel.
    receive do
      {basic_return(), _message} -> false
    after
      0 -> true
    end
  end

  @doc "Publishes a message for each of these headers, with one wait for all confirms. Returns the headers that were not routed."
  def unroutable(client, exchange, headers) do
    method = basic_publish(exchange: exchange, routing_key: "", mandatory: true)

    for pairs <- headers do
      :ok = :amqp_channel.cast(client.channel, method, {:amqp_msg, p_basic(headers: arguments(pairs)), ""})
    end

    true = is_boolean(:amqp_channel.wait_for_confirms(client.channel, 300))
    returned = returns(MapSet.new())
    Enum.filter(headers, &(arguments(&1) in returned))
  end

  defp returns(headers) do
    receive do
      {basic_return(), {:amqp_msg, p_basic(headers: pairs), _payload}} -> returns(MapSet.put(headers, pairs))
    after
      0 -> headers
    end
  end

  @doc "Publishes messages with these headers, `times` over, with one wait for confirms for each 500."
  def publish_all(client, exchange, headers, times) do
    for chunk <- headers |> List.duplicate(times) |> Stream.concat() |> Stream.chunk_every(500) do
      for headers <- chunk do
        method = basic_publish(exchange: exchange, routing_key: "none")
        :ok = :amqp_channel.cast(client.channel, method, {:amqp_msg, p_basic(headers: headers), "a payload"})
      end

      true = :amqp_channel.wait_for_confirms(client.channel, 300)
    end

    :ok
  end

  @doc "Returns the number of messages that a queue has, and deletes them."
  def purge(client, queue) do
    {:"queue.purge_ok", count} = :amqp_channel.call(client.channel, queue_purge(queue: queue))
    count
  end

  @doc "Returns a table of AMQP. `{type, value}` gives a type."
  def arguments(pairs), do: for({name, value} <- pairs, do: typed(to_string(name), value))

  defp typed(name, {type, value}), do: {name, type, value}
  defp typed(name, value) when is_binary(value), do: {name, :longstr, value}
  defp typed(name, value) when is_integer(value), do: {name, :long, value}
  defp typed(name, value) when is_float(value), do: {name, :double, value}
  defp typed(name, value) when is_boolean(value), do: {name, :bool, value}
end

defmodule BeTreeExchange.Records do
  @moduledoc false
  # The broker's records that this plugin reads, by position. Their first fields are the same in RabbitMQ 3.10 and 4, so that one
  # build serves both; fields that only one version has are not named here.

  require Record

  Record.defrecord(:resource, [:virtual_host, :kind, :name])
  Record.defrecord(:binding_record, :binding, [:source, :key, :destination, args: []])

  Record.defrecord(:exchange, [
    :name,
    :type,
    :durable,
    :auto_delete,
    :internal,
    :arguments,
    :scratches,
    :policy,
    :operator_policy,
    :decorators,
    :options
  ])

  Record.defrecord(:content, [:class_id, :properties, :properties_bin, :protocol, :payload_fragments_rev])

  @type exchange :: tuple
  @type binding :: tuple
  @type name :: tuple
  @type message :: tuple

  @doc "Returns the message of a delivery (3.10), or the message itself (4)."
  @spec message(tuple) :: message
  def message(delivery) when elem(delivery, 0) == :delivery, do: elem(delivery, 4)
  def message(message), do: message

  @doc "Returns the decoded content and the routing keys of a message, converted to AMQP 0-9-1 if it came with another protocol."
  @spec decode(message) :: {tuple, [binary]}
  def decode(message) when elem(message, 0) == :basic_message, do: {decoded(elem(message, 3)), elem(message, 2)}

  def decode(message) when elem(message, 1) == :mc_amqpl, do: {decoded(elem(message, 2)), :mc.routing_keys(message)}
  def decode(message), do: {decoded(elem(:mc.convert(:mc_amqpl, message), 2)), :mc.routing_keys(message)}

  defp decoded(content(properties: :none) = content), do: :rabbit_binary_parser.ensure_content_decoded(content)
  defp decoded(content), do: content

  @doc "Returns the headers of a content, a list of `{name, type, value}`."
  @spec headers(tuple) :: [{binary, atom, term}]
  def headers(content(properties: properties)) do
    case elem(properties, 3) do
      headers when is_list(headers) -> headers
      :undefined -> []
    end
  end

  @spec content_type(tuple) :: binary | :undefined
  def content_type(content(properties: properties)), do: elem(properties, 1)

  @spec payload(tuple) :: binary
  def payload(content(payload_fragments_rev: [payload])), do: payload
  def payload(content(payload_fragments_rev: fragments)), do: fragments |> Enum.reverse() |> IO.iodata_to_binary()

  @doc "Returns an argument of an exchange or a binding, or `nil`."
  @spec argument([{binary, atom, term}], binary) :: {atom, term} | nil
  def argument(arguments, name) do
    case List.keyfind(arguments, name, 0) do
      {_name, type, value} -> {type, value}
      nil -> nil
    end
  end

  @doc "Returns a value of AMQP as Elixir has it: tables as maps, `void` as `nil`."
  @spec value(atom, term) :: term
  def value(:table, pairs), do: Map.new(pairs, fn {name, type, value} -> {name, value(type, value)} end)
  def value(:array, values), do: Enum.map(values, fn {type, value} -> value(type, value) end)
  def value(:void, _undefined), do: nil
  def value(:decimal, {scale, value}), do: value / :math.pow(10, scale)
  def value(_type, value), do: value

  @doc "Returns the name of an exchange or a queue for people."
  @spec describe(name) :: String.t()
  def describe(resource(virtual_host: host, kind: kind, name: name)), do: "#{kind} '#{name}' in vhost '#{host}'"
end

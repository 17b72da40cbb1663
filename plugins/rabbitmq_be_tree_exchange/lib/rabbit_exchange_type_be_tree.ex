defmodule :rabbit_exchange_type_be_tree do
  @moduledoc false
  # The callbacks of the broker's behaviour rabbit_exchange_type, in the forms of RabbitMQ 3.10 and 4.
  #
  # The broker recovers exchanges and bindings before the plugin starts. So no callback here waits for a process of the plugin, but
  # `route`, which the processes of queues call as well.

  import BeTreeExchange.Records

  alias BeTreeExchange.{Check, Config, Follower, Router, Status, Store}

  @type_name "x-be-tree"

  # Not Elixir's `@behaviour`, which needs the module when it compiles. The broker reads either.
  Module.register_attribute(__MODULE__, :behavior, persist: true)
  Module.put_attribute(__MODULE__, :behavior, :rabbit_exchange_type)

  Module.register_attribute(__MODULE__, :rabbit_boot_step, accumulate: true, persist: true)

  @rabbit_boot_step {__MODULE__,
                     [
                       description: ~c"exchange type x-be-tree",
                       mfa: {:rabbit_registry, :register, [:exchange, @type_name, __MODULE__]},
                       cleanup: {:rabbit_registry, :unregister, [:exchange, @type_name]},
                       requires: :rabbit_registry,
                       enables: :kernel_ready
                     ]}

  # The broker calls the supervisor of a restartable child so.
  @readiness_supervisor :"Elixir.BeTreeExchange.Readiness_sup"

  @rabbit_boot_step {BeTreeExchange.Readiness,
                     [
                       description: ~c"publishers that wait for x-be-tree",
                       mfa: {:rabbit_sup, :start_restartable_child, [BeTreeExchange.Readiness]},
                       cleanup: {:rabbit_sup, :stop_child, [@readiness_supervisor]},
                       requires: :rabbit_registry,
                       enables: :kernel_ready
                     ]}

  def description, do: [description: "Routes by boolean expressions in bindings"]

  # The number of the last change tells whether the index of a node has all bindings.
  def serialise_events, do: true

  def validate(exchange) do
    with {:ok, config} <- Config.read(exchange), {:error, error} <- BeTree.new(config.schema) do
      refuse("x-schema: #{error.message}")
    else
      {:ok, _tree} -> :ok
      {:error, reason} -> refuse(reason)
    end
  end

  defp refuse(reason), do: :rabbit_misc.protocol_error(:precondition_failed, ~c"~s", [reply(reason)])

  # The broker makes the reply of bytes, so "~ts" with its characters would end the connection. Its replies end after 255 bytes, where a
  # character may be cut in two, which clients refuse. They begin with `PRECONDITION_FAILED - `.
  @max_reply_bytes 230

  defp reply(reason) when byte_size(reason) <= @max_reply_bytes, do: reason

  defp reply(reason) do
    case reason |> binary_part(0, @max_reply_bytes - 3) |> :unicode.characters_to_binary() do
      {_fault, whole, _rest} -> whole <> "..."
      whole -> whole <> "..."
    end
  end

  def validate_binding(exchange, binding) do
    with {:error, reason} <- Check.run(exchange, binding), do: {:error, {:binding_invalid, ~c"~s", [reply(reason)]}}
  end

  # The form of RabbitMQ 3.10, with a delivery, and that of 4, with a message.
  def route(exchange, message), do: Router.route(exchange, message(message))
  def route(exchange, message, _options), do: Router.route(exchange, message(message))

  # The index begins with the events of the store, or with the first publish.
  def create(_serial, _exchange), do: :ok

  # The form of RabbitMQ 3.10, within the transaction and after it, and that of 4.
  def delete(:transaction, _exchange, _bindings), do: :ok
  def delete(_serial, exchange, _bindings), do: delete(:none, exchange)
  def delete(_serial, exchange), do: Store.forget_everywhere(exchange(exchange, :name))

  def policy_changed(_before, exchange), do: Follower.reconfigure(exchange)

  # Only the node that makes a change calls these: indexes follow the store. The change is acknowledged when all nodes have it.
  def add_binding(serial, exchange, _binding), do: await_everywhere(serial, exchange)
  def remove_bindings(serial, exchange, _bindings), do: await_everywhere(serial, exchange)

  defp await_everywhere(serial, exchange(name: name)) when is_integer(serial) do
    # During recovery the plugin has not started, and nobody waits for an acknowledgement.
    if Follower.running?(), do: Store.await_everywhere(name, serial), else: :ok
  end

  # Within the transaction.
  defp await_everywhere(_transaction, _exchange), do: :ok

  def assert_args_equivalence(exchange, arguments), do: :rabbit_exchange.assert_args_equivalence(exchange, arguments)

  # Columns of the management plugin, with the numbers of the node that reads them.
  def info(exchange), do: [be_tree: Status.of(exchange(exchange, :name))]
  def info(exchange, [:be_tree]), do: info(exchange)
  def info(_exchange, _others), do: []

  @doc "Returns the numbers of all exchanges of this type on this node, for `rabbitmqctl eval`."
  def status, do: for({name, numbers} <- Status.all(), do: {describe(name), numbers})
end

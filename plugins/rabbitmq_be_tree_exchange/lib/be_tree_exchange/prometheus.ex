defmodule BeTreeExchange.Prometheus do
  @moduledoc false
  # Metrics for the plugin rabbitmq_prometheus, if it runs.

  alias BeTreeExchange.{Records, Status}

  require Records

  # See :rabbit_exchange_type_be_tree.
  Module.register_attribute(__MODULE__, :behavior, persist: true)
  Module.put_attribute(__MODULE__, :behavior, :prometheus_collector)

  @metrics [
    {:routed, :counter, "Messages that were routed to a destination"},
    {:unroutable, :counter, "Messages that no expression matched"},
    {:refused, :counter, "Messages whose event does not fit the schema"},
    {:out_of_fuel, :counter, "Messages whose search used all of its fuel"},
    {:failed, :counter, "Messages that were not routed because of another error"},
    {:fuel, :counter, "Fuel of all searches"},
    {:waits, :counter, "Publishes that waited for the index to have a change of bindings"},
    {:refused_bindings, :counter, "Bindings that the index could not hold"},
    {:bindings, :gauge, "Bindings in the index"},
    {:memory, :gauge, "Bytes of memory of the index"}
  ]

  @doc "Registers the metrics with the registry of the broker's Prometheus plugin. Does nothing without it, or again."
  @spec register() :: :ok
  def register do
    if running?(), do: :prometheus_registry.register_collector(:default, __MODULE__)
    :ok
  end

  @spec deregister() :: :ok
  def deregister do
    if running?(), do: :prometheus_registry.deregister_collector(:default, __MODULE__)
    :ok
  end

  # Not by the list of started applications, whose controller replies to nobody while it stops one.
  defp running?, do: :ets.whereis(:prometheus_registry_table) != :undefined

  # The callbacks of prometheus_collector.

  @doc false
  def deregister_cleanup(_registry), do: :ok

  @doc false
  def collect_mf(_registry, callback) do
    all = Status.all()

    for {name, type, help} <- @metrics do
      full_name = metric_name(name, type)
      callback.(:prometheus_model_helpers.create_mf(full_name, help, type, __MODULE__, {type, name, all}))
    end

    :ok
  end

  defp metric_name(name, :counter), do: "rabbitmq_be_tree_#{name}_total"
  defp metric_name(:memory, :gauge), do: "rabbitmq_be_tree_memory_bytes"
  defp metric_name(name, :gauge), do: "rabbitmq_be_tree_#{name}"

  @doc false
  def collect_metrics(_name, {type, name, all}) do
    values =
      for {exchange, numbers} <- all, {:ok, value} <- [Keyword.fetch(numbers, name)] do
        {[vhost: Records.resource(exchange, :virtual_host), exchange: Records.resource(exchange, :name)], value}
      end

    case type do
      :counter -> :prometheus_model_helpers.counter_metrics(values)
      :gauge -> :prometheus_model_helpers.gauge_metrics(values)
    end
  end
end

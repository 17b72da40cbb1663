defmodule Workers.Partitions do
  @moduledoc """
  Tenants over nodes: a queue and a folder for each partition, and a node at a time that works on it.

  An exchange of type `x-consistent-hash` sends all events of a tenant, by the routing key, to one of the queues. Each queue has a single
  active consumer: the broker delivers to one node, and to the next one when that node ends. The folder of the partition is on a disk that
  all nodes reach; its lock admits one node.
  """

  alias Workers.Amqp

  @doc "Declares the exchange and `count` queues."
  def declare(broker, exchange, count) do
    channel = Amqp.open(broker, 1)
    Amqp.declare_exchange(channel, exchange, "x-consistent-hash")

    for partition <- 0..(count - 1) do
      Amqp.declare_queue(channel, queue(exchange, partition), [{"x-single-active-consumer", :bool, true}])
      # The key of such a binding is the number of points on the circle of hashes.
      Amqp.bind(channel, queue(exchange, partition), exchange, "20")
    end

    :ok
  end

  @doc "Returns the name of a partition's queue."
  def queue(exchange, partition), do: "#{exchange}.#{partition}"
end

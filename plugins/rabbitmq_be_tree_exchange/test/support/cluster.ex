defmodule BeTreeExchange.Test.Cluster do
  @moduledoc """
  A cluster of three nodes that tests use one after another, because a start takes long. It runs until `scripts/test-broker` ends it.
  A test that finds it damaged by a failed one starts it anew.
  """

  alias BeTreeExchange.Test.{Audit, Broker, Client}

  # Tests of one and two nodes have the first numbers.
  @numbers [4, 5, 6]

  @exchange "x"

  def numbers, do: @numbers

  @doc """
  Sets the mode of `cluster_partition_handling` on all nodes, and declares the exchange `x` anew, with the integer `a` as its schema.
  Starts the nodes if they do not run. Returns their numbers.
  """
  def start(mode) do
    unless Enum.all?(@numbers, &Broker.whole?(&1, @numbers)), do: start_nodes()
    for number <- @numbers, do: Broker.handle_partitions(number, mode)
    client = Client.open(hd(@numbers))
    :ok = Client.delete_exchange(client, @exchange)
    :ok = Client.declare_exchange(client, @exchange, [{"x-schema", ~s({"a": "integer"})}], durable: true)
    Client.close(client)
    @numbers
  end

  defp start_nodes do
    for number <- @numbers, do: Broker.remove(number)
    for number <- @numbers, do: Broker.launch(number)
    for number <- @numbers, do: Broker.await(number)
    [first | others] = @numbers
    Broker.choose_store(first)
    for number <- others, do: Broker.join(number, first)
  end

  @doc "Waits until all nodes have each other, and none knows of a partition."
  def await_whole do
    Broker.eventually(fn -> Enum.all?(@numbers, &(Broker.whole?(&1, @numbers) and Broker.partitions(&1) == [])) end)
    for number <- @numbers, do: Broker.await(number)
    :ok
  end

  @doc "Waits until all nodes have each other, and asserts that they have the same bindings and route by exactly these."
  def assert_whole do
    await_whole()
    [_one] = for(number <- @numbers, do: Audit.run(number, @exchange)) |> Enum.uniq()
    :ok
  end
end

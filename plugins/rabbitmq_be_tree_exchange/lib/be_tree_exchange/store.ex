defmodule BeTreeExchange.Store do
  @moduledoc false
  # The broker's store of exchanges and bindings: Mnesia or, in version 4 with the feature flag `khepri_db`, Khepri.
  #
  # Each change of the bindings of an exchange of this type increments the serial number of the exchange, before the change is
  # acknowledged. A node has a complete index if it has the bindings of the serial number that the store has.

  import BeTreeExchange.Records

  alias BeTreeExchange.{Follower, Records}

  @serials :rabbit_exchange_serial
  @tables [:rabbit_exchange, :rabbit_route]

  # Milliseconds that a change of bindings waits for the other nodes. A node that is slower than this is as good as gone.
  @await 5_000

  # A call by a name that the compiler sees would make Mnesia an application that the plugin starts; Khepri has none.
  defp mnesia, do: :mnesia

  @doc "Returns which store the broker uses now."
  @spec kind() :: :mnesia | :khepri
  def kind, do: if(:ets.whereis(@serials) == :undefined, do: :khepri, else: :mnesia)

  @doc "Returns the serial number of an exchange as this node has it. Mnesia: a look-up. Khepri: 26 microseconds."
  @spec serial(Records.name()) :: pos_integer
  def serial(name) do
    case :ets.lookup(@serials, name) do
      [{_record, _name, next}] -> next
      [] -> 1
    end
  rescue
    # Khepri has no such table. The broker deletes it when the feature flag is enabled.
    ArgumentError -> :rabbit_db_exchange.peek_serial(name)
  end

  @doc """
  Returns the serial number of an exchange whose change is complete on this node.

  With Mnesia, the number of a transaction may be visible before its bindings are. The lock waits for the end of the transaction,
  and then the events of all its changes have been sent.
  """
  @spec settled_serial(Records.name()) :: pos_integer
  def settled_serial(name) do
    read = fn -> mnesia().read(@serials, name, :read) end

    with :mnesia <- kind(), {:atomic, rows} <- mnesia().transaction(read) do
      case rows do
        [{_record, _name, next}] -> next
        [] -> 1
      end
    else
      _khepri ->
        fence()
        :rabbit_db_exchange.peek_serial(name)
    end
  end

  # Waits until this node has all changes that the leader has. Without a majority it gives up, and the node has what it has.
  defp fence, do: :khepri.fence(:rabbit_khepri.get_store_id(), @await)

  @doc """
  Ends the indexes of a deleted exchange on all running nodes. Khepri reports no deletion, and an exchange that is declared again may
  come to the serial number of the old one.
  """
  @spec forget_everywhere(Records.name()) :: :ok
  def forget_everywhere(name) do
    case kind() do
      :mnesia -> Follower.deleted(name)
      :khepri -> :erpc.multicall([node() | Node.list()], __MODULE__, :forget, [name], 2 * @await)
    end

    :ok
  end

  @doc false
  def forget(name) do
    fence()
    Follower.forget(name)
  end

  @doc """
  Waits until all running nodes have the change of an exchange with this serial number. Called after the change, before it is
  acknowledged.

  The broker acknowledges a change of a durable binding when the other nodes have agreed to it, but may not have made it: Mnesia's
  transaction then includes tables on disk and tables in memory. A publish on another node could come before it.
  """
  @spec await_everywhere(Records.name(), pos_integer) :: :ok
  def await_everywhere(name, serial) do
    case other_nodes() do
      [] ->
        :ok

      nodes ->
        # A node that ends, or has no plugin, has nothing to wait for.
        :erpc.multicall(nodes, __MODULE__, :await, [name, serial], @await)
        :ok
    end
  end

  defp other_nodes do
    case kind() do
      :mnesia -> mnesia().system_info(:running_db_nodes) -- [node()]
      :khepri -> Node.list()
    end
  end

  @doc "Waits until this node has the change of an exchange with this serial number, or has lost the exchange, but no longer than allowed."
  @spec await(Records.name(), pos_integer, non_neg_integer) :: :ok
  def await(name, serial, attempts \\ @await) do
    if attempts == 0 or settled_serial(name) > serial or fetch(name) == {:error, :not_found} do
      :ok
    else
      Process.sleep(1)
      await(name, serial, attempts - 1)
    end
  end

  @doc "Sends events of Mnesia to the calling process. With Khepri there are none."
  @spec subscribe() :: :mnesia | :khepri
  def subscribe do
    with :mnesia <- kind() do
      for table <- @tables, do: {:ok, _node} = mnesia().subscribe({:table, table, :simple})
      :mnesia
    end
  end

  @doc "Returns the exchanges of a type."
  @spec exchanges(atom) :: [Records.exchange()]
  def exchanges(type), do: for(exchange(type: ^type) = exchange <- :rabbit_exchange.list(), do: exchange)

  @spec fetch(Records.name()) :: {:ok, Records.exchange()} | {:error, :not_found}
  def fetch(name), do: :rabbit_exchange.lookup(name)

  @spec bindings(Records.name()) :: [Records.binding()]
  def bindings(name), do: :rabbit_binding.list_for_source(name)
end

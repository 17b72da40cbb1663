defmodule BeTreeExchange.Store do
  @moduledoc false
  # The broker's store of exchanges and bindings: Mnesia or, in version 4 with the feature flag `khepri_db`, Khepri.
  #
  # Each change of the bindings of an exchange of this type has a number. A node has a complete index if it has the bindings of the last
  # number that the store has on this node. A change is acknowledged when all nodes have it.

  import BeTreeExchange.Records

  alias BeTreeExchange.{Changes, Follower, Index, Records, Table}

  @serials :rabbit_exchange_serial
  @tables [:rabbit_exchange, :rabbit_route]

  # Milliseconds that a change of bindings waits for the other nodes. A node that is slower than this is as good as gone.
  @await 5_000

  # A call by a name that the compiler sees would make Mnesia an application that the plugin starts; Khepri has none.
  defp mnesia, do: :mnesia

  @type kind :: :mnesia | :khepri

  @doc "Returns which store the broker uses now."
  @spec kind() :: kind
  def kind, do: if(:ets.whereis(@serials) == :undefined, do: :khepri, else: :mnesia)

  @doc """
  Returns the number of the last change of an exchange's bindings that this node has: the serial number with Mnesia, a number of
  `BeTreeExchange.Changes` with Khepri. Returns `nil` if the store is not there, such as Mnesia after `khepri_db` was enabled. Reads a
  table.
  """
  @spec last_change(kind, Records.name()) :: integer | nil
  def last_change(:mnesia, name) do
    next(:ets.lookup(@serials, name))
  rescue
    ArgumentError -> nil
  end

  def last_change(:khepri, name), do: Changes.last_number(name)

  defp next([{_record, _name, next}]), do: next
  defp next([]), do: 1

  @doc """
  Returns the serial number of an exchange whose change is complete on this node, or `:khepri` if this is the store.

  The number of a transaction may be visible before its bindings are. The lock waits for the end of the transaction, and then the events
  of all its changes have been sent.
  """
  @spec settled_serial(Records.name()) :: pos_integer | :khepri
  def settled_serial(name) do
    read = fn -> mnesia().read(@serials, name, :read) end

    with :mnesia <- kind() do
      {:atomic, rows} = mnesia().transaction(read)
      next(rows)
    end
  end

  @doc """
  Waits until the tables of Khepri on this node have all changes that the node has applied: a query waits for the process of the store,
  which fills the tables. 26 microseconds.
  """
  @spec await_tables(Records.name()) :: term
  def await_tables(name), do: :rabbit_db_exchange.peek_serial(name)

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
  Waits until this node and all running nodes have the change of an exchange with this serial number. Called after the change, before it
  is acknowledged.

  The broker acknowledges a change of a durable binding when the other nodes have agreed to it, but may not have made it: Mnesia's
  transaction then includes tables on disk and tables in memory, and Khepri needs a majority of the nodes. A publish on another node could
  come before it.
  """
  @spec await_everywhere(Records.name(), pos_integer) :: :ok
  def await_everywhere(name, serial) do
    if kind() == :khepri, do: follow(name)
    nodes = other_nodes()
    # A node that ends, or has no plugin, has nothing to wait for.
    if nodes != [], do: :erpc.multicall(nodes, __MODULE__, :await, [name, serial], @await)
    :ok
  end

  @doc "Returns the other running nodes of the cluster."
  @spec other_nodes() :: [node]
  def other_nodes do
    case kind() do
      :mnesia -> mnesia().system_info(:running_db_nodes) -- [node()]
      :khepri -> Node.list()
    end
  end

  @doc "Waits until this node has the change of an exchange with this serial number, or has lost the exchange, but no longer than allowed."
  @spec await(Records.name(), pos_integer) :: :ok
  def await(name, serial) do
    case kind() do
      :mnesia ->
        await_serial(name, serial, @await)

      :khepri ->
        fence()
        follow(name)
    end
  end

  defp await_serial(name, serial, attempts) do
    if attempts == 0 or settled_serial(name) > serial or fetch(name) == {:error, :not_found} do
      :ok
    else
      Process.sleep(1)
      await_serial(name, serial, attempts - 1)
    end
  end

  # The index follows beside; a publish that comes first waits for it.
  defp follow(name) do
    await_tables(name)
    with %{pid: pid} <- Table.find(name), do: Index.settle_later(pid)
    :ok
  end

  @doc "Sends events of Mnesia to the calling process. With Khepri there are none."
  @spec subscribe() :: kind
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

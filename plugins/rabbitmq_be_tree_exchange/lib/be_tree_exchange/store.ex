defmodule BeTreeExchange.Store do
  @moduledoc false
  # The broker's store of exchanges and bindings: Mnesia or, in version 4 with the feature flag `khepri_db`, Khepri.
  #
  # Each change of the bindings of an exchange of this type increments the serial number of the exchange, before the change is
  # acknowledged. A node has a complete index if it has the bindings of the serial number that the store has.

  import BeTreeExchange.Records

  alias BeTreeExchange.Records

  @serials :rabbit_exchange_serial
  @tables [:rabbit_exchange, :rabbit_route, @serials]

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
      _khepri -> :rabbit_db_exchange.peek_serial(name)
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

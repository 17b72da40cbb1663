defmodule BeTreeExchange.Router do
  @moduledoc false
  # Routes a message: finds the index, searches it for the event, and looks the destinations up. Runs in the channel.

  import BeTreeExchange.Records

  alias BeTree.Error
  alias BeTreeExchange.{Counters, Destinations, Event, Follower, Index, Records, Store, Table}

  # The supervisor restarts a failed process of the plugin within milliseconds. A channel tries again this many times, with a pause of
  # milliseconds between two attempts.
  @attempts 500
  @pause 10

  @doc """
  Returns the destinations of a message. There are none for a message whose event does not fit the schema, or whose search used all
  of its fuel: the broker then gives it to the alternate exchange, or returns it if it is mandatory.
  """
  @spec route(Records.exchange(), Records.message()) :: [Records.name()]
  def route(exchange, message), do: route(exchange, message, @attempts)

  defp route(exchange, message, attempts) do
    with {:ok, row} <- complete(exchange, attempts) do
      case search(row, message) do
        {:ok, destinations} ->
          Counters.add(row.counters, if(destinations == [], do: :unroutable, else: :routed))
          destinations

        # The index ended since it was found.
        {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] and attempts > 0 ->
          Process.sleep(@pause)
          route(exchange, message, attempts - 1)

        {:error, reason} ->
          refuse(row, exchange, reason)
      end
    else
      :error -> []
    end
  end

  # Whatever a message has, its channel must not end.
  defp search(row, message) do
    with {:ok, event} <- Event.of(message, row.config),
         {:ok, ids, stats} <- BeTree.search(row.server, event, fuel: row.config.fuel, stats: true) do
      Counters.add(row.counters, :fuel, stats.fuel)
      {:ok, destinations(ids, row.destinations)}
    end
  rescue
    error -> {:error, error}
  catch
    kind, reason -> {:error, {kind, reason}}
  end

  defp destinations(ids, table) do
    Destinations.find(table, ids)
  rescue
    # The index ended, and its table with it: the message is searched for again.
    ArgumentError -> raise %Error{kind: :no_server, message: "the index ended"}
  end

  defp refuse(row, exchange, reason) do
    Counters.add(row.counters, counter(reason))

    Counters.log(row.counters, fn ->
      "x-be-tree: a message to #{describe(exchange(exchange, :name))} was not routed: #{describe_reason(reason)}"
    end)

    []
  end

  defp counter(%Error{kind: :out_of_fuel}), do: :out_of_fuel

  defp counter(%Error{kind: kind}) when kind in [:type, :out_of_bounds, :missing_attribute, :syntax],
    do: :refused

  defp counter(:content_type), do: :refused
  defp counter(_failure), do: :failed

  defp describe_reason(:content_type), do: "x-event is payload, and the content type of the message is not JSON"
  defp describe_reason(%Error{message: message}), do: message
  # Exceptions and exits may hold values of the message.
  defp describe_reason(%module{}), do: inspect(module)
  defp describe_reason({kind, _reason}), do: inspect(kind)

  # Returns the index with all bindings that the store has, of exactly this exchange.
  defp complete(exchange(name: name, arguments: arguments) = exchange, attempts) do
    case Table.find(name) do
      %{arguments: ^arguments, serial: serial} = row ->
        if :atomics.get(serial, 1) == Store.serial(name), do: {:ok, row}, else: catch_up(row, exchange, attempts)

      _none_or_other ->
        wait(exchange, attempts)
    end
  end

  defp catch_up(%{config: %{while_building: :last}} = row, exchange, _attempts) do
    with {:ok, pid} <- ensure(exchange), do: Index.settle_later(pid)
    {:ok, row}
  end

  defp catch_up(row, exchange, attempts) do
    Counters.add(row.counters, :waits)
    wait(exchange, attempts)
  end

  defp wait(_exchange, 0), do: :error

  # After the index has settled it has all that the store had when the message came. Bindings that were added since do not matter.
  defp wait(exchange(name: name, arguments: arguments) = exchange, attempts) do
    with {:ok, pid} <- ensure(exchange), :ok <- Index.settle(pid), %{arguments: ^arguments} = row <- Table.find(name) do
      {:ok, row}
    else
      _ended ->
        Process.sleep(@pause)
        wait(exchange, attempts - 1)
    end
  end

  defp ensure(exchange) do
    Follower.ensure(exchange)
  catch
    :exit, _not_running -> :error
  end
end

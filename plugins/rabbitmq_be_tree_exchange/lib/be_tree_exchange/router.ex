defmodule BeTreeExchange.Router do
  @moduledoc false
  # Routes a message: finds the index, searches it for the event, and looks the destinations up. Runs in the channel.

  import BeTreeExchange.Records

  alias BeTree.Error
  alias BeTreeExchange.{Config, Counters, Destinations, Event, Follower, Index, Readiness, Records, Store, Table}

  # Milliseconds that a message waits for the index of its exchange, and how often it waits for another index when that has ended. The
  # second bounds the work for an index that fails again and again.
  @longest_wait 300_000
  @most_waits 20

  # Milliseconds until the process of an index has ended whose server has.
  @longest_end 1_000

  # Milliseconds that another node has for the search of a message, while this node has no index.
  @elsewhere 1_000

  @doc """
  Returns the destinations of a message. There are none for a message whose event does not fit the schema, or whose search used all
  of its fuel: the broker then gives it to the alternate exchange, or returns it if it is mandatory.

  Waits for the index of the exchange while this node builds it, up to 5 minutes.
  """
  @spec route(Records.exchange(), Records.message()) :: [Records.name()]
  def route(exchange, message) do
    case present(exchange) do
      {:ok, row} ->
        route(row, exchange, message, nil)

      :none ->
        with :error <- elsewhere(exchange, message), do: await_and_route(exchange, message, start_waiting())

      {:late, row} ->
        Counters.add(row.counters, :waits)
        waiting = start_waiting()

        case Index.settle(row.pid, left(waiting)) do
          :ok -> route(row, exchange, message, waiting)
          {:error, :ended} -> await_and_route(exchange, message, waiting)
          {:error, :timeout} -> give_up(exchange, :timeout)
        end
    end
  end

  # Returns the index with all bindings that the store has on this node, of exactly this exchange, or an index that lacks some.
  defp present(exchange(name: name, arguments: arguments)) do
    with %{arguments: ^arguments} = row <- Table.find(name) do
      cond do
        :atomics.get(row.last_change, 1) == Store.last_change(row.store, name) -> {:ok, row}
        row.config.while_building == :last -> {:ok, tap(row, &Index.settle_later(&1.pid))}
        true -> {:late, row}
      end
    else
      _none_or_other -> :none
    end
  end

  defp route(row, exchange, message, waiting) do
    case search(row, message) do
      # The index ended since it was found. Its process ends as well, and then there is another one.
      {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] ->
        Index.await_end(row.pid, @longest_end)
        await_and_route(exchange, message, waiting || start_waiting())

      result ->
        finish(result, row, exchange)
    end
  end

  defp finish({:ok, destinations}, row, _exchange) do
    Counters.add(row.counters, if(destinations == [], do: :unroutable, else: :routed))
    destinations
  end

  defp finish({:error, reason}, row, exchange), do: refuse(row, exchange, reason)

  defp start_waiting, do: {System.monotonic_time(:millisecond) + @longest_wait, @most_waits}
  defp left({end_time, _times}), do: max(0, end_time - System.monotonic_time(:millisecond))

  defp await_and_route(exchange, _message, {_end_time, 0}), do: give_up(exchange, :ended)

  # After the index has settled it has all that the store had when the message came. Bindings that were added since do not matter.
  defp await_and_route(exchange(name: name, arguments: arguments) = exchange, message, {end_time, times}) do
    waiting = {end_time, times - 1}

    with {:ok, pid} <- Follower.ensure(exchange, left(waiting)),
         :ok <- Index.settle(pid, left(waiting)),
         %{arguments: ^arguments} = row <- Table.find(name) do
      route(row, exchange, message, waiting)
    else
      {:error, :not_running} ->
        with :ok <- Readiness.await(left(waiting)) do
          await_and_route(exchange, message, waiting)
        else
          {:error, reason} -> give_up(exchange, reason)
        end

      {:error, reason} when reason != :ended ->
        give_up(exchange, reason)

      _ended_or_other ->
        await_and_route(exchange, message, waiting)
    end
  end

  # A node without an index lets the others search, one after another, if its messages may be routed by an index that lacks changes.
  defp elsewhere(exchange, message) do
    with {:ok, %{while_building: :last} = config} <- Config.read(exchange),
         {:ok, event} <- guarded(fn -> Event.of(message, config) end) do
      Enum.find_value(Store.other_nodes(), :error, &ask(&1, exchange, event))
    else
      _waits_or_refused -> :error
    end
  catch
    :exit, _store_ended -> :error
  end

  # A node that ends, has no plugin or has no index either cannot help; whatever the reason, this node's index is built.
  defp ask(node, exchange, event) do
    :erpc.call(node, __MODULE__, :route_event, [exchange, event], @elsewhere)
  catch
    _kind, _reason -> nil
  end

  @doc "Returns the destinations of an event by the index of this node, or `nil` if it has none."
  @spec route_event(Records.exchange(), BeTree.Event.t()) :: [Records.name()] | nil
  def route_event(exchange(name: name, arguments: arguments) = exchange, event) do
    with %{arguments: ^arguments} = row <- Table.find(name) do
      case search_event(row, event) do
        {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] -> nil
        result -> finish(result, row, exchange)
      end
    else
      _none_or_other -> nil
    end
  end

  defp search(row, message) do
    guarded(fn -> with {:ok, event} <- Event.of(message, row.config), do: search_event(row, event) end)
  end

  # Whatever a message has, its channel must not end.
  defp guarded(function) do
    function.()
  rescue
    error -> {:error, error}
  catch
    kind, reason -> {:error, {kind, reason}}
  end

  defp search_event(row, event) do
    with {:ok, ids, stats} <- BeTree.search(row.server, event, fuel: row.config.fuel, stats: true) do
      Counters.add(row.counters, :fuel, stats.fuel)
      {:ok, destinations(ids, row.destinations)}
    end
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

  # Each message that is given up has waited long, so that there are few lines.
  defp give_up(exchange(name: name), reason) do
    with %{counters: counters} <- Table.find(name), do: Counters.add(counters, :failed)
    text = "x-be-tree: a message to #{describe(name)} was not routed: #{describe_wait(reason)}"
    :logger.warning(~c"~ts", [text], %{domain: [:rabbitmq]})
    []
  end

  defp describe_wait(:timeout), do: "its index was not complete within #{div(@longest_wait, 60_000)} minutes"
  defp describe_wait(:ended), do: "its index ended #{@most_waits} times"
  defp describe_wait(:not_running), do: "the plugin does not run"
  defp describe_wait(text) when is_binary(text), do: text
end

defmodule Router.Connection do
  @moduledoc """
  A connection of a client: a process that subscribes for it, and sends it the alerts.

  A client sends lines:

  | line | reply |
  | --- | --- |
  | `subscribe NAME EXPRESSION` | `ok`, or `error` and the reason. A second subscription of a name replaces the first |
  | `unsubscribe NAME` | `ok` |
  | `{"severity": 5, ...}`, an alert as JSON | `ok` when it was sent to all subscribers |
  | `stats` | counts of the whole router |

  An alert comes as `alert NAME,NAME JSON`, once, with the names of the subscriptions that match. If a client does not read, its
  alerts wait in the mailbox of its process, up to the limit of the pubsub. Later ones are dropped, and the line `dropped COUNT` says so
  before the next alert. Publishers and other subscribers never wait for it.
  """

  use GenServer, restart: :temporary

  alias BeTree.PubSub
  alias Router.Alerts

  def start_link(socket), do: GenServer.start_link(__MODULE__, socket)

  @doc "Starts reading from the socket. The process must own it."
  @spec open(pid) :: :ok
  def open(connection), do: GenServer.cast(connection, :open)

  @impl GenServer
  def init(socket), do: {:ok, %{socket: socket, subscriptions: %{}}}

  @impl GenServer
  def handle_cast(:open, state), do: read_on(state)

  @impl GenServer
  def handle_info({:tcp, socket, line}, %{socket: socket} = state) do
    if String.ends_with?(line, "\n") do
      {reply, state} = line |> String.trim() |> run(state)
      send_and(state, reply, &read_on/1)
    else
      send_and(state, "error: the line is too long", &{:stop, :normal, &1})
    end
  end

  def handle_info(%PubSub.Message{event: {:json, alert}, tags: names, dropped: dropped}, state) do
    lost = if dropped > 0, do: "dropped #{dropped}\n", else: ""
    send_and(state, "#{lost}alert #{Enum.join(names, ",")} #{alert}", &{:noreply, &1})
  end

  def handle_info({:tcp_closed, _socket}, state), do: {:stop, :normal, state}
  def handle_info({:tcp_error, _socket, _reason}, state), do: {:stop, :normal, state}

  defp run("{" <> _rest = alert, state), do: {result(PubSub.publish(Alerts, {:json, alert})), state}

  defp run("stats", state) do
    stats = PubSub.stats!(Alerts)
    {Enum.map_join([:subscriptions, :published, :delivered, :dropped], " ", &"#{&1}=#{stats[&1]}"), state}
  end

  defp run(line, state) do
    case String.split(line, " ", parts: 3) do
      ["subscribe", name, expression] -> subscribe(name, expression, state)
      ["unsubscribe", name] when is_map_key(state.subscriptions, name) -> unsubscribe(name, state)
      _other -> {"error: send `subscribe NAME EXPRESSION`, `unsubscribe NAME`, `stats`, or an alert as JSON", state}
    end
  end

  # The new subscription is made before the former one ends, so no alert is missed between them.
  defp subscribe(name, expression, state) do
    case PubSub.subscribe(Alerts, expression, tag: name) do
      {:ok, subscription} ->
        {_reply, state} = unsubscribe(name, state)
        {"ok", put_in(state.subscriptions[name], subscription)}

      {:error, _error} = refused ->
        {result(refused), state}
    end
  end

  defp unsubscribe(name, state) do
    {subscription, state} = pop_in(state.subscriptions[name])
    {if(subscription, do: result(PubSub.unsubscribe(Alerts, subscription))), state}
  end

  defp result(:ok), do: "ok"
  # A reply is one line.
  defp result({:error, error}), do: "error: #{error.message}#{column(error)}"

  defp column(%{column: nil}), do: ""
  defp column(%{column: column}), do: " (column #{column})"

  defp send_and(state, line, next) do
    case :gen_tcp.send(state.socket, [line, "\n"]) do
      :ok -> next.(state)
      {:error, _closed} -> {:stop, :normal, state}
    end
  end

  # One line at a time: a client cannot fill the mailbox in which alerts are counted.
  defp read_on(state) do
    case :inet.setopts(state.socket, active: :once) do
      :ok -> {:noreply, state}
      {:error, _closed} -> {:stop, :normal, state}
    end
  end
end

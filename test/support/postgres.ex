defmodule BeTree.Test.Postgres do
  @moduledoc """
  A connection to a PostgreSQL that trusts its users: simple queries, and notifications. The connection is linked to the process that
  connects, and ends when the socket does.
  """

  use GenServer, restart: :temporary

  @protocol 3 * 0x1_0000
  @timeout_ms 60_000

  @doc "Returns the port of the PostgreSQL of `scripts/test-postgres`."
  def port, do: "BE_TREE_POSTGRES_PORT" |> System.fetch_env!() |> String.to_integer()

  @doc "Connects as this user. The connection calls `notify` with the payload of each notification."
  def connect(user \\ "postgres", notify \\ fn _payload -> :ok end),
    do: GenServer.start_link(__MODULE__, {user, notify})

  @doc "Returns the rows of a query, lists of strings, or raises the message of the server."
  def query!(connection, sql) do
    with {:error, message} <- GenServer.call(connection, {:query, sql}, :infinity), do: raise("#{message}: #{sql}")
  end

  @doc "Calls the function with a stream of the rows of a query, in a transaction."
  def stream(connection, sql, function) do
    [] = query!(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    # The query begins when the stream is read.
    declare = fn -> [] = query!(connection, "DECLARE all_rows CURSOR FOR #{sql}") end

    fetch = fn _ ->
      case query!(connection, "FETCH 500 FROM all_rows") do
        [] -> {:halt, nil}
        rows -> {rows, nil}
      end
    end

    result = function.(Stream.resource(declare, fetch, fn _ -> :ok end))
    [] = query!(connection, "COMMIT")
    result
  end

  @impl GenServer
  def init({user, notify}) do
    with {:ok, socket} <- :gen_tcp.connect(~c"127.0.0.1", port(), [:binary, active: false, nodelay: true]),
         :ok <- :gen_tcp.send(socket, startup(user)),
         :ok <- await_ready(socket) do
      :ok = :inet.setopts(socket, active: true)
      {:ok, %{socket: socket, notify: notify, rest: "", waiting: :queue.new(), rows: [], error: nil}}
    else
      # The server may refuse connections.
      {:error, reason} -> {:stop, {:shutdown, reason}}
    end
  end

  defp startup(user) do
    parameters = [<<@protocol::32>>, Enum.map(["user", user, "database", "postgres"], &[&1, 0]), 0]
    [<<IO.iodata_length(parameters) + 4::32>>, parameters]
  end

  defp await_ready(socket) do
    with {:ok, <<kind, size::32>>} <- :gen_tcp.recv(socket, 5, @timeout_ms),
         {:ok, body} <- if(size > 4, do: :gen_tcp.recv(socket, size - 4, @timeout_ms), else: {:ok, ""}) do
      case kind do
        ?Z -> :ok
        ?E -> {:error, body}
        _authenticated_or_parameter -> await_ready(socket)
      end
    end
  end

  @impl GenServer
  def handle_call({:query, sql}, from, %{socket: socket, waiting: waiting} = state) do
    _ = :gen_tcp.send(socket, [<<?Q, byte_size(sql) + 5::32>>, sql, 0])
    {:noreply, %{state | waiting: :queue.in(from, waiting)}}
  end

  @impl GenServer
  def handle_info({:tcp, socket, bytes}, %{socket: socket, rest: rest} = state),
    do: {:noreply, read(%{state | rest: rest <> bytes})}

  def handle_info({:tcp_closed, _socket}, state), do: {:stop, {:shutdown, :closed}, state}
  def handle_info({:tcp_error, _socket, reason}, state), do: {:stop, {:shutdown, reason}, state}

  defp read(%{rest: <<kind, size::32, more::binary>>} = state) when byte_size(more) >= size - 4 do
    {body, rest} = :erlang.split_binary(more, size - 4)
    read(message(kind, body, %{state | rest: rest}))
  end

  defp read(state), do: state

  # A data row, an error, the end of a query, a notification.
  defp message(?D, <<_count::16, columns::binary>>, state), do: %{state | rows: [columns(columns) | state.rows]}
  defp message(?E, body, state), do: %{state | error: body |> String.split(<<0>>) |> Enum.join(" ")}

  defp message(?Z, _status, %{waiting: waiting} = state) do
    {{:value, from}, waiting} = :queue.out(waiting)
    GenServer.reply(from, if(state.error, do: {:error, state.error}, else: Enum.reverse(state.rows)))
    %{state | waiting: waiting, rows: [], error: nil}
  end

  defp message(?A, <<_process::32, channel_and_payload::binary>>, state) do
    [_channel, payload, ""] = String.split(channel_and_payload, <<0>>)
    state.notify.(payload)
    state
  end

  defp message(_other, _body, state), do: state

  defp columns(<<-1::signed-32, rest::binary>>), do: [nil | columns(rest)]
  defp columns(<<size::32, value::binary-size(size), rest::binary>>), do: [value | columns(rest)]
  defp columns(""), do: []
end

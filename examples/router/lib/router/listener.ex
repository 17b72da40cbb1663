defmodule Router.Listener do
  @moduledoc "Accepts connections, and starts a process for each."

  use Task, restart: :permanent

  alias Router.Connection

  # Longer lines are refused.
  @max_line_bytes 65_536

  def start_link(port) do
    # The socket is opened here, so that a port in use fails the start.
    {:ok, listening} =
      :gen_tcp.listen(port, [
        :binary,
        ip: {127, 0, 0, 1},
        packet: :line,
        buffer: @max_line_bytes,
        active: false,
        reuseaddr: true
      ])

    {:ok, pid} = Task.start_link(__MODULE__, :accept, [listening])
    :ok = :gen_tcp.controlling_process(listening, pid)
    Process.register(pid, __MODULE__)
    {:ok, pid}
  end

  @doc false
  def accept(listening) do
    {:ok, socket} = :gen_tcp.accept(listening)
    {:ok, connection} = DynamicSupervisor.start_child(Router.Connections, {Connection, socket})

    # The connection may have ended already.
    with :ok <- :gen_tcp.controlling_process(socket, connection), do: Connection.open(connection)
    accept(listening)
  end

  @doc "Returns the port on which the router listens."
  @spec port() :: :inet.port_number()
  def port do
    {:links, links} = Process.info(Process.whereis(__MODULE__), :links)
    {:ok, port} = links |> Enum.find(&is_port/1) |> :inet.port()
    port
  end
end

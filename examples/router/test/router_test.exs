defmodule RouterTest do
  use ExUnit.Case

  # A process that ends before it has seen the monitor gives `:noproc`.
  @ends [:normal, :noproc]

  defp connect do
    options = [:binary, packet: :line, buffer: 65_536, active: false]
    {:ok, socket} = :gen_tcp.connect({127, 0, 0, 1}, Router.Listener.port(), options)
    socket
  end

  defp ask(socket, line) do
    :ok = :gen_tcp.send(socket, [line, "\n"])
    receive_line(socket)
  end

  defp receive_line(socket) do
    {:ok, line} = :gen_tcp.recv(socket, 0, 300_000)
    String.trim(line)
  end

  test "an alert reaches the subscribers whose expressions it makes true, once" do
    [on_call, databases, producer] = for _client <- 1..3, do: connect()
    assert ask(on_call, "subscribe severe severity >= 4 and not maintenance") == "ok"
    assert ask(on_call, "subscribe disks contains(message, 'disk')") == "ok"
    assert ask(databases, "subscribe databases starts_with(host, 'db-')") == "ok"

    both = ~s({"severity": 5, "host": "db-7", "message": "disk full"})
    assert ask(producer, both) == "ok"
    assert receive_line(on_call) == "alert severe,disks " <> both
    assert receive_line(databases) == "alert databases " <> both

    assert ask(producer, ~s({"severity": 5, "maintenance": true})) == "ok"
    last = ~s({"severity": 4})
    assert ask(producer, last) == "ok"
    assert receive_line(on_call) == "alert severe " <> last
  end

  test "a second subscription of a name replaces the first, and an unsubscription ends it" do
    client = connect()
    assert ask(client, "subscribe mine severity = 1") == "ok"
    assert ask(client, "subscribe mine severity = 2") == "ok"
    assert ask(client, ~s({"severity": 1})) == "ok"
    # The connection sends the alert to itself before it replies, and handles it afterwards.
    assert ask(client, ~s({"severity": 2})) == "ok"
    assert receive_line(client) == ~s(alert mine {"severity": 2})
    assert ask(client, "unsubscribe mine") == "ok"
    assert ask(client, ~s({"severity": 2})) == "ok"
    assert ask(client, "stats") =~ ~r/^subscriptions=\d+ published=\d+ delivered=\d+ dropped=0$/
  end

  test "a wrong line is an error, and the connection stays" do
    client = connect()
    assert ask(client, "subscribe mine sevrity = 1") =~ ~r/^error: .*`severity`.* \(column 1\)$/
    assert ask(client, ~s({"severity": "high"})) =~ "severity"
    assert ask(client, "hello") =~ "subscribe NAME EXPRESSION"
    assert ask(client, "unsubscribe mine") =~ "error"
    assert ask(client, "subscribe mine severity = 1") == "ok"
  end

  test "a client that closes its connection is forgotten" do
    {client, connection} = connect_and_find()
    assert ask(client, "subscribe gone severity = 3") == "ok"
    monitor = Process.monitor(connection)
    :ok = :gen_tcp.close(client)
    assert ended(monitor) in @ends
    assert ask(connect(), ~s({"severity": 3})) == "ok"
  end

  test "a line that is too long ends the connection" do
    {client, connection} = connect_and_find()
    monitor = Process.monitor(connection)
    # The connection may close before it has all bytes.
    _result = :gen_tcp.send(client, String.duplicate("x", 200_000))
    assert ended(monitor) in @ends
  end

  defp ended(monitor) do
    assert_receive {:DOWN, ^monitor, :process, _connection, reason}, 300_000
    reason
  end

  # Returns a client, and the process of its connection, which exists when it replies.
  defp connect_and_find do
    before = connections()
    client = connect()
    assert ask(client, "stats") =~ "published"
    [connection] = connections() -- before
    {client, connection}
  end

  defp connections,
    do: for({_id, pid, _type, _modules} <- DynamicSupervisor.which_children(Router.Connections), do: pid)
end

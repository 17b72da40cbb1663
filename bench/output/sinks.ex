defmodule BeTree.Bench.Output.Sinks do
  @moduledoc false
  # The receivers of messages: an I/O device that does nothing, and a process that reads a TCP socket. Both count what they get.

  @told "BeTree.Output: "

  @doc "Starts a device that counts requests, and answers each of them."
  def device, do: spawn_link(fn -> device(0, 0, 0) end)

  defp device(requests, bytes, told) do
    receive do
      {:io_request, from, reference, request} ->
        send(from, {:io_reply, reference, :ok})

        case dropped(request) do
          0 -> device(requests + 1, bytes + size(request), told)
          dropped -> device(requests, bytes, told + dropped)
        end

      # Stops answering requests until the message `:resume`.
      {:hold, from} ->
        send(from, {:held, self()})

        receive do
          :resume -> device(requests, bytes, told)
        end

      {:counts, from} ->
        send(from, {:counts, self(), %{requests: requests, bytes: bytes, told: told}})
        device(requests, bytes, told)
    end
  end

  defp size({:put_chars, _encoding, data}), do: :erlang.iolist_size(data)
  # A request of `:io.format/3`, which a device formats. This one does not.
  defp size(_request), do: 0

  # The line by which an output tells a device of dropped messages is a request of its own.
  defp dropped({:put_chars, _encoding, [@told <> rest]}) do
    case Integer.parse(rest) do
      {count, " messages dropped\n"} -> count
      _other -> 0
    end
  end

  defp dropped(_request), do: 0

  @doc "Returns `:requests`, `:bytes`, and the dropped messages that the device was `:told` of. Behind everything that was sent before."
  def counts(sink) do
    send(sink, {:counts, self()})

    receive do
      {:counts, ^sink, counts} -> counts
    end
  end

  def stop(sink) do
    Process.unlink(sink)
    Process.exit(sink, :kill)
  end

  @doc "Makes a device leave requests unanswered until it gets `:resume`."
  def hold(device) do
    send(device, {:hold, self()})

    receive do
      {:held, ^device} -> :ok
    end
  end

  @doc "Returns a socket on the loopback device, and the process that reads its other end."
  def connect do
    {:ok, listener} =
      :gen_tcp.listen(0, [:binary, active: false, ip: {127, 0, 0, 1}, buffer: 0x4_0000, recbuf: 0x4_0000])

    {:ok, port} = :inet.port(listener)
    {:ok, socket} = :gen_tcp.connect({127, 0, 0, 1}, port, [:binary, active: false, nodelay: true])
    {:ok, peer} = :gen_tcp.accept(listener)
    :gen_tcp.close(listener)
    reader = spawn_link(fn -> read(peer, 0) end)
    :ok = :gen_tcp.controlling_process(peer, reader)
    {socket, reader}
  end

  defp read(peer, bytes) do
    receive do
      {:await, from, expected} -> read(peer, bytes, from, expected)
    end
  end

  defp read(peer, bytes, from, expected) when bytes >= expected do
    send(from, {:read, self(), bytes})
    read(peer, bytes)
  end

  defp read(peer, bytes, from, expected) do
    {:ok, data} = :gen_tcp.recv(peer, 0, 60_000)
    read(peer, bytes + byte_size(data), from, expected)
  end

  @doc "Tells the reader how many bytes come. It reads only then."
  def expect(reader, bytes), do: send(reader, {:await, self(), bytes})

  @doc "Waits for the bytes of `expect/2`, and returns how many came."
  def await(reader) do
    receive do
      {:read, ^reader, bytes} -> bytes
    after
      60_000 -> raise "the reader of the socket did not get its bytes in a minute"
    end
  end
end

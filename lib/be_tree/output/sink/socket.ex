defmodule BeTree.Output.Sink.Socket do
  @moduledoc false
  # Sends to a TCP socket that another process owns. Messages are delivered when the operating system has taken them.

  @behaviour BeTree.Output.Sink

  @impl true
  def open(socket) do
    case :inet.peername(socket) do
      {:ok, _peer} -> {:ok, socket}
      {:error, reason} -> {:closed, reason}
    end
  end

  @impl true
  def form, do: :pages

  # A part of the pages may have been sent before an error, so nothing may follow.
  @impl true
  def write(pages, socket) do
    case :gen_tcp.send(socket, pages) do
      :ok ->
        {:ok, socket}

      {:error, reason} ->
        :gen_tcp.close(socket)
        {:stop, reason, socket}
    end
  end

  @impl true
  def disconnect(socket), do: :gen_tcp.close(socket)
end

defmodule BeTree.Output.Sink.Device do
  @moduledoc false
  # Writes text to an I/O device, a page in each request. It is delivered when the device has answered.

  @behaviour BeTree.Output.Sink

  # A device that does not report its encoding in this time counts as a Unicode device.
  @options_ms 1_000

  @impl true
  def open(device) do
    case whereis(device) do
      nil when is_pid(device) -> {:closed, :noproc}
      nil -> {:error, :noproc}
      pid -> {:ok, {pid, encoding_of(request(pid, :getopts, @options_ms))}}
    end
  end

  # `:standard_io` is the group leader of the caller.
  defp whereis(:standard_io), do: Process.group_leader()
  defp whereis(name) when is_atom(name), do: Process.whereis(name)
  defp whereis(pid), do: if(node(pid) != node() or Process.alive?(pid), do: pid)

  defp encoding_of(options) when is_list(options), do: if(options[:encoding] == :latin1, do: :latin1, else: :unicode)
  defp encoding_of(_other), do: :unicode

  @impl true
  def form, do: :pages

  @impl true
  def encoding({_pid, encoding}), do: encoding

  @impl true
  def write(pages, {pid, encoding} = state) do
    case request(pid, {:put_chars, encoding, pages}, :infinity) do
      {:error, reason} -> {:error, reason, state}
      {:down, reason} -> {:stop, reason, state}
      _answer -> {:ok, state}
    end
  end

  defp request(pid, request, timeout) do
    reference = Process.monitor(pid)
    send(pid, {:io_request, self(), reference, request})

    receive do
      {:io_reply, ^reference, answer} ->
        Process.demonitor(reference, [:flush])
        answer

      {:DOWN, ^reference, :process, _pid, reason} ->
        {:down, reason}
    after
      timeout ->
        Process.demonitor(reference, [:flush])
        {:error, :timeout}
    end
  end
end

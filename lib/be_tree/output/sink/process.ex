defmodule BeTree.Output.Sink.Process do
  @moduledoc false
  # Sends messages to a process, which acknowledges each list. They are delivered when they are acknowledged.

  @behaviour BeTree.Output.Sink

  @impl true
  def open({process, name}) do
    case whereis(process) do
      nil when is_pid(process) -> {:closed, :noproc}
      nil -> {:error, :noproc}
      pid -> {:ok, {pid, name}}
    end
  end

  defp whereis(pid) when is_pid(pid), do: if(node(pid) != node() or Process.alive?(pid), do: pid)
  defp whereis(name), do: Process.whereis(name)

  @impl true
  def write(messages, {pid, name} = state) do
    reference = :erlang.monitor(:process, pid, alias: :reply_demonitor)
    send(pid, {:be_tree_output, name, {:messages, messages, reference}})

    receive do
      {:acknowledged, ^reference} -> {:ok, state}
      {:DOWN, ^reference, :process, _pid, reason} -> {:stop, reason, state}
    end
  end

  @doc "Acknowledges the messages of `write/2`."
  @spec acknowledge(reference) :: :ok
  def acknowledge(reference) do
    send(reference, {:acknowledged, reference})
    :ok
  end

  @impl true
  def dropped(count, {pid, name} = state) do
    send(pid, {:be_tree_output, name, {:dropped, count}})
    {:ok, state}
  end

  @impl true
  def disconnect({process, name}) do
    with pid when pid != nil <- whereis(process), do: send(pid, {:be_tree_output, name, :disconnected})
  end
end

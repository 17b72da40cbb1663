defmodule BeTree.Rules.Server.Gauges do
  @moduledoc false
  # The measurements of the event [:be_tree, :rules, :measure] (BeTree.Telemetry).

  alias BeTree.Error
  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.Shared
  alias BeTree.Telemetry.Gauge

  @doc """
  Returns the measurements of a server of rules. Of one that does not reply within `timeout` milliseconds they are `busy: 1` and the
  length of the mailboxes of its processes, which need no reply.
  """
  @spec read(Server.name(), timeout) :: {:ok, %{atom => number}} | {:error, Error.t()}
  def read(name, timeout) do
    queue = name |> processes() |> Enum.map(&queue/1) |> Enum.sum()
    name |> Server.info(timeout: timeout) |> Gauge.of_reply(queue, &values/1)
  rescue
    # The server, or the registry of its name, ended meanwhile.
    ArgumentError -> {:error, %Error{kind: :no_server, message: "no server #{inspect(name)} runs"}}
  end

  defp processes(name) do
    case Shared.partitions(name) do
      nil -> [GenServer.whereis(name)]
      partitions -> for number <- 0..(partitions - 1), do: Shared.owner(name, number)
    end
  end

  defp queue(pid) when is_pid(pid) and node(pid) == node() do
    with {:message_queue_len, length} <- Process.info(pid, :message_queue_len), do: length, else: (nil -> 0)
  end

  defp queue(_none_here), do: 0

  defp values(info) do
    info
    |> Map.take([:rules, :facts, :waiting, :facts_bytes, :memory_bytes, :journal_bytes, :journal_age])
    |> Map.merge(%{due: Gauge.flag(info.due), held: Gauge.flag(info.held != nil), behind: behind(info)})
  end

  # The milliseconds from the rules' time to the latest time that they have seen.
  defp behind(%{now: now, latest: latest}) when is_integer(now) and is_integer(latest), do: max(latest - now, 0)
  defp behind(_no_time), do: 0
end

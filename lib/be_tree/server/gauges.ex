defmodule BeTree.Server.Gauges do
  @moduledoc false
  # The measurements of the event [:be_tree, :server, :measure] (BeTree.Telemetry).

  alias BeTree.Error
  alias BeTree.Server.{Request, Table}
  alias BeTree.Target.View
  alias BeTree.Telemetry.Gauge

  @doc """
  Returns the measurements of a server. Of one whose process does not reply within `timeout` milliseconds they are `busy: 1` and the
  length of its mailbox, which need no reply.
  """
  @spec read(BeTree.Server.name(), timeout) :: {:ok, %{atom => number}} | {:error, Error.t()}
  def read(name, timeout) do
    with {:ok, table} <- Request.table(name),
         pid when is_pid(pid) <- Table.process(table),
         {:message_queue_len, queue} <- Process.info(pid, :message_queue_len) do
      name |> Request.call(:info, timeout) |> Gauge.of_reply(queue, &values/1)
    else
      {:error, error} -> {:error, error}
      # Its process has not started, or has ended.
      nil -> View.no_server(name)
    end
  rescue
    # The server, or the registry of its name, ended meanwhile.
    ArgumentError -> View.no_server(name)
  end

  defp values(info) do
    info
    |> Map.take([:expressions, :memory, :memory_bytes, :version, :log, :lag])
    |> Map.put(:failed, Gauge.flag(info.error != nil))
    |> Map.merge(of_replicas(info))
    |> Map.merge(of_folder(info))
    |> Map.merge(of_follower(info))
  end

  # The information of a follower has none.
  defp of_replicas(%{replicas: %{count: count, bytes: bytes}}), do: %{replicas: count, replica_bytes: bytes}
  defp of_replicas(_follower), do: %{}

  defp of_folder(%{journal: %{durable: written, bytes: bytes, age: age}, version: version}),
    do: %{unwritten: version - written, journal_bytes: bytes, journal_age: age}

  defp of_folder(_no_journal), do: %{}

  defp of_follower(%{connected: connected}), do: %{connected: Gauge.flag(connected)}
  defp of_follower(_no_follower), do: %{}
end

defmodule BeTree.Gauges do
  @moduledoc """
  Gauges: the sizes, queues and lags of all servers, servers of rules, outputs, pubsubs and tenants that run on a node.

  `measure/0` emits them as telemetry events, for a periodic measurement by `:telemetry_poller`:

      {:telemetry_poller, measurements: [{BeTree.Gauges, :measure, []}], period: 10_000}

  `BeTree.Telemetry` lists the events `[:be_tree, ..., :measure]` with their measurements, and `BeTree.Telemetry.metrics/0` has a
  `last_value` for each. [Metrics](metrics.md) shows a whole configuration, and alerts.

  The gauges of outputs, pubsubs and tenants are read from tables and counters. Servers and servers of rules,
  with all partitions at once, are asked, for at most 100 milliseconds each and a second together. One that does not reply in this time
  reports `busy: 1` and the length of its mailbox, `queue`, and nothing else. The processes that no time is left for report nothing.
  """

  alias BeTree.{Output, PubSub, Rules, Server, Telemetry, Tenants}
  alias BeTree.Gauges.Running
  alias BeTree.Processes.Deadline

  @typedoc "What runs under a name, the name, and its measurements (`BeTree.Telemetry`)."
  @type gauge :: %{kind: kind, name: term, measurements: %{atom => number}}

  @type kind :: :server | :rules | :output | :pub_sub | :tenants

  # Milliseconds for which a measurement waits for one process, and for all.
  @wait_ms 100
  @total_wait_ms 1_000

  @doc """
  Emits the gauges of everything that runs on this node. Returns `:ok`. Without `:telemetry` it does nothing.

      iex> BeTree.Gauges.measure()
      :ok
  """
  @spec measure() :: :ok
  def measure do
    if Telemetry.enabled?(), do: Enum.each(read(), &emit/1)
    :ok
  end

  @doc """
  Returns the gauges that `measure/0` emits, as a list of maps with `:kind`, `:name` and `:measurements`.

      iex> {:ok, _pid} = BeTree.Server.start_link(name: Gauged, schema: [age: :integer])
      iex> BeTree.Server.insert!(Gauged, 1, "age >= 21")
      iex> [gauge] = for %{kind: :server, name: Gauged} = gauge <- BeTree.Gauges.read(), do: gauge
      iex> gauge.measurements.queue
      0
  """
  @spec read() :: [gauge]
  def read do
    deadline = Deadline.new(@total_wait_ms)

    # The outputs, pubsubs and tenants first: they never wait.
    for {kind, names} <- Running.names(),
        name <- names,
        {:ok, measurements} <- [measurements(kind, name, deadline)],
        do: %{kind: kind, name: name, measurements: measurements}
  end

  defp emit(%{kind: kind, name: name, measurements: measurements}),
    do: Telemetry.event([kind, :measure], measurements, %{tag(kind) => name})

  defp tag(:output), do: :output
  defp tag(:pub_sub), do: :pubsub
  defp tag(:tenants), do: :tenants
  defp tag(_server), do: :server

  defp measurements(:output, name, _deadline), do: Output.Gauges.read(name)
  defp measurements(:pub_sub, name, _deadline), do: PubSub.Gauges.read(name)
  defp measurements(:tenants, name, _deadline), do: Tenants.Gauges.read(name)
  defp measurements(:rules, name, deadline), do: within(deadline, &Rules.Server.Gauges.read(name, &1))
  defp measurements(:server, name, deadline), do: within(deadline, &Server.Gauges.read(name, &1))

  defp within(deadline, read) do
    case Deadline.left(deadline) do
      0 -> :no_time_left
      left -> read.(min(left, @wait_ms))
    end
  end
end

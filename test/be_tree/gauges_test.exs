defmodule BeTree.GaugesTest do
  # The tests replace the sink of the node.
  use ExUnit.Case, async: false

  import BeTree.Test.{Quiet, Recorder}

  alias BeTree.{Gauges, Output, PubSub, Rules, Server, Tenants}
  alias BeTree.Test.Servers

  doctest Gauges

  setup [:quiet, :record]

  @rules "fact m(n: integer) rule r when m: m then notify r"

  defp names(kind), do: for(%{kind: ^kind, name: name} <- Gauges.read(), do: name)

  # Repeats the measurement until an event has these values: on a busy machine a process may reply too late.
  defp measured(event, metadata, wanted \\ %{busy: 0}) do
    :ok = Gauges.measure()
    received(event, metadata, wanted) || measured(event, metadata, wanted)
  end

  defp received(event, metadata, wanted) do
    receive do
      {[^event, :measure], measurements, ^metadata, _pid} ->
        if Map.take(measurements, Map.keys(wanted)) == wanted, do: measurements, else: received(event, metadata, wanted)
    after
      0 -> nil
    end
  end

  defp via(registry, term), do: {:via, Registry, {registry, term}}

  defp registry(_context) do
    registry = Servers.new_name()
    start_supervised!({Registry, keys: :unique, name: registry})
    {:ok, registry: registry}
  end

  # Compares measurements with the metrics of their event.
  defmodule Definitions do
    for kind <- [:counter, :sum, :summary, :last_value, :distribution] do
      def unquote(kind)(name, _options), do: {unquote(kind), String.split(name, ".")}
    end
  end

  defp check_metrics(event, measurements, without \\ []) do
    event = Atom.to_string(event)
    metrics = BeTree.Telemetry.Metrics.all(Definitions)
    gauges = for {:last_value, ["be_tree", ^event, "measure", name]} <- metrics, do: String.to_existing_atom(name)
    assert gauges != []
    assert Enum.sort(Map.keys(measurements) -- [:monotonic_time]) == Enum.sort(gauges -- without)
    assert Enum.all?(measurements, fn {_name, value} -> is_number(value) end)
  end

  describe "measure/0 of servers" do
    setup :registry

    @tag :tmp_dir
    test "emits the gauges of servers with names of both kinds", %{registry: registry, tmp_dir: folder} do
      for name <- [Servers.new_name(), via(registry, :ads)] do
        start_supervised!({Server, name: name, schema: [a: :integer], dir: Path.join(folder, inspect(name))}, id: name)
        Server.insert_all!(name, [{1, "a = 1"}, {2, "a = 2"}])
        measurements = measured(:server, %{server: name})
        check_metrics(:server, measurements, [:connected])
        assert %{expressions: 2, version: 1, unwritten: 0, failed: 0, journal_bytes: bytes} = measurements
        assert bytes > 0
      end
    end

    test "reports a server that does not reply as busy, with its mailbox, and the others" do
      [busy, idle] = for _server <- 1..2, do: Servers.start(schema: [a: :integer])
      process = Servers.process(busy)
      :sys.suspend(process)
      assert %{queue: _queue} = measurements = measured(:server, %{server: busy}, %{busy: 1})
      assert measurements |> Map.delete(:monotonic_time) |> map_size() == 2
      # The request of the measurement before waits for the process.
      assert measured(:server, %{server: busy}, %{busy: 1}).queue > 0
      measured(:server, %{server: idle})
      :sys.resume(process)
      measured(:server, %{server: busy})
    end

    test "leaves out servers that ended, and servers of a registry that ended", %{registry: registry} do
      ended = Servers.start(schema: [a: :integer])
      lost = via(registry, :lost)
      start_supervised!({Server, name: lost, schema: [a: :integer]}, id: lost)
      :ok = stop_supervised(ended)
      :ok = stop_supervised(registry)
      refute ended in names(:server)
      refute lost in names(:server)
    end

    test "is not disturbed by tables of other programs" do
      for protection <- [:private, :protected, :public] do
        name = Servers.new_name()
        :ets.new(name, [:named_table, protection, :bag])
        if protection != :private, do: :ets.insert(name, {:table, 1})
        refute name in Enum.map(Gauges.read(), & &1.name)
      end
    end
  end

  describe "measure/0 of servers of rules" do
    setup :registry

    @tag :tmp_dir
    test "emits the gauges, with and without partitions", %{registry: registry, tmp_dir: folder} do
      options = [[], [partitions: 2, partition_by: :n, dir: Path.join(folder, "rules")]]

      for {options, name} <- Enum.zip(options, [Servers.new_name(), via(registry, :rules)]) do
        start_supervised!({Rules.Server, [name: name, rules: @rules] ++ options}, id: name)
        {:ok, _page} = Rules.Server.assert_all(name, for(n <- 1..5, do: {:m, n: n}))
        measurements = measured(:rules, %{server: name})
        check_metrics(:rules, measurements)
        assert %{facts: 5, rules: 1, due: 0, held: 0, behind: 0, queue: 0} = measurements
        assert measurements.journal_bytes > 0 == (options != [])
        assert options != [] or measurements.journal_age == 0
        :ok = stop_supervised(name)
        refute name in names(:rules)
      end
    end

    test "reports a server that does not reply as busy" do
      name = Servers.new_name()
      process = start_supervised!({Rules.Server, name: name, rules: @rules})
      :sys.suspend(process)
      measured(:rules, %{server: name}, %{busy: 1})
      :sys.resume(process)
      measured(:rules, %{server: name})
    end
  end

  @tag :tmp_dir
  test "measure/0 emits the gauges of outputs, pubsubs and tenants, whose processes need not reply", %{tmp_dir: folder} do
    [output, pubsub, tenants] = for _name <- 1..3, do: Servers.new_name()
    start_supervised!({Output, name: output, sink: {:process, self()}})
    start_supervised!({PubSub, name: pubsub, schema: [a: :integer]})
    start_supervised!({Tenants, name: tenants, schema: [a: :integer], dir: folder})
    :ok = Output.put(output, "message")
    PubSub.subscribe!(pubsub, "a = 1")
    Tenants.change!(tenants, "acme", put: [{1, "a = 1"}])

    writer = writer(output)
    :sys.suspend(writer)
    measurements = measured(:output, %{output: output}, %{pending: 1})
    check_metrics(:output, measurements)
    assert %{overloaded: 0, closed: 0, senders: 1} = measurements
    :sys.resume(writer)

    measurements = measured(:pub_sub, %{pubsub: pubsub}, %{})
    check_metrics(:pub_sub, measurements)
    assert %{subscriptions: 1, subscribers: 1, full: 0} = measurements
    assert Module.concat(pubsub, Index) in names(:server)

    measurements = measured(:tenants, %{tenants: tenants}, %{})
    check_metrics(:tenants, measurements)
    assert %{hot: 1, shards: 1, journal_bytes: bytes} = measurements
    assert bytes > 0
  end

  defp writer(output) do
    [{:writer, writer}] = :ets.lookup(output, :writer)
    writer
  end
end

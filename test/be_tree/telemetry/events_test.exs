defmodule BeTree.Telemetry.EventsTest do
  # The tests replace the sink of the node.
  use ExUnit.Case, async: false

  import BeTree.Test.{Eventually, Quiet, Recorder}

  alias BeTree.{Cluster, Error, Search, Server, Telemetry}
  alias BeTree.Server.Lookup
  alias BeTree.Test.Servers

  setup [:quiet, :record]

  defp server(options \\ []), do: Servers.start(Keyword.merge([schema: [a: :integer]], options))

  # Waits for an event of this name whose metadata have these values.
  defp event(name, wanted \\ %{}) do
    receive do
      {^name, measurements, metadata, pid} ->
        if Map.take(metadata, Map.keys(wanted)) == wanted, do: {measurements, metadata, pid}, else: event(name, wanted)
    after
      30_000 -> flunk("no event #{inspect(name)} with #{inspect(wanted)} came")
    end
  end

  test "searches emit the values that do not fit, alone, in batches and in streams" do
    schema = [a: {:integer, optional: true}, b: {:ip, optional: true}]
    tree = BeTree.new!(schema, on_mismatch: :undefined)
    name = server(schema: schema, on_mismatch: :undefined)
    events = [%{a: "x", b: 1}, %{a: 1}, %{b: "none"}]

    for target <- [tree, name] do
      BeTree.search!(target, hd(events))
      assert {%{mismatches: 2, matches: 0}, %{result: :ok}, _pid} = event([:search, :stop])
      BeTree.search_many!(target, events)
      assert {%{mismatches: 3, events: 3}, %{result: :ok}, _pid} = event([:search_many, :stop])
      target |> BeTree.stream(Stream.map(events, & &1), max_concurrency: 1) |> Stream.run()
      measured = for _part <- 1..2, {%{mismatches: count}, _metadata, _pid} = event([:stream, :stop]), do: count
      assert Enum.sum(measured) == 3
    end

    {:error, _error} = BeTree.search(BeTree.new!(schema), hd(events))
    assert {%{mismatches: 0}, %{result: :error}, _pid} = event([:search, :stop], %{result: :error})

    rules = BeTree.Rules.new!("fact m(n: integer optional on_mismatch undefined)")
    BeTree.Rules.assert!(rules, {:m, n: "x"})
    assert {%{mismatches: 1, facts: 1}, %{result: :ok}, _pid} = event([:rules, :stop])
  end

  test "a server of rules emits its dropped notices" do
    options = [name: :events_rules, rules: "fact m(n: integer) rule r when m: m then notify r", max_pending: 2]
    start_supervised!({BeTree.Rules.Server, options})
    :ok = BeTree.Rules.Server.subscribe(:events_rules)
    {:ok, _page} = BeTree.Rules.Server.assert_all(:events_rules, for(n <- 1..5, do: {:m, n: n}))
    assert {%{notices: 3}, metadata, _pid} = event([:rules, :dropped])
    assert metadata == %{server: :events_rules, process: self()}
  end

  test "changes of servers and trees emit their counts" do
    name = server()
    me = self()
    Server.insert_all!(name, for(id <- 1..10, do: {id, "a > #{id}"}))

    {%{system_time: _, monotonic_time: _}, %{telemetry_span_context: context}, ^me} =
      event([:change, :start], %{server: name})

    {measured, metadata, ^me} = event([:change, :stop], %{server: name})
    assert %{put: 10, deleted: 0, duration: duration} = measured
    assert duration > 0
    assert metadata == %{server: name, operation: :insert, result: :ok, telemetry_span_context: context}

    {:ok, _counts} = Server.change(name, put: [{1, "a > 2"}, {11, "a > 3"}], delete: [5])
    assert {%{put: 2, deleted: 1}, %{operation: :change}, _pid} = event([:change, :stop], %{server: name})
    :ok = BeTree.delete(name, 2)
    assert {%{put: 0, deleted: 1}, %{operation: :delete}, _pid} = event([:change, :stop], %{server: name})
    {:error, error} = Server.insert(name, 1, "a > 1")

    assert {%{put: 0}, %{result: :error, error_kind: :duplicate_id, error: %Error{}}, _} =
             event([:change, :stop], %{server: name})

    assert error.kind == :duplicate_id
    assert_raise ArgumentError, fn -> Server.insert(server(schema: nil, follow: {name, node()}), 1, "true") end
    assert {_, %{kind: :error, reason: %ArgumentError{}, stacktrace: [_ | _]}, _} = event([:change, :exception])

    tree = BeTree.new!(a: :integer)
    :ok = BeTree.insert(tree, 1, "a > 1")
    assert {%{put: 1}, %{tree: ^tree, operation: :insert}, ^me} = event([:change, :stop], %{tree: tree})
    :ok = BeTree.put(tree, 1, "a > 2")
    assert {%{put: 1}, %{operation: :put}, ^me} = event([:change, :stop], %{tree: tree})
    {:error, _error} = BeTree.delete(tree, 7)
    assert {%{deleted: 0}, %{operation: :delete, error_kind: :not_found}, ^me} = event([:change, :stop], %{tree: tree})
  end

  test "searches emit the name of the server or the cluster" do
    name = server()
    Server.insert!(name, 1, "a > 1")
    {:ok, [1]} = BeTree.search(name, %{a: 2})
    assert {%{matches: 1, slices: 1}, %{server: ^name, result: :ok}, _} = event([:search, :stop])
    {:ok, [[1], []]} = BeTree.search_many(name, [%{a: 2}, %{a: 1}])
    assert {%{events: 2}, %{server: ^name, result: :ok}, _} = event([:search_many, :stop])
    {:error, _error} = BeTree.search_many(name, [%{}])
    assert {%{events: 0}, %{error_kind: :missing_attribute}, _} = event([:search_many, :stop])

    results =
      Enum.to_list(
        BeTree.stream(name, for(a <- 1..2_000, do: if(a == 900, do: %{}, else: %{a: a})), max_concurrency: 2)
      )

    assert length(results) == 2_000
    assert parts(0, 0, name) == {2_000, 1}

    cluster = Cluster.new([{name, node()}])
    {:ok, [1]} = BeTree.search(cluster, %{a: 2})
    assert {%{matches: 1}, %{cluster: ^cluster, result: :ok}, _} = event([:search, :stop], %{cluster: cluster})
  end

  # The events and the errors of all parts of a stream.
  defp parts(2_000, errors, _name), do: {2_000, errors}

  defp parts(events, errors, name) do
    {measured, %{server: ^name}, _pid} = event([:stream, :stop])
    parts(events + measured.events, errors + measured.errors, name)
  end

  test "waiting for a tree or a replica emits its duration" do
    name = server(replicas: 1)
    Server.insert_all!(name, for(id <- 1..1_000, do: {id, "a > #{id} or a < -#{id}"}))
    {:ok, _index} = Server.index(name)

    for target <- [name, BeTree.new!(a: :integer)] do
      unless target == name, do: BeTree.insert_all!(target, for(id <- 1..1_000, do: {id, "a > #{id} or a < -#{id}"}))
      {:yield, search} = Search.start(target, %{a: 5}, slice: 1_000)
      waiter = Task.async(fn -> BeTree.search(target, %{a: 2}) end)
      handle = if target == name, do: elem(Lookup.view(name), 1), else: target
      eventually(fn -> handle.runtime.info(handle.instance).waiting == 1 end)
      Search.cancel(search)
      assert {:ok, [1]} = Task.await(waiter, 60_000)
      {%{duration: waited}, metadata, pid} = event([:queue, :stop])
      assert waited > 0
      assert pid == waiter.pid
      if target == name, do: assert(metadata.server == name), else: assert(metadata.tree == target)
    end
  end

  test "servers emit how many subscriptions a change and a sync have left out" do
    name = server()
    {:ok, _counts} = Server.change(name, put: [{1, "a = 1"}], delete: [], on_error: :collect)
    {:ok, _counts} = Server.change(name, put: [{1, "a ="}, {2, "a = 2"}], delete: [7], on_error: :collect)
    assert {%{faults: 2}, metadata, _pid} = event([:server, :faults])
    assert metadata == %{server: name, operation: :change}
    {:ok, _counts} = Server.sync(name, [{2, "a = 2"}, {3, 3}], on_error: :collect)
    assert {%{faults: 1}, %{operation: :sync}, _pid} = event([:server, :faults], %{server: name})
    assert {%{put: 0, deleted: 1}, %{operation: :sync}, _pid} = event([:change, :stop], %{operation: :sync})
  end

  test "servers emit journal, base and lag events" do
    folder = Path.join(System.tmp_dir!(), "be_tree_events_#{System.unique_integer([:positive])}")
    on_exit(fn -> File.rm_rf!(folder) end)
    name = server(dir: folder, durability: :none)
    for id <- 1..700, do: Server.put!(name, rem(id, 50), "a > #{id}")

    assert {%{changes: 1, bytes: bytes}, %{durability: :none, result: :ok}, _} =
             event([:journal, :stop], %{server: name})

    assert bytes > 10
    assert {%{lag: _}, _, _} = event([:replica, :lag], %{server: name})

    assert {%{version: version, duration: _}, %{operation: :build, result: :ok}, _} =
             event([:base, :stop], %{server: name})

    assert version > 0

    for id <- 1..20,
        do: Server.insert_all!(name, for(n <- 1..900, do: {id * 1_000 + n, "a = #{n} and a <> #{1_000 * id}"}))

    # Over 10,000 changes from several processes, so that the server never idles.
    1..9_400
    |> Task.async_stream(fn n -> Server.put!(name, 1, "a = #{n}") end, max_concurrency: 8, timeout: :infinity)
    |> Stream.run()

    assert {%{version: _}, %{operation: :write, result: :ok}, _} =
             event([:base, :stop], %{server: name, operation: :write})
  end

  test "followers emit their events" do
    name = server()
    follower = server(schema: nil, follow: {name, node()})

    assert {%{bytes: bytes, version: 0}, %{server: ^follower, follows: {^name, _node}, lineage: lineage}, _} =
             event([:follower, :base])

    assert bytes > 100_000
    assert {lineage, 0} == Server.position!(name)
    Server.insert!(name, 1, "true")
    assert {%{changes: 1, version: 1}, %{server: ^follower}, _} = event([:follower, :change])
    process = Servers.process(follower)
    send(process, {:rows, :sys.get_state(process).courier, [:torn]})
    assert {%{version: 1}, %{server: ^follower, error: %Error{kind: :damaged}}, _} = event([:follower, :lost])
    assert {%{version: 1}, %{lineage: ^lineage}, _} = event([:follower, :base])
    :ok = stop_supervised(name)
    assert {%{version: 1}, %{server: ^follower, error: %Error{kind: :no_server}}, _} = event([:follower, :lost])
  end

  # The functions of Telemetry.Metrics in use here.
  defmodule Definitions do
    for kind <- [:counter, :sum, :summary, :last_value, :distribution] do
      def unquote(kind)(name, options), do: {unquote(kind), String.split(name, "."), Map.new(options)}
    end
  end

  test "metrics name existing events, measurements and tags" do
    metrics = BeTree.Telemetry.Metrics.all(Definitions)
    assert length(metrics) > 15
    {:docs_v1, _, _, _, %{"en" => text}, _, _} = Code.fetch_docs(Telemetry)

    for {kind, ["be_tree", name, ending, measurement], %{tags: [:server | _], tag_values: values}} <- metrics do
      assert text =~ "[:be_tree, :#{name}]" or text =~ "[:be_tree, :#{name}, :#{ending}]"
      assert if(kind == :counter, do: measurement == "count", else: text =~ "`#{measurement}`")
      assert values.(%{server: Ads}).server == "Ads"
      assert values.(%{server: {:via, Registry, {R, 1}}}).server == "{:via, Registry, {R, 1}}"
      assert values.(%{tree: 1}).server == ""
      assert %{server: "", output: "Alerts"} = values.(%{output: Alerts})
    end

    # A reporter of Prometheus takes no summaries, and one metric of each name.
    names = for {kind, name, _options} <- metrics, kind != :summary, do: name
    assert Enum.uniq(names) == names
  end

  test "each summary has a distribution with ascending buckets" do
    metrics = BeTree.Telemetry.Metrics.all(Definitions)
    summaries = for {:summary, name, _options} <- metrics, do: name
    distributions = for {:distribution, name, options} <- metrics, do: {name, options.reporter_options[:buckets]}
    assert Enum.sort(summaries) == distributions |> Enum.map(&elem(&1, 0)) |> Enum.sort()
    for {_name, buckets} <- distributions, do: assert(length(buckets) > 3 and Enum.sort(buckets) == buckets)
  end

  @tag :tmp_dir
  test "Server.measure/1 emits what the gauges of metrics/0 show", %{tmp_dir: folder} do
    gauges =
      for {:last_value, ["be_tree", "server", "measure", name], _options} <- BeTree.Telemetry.Metrics.all(Definitions),
          do: name

    name = server(dir: folder)
    follower = server(schema: nil, follow: {name, node()})
    assert {_measurements, %{server: ^follower}, _pid} = event([:follower, :base])
    Server.insert!(name, 1, "a = 1")

    for {name, without} <- [
          {name, ["connected"]},
          {follower, ["replicas", "replica_bytes", "unwritten", "journal_bytes", "journal_age"]}
        ] do
      assert Server.measure(name) == :ok
      assert {measurements, %{server: ^name}, _pid} = event([:server, :measure])
      assert %{version: _version, busy: 0, failed: 0} = measurements
      assert Enum.sort(gauges -- Enum.map(Map.keys(measurements), &Atom.to_string/1)) == Enum.sort(without)
    end

    assert Server.measure(:no_such_server) == :ok
  end

  if Code.ensure_loaded?(Elixir.Telemetry.Metrics) do
    test "metrics/0 returns structs of Telemetry.Metrics" do
      for metric <- Telemetry.metrics(), do: assert(inspect(metric.__struct__) =~ "Telemetry.Metrics.")
      assert Telemetry.metrics() != []
    end
  end
end

defmodule BeTree.Attacks.ArgumentsTest do
  # Calls every public function with a wrong value in each place: as an argument, and as each of its options. Each call
  # returns a result or an error, or raises an ArgumentError with the expected values: no FunctionClauseError from inside
  # the library, no exit, no message of a megabyte.
  use ExUnit.Case, async: true

  alias BeTree.{Cluster, Domain, Error, Event, Explanation, Files, Fuel, Guest, Image, Index, Output, Pattern, Runtime}
  alias BeTree.{Profile, PubSub, Rules, Sandbox, Search, Server, Tenants, Tune, Workload}
  alias BeTree.Test.Attack
  alias BeTree.WasmModule

  # Bytes of the longest accepted message.
  @max_message_bytes 1_000

  # Values that programs pass by mistake. Some are right in some places, none everywhere.
  defp wrong do
    sample(4, [
      nil,
      true,
      :no_such,
      -1,
      0,
      Bitwise.bsl(1, 70),
      -Bitwise.bsl(1, 3_000_000),
      1.5,
      "",
      <<255>>,
      <<1::3>>,
      "a\0b",
      [],
      [1 | 2],
      [:a],
      [{1, 2, 3}],
      [{"a", 1} | :tail],
      [[[[]]]],
      ~c"text",
      {},
      {1, 2},
      {:json, 1},
      {:json, <<1::3>>},
      {:record, nil},
      {:records, [1 | 2]},
      %Event.Prepared{bytes: "x"},
      {:binary, 1},
      {:image, 5},
      %{},
      %{1 => 2},
      make_ref(),
      self(),
      fn -> :ok end,
      fn _one -> :ok end,
      %Error{kind: :type, message: "m"},
      1..3
    ]) ++ [nil, [1 | 2], Bitwise.bsl(1, 3_000_000)]
  end

  # All values in `make attack`, a random sample in `make test`.
  defp sample(count, values), do: if(Attack.full?(), do: values, else: Enum.take_random(values, count))

  @rules "fact a(x: integer optional) rule r when a: a then notify n"

  defp stateful do
    rules = Rules.new!(@rules)
    Rules.assert!(rules, {:a, x: 1})
    rules
  end

  # Values that no call can change, so all tests share them.
  defp made do
    tree = with_rules()
    tuned = Tune.run!(tree, [%{a: 1}], seconds: nil)
    json = Tune.to_json(tuned)
    {:ok, earlier} = Tune.read(json)

    %{
      tuned: tuned,
      json: json,
      earlier: earlier,
      profile: BeTree.profile!(tree, [%{a: 1}]),
      explanation: BeTree.explain!(tree, %{a: 1}, 1),
      image: Image.to_binary!(tree)
    }
  end

  # A function, valid arguments, and the options of its last argument.
  defp rows(context) do
    %{
      folder: folder,
      server: server,
      terms: terms,
      pubsub: pubsub,
      output: output,
      tenants: tenants,
      dashboard: dashboard,
      made: made
    } = context

    tree = fn -> with_rules() end
    index = fn -> BeTree.publish!(with_rules(), replicas: 2) end
    searchable = [tree, index, fn -> server end, fn -> terms end]
    search_options = [:fuel, :slice, :timeout, :ids, :as, :strict]
    new_options = [:memory, :fuel_per_reduction, :guest, :runtime]
    rule_options = [:fuel, :slice, :timeout, :firings]
    image = {:binary, made.image}
    bytes = File.read!(Application.app_dir(:be_tree, "priv/be_tree.wasm"))
    path = Path.join(folder, "image.wasm")
    File.write!(path, made.image)
    expressions = Path.join(folder, "expressions")
    File.write!(expressions, "[{a,int,disallow_undefined}].\n<<\"a > 20\">>.\n")
    event = %{a: 1}
    dump = Tenants.dump!(tenants, 1)

    for target <- searchable do
      [
        {BeTree, :search, fn -> [target.(), event] end, [:stats | search_options]},
        {BeTree, :search_many, fn -> [target.(), [event, event]] end, search_options},
        {BeTree, :stream, fn -> [target.(), [event, event]] end, [:max_concurrency, :linger | search_options]},
        {BeTree, :explain, fn -> [target.(), event, 1] end, [:timeout]},
        {BeTree, :info, fn -> [target.()] end, [:timeout]},
        {BeTree, :profile, fn -> [target.(), [event, event]] end, [:timeout]},
        {Search, :start, fn -> [target.(), event] end, search_options},
        {Search, :run, fn -> [target.(), event] end, search_options},
        {Event, :prepare, fn -> [target.(), event] end, [:timeout, :strict]},
        {Image, :to_binary, fn -> [target.()] end, [:timeout]}
      ]
    end
    |> List.flatten()
    |> Kernel.++([
      {BeTree, :new, fn -> [[a: :integer]] end, new_options},
      {BeTree.Test, :events, fn -> [[a: :integer]] end, [:near, :seed]},
      {BeTree.Test, :generator, fn -> [[a: :integer]] end, [:near]},
      {BeTree.Test, :assert_matches, fn -> [with_rules(), event, [1]] end, nil},
      {BeTree.Test, :refute_matches, fn -> [with_rules(), event, [2]] end, nil},
      {BeTree, :insert, fn -> [with_rules(), 9, "a = 1"] end, [:constants, :timeout]},
      {BeTree, :insert_all, fn -> [with_rules(), [{9, "a = 1", constants: [c: 1]}]] end, [:timeout]},
      {BeTree, :put, fn -> [with_rules(), 9, "a = 1"] end, [:constants, :timeout]},
      {BeTree, :delete, fn -> [with_rules(), 1] end, [:timeout]},
      {BeTree, :change, fn -> [with_rules(), [put: [{1, "true"}], delete: []]] end, nil},
      {BeTree, :validate, fn -> [with_rules(), "true"] end, [:constants, :timeout]},
      {BeTree, :ids, fn -> [with_rules()] end, [:timeout]},
      {BeTree, :member?, fn -> [with_rules(), 1] end, [:timeout]},
      {BeTree, :count, fn -> [with_rules()] end, [:timeout]},
      {BeTree, :publish, fn -> [with_rules()] end, [:replicas, :queue, :timeout]},
      {Cluster, :new, fn -> [[{server, node()}]] end, [:shard, :ids]},
      {Cluster, :shard, fn -> [cluster(server), 1] end, nil},
      {Cluster, :insert, fn -> [cluster(server), unique(), "a = 1"] end, [:constants, :timeout]},
      {Cluster, :insert_all, fn -> [cluster(server), [{unique(), "a = 1"}]] end, [:timeout]},
      {Cluster, :delete, fn -> [cluster(server), unique()] end, [:timeout]},
      {Cluster, :put, fn -> [cluster(server), unique(), "a = 1"] end, [:constants, :timeout]},
      {Cluster, :search, fn -> [cluster(server), event] end, [:stats | search_options]},
      {Cluster, :search_many, fn -> [cluster(server), [event]] end, search_options},
      {Cluster, :explain, fn -> [cluster(server), event, 1] end, [:timeout]},
      {Cluster, :fetch, fn -> [cluster(server), 1] end, [:timeout]},
      {Cluster, :member?, fn -> [cluster(server), 1] end, [:timeout]},
      {Cluster, :ids, fn -> [cluster(server)] end, [:timeout]},
      {Cluster, :count, fn -> [cluster(server)] end, [:timeout]},
      {Cluster, :schema, fn -> [cluster(server)] end, [:timeout]},
      {Cluster, :info, fn -> [cluster(server)] end, [:timeout]},
      {BeTree, :search_many, fn -> [cluster(server), [event]] end, search_options},
      {BeTree, :stream, fn -> [cluster(server), [event]] end, [:max_concurrency, :linger | search_options]},
      {Domain, :parse, fn -> [[a: :integer]] end, nil},
      {Pattern, :to_expression, fn -> [~s({"a": [1]})] end, [:arrays]},
      {Pattern, :schema, fn -> [[~s({"a": [1]})]] end, [:arrays]},
      {Explanation, :deciding, fn -> [made.explanation] end, nil},
      {Explanation, :to_string, fn -> [made.explanation] end, nil},
      {Files, :load, fn -> [expressions] end, [:schema, :constants]},
      {Files, :events, fn -> [expressions] end, nil},
      {Files, :locate, fn -> [%Error{kind: :type, message: "m"}, expressions] end, [:schema, :constants]},
      {Files, :locate_event, fn -> [%Error{kind: :type, message: "m"}, event, expressions, 1] end, nil},
      {Fuel, :default_slice, fn -> [] end, nil},
      {Fuel, :per_reduction, fn -> [] end, nil},
      {Fuel, :from_reductions, fn -> [4_000, 75] end, nil},
      {Fuel, :to_reductions, fn -> [4_000, 75] end, nil},
      {Fuel, :ratio, fn -> [12_500.0, 2.7] end, nil},
      {Guest, :load, fn -> [bytes, Runtime.default()] end, nil},
      {Image, :info, fn -> [image] end, nil},
      {Image, :info, fn -> [path] end, nil},
      {Image, :read, fn -> [image] end, [:memory, :runtime, :fuel_per_reduction, :replicas, :queue]},
      {Image, :read_tree, fn -> [path] end, [:memory, :runtime, :fuel_per_reduction]},
      {Image, :verify, fn -> [image] end, [:memory, :runtime]},
      {Image, :write, fn -> [with_rules(), {:path, path}] end, [:timeout]},
      {Index, :to_tree, fn -> [index.(), 100_000_000] end, nil},
      {Profile, :folded, fn -> [made.profile] end, nil},
      {Profile, :advice, fn -> [made.profile] end, nil},
      {Tune, :read, fn -> [made.json] end, nil},
      {Tune, :compare, fn -> [made.tuned, made.earlier, 1.0] end, nil},
      {Tune, :to_json, fn -> [made.tuned] end, nil},
      {Tune, :to_html, fn -> [made.tuned] end, nil},
      {Tune, :round_up, fn -> [1_234] end, nil},
      {Output, :start_link, fn -> [[name: name(), sink: {:process, self()}]] end, nil},
      {Output, :child_spec, fn -> [[name: name(), sink: {:process, self()}]] end, nil},
      {Output, :put, fn -> [output, "a"] end, nil},
      {Output, :put_many, fn -> [output, ["a"]] end, nil},
      {Output, :format, fn -> [output, "~p", [1]] end, nil},
      {Output, :flush, fn -> [output, 0] end, nil},
      {Output, :stats, fn -> [output] end, nil},
      {Output, :configure, fn -> [output] end, [:sink, :page, :linger, :buffer, :overflow, :timeout]},
      {Output, :ack, fn -> [make_ref()] end, nil},
      {Tenants.Dashboard, :start_link, fn -> [[tenants: tenants, port: 0]] end, nil},
      {Tenants.Dashboard, :child_spec, fn -> [[tenants: tenants, port: 0]] end, nil},
      {Tenants.Dashboard, :address, fn -> [dashboard] end, nil},
      {PubSub, :start_link, fn -> [[name: name(), schema: [a: :integer]]] end, nil},
      {PubSub, :child_spec, fn -> [[name: name(), schema: [a: :integer]]] end, nil},
      {PubSub, :subscribe, fn -> [pubsub, "a = 1"] end, [:tag, :why, :limit, :overflow, :constants, :timeout]},
      {PubSub, :unsubscribe, fn -> [pubsub] end, nil},
      {PubSub, :unsubscribe, fn -> [pubsub, PubSub.subscribe!(pubsub, "a = 1")] end, nil},
      {PubSub, :publish, fn -> [pubsub, event] end, [:timeout]},
      {PubSub, :publish_many, fn -> [pubsub, [event]] end, [:timeout]},
      {PubSub, :stats, fn -> [pubsub] end, [:timeout]},
      {Tenants, :start_link, fn -> [[name: name(), schema: [a: :integer]]] end, nil},
      {Tenants, :child_spec, fn -> [[name: name(), schema: [a: :integer]]] end, nil},
      {Tenants, :change, fn -> [tenants, 1, [put: [{1, "a = 1"}], delete: []]] end, [:timeout]},
      {Tenants, :match, fn -> [tenants, 1, event] end, [:fuel, :timeout, :strict, :on_mismatch, :count]},
      {Tenants, :match_many, fn -> [tenants, [{1, event}]] end, nil},
      {Tenants, :report, fn -> [tenants, [tenants: [1], sections: [[]]]] end, [:timeout]},
      {Tenants, :to_json, fn -> [tenants, [tenants: :all]] end, nil},
      {Tenants, :usage, fn -> [tenants, 1] end, nil},
      {Tenants, :drop, fn -> [tenants, unique()] end, nil},
      {Tenants, :snapshot, fn -> [tenants, 1] end, nil},
      {Tenants, :snapshot_many, fn -> [tenants, [1]] end, nil},
      {Tenants, :evict, fn -> [tenants, 1] end, nil},
      {Tenants, :dump, fn -> [tenants, 1] end, [:timeout]},
      {Tenants, :restore, fn -> [tenants, dump] end, [:existing, :timeout]},
      {Tenants, :move, fn -> [tenants, unique(), {:nobody, node()}] end, [:timeout]},
      {Tenants, :tenants, fn -> [tenants] end, nil},
      {Tenants, :info, fn -> [tenants] end, nil},
      {Rules, :new, fn -> [@rules] end,
       [:memory, :facts, :firings, :notices, :lateness, :fuel, :timeout, :fuel_per_reduction, :runtime]},
      {Rules, :assert, fn -> [stateful(), {:a, x: 1}] end, rule_options},
      {Rules, :assert_all, fn -> [stateful(), [{:a, x: 1}]] end, nil},
      {Rules, :retract, fn -> [stateful(), 1] end, nil},
      {Rules, :advance, fn -> [stateful(), 5] end, nil},
      {Rules, :next, fn -> [Rules.advance!(stateful(), 1)] end, nil},
      {Rules, :facts, fn -> [stateful(), :a] end, [:limit, :before, :timeout]},
      {Rules, :explain, fn -> [stateful(), :r] end, nil},
      {Rules, :info, fn -> [stateful()] end, nil},
      {Rules, :warnings, fn -> [stateful()] end, nil},
      {Rules, :sources, fn -> [stateful()] end, nil},
      {Rules, :end_source, fn -> [stateful(), :web] end, nil},
      {Rules.Server, :start_link, fn -> [[name: name(), rules: @rules]] end, nil},
      {Rules.Server, :child_spec, fn -> [[name: name(), rules: @rules]] end, nil},
      {Rules.Server, :subscribe, fn -> [:no_such_server] end, [:since]},
      {Rules.Server, :unsubscribe, fn -> [:no_such_server] end, nil},
      {Rules.Server, :assert, fn -> [:no_such_server, {:a, x: 1}] end, [:fuel, :slice, :timeout]},
      {Rules.Server, :assert_all, fn -> [:no_such_server, [{:a, x: 1}]] end, nil},
      {Rules.Server, :retract, fn -> [:no_such_server, 1] end, nil},
      {Rules.Server, :advance, fn -> [:no_such_server, 1] end, nil},
      {Rules.Server, :swap, fn -> [:no_such_server, @rules] end, [:partition_by, :timeout]},
      {Rules.Server, :facts, fn -> [:no_such_server, :a] end, nil},
      {Rules.Server, :explain, fn -> [:no_such_server, :r] end, nil},
      {Rules.Server, :info, fn -> [:no_such_server] end, nil},
      {Rules.Server, :go_live, fn -> [:no_such_server] end, nil},
      {Rules.Server, :sources, fn -> [:no_such_server] end, nil},
      {Rules.Server, :end_source, fn -> [:no_such_server, :web] end, nil},
      {Runtime, :available, fn -> [] end, nil},
      {Runtime, :default, fn -> [] end, nil},
      {Sandbox, :load, fn -> [module()] end, nil},
      {Sandbox, :new, fn -> [Sandbox.load!(module())] end, [:memory, :fuel_per_reduction]},
      {Sandbox, :call, fn -> [spin(), "count", [3]] end, [:fuel, :slice, :timeout]},
      {Sandbox, :start, fn -> [spin(), "count", [3]] end, [:fuel, :slice, :timeout]},
      {Sandbox, :resume, fn -> [suspended()] end, nil},
      {Sandbox, :cancel, fn -> [suspended()] end, nil},
      {Sandbox, :read, fn -> [spin(), 0, 4] end, [:timeout]},
      {Sandbox, :write, fn -> [spin(), 0, "text"] end, [:timeout]},
      {Search, :resume, fn -> [yielded()] end, nil},
      {Search, :cancel, fn -> [yielded()] end, nil},
      {Server, :start_link, fn -> [[name: name(), schema: [a: :integer]]] end, nil},
      {Server, :insert, fn -> [server, unique(), "a = 1"] end, [:constants, :timeout]},
      {Server, :insert_all, fn -> [server, [{unique(), "a = 1"}]] end, [:on_error, :timeout]},
      {Server, :put, fn -> [server, unique(), "a = 1"] end, [:constants, :timeout]},
      {Server, :put_all, fn -> [server, [{unique(), "a = 1"}]] end, [:timeout]},
      {Server, :sync, fn -> [terms, [{unique(), "a = 1"}]] end, [:on_error, :timeout]},
      {Server, :faults, fn -> [server] end, [:timeout]},
      {Server, :delete, fn -> [server, unique()] end, [:timeout]},
      {Server, :delete_all, fn -> [server, [unique()]] end, [:timeout]},
      {Server, :change, fn -> [server, [put: [{unique(), "a = 1"}], delete: []]] end, nil},
      {Server, :validate, fn -> [server, "a = 1"] end, [:constants, :timeout]},
      {Server, :fetch, fn -> [server, 1] end, [:timeout]},
      {Server, :member?, fn -> [server, 1] end, [:timeout]},
      {Server, :ids, fn -> [server] end, [:timeout]},
      {Server, :insert, fn -> [terms, unique(), "a = 1"] end, [:constants, :timeout]},
      {Server, :insert_all, fn -> [terms, [{unique(), "a = 1"}]] end, [:on_error, :timeout]},
      {Server, :put, fn -> [terms, unique(), "a = 1"] end, [:constants, :timeout]},
      {Server, :delete, fn -> [terms, unique()] end, [:timeout]},
      {Server, :change, fn -> [terms, [put: [{unique(), "a = 1"}], delete: []]] end, nil},
      {Server, :fetch, fn -> [terms, 1] end, [:timeout]},
      {Server, :count, fn -> [server] end, [:timeout]},
      {Server, :schema, fn -> [server] end, [:timeout]},
      {Server, :position, fn -> [server] end, [:timeout]},
      {Server, :version, fn -> [server] end, [:timeout]},
      {Server, :await, fn -> [server, 0] end, [:timeout]},
      {Server, :stop, fn -> [:no_such_server] end, [:timeout]},
      {Server, :child_spec, fn -> [[name: name(), schema: [a: :integer]]] end, nil},
      {Server, :index, fn -> [server] end, [:timeout]},
      {Server, :info, fn -> [server] end, [:timeout]},
      {Server, :measure, fn -> [server] end, nil},
      {Server, :swap, fn -> [server, BeTree.publish!(with_rules())] end, [:timeout]},
      {Server, :migrate, fn -> [:no_such_server, [a: :integer]] end, [:on_mismatch, :timeout]},
      {BeTree.Gauges, :measure, fn -> [] end, nil},
      {BeTree.Gauges, :read, fn -> [] end, nil},
      {BeTree.Telemetry, :enabled?, fn -> [] end, nil},
      {BeTree.Telemetry, :metrics, fn -> [] end, nil},
      {Workload, :all, fn -> [] end, nil},
      {Workload, :write,
       fn -> [Workload.W1, %{Workload.W1.defaults() | expressions: 1, events: 1}, {:path, folder}] end, nil}
    ])
  end

  # Implementations of a behaviour, called by the library only.
  @callbacks [Runtime.Wasmtime]
  # Tune.Calibration measures for ten seconds and takes no input; the others are not part of a release.
  @excluded_modules [Tune.Calibration, BeTree.Release, BeTree.Release.Targets, BeTree.Web]
  # Any valid option makes these measure for seconds.
  @measuring_functions [{BeTree.Tune, :run}]

  setup_all do
    folder = Path.join(System.tmp_dir!(), "be_tree_arguments_#{System.unique_integer([:positive])}")
    File.mkdir_p!(folder)
    on_exit(fn -> File.rm_rf!(folder) end)
    :rand.seed(:exsss, {Attack.seed(), 0, 0})
    terms = :"#{__MODULE__}.Terms"
    start_supervised!({Server, name: __MODULE__, schema: [a: :integer]})
    start_supervised!({Server, name: terms, schema: [a: :integer], ids: :term})
    pubsub = :"#{__MODULE__}.PubSub"
    start_supervised!({PubSub, name: pubsub, schema: [a: :integer]})
    tenants = :"#{__MODULE__}.Tenants"
    start_supervised!({Tenants, name: tenants, schema: [a: :integer]})
    Tenants.change!(tenants, 1, put: [{1, "a = 1"}])
    dashboard = start_supervised!({Tenants.Dashboard, tenants: tenants, port: 0})
    output = :"#{__MODULE__}.Output"
    start_supervised!({Output, name: output, sink: {:process, self()}, overflow: :drop_new})

    {:ok,
     folder: folder,
     server: __MODULE__,
     terms: terms,
     pubsub: pubsub,
     output: output,
     tenants: tenants,
     dashboard: dashboard,
     made: made()}
  end

  test "the table has every public function", context do
    {:ok, modules} = :application.get_key(:be_tree, :modules)

    public =
      for module <- modules,
          module not in (@callbacks ++ @excluded_modules),
          match?("Elixir.BeTree" <> _, Atom.to_string(module)),
          not test_support?(module),
          {:docs_v1, _, _, _, documentation, _, functions} <- [Code.fetch_docs(module)],
          documentation != :hidden,
          {{:function, function, _arity}, _, _, text, _} <- functions,
          text != :hidden,
          do: {module, function}

    listed = for {module, function, _arguments, _options} <- rows(context), do: {module, function}
    bangs = for {module, function} <- listed, do: {module, :"#{function}!"}
    measure = for {module, function} <- @measuring_functions, name <- [function, :"#{function}!"], do: {module, name}
    assert Enum.uniq(public) -- (listed ++ bangs ++ measure) == []
  end

  # Functions that take the arguments of another function, whose documentation has the options.
  @same_options %{
    {Server, :insert} => {BeTree, :insert},
    {Server, :put} => {BeTree, :put},
    {Server, :delete} => {BeTree, :delete},
    {Search, :start} => :moduledoc,
    {Search, :run} => :moduledoc,
    {Sandbox, :start} => {Sandbox, :call},
    {Sandbox, :write} => {Sandbox, :read},
    {Image, :to_binary} => {Image, :write},
    {Files, :locate} => {Files, :load}
  }

  test "the docs have every option of a public function", context do
    missing =
      for {module, function, _arguments, options} when options != nil <- rows(context),
          text = documentation(module, Map.get(@same_options, {module, function}, {module, function})),
          option <- options,
          not (text =~ "* `#{inspect(option)}` - "),
          do: {module, function, option}

    assert Enum.uniq(missing) == []
  end

  defp documentation(module, :moduledoc) do
    {:docs_v1, _, _, _, %{"en" => text}, _, _functions} = Code.fetch_docs(module)
    text
  end

  defp documentation(_module, {module, function}) do
    {:docs_v1, _, _, _, _, _, functions} = Code.fetch_docs(module)
    [text] = for {{:function, ^function, _arity}, _, _, %{"en" => text}, _} <- functions, do: text
    text
  end

  test "wrong arguments raise or return errors", context do
    failures =
      for {module, function, arguments, _options} <- rows(context),
          arity = length(arguments.()),
          function <- [function | with_bang(module, function, arity)],
          place <- 0..(arity - 1)//1,
          value <- wrong(),
          failure = attempt(module, function, replaced(arguments.(), place, value)),
          do: {module, function, place, BeTree.Input.Describe.value(value), failure}

    assert failures == [], report(failures)
  end

  test "wrong options raise", context do
    failures =
      for {module, function, arguments, options} when options != nil <- rows(context),
          option <- [:no_such_option | options],
          value <- wrong(),
          failure = attempt(module, function, plain(arguments.()) ++ [[{option, value}]]),
          do: {module, function, option, BeTree.Input.Describe.value(value), failure}

    servers =
      for option <-
            [:name, :schema, :schema_change, :ids, :follow, :memory, :fuel_per_reduction, :guest, :runtime] ++
              [:replicas, :queue, :max_restarts, :max_seconds],
          value <- wrong(),
          options = Keyword.put([name: name(), schema: [a: :integer]], option, value),
          failure = attempt(Server, :start_link, [options]) || attempt(Server, :child_spec, [options]),
          do: {Server, :start_link, option, BeTree.Input.Describe.value(value), failure}

    assert failures ++ servers == [], report(failures ++ servers)
  end

  defp test_support?(module), do: Path.basename(Path.dirname(module.module_info(:compile)[:source])) == "support"

  test "wrong arguments of the Erlang interface raise badarg" do
    {:ok, tree} = :erl_betree.betree_make([[{:a, :int, :disallow_undefined}]])
    {:ok, tree_err} = :erl_betree.betree_make_err([[{:a, :int, :disallow_undefined}]])
    {:ok, sub} = :erl_betree.betree_make_sub(tree, 1, [], "a > 1")
    {{:ok, event}, _elapsed} = :erl_betree.betree_make_event(tree, [{:user, 3}])
    right = [tree, tree_err, sub, event, 1, [], [{:user, 3}], [1], "a > 1", 1_000]

    failures =
      for {function, arity} <- :erl_betree.__info__(:functions),
          arguments <- tuples(right, wrong(), arity, Attack.size(100, 1_000)),
          not writes?(function, arguments),
          failure = erlang(function, arguments),
          do: {function, Enum.map(arguments, &BeTree.Input.Describe.value/1), failure}

    assert failures == [], report(failures)
  end

  # A list is a valid file name, so the call would write that file.
  defp writes?(function, arguments) do
    function in [:betree_write_dot, :betree_write_dot_err] and is_list(List.last(arguments))
  end

  # Lists of arguments: wrong everywhere, or valid in some place.
  defp tuples(_right, _wrong, 0, _count), do: []
  defp tuples(right, wrong, arity, count), do: for(_ <- 1..count, do: for(_ <- 1..arity, do: pick(right, wrong)))
  defp pick(right, wrong), do: Enum.random(if(:rand.uniform(4) == 1, do: wrong, else: right))

  defp erlang(function, arguments) do
    apply(:erl_betree, function, arguments)
    nil
  catch
    :error, :badarg ->
      nil

    :error, %Error{} ->
      nil

    kind, reason ->
      [frame | _callers] = __STACKTRACE__
      {kind, BeTree.Input.Describe.reason(reason), Tuple.delete_at(frame, 2)}
  end

  # A path in the table is never replaced by a wrong value that is a file name, so no call writes outside this test's folder.
  defp replaced(arguments, place, value) do
    case Enum.at(arguments, place) do
      {:path, _path} when is_binary(value) or is_list(value) -> plain(arguments)
      _other -> arguments |> List.replace_at(place, value) |> plain()
    end
  end

  defp plain(arguments), do: for(argument <- arguments, do: with({:path, path} <- argument, do: path))

  defp with_bang(module, function, arity) do
    bang = :"#{function}!"
    if function_exported?(module, bang, arity), do: [bang], else: []
  end

  # Each call has its own process, because some calls link to the processes they start, and some never return.
  defp attempt(module, function, arguments) do
    {pid, monitor} =
      spawn_monitor(fn ->
        Process.flag(:trap_exit, true)
        exit({:outcome, outcome(module, function, arguments)})
      end)

    receive do
      {:DOWN, ^monitor, :process, ^pid, {:outcome, outcome}} -> outcome
      {:DOWN, ^monitor, :process, ^pid, reason} -> {:ended, BeTree.Input.Describe.reason(reason)}
    after
      60_000 ->
        Process.exit(pid, :kill)
        :no_answer
    end
  end

  # Returns nothing if the outcome is right.
  defp outcome(module, function, arguments) do
    case apply(module, function, arguments) do
      {:error, %module{} = error} when module in [Error, Files.Error] -> short(Exception.message(error))
      {:error, reason} when module != Server -> {:answered, BeTree.Input.Describe.value(reason)}
      answer -> consume(answer)
    end
  rescue
    # `assert_matches` with an id that no tree can have is a failed assertion, whose message says so.
    error in [ArgumentError, Error, Files.Error, File.Error, ExUnit.AssertionError] -> short(Exception.message(error))
    other -> {:raised, other.__struct__, other |> Exception.message() |> String.slice(0, 300)}
  catch
    kind, reason -> {kind, BeTree.Input.Describe.reason(reason)}
  end

  defp consume(stream) when is_function(stream, 2) or is_struct(stream, Stream) do
    Enum.take(stream, 3)
    nil
  end

  defp consume({:ok, server}) when is_pid(server), do: with(:ok <- Supervisor.stop(server), do: nil)

  # Printing a handle must not fail; its text does not matter.
  defp consume(%_struct{} = answer), do: if(is_binary(inspect(answer)), do: nil)
  defp consume(_answer), do: nil

  # Messages of Elixir's own functions are not ours to judge.
  defp short("argument error" <> _), do: :says_nothing
  defp short("errors were found at the given arguments" <> _), do: :says_nothing
  defp short(message) when byte_size(message) <= @max_message_bytes, do: nil
  defp short(message), do: {:long, byte_size(message)}

  defp report(failures) do
    lines = for failure <- Enum.uniq(failures), do: "  #{inspect(failure, limit: 50, printable_limit: 300)}\n"
    "#{length(lines)} of these are no clear refusal:\n#{lines}"
  end

  defp with_rules do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..20, do: {id, "a >= #{id}"}))
    tree
  end

  defp cluster(server), do: Cluster.new([{server, node()}])
  defp unique, do: 1_000 + System.unique_integer([:positive])
  defp name, do: :"be_tree_arguments_#{rem(System.unique_integer([:positive]), 10_000)}"
  defp spin, do: module() |> Sandbox.load!() |> Sandbox.new!()

  # `count` counts down from its argument.
  defp module do
    count = WasmModule.function("count", [:i32], [], WasmModule.count_down(0, []))
    WasmModule.assemble(memory: {1, nil}, functions: [count])
  end

  defp suspended do
    {:yield, call} = Sandbox.start(spin(), "count", [1_000], slice: 100)
    call
  end

  defp yielded do
    {:yield, search} = Search.start(with_rules(), %{a: 30}, slice: 100)
    search
  end
end

defmodule BeTree.MixProject do
  use Mix.Project

  @version "0.1.0"

  # As another project's dependency this file is loaded while that project is.
  @root Mix.Project.get() == nil
  @environment if @root, do: Mix.env()

  # The tools (workloads, benchmarks, the demo) are for this project's own development. What programs in Erlang call is tested
  # in Erlang, with the header of EUnit.
  @elixir Map.get(%{dev: ["lib", "tools"], test: ["lib", "tools", "test/support"]}, @environment, ["lib"])
  @erlang Map.get(%{test: ["test/erlang"]}, @environment, [])
  @applications Map.get(%{test: [:crypto, :eunit]}, @environment, [:crypto])

  def project do
    [
      app: :be_tree,
      version: @version,
      elixir: "~> 1.14",
      elixirc_paths: @elixir,
      erlc_paths: @erlang,
      # Cases, an application that tests read, and a script of the tests in JavaScript.
      test_ignore_filters: [&String.starts_with?(&1, ["test/conformance/", "test/packaging/app/", "test/browser/"])],
      # Ours are a part of this project, so they come after the compiler that compiles them.
      compilers: Mix.compilers() ++ [:be_tree_guest, :be_tree_host, :be_tree_code, :be_tree_report],
      # Here cargo's files are kept, so that all environments compile wasmtime once.
      cargo_target_dir: if(@root, do: "wasm/target"),
      start_permanent: Mix.env() == :prod,
      deps: if(Code.ensure_loaded?(Hex), do: deps(), else: []),
      name: "BeTree",
      description: "Finds, among very many boolean expressions, those that an event makes true",
      package: package(),
      docs: docs()
    ]
  end

  # Since Elixir 1.15 a build sees only the applications that the project names.
  def application, do: [mod: {BeTree.Application, []}, extra_applications: @applications ++ wasmex_on_path()]

  # Without Hex there is no dependency on wasmex, but ERL_LIBS may hold it.
  defp wasmex_on_path, do: if(:code.lib_dir(:wasmex) == {:error, :bad_name}, do: [], else: [wasmex: :optional])

  # Building and testing need none of these: without Hex there are no dependencies.
  defp deps do
    [
      {:telemetry, "~> 1.0", optional: true},
      {:jason, "~> 1.4", optional: true},
      {:stream_data, "~> 1.0", optional: true},
      {:rustler_precompiled, "~> 0.8", optional: true, runtime: false},
      {:benchee, "~> 1.3", only: :dev, runtime: false},
      {:ex_doc, "~> 0.34.0", only: :dev, runtime: false}
    ] ++ wasmex()
  end

  defp wasmex do
    if Version.match?(System.version(), "~> 1.18"), do: [{:wasmex, "~> 0.15.1", optional: true}], else: []
  end

  defp package do
    [
      licenses: ["Apache-2.0"],
      links: %{},
      # With the portable module, which `make release` builds and a test of the package does not.
      files:
        ~w(lib priv/be_tree*.wasm priv/be_tree*.wasm.sha256) ++
          ~w(priv/tune.html priv/tenants.html checksum-*.exs wasm/Cargo.toml wasm/Cargo.lock) ++
          ~w(wasm/{index,module,rules,guest,rules_guest,host}/{Cargo.toml,src} wasm/host/build.rs include docs mix.exs .formatter.exs README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE)
    ]
  end

  # In the order of the README, which is that of reading.
  @guides ~w(getting_started ad_targeting feature_flags alert_routing rules supervision testing catalogue upgrading output pub_sub tenants image rabbitmq) ++
            ~w(several_machines erlang migration)
  @operating ~w(operating metrics performance tuning scheduling server runtimes)
  @contributing ~w(map architecture decisions abi notes/experiments notes/runs)
  @notebooks ~w(first_steps measuring)

  defp docs do
    guides = for name <- @guides, do: "docs/guides/#{name}.md"
    operating = for name <- @operating, do: "docs/operating/#{name}.md"
    notebooks = for name <- @notebooks, do: "notebooks/#{name}.livemd"
    contributing = ["CONTRIBUTING.md" | for(name <- @contributing, do: "docs/contributing/#{name}.md")]
    about = ["CHANGELOG.md", "SECURITY.md", "LICENSE"]

    [
      main: "readme",
      source_ref: "v" <> @version,
      extras: ["README.md"] ++ guides ++ operating ++ notebooks ++ contributing ++ about,
      assets: %{"docs/images" => "docs/images"},
      before_closing_head_tag: &style/1,
      filter_modules: fn module, _metadata -> module.module_info(:compile)[:source] |> List.to_string() =~ "/lib/" end,
      # A tool of a checkout, and a function that only developers call: they have no page.
      skip_code_autolink_to: ["BeTree.Workload", "BeTree.Target.handle/1"],
      groups_for_extras: [
        Guides: guides,
        Operating: operating,
        Notebooks: notebooks,
        Contributing: contributing,
        About: about
      ],
      groups_for_modules: [
        "Trees and searches": ~r/^BeTree(\.(Domain|Tree|Index|Event|Search|Explanation|Stats|Error|Pattern)(\.\w+)?)?$/,
        "Servers and clusters": [BeTree.Server, BeTree.Cluster],
        "Publish/subscribe": ~r/^BeTree\.PubSub(\.|$)/,
        "Stateful rules": ~r/^BeTree\.Rules(\.|$)/,
        Tenants: ~r/^BeTree\.Tenants(\.|$)/,
        Delivery: ~r/^BeTree\.Output(\.|$)/,
        "Files and images": ~r/^BeTree\.(Files|Image)(\.|$)/,
        "Fuel, tuning and telemetry": ~r/^BeTree\.(Fuel|Gauges|LiveDashboard|Profile|Tune|Telemetry)(\.|$)/,
        Testing: [BeTree.Test],
        "Sandbox and runtimes": ~r/^BeTree\.(Guest|Sandbox|Runtime)(\.|$)/,
        "erl-be-tree's interface": [:erl_betree]
      ]
    ]
  end

  # On a phone a wide table scrolls by itself, instead of the page.
  defp style(:html) do
    """
    <style>
      .content-inner table { display: block; }
      .content-inner :is(table, pre) { overflow-x: auto; }
      .content-inner :not(pre) > code, .content-inner :is(h1, h2, h3) { overflow-wrap: break-word; }
    </style>
    """
  end

  defp style(:epub), do: ""
end

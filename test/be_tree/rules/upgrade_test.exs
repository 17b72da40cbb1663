defmodule BeTree.Rules.UpgradeTest do
  # A server of rules on a folder that another version of BeTree wrote, with another module.
  use ExUnit.Case, async: true

  import BeTree.Test.Notices
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers

  alias BeTree.Error
  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.Shared
  alias BeTree.Test.{Attack, Disk, OsNode, RulesCalls}

  setup :quiet

  @moduletag timeout: :infinity

  # Each folder of the other version: its options, whether the server stops or is killed, and whether facts have sources.
  @variants [
    one: {[], :stop, false},
    waiting: {[lateness: 180_000, base_bytes: 1], :kill, true},
    partitions: {[partitions: 3, partition_by: RulesCalls.partition_by()], :kill, false},
    bases: {[partitions: 3, partition_by: RulesCalls.partition_by(), base_bytes: 1], :stop, false}
  ]

  # The other version has the present code. One more section at the end of its module changes the module's digest. One node of it makes
  # all folders, because its first server compiles the module.
  setup_all do
    folder = Path.join(System.tmp_dir!(), "be_tree_upgrade_#{System.pid()}")
    on_exit(fn -> File.rm_rf!(folder) end)
    present = Application.app_dir(:be_tree)
    library = Path.join(folder, "be_tree")
    File.mkdir_p!(library)
    File.ln_s!(Path.join(present, "ebin"), Path.join(library, "ebin"))
    File.cp_r!(Path.join(present, "priv"), Path.join(library, "priv"))
    module = Path.join(library, "priv/be_tree_rules.wasm")
    File.write!(module, <<0, 6, 5, "other">>, [:append])
    :rand.seed(:exsss, {Attack.seed(), 1, 0})

    servers =
      for {name, {options, ending, sources?}} <- @variants do
        {before, later} = Enum.split(RulesCalls.calls(400, sources?), 250)

        %{
          name: name,
          options: options,
          folder: Path.join(folder, "#{name}"),
          ending: ending,
          before: before,
          later: later
        }
      end

    run_other_version(library, servers)
    %{other: digest(module), servers: Map.new(servers, &{&1.name, &1})}
  end

  for {layout, _variant} <- @variants do
    test "a folder of another module goes on as if it were of this one, #{layout}", %{servers: servers, other: other} do
      %{options: options, before: before, later: later} = server = servers.unquote(layout)
      folder = copy(server)
      assert modules(folder) == [other]
      twin = twin(Keyword.delete(options, :base_bytes), before)
      on_disk = [rules: RulesCalls.swapped(), dir: folder] ++ options
      {name, id} = start!(on_disk)
      assert RulesCalls.state(name) == RulesCalls.state(twin)
      assert modules(folder) == [present()]

      for server <- [name, twin], do: :ok = Server.subscribe(server)
      for call <- later, do: assert({call, RulesCalls.make(name, call)} == {call, RulesCalls.make(twin, call)})
      notes = notes(name)
      assert notes == notes(twin) and notes != []
      assert RulesCalls.state(name) == RulesCalls.state(twin)

      # From here on the folder is one of this version.
      :ok = stop_supervised(id)
      {name, _id} = start!(on_disk)
      assert RulesCalls.state(name) == RulesCalls.state(twin)
    end
  end

  test "a folder of another module is refused without the module, and moved as a whole or not at all", %{
    servers: servers
  } do
    folder = copy(servers.one)
    twin = twin([], servers.one.before)
    [module] = Path.wildcard(Path.join(folder, "module-*"))
    File.rename!(module, module <> ".away")
    assert_refused(folder, :bad_module, "is missing; take the file from a copy of the folder")
    File.write!(module, "no module")
    assert_refused(folder, :damaged, "another digest")
    File.rename!(module <> ".away", module)

    # The disk fails at each operation of a start, one after the other, until a start has no more of them.
    Disk.watch(folder)
    failures = fail_at(folder, 1, 0)
    assert failures > 5
    Disk.heal(folder)
    {name, _id} = start!(rules: RulesCalls.swapped(), dir: folder)
    assert RulesCalls.state(name) == RulesCalls.state(twin)
    assert modules(folder) == [present()]
  end

  defp assert_refused(folder, kind, message) do
    before = contents(folder)
    assert {:error, error} = start(folder, %{})
    assert error.kind == kind and error.message =~ message
    assert contents(folder) == before
  end

  # Returns the number of starts that failed. A start may succeed although the removal of a file failed.
  defp fail_at(folder, operation, failures) do
    Disk.heal(folder)
    first = :counters.new(1, [])

    Disk.fail(folder, fn _name, _number ->
      :counters.add(first, 1, 1)
      if :counters.get(first, 1) == operation, do: :eio
    end)

    started = start(folder, %{files: Disk})
    with {:ok, server} <- started, do: Supervisor.stop(server)

    cond do
      :counters.get(first, 1) < operation -> failures
      match?({:error, %Error{kind: :file}}, started) -> fail_at(folder, operation + 1, failures + 1)
      match?({:ok, _server}, started) -> fail_at(folder, operation + 1, failures)
    end
  end

  defp start(folder, private) do
    Process.flag(:trap_exit, true)
    options = [name: :"upgrade_#{System.unique_integer([:positive])}", rules: RulesCalls.swapped(), dir: folder]
    Server.start_link(options, private)
  end

  defp contents(folder), do: for(file <- Path.wildcard(Path.join(folder, "*")), do: {file, File.read!(file)})

  # A server of this version that made the same calls.
  defp twin(options, calls) do
    {twin, _id} = start!([rules: RulesCalls.text()] ++ options)
    for call <- calls, do: RulesCalls.make(twin, call)
    twin
  end

  defp copy(%{folder: folder}) do
    %{folder: copy} = Disk.folder(%{})
    File.cp_r!(folder, copy)
    copy
  end

  # Makes the calls of servers in a node of the other version.
  defp run_other_version(library, servers) do
    file = Path.join(library, "servers")
    File.write!(file, :erlang.term_to_binary({RulesCalls.text(), servers}))

    port =
      OsNode.start(
        """
        :ok = :logger.set_primary_config(:level, :error)
        {:ok, _started} = Application.ensure_all_started(:be_tree)
        {text, servers} = #{inspect(file)} |> File.read!() |> :erlang.binary_to_term()
        for %{name: name} = server <- servers do
          options = [name: name, rules: text, dir: server.folder, durability: :sync] ++ server.options
          {:ok, pid} = BeTree.Rules.Server.start_link(options)
          for call <- server.before, do: BeTree.Test.RulesCalls.make(name, call)
          if server.ending == :stop, do: Supervisor.stop(pid)
        end
        IO.puts("made \#{System.pid()}")
        Process.sleep(:infinity)
        """,
        library: library
      )

    OsNode.kill(port, OsNode.line(port, "made "))
  end

  # The digests of the modules in a folder and those of its partitions, each once.
  defp modules(folder) do
    for folder <- [folder | for(number <- 0..2, do: Shared.folder(folder, number))],
        file <- Path.wildcard(Path.join(folder, "module-*.wasm")),
        uniq: true,
        do: file |> Path.basename(".wasm") |> String.replace_prefix("module-", "")
  end

  defp present, do: :be_tree |> Application.app_dir("priv/be_tree_rules.wasm") |> digest()
  defp digest(file), do: :sha256 |> :crypto.hash(File.read!(file)) |> Base.encode16(case: :lower)

  defp notes(name),
    do: Enum.sort(for(notice <- notices(name), do: {notice.partition, notice.number, notice.name, notice.values}))
end

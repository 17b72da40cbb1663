defmodule BeTree.Test.ReleaseFolders do
  @moduledoc """
  The folders and images that each release of BeTree wrote, with what they hold: `test/fixtures/releases/VERSION.tar.gz`, made by
  `make release.folders` before the release. Tests open them with the present version.
  """

  alias BeTree.{Image, Rules, Server, Tenants}
  alias BeTree.Test.RulesCalls

  @archives "test/fixtures/releases"
  @schema [age: :integer, country: {:string, optional: true}, tags: {:string_list, optional: true}]
  @texts for id <- 1..200,
             do:
               {id,
                "age >= #{rem(id, 50)} and (country in ('CA', 'C#{rem(id, 9)}') or tags one of ('a', 't#{rem(id, 7)}'))"}
  @event %{age: 31, country: "C4", tags: ["t3"]}
  @stats [users: {:uniques, :age}, countries: {:top, :country, 3}, ages: {:quantiles, :age}]
  # A Monday.
  @monday 20_423

  @doc "Returns the archive of each release, with its version."
  def archives do
    for path <- Path.wildcard(Path.join(@archives, "*.tar.gz")), do: {Path.basename(path, ".tar.gz"), path}
  end

  @doc "Writes the archive of the present version."
  def archive! do
    version = Mix.Project.config()[:version]
    folder = Path.join(System.tmp_dir!(), "be_tree_release_#{System.pid()}")
    path = Path.join(@archives, "#{version}.tar.gz")
    write(folder)
    File.mkdir_p!(@archives)
    files = for path <- Path.wildcard(Path.join(folder, "**")), File.regular?(path), do: Path.relative_to(path, folder)
    contents = for file <- files, do: {to_charlist(file), File.read!(Path.join(folder, file))}
    :ok = :erl_tar.create(to_charlist(path), contents, [:compressed])
    File.rm_rf!(folder)
    IO.puts("#{path}: #{div(File.stat!(path).size, 1_000)} KB")
  end

  defp write(folder) do
    expected = %{
      server: write_server(Path.join(folder, "server")),
      terms: write_terms(Path.join(folder, "terms")),
      rules: write_rules(Path.join(folder, "rules")),
      tenants: write_tenants(Path.join(folder, "tenants"))
    }

    File.write!(Path.join(folder, "expected"), :erlang.term_to_binary(expected))
  end

  ## A server, with a base and later changes, and the image of its index

  @doc "Starts the server of integers on the folder of a release."
  def start_server(folder), do: Server.start_link(name: :release_server, schema: @schema, dir: folder)

  defp write_server(folder) do
    {:ok, server} = Server.start_link(name: :release_server, schema: @schema ++ [other: :integer], dir: folder)
    {:ok, 200} = Server.insert_all(:release_server, @texts)
    # A migration writes a base.
    :ok = Server.migrate(:release_server, @schema)
    :ok = Image.write(:release_server, Path.join(Path.dirname(folder), "image.wasm"))
    of_image = BeTree.search!(:release_server, @event)
    {:ok, _counts} = Server.change(:release_server, put: [{7, "age > 30"}], delete: [8])
    state = state_of_server()
    Supervisor.stop(server)
    Map.put(state, :image, of_image)
  end

  @doc "Returns what the server of integers has."
  def state_of_server do
    texts = for id <- Server.ids!(:release_server), do: {id, Server.fetch!(:release_server, id)}
    %{texts: texts, found: BeTree.search!(:release_server, @event), version: Server.version!(:release_server)}
  end

  @doc "Returns the ids that an index finds for the event of these folders."
  def search(index), do: BeTree.search!(index, @event)

  ## A server whose ids are terms, with a journal only

  @doc "Starts the server of terms on the folder of a release."
  def start_terms(folder), do: Server.start_link(name: :release_terms, schema: @schema, ids: :term, dir: folder)

  defp write_terms(folder) do
    {:ok, server} = start_terms(folder)

    {:ok, _count} =
      Server.insert_all(:release_terms, for({id, text} <- Enum.take(@texts, 20), do: {{:rule, "#{id}"}, text}))

    state = state_of_terms()
    Supervisor.stop(server)
    state
  end

  @doc "Returns what the server of terms has."
  def state_of_terms do
    %{ids: Enum.sort(Server.ids!(:release_terms)), found: BeTree.search!(:release_terms, @event)}
  end

  ## A server of rules, with a base and later calls

  @doc "Starts the server of rules on the folder of a release."
  def start_rules(folder) do
    options = [name: :release_rules, rules: RulesCalls.swapped(), dir: folder, base_bytes: 10_000, lateness: 60_000]
    Rules.Server.start_link(options)
  end

  # The later calls and what they do are recorded, because rules may behave otherwise in later versions.
  defp write_rules(folder) do
    :rand.seed(:exsss, {1, 2, 3})
    {before, later} = Enum.split(RulesCalls.calls(300, true), 200)
    {:ok, server} = start_rules(folder)
    for call <- before, do: RulesCalls.make(:release_rules, call)
    state = RulesCalls.state(:release_rules)
    Supervisor.stop(server)
    kept = Path.join(Path.dirname(folder), "kept")
    File.cp_r!(folder, kept)
    {:ok, server} = start_rules(folder)
    replies = for call <- later, do: {call, RulesCalls.make(:release_rules, call)}
    after_all = RulesCalls.state(:release_rules)
    Supervisor.stop(server)
    File.rm_rf!(folder)
    File.rename!(kept, folder)
    %{state: state, later: replies, after: after_all}
  end

  ## Tenants, with statistics and bills of two days

  @doc "Starts the tenants on the folder of a release, on its second day."
  def start_tenants(folder, day \\ @monday + 1) do
    internal = %{clock: {fn -> day * 86_400 end, fn -> day * 86_400_000_000 end}}
    Tenants.start_link([name: :release_tenants, schema: @schema, stats: @stats, dir: folder], internal)
  end

  defp write_tenants(folder) do
    for day <- [@monday, @monday + 1] do
      {:ok, tenants} = start_tenants(folder, day)

      for tenant <- ["acme", "zeta"] do
        {:ok, _counts} = Tenants.change(:release_tenants, tenant, put: Enum.take(@texts, day - @monday + 10))

        for age <- 1..60,
            do: {:ok, _ids} = Tenants.match(:release_tenants, tenant, %{@event | age: age, country: "C#{rem(age, 9)}"})
      end

      Supervisor.stop(tenants)
    end

    {:ok, tenants} = start_tenants(folder)
    state = state_of_tenants()
    Supervisor.stop(tenants)
    state
  end

  @doc "Returns what the tenants have: the bills of both days, a report, and the matches of an event, which is not counted."
  def state_of_tenants do
    {:ok, report} = Tenants.report(:release_tenants, tenants: ["acme", "zeta"], sections: [[:tenant, :day], [:id]])

    for tenant <- ["acme", "zeta"], into: %{report: report} do
      {:ok, usage} = Tenants.usage(:release_tenants, tenant)
      {:ok, found} = Tenants.match(:release_tenants, tenant, @event, count: false)
      # Each load of the tenant takes fuel.
      {tenant, {for({day, totals} <- usage.days, into: %{}, do: {day, Map.delete(totals, :load)}), found}}
    end
  end
end

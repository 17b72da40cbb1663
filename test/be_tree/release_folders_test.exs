defmodule BeTree.ReleaseFoldersTest do
  # The present version opens what each release wrote, and goes on.
  use ExUnit.Case, async: true

  import BeTree.Test.Quiet, only: [quiet: 1]

  alias BeTree.{Image, Server, Tenants}
  alias BeTree.Test.{ReleaseFolders, RulesCalls}

  setup :quiet

  @moduletag :tmp_dir
  @moduletag timeout: :infinity

  test "there are folders of releases" do
    assert ReleaseFolders.archives() != []
  end

  for {version, archive} <- ReleaseFolders.archives() do
    @external_resource archive

    describe "of #{version}," do
      setup %{tmp_dir: folder} do
        :ok = :erl_tar.extract(unquote(String.to_charlist(archive)), [:compressed, cwd: String.to_charlist(folder)])
        expected = folder |> Path.join("expected") |> File.read!() |> :erlang.binary_to_term()
        %{folder: folder, expected: expected}
      end

      test "a server has its subscriptions, and takes more", %{folder: folder, expected: %{server: expected}} do
        folder = Path.join(folder, "server")
        {:ok, server} = ReleaseFolders.start_server(folder)
        assert ReleaseFolders.state_of_server() == Map.delete(expected, :image)
        :ok = Server.insert(:release_server, 1_000, "age = 31")
        Supervisor.stop(server)
        {:ok, server} = ReleaseFolders.start_server(folder)
        assert ReleaseFolders.state_of_server().found == expected.found ++ [1_000]
        Supervisor.stop(server)
      end

      test "a server whose ids are terms has its subscriptions", %{folder: folder, expected: %{terms: expected}} do
        {:ok, server} = ReleaseFolders.start_terms(Path.join(folder, "terms"))
        assert ReleaseFolders.state_of_terms() == expected
        Supervisor.stop(server)
      end

      test "an image is searched", %{folder: folder, expected: %{server: %{image: found}}} do
        {:ok, index} = Image.read(Path.join(folder, "image.wasm"))
        assert ReleaseFolders.search(index) == found
        {:ok, tree} = Image.read_tree(Path.join(folder, "image.wasm"))
        assert ReleaseFolders.search(tree) == found
      end

      test "rules have their facts, their time and their windows", %{folder: folder, expected: %{rules: expected}} do
        folder = Path.join(folder, "rules")
        {:ok, server} = ReleaseFolders.start_rules(folder)
        assert RulesCalls.state(:release_rules) == expected.state
        replies = for {call, _reply} <- expected.later, do: {call, RulesCalls.make(:release_rules, call)}
        assert replies == expected.later
        assert RulesCalls.state(:release_rules) == expected.after
        Supervisor.stop(server)
        {:ok, server} = ReleaseFolders.start_rules(folder)
        assert RulesCalls.state(:release_rules) == expected.after
        Supervisor.stop(server)
      end

      test "tenants have their expressions, statistics and bills", %{folder: folder, expected: %{tenants: expected}} do
        {:ok, tenants} = ReleaseFolders.start_tenants(Path.join(folder, "tenants"))
        assert ReleaseFolders.state_of_tenants() == expected
        {:ok, _ids} = Tenants.match(:release_tenants, "acme", %{age: 1, country: "CA", tags: []})
        {:ok, %{days: days}} = Tenants.usage(:release_tenants, "acme")
        assert Enum.sum(for {_day, totals} <- days, do: totals.events) == 121
        Supervisor.stop(tenants)
      end
    end
  end
end

defmodule BeTree.DependencyTest do
  # An application that depends on BeTree, compiled as by its users.
  use ExUnit.Case, async: true

  alias BeTree.Test.Packaging

  @moduletag :tmp_dir

  setup %{tmp_dir: folder} do
    File.write!(Path.join(folder, "mix.exs"), """
    defmodule Ads.MixProject do
      use Mix.Project
      def project, do: [app: :ads, version: "1.0.0", deps: [{:be_tree, path: #{inspect(File.cwd!())}, env: Mix.env()}]]
    end
    """)

    # The modules and the NIF of this checkout, as another environment of the application has them.
    File.mkdir_p!(Path.join(folder, "_build/dev"))
    File.cp_r!(Path.join(Mix.Project.build_path(), "be_tree"), Path.join(folder, "_build/dev/be_tree"))
    :ok
  end

  defp mix(folder, environment, arguments), do: Packaging.mix!(folder, arguments, [{"MIX_ENV", environment}])

  # In dev and test too, the environments of development.
  test "a dependent project sees none of the tools, in dev and in test", %{tmp_dir: folder} do
    sees_no_tools(folder, "dev")
    # Mix compiles only the files that the second environment adds.
    File.cp_r!(Path.join(folder, "_build/dev"), Path.join(folder, "_build/test"))
    sees_no_tools(folder, "test")
  end

  defp sees_no_tools(folder, environment) do
    # mix.exs is compiled too, by each command.
    output = mix(folder, environment, ["compile"])
    refute output =~ "warning" or output =~ "with Rust"

    modules =
      for path <- Path.wildcard(Path.join(folder, "_build/#{environment}/lib/be_tree/ebin/*.beam")),
          do: Path.basename(path, ".beam")

    assert "Elixir.BeTree" in modules
    assert "Elixir.Mix.Tasks.BeTree.Match" in modules
    tools = for path <- Path.wildcard("tools/**/*.ex"), module <- modules_in(path), do: module
    assert "Elixir.BeTree.Workload" in tools and "Elixir.Mix.Tasks.BeTree.Demo" in tools and "erl_betree_bench" in tools
    assert Enum.filter(modules, &(&1 in tools)) == []
    # `BeTree.Test` is for users; its siblings in `test/support` are not.
    published = for path <- Path.wildcard("lib/**/*.ex"), module <- modules_in(path), do: module
    assert Enum.filter(modules, &(&1 =~ "Test")) -- published == []

    help = mix(folder, environment, ["help"])
    refute help =~ "compile.be_tree"

    assert Regex.scan(~r/mix (be_tree\.\w+)/, help, capture: :all_but_first) == [
             ["be_tree.image"],
             ["be_tree.match"],
             ["be_tree.profile"],
             ["be_tree.rules"],
             ["be_tree.tenants"],
             ["be_tree.tune"]
           ]
  end

  defp modules_in(path) do
    for [name] <- Regex.scan(~r/^defmodule :?([\w.]+) do/m, File.read!(path), capture: :all_but_first) do
      if name =~ ~r/^[A-Z]/, do: "Elixir." <> name, else: name
    end
  end
end

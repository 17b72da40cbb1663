defmodule BeTree.Packaging.PrecompiledTest do
  # A package of BeTree whose NIF is downloaded. A stand-in for rustler_precompiled, with the functions of version 0.8 that
  # BeTree calls, gets the archives from a server of the test.
  use ExUnit.Case, async: true

  import BeTree.Test.Packaging

  alias BeTree.Release

  @moduletag :tmp_dir

  @version Mix.Project.config()[:version]
  @checksums "checksum-Elixir.BeTree.Runtime.Native.exs"
  @nif "_build/dev/lib/be_tree/priv/native/be_tree_host.so"

  setup %{tmp_dir: folder} do
    projects = %{app: app, be_tree: be_tree} = projects(folder)
    stand_in(folder)
    write(app, %{"mix.exs" => project("app", ~s({:be_tree, path: "../be_tree"}, {:rustler_precompiled, #{path()}}))})

    # Without Hex, the dependencies are none.
    listed = "if(Code.ensure_loaded?(Hex), do: deps(), else: [])"
    project = File.read!(Path.join(be_tree, "mix.exs"))
    assert project =~ listed

    write(be_tree, %{
      "mix.exs" => String.replace(project, listed, "[{:rustler_precompiled, #{path()}, optional: true}]")
    })

    released = Path.join(folder, "released")
    write(folder, %{"nif" => "a released NIF"})
    Release.archive(released, Path.join(folder, "nif"), @version, "riscv64gc-unknown-linux-gnu")
    write(be_tree, %{@checksums => Release.checksums(released)})

    url = serve(released)

    {:ok,
     Map.merge(projects, %{released: released, url: url, download: [{"BE_TREE_PRECOMPILED_URL", url} | projects.rust]})}
  end

  defp path, do: ~s(path: "../rustler_precompiled")

  defp stand_in(folder) do
    write(folder, %{
      "rustler_precompiled/mix.exs" =>
        "rustler_precompiled"
        |> project("", "0.8.4")
        |> String.replace("end\n", "  def application, do: [extra_applications: [:inets, :crypto]]\nend\n"),
      "rustler_precompiled/lib/rustler_precompiled.ex" => ~S"""
      defmodule RustlerPrecompiled do
        def __using__(module, options) do
          [target] = options[:targets]
          ["2.15"] = options[:nif_versions]
          false = options[:force_build]
          name = "lib#{options[:crate]}-v#{options[:version]}-nif-2.15-#{target}"
          archive = name <> ".so.tar.gz"
          {:ok, _started} = Application.ensure_all_started(:inets)
          address = options[:base_url] |> URI.parse() |> Map.update!(:path, &Path.join(&1, archive)) |> to_string() |> String.to_charlist()

          with {:ok, {{_, 200, _}, _, bytes}} <- :httpc.request(:get, {address, []}, [], body_format: :binary),
               {:checksum, true} <- {:checksum, checksum(bytes) == checksums(module)[archive]} do
            folder = Application.app_dir(options[:otp_app], "priv/native")
            File.mkdir_p!(folder)
            :ok = :erl_tar.extract({:binary, bytes}, [:compressed, cwd: String.to_charlist(folder)])
            {:ok, %{load_from: {options[:otp_app], "priv/native/" <> name}}}
          else
            {:checksum, false} -> failed("the integrity check failed because the checksum of files does not match")
            {:ok, {{_, status, _}, _, _}} -> failed("couldn't fetch NIF from #{address}: #{status}")
          end
        end

        defp checksum(bytes), do: "sha256:" <> Base.encode16(:crypto.hash(:sha256, bytes), case: :lower)
        defp checksums(module), do: "checksum-#{module}.exs" |> Code.eval_file() |> elem(0)

        defp failed(reason) do
          {:error, "Error while downloading precompiled NIF: #{reason}.\n\nYou can force the project to build\n"}
        end
      end
      """
    })
  end

  test "a build downloads the NIF once, and compiles it where that is forced", context do
    %{app: app, be_tree: be_tree, log: log, url: url, download: download} = context
    sources = files(be_tree)
    assert mix!(app, ["compile"], download) =~ "Downloading be_tree_host from #{url}"
    assert cargo_calls(log) == ["be_tree_guest", "be_tree_rules_guest"]
    assert File.read!(Path.join(app, @nif)) == "a released NIF"

    assert app |> Path.join(Path.dirname(@nif)) |> File.ls!() |> Enum.sort() ==
             ~w(be_tree_host.so be_tree_host.so.sha256)

    refute mix!(app, ["compile"], download) =~ "Downloading"
    # It stays without the address too.
    mix!(app, ["compile"], context.rust)
    assert cargo_calls(log) == ["be_tree_guest", "be_tree_rules_guest"]
    assert files(be_tree) == sources

    compiled = "be_tree_host of // the host\n"
    mix!(app, ["compile"], [{"BE_TREE_BUILD", "1"} | download])
    assert File.read!(Path.join(app, @nif)) == compiled
    assert cargo_calls(log) == ["be_tree_guest", "be_tree_rules_guest", "be_tree_host"]
    mix!(app, ["compile"], download)
    assert File.read!(Path.join(app, @nif)) == "a released NIF"

    for setting <- ["config :be_tree, force_build: true", "config :rustler_precompiled, :force_build, be_tree: true"] do
      write(app, %{"config/config.exs" => "import Config\n#{setting}\n"})
      mix!(app, ["compile"], download)
      assert File.read!(Path.join(app, @nif)) == compiled
      write(app, %{"config/config.exs" => "import Config\nconfig :be_tree, precompiled_url: #{inspect(url)}\n"})
      mix!(app, ["compile"], context.rust)
      assert File.read!(Path.join(app, @nif)) == "a released NIF"
    end
  end

  test "a build refuses a wrong or missing archive and names the alternatives", context do
    %{tmp_dir: folder, app: app, released: released, url: url, download: download} = context
    write(folder, %{"nif" => "another NIF"})
    archive = Release.archive(released, Path.join(folder, "nif"), @version, "riscv64gc-unknown-linux-gnu")
    {output, status} = mix(app, ["compile"], download)
    assert status != 0

    assert output =~
             "The NIF of BeTree cannot be downloaded from #{url}: the integrity check failed because the checksum of files does not match."

    assert output =~ "rustler_precompiled keeps what it downloads"
    assert output =~ "set BE_TREE_BUILD=1 or config :be_tree, force_build: true"
    refute output =~ "You can force the project"
    refute File.exists?(Path.join(app, @nif))

    File.rm!(archive)
    {output, status} = mix(app, ["compile"], download)
    assert status != 0
    assert output =~ "404"
    refute File.exists?(Path.join(app, @nif))
  end
end

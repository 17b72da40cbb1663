defmodule BeTree.Packaging.BuildTest do
  # Places of compiled files, and errors without Rust.
  use ExUnit.Case, async: true

  import BeTree.Test.Packaging

  @moduletag :tmp_dir

  @debian "/usr/bin/cargo"
  @no_rust [skip: File.exists?(@debian) && "Rust is found in #{@debian}, whatever the PATH is"]

  @wasm "priv/be_tree.wasm"
  @rules "priv/be_tree_rules.wasm"
  @nif "priv/native/be_tree_host.so"

  setup %{tmp_dir: folder}, do: {:ok, projects(folder)}

  defp built(app, path, environment \\ "dev"), do: Path.join([app, "_build", environment, "lib/be_tree", path])

  test "a build leaves results in the build folder of the project and nothing elsewhere", context do
    %{app: app, be_tree: be_tree, log: log, rust: rust} = context
    sources = files(be_tree)
    # Within a parallel make too.
    jobs = "-j2 --jobserver-auth=3,4"
    output = mix!(app, ["compile"], [{"MAKEFLAGS", jobs}, {"MFLAGS", jobs} | rust])
    assert output =~ "Compiling be_tree_host with Rust 1.99.0"
    assert cargo_calls(log) == ["be_tree_guest", "be_tree_rules_guest", "be_tree_host"]
    assert files(be_tree) == sources
    assert File.read!(built(app, @wasm)) =~ "be_tree_guest"
    assert File.read!(built(app, @nif)) == "be_tree_host of // the host\n"

    assert app |> built("") |> File.ls!() |> Enum.sort() == [".mix", "ebin", "priv"]
    assert app |> built("priv") |> files() |> map_size() == 6

    # Nothing has changed.
    refute mix!(app, ["compile"], rust) =~ "with Rust"
    refute mix!(app, ["deps.compile", "be_tree", "--force"], rust) =~ "with Rust"
    # Another environment copies the results of this one.
    refute mix!(app, ["compile"], [{"MIX_ENV", "prod"} | rust]) =~ "with Rust"
    assert File.read!(built(app, @nif, "prod")) == File.read!(built(app, @nif))
    assert length(cargo_calls(log)) == 3

    # Changed sources recompile only their own crate.
    File.write!(Path.join(be_tree, "wasm/host/src/lib.rs"), "// another host")
    mix!(app, ["compile"], [{"CARGO_TARGET_DIR", Path.join(app, "kept")} | rust])
    assert cargo_calls(log) == ["be_tree_guest", "be_tree_rules_guest", "be_tree_host", "be_tree_host"]
    assert File.read!(built(app, @nif)) == "be_tree_host of // another host\n"
    assert File.exists?(Path.join(app, "kept/release/deps"))

    # Other flags recompile too.
    mix!(app, ["compile"], [{"RUSTFLAGS", "-C target-cpu=native"} | rust])
    assert List.last(cargo_calls(log)) == "be_tree_host" and length(cargo_calls(log)) == 5
  end

  @tag @no_rust
  test "without Rust the errors name the alternatives", context do
    %{app: app, be_tree: be_tree, rust: rust, no_rust: no_rust} = context
    {output, status} = mix(app, ["compile"], no_rust)
    assert status != 0
    assert output =~ "sources without its WebAssembly module, like every git or path dependency"
    assert output =~ "rustup"
    assert output =~ "released package of BeTree"

    release(app, be_tree, rust)
    {output, status} = mix(app, ["compile"], no_rust)
    assert status != 0
    assert output =~ "The NIF of BeTree, its built-in runtime, is not here"
    assert output =~ "rustup"
    assert output =~ ~s({:wasmex, "~> 0.15.1"})
    assert output =~ "config :be_tree, runtime: MyRuntime"

    # Another runtime needs no NIF.
    write(app, %{"config/config.exs" => "import Config\nconfig :be_tree, runtime: MyRuntime\n"})
    refute mix!(app, ["compile"], no_rust) =~ "with Rust"
    refute File.exists?(built(app, @nif))
  end

  @tag @no_rust
  test "a build finds wasmex and Rust when they are added, and prints its note once", context do
    %{tmp_dir: folder, app: app, be_tree: be_tree, rust: rust, no_rust: no_rust} = context
    release(app, be_tree, rust)
    {_output, status} = mix(app, ["compile"], no_rust)
    assert status != 0

    write(folder, %{
      "wasmex/mix.exs" => project("wasmex", ""),
      "wasmex/lib/wasmex.ex" => "defmodule Wasmex do\nend\n",
      "app/mix.exs" => project("app", ~s({:wasmex, path: "../wasmex"}, {:be_tree, path: "../be_tree"}))
    })

    note = "It is left out, and wasmex serves."
    mix!(app, ["deps.compile", "wasmex"], no_rust)
    assert mix!(app, ["compile"], no_rust) =~ note
    refute mix!(app, ["compile"], no_rust) =~ note
    refute File.exists?(built(app, @nif))

    assert mix!(app, ["compile"], rust) =~ "Compiling be_tree_host"
    assert File.exists?(built(app, @nif))
  end

  test "a build uses a released module, and refuses one of other sources", context do
    %{app: app, be_tree: be_tree, log: log, rust: rust} = context
    release(app, be_tree, rust)
    File.rm!(log)
    sources = files(be_tree)
    mix!(app, ["compile"], rust)
    assert cargo_calls(log) == ["be_tree_host"]
    assert File.read!(built(app, @wasm)) == sources[@wasm]
    refute mix!(app, ["compile"], rust) =~ "with Rust"
    assert cargo_calls(log) == ["be_tree_host"]
    assert files(be_tree) == sources

    File.write!(Path.join(be_tree, "wasm/index/src/lib.rs"), "// another index")
    {output, status} = mix(app, ["compile"], rust)
    assert status != 0
    assert output =~ "be_tree/priv/be_tree.wasm was not built from the sources beside it"
    assert output =~ "delete this file"
    for path <- [@wasm, @rules], do: File.rm!(Path.join(be_tree, path))
    mix!(app, ["compile"], rust)
    assert cargo_calls(log) == ["be_tree_host", "be_tree_guest", "be_tree_rules_guest"]
  end

  @portable "priv/be_tree_portable.wasm"

  defp read_portable(app, variables) do
    mix(app, ["run", "--no-start", "-e", "IO.puts(Mix.BeTree.PortableGuest.read!())"], variables)
  end

  @tag @no_rust
  test "the portable module is built when it is first read, and a released one needs no Rust", context do
    %{app: app, be_tree: be_tree, log: log, rust: rust, no_rust: no_rust} = context
    mix!(app, ["compile"], rust)
    sources = files(be_tree)
    refute File.exists?(built(app, @portable))
    {output, status} = read_portable(app, no_rust)
    assert status != 0
    assert output =~ "The portable index module is not in this build of BeTree"
    assert output =~ "rustup"
    assert output =~ "released package of BeTree"

    {output, 0} = read_portable(app, rust)
    assert output =~ "Compiling be_tree_guest with Rust 1.99.0, once, without vector instructions"
    assert output =~ "be_tree_guest of // the host"
    {output, 0} = read_portable(app, no_rust)
    refute output =~ "with Rust"
    assert File.exists?(built(app, @portable))
    assert files(be_tree) == sources
    calls = cargo_calls(log)
    assert length(calls) == 4

    File.mkdir_p!(Path.join(be_tree, "priv"))
    for path <- [@portable, @portable <> ".sha256"], do: File.cp!(built(app, path), Path.join(be_tree, path))
    release(app, be_tree, rust)
    File.rm!(log)
    write(app, %{"config/config.exs" => "import Config\nconfig :be_tree, runtime: MyRuntime\n"})
    {output, 0} = read_portable(app, no_rust)
    assert output =~ "be_tree_guest of // the host"
    assert cargo_calls(log) == []
  end

  # Puts the module into the dependency like a package does, and deletes the build.
  defp release(app, be_tree, rust) do
    mix!(app, ["compile"], rust)
    File.mkdir_p!(Path.join(be_tree, "priv"))

    for path <- [@wasm, @wasm <> ".sha256", @rules, @rules <> ".sha256"],
        do: File.cp!(built(app, path), Path.join(be_tree, path))

    File.rm_rf!(Path.join(app, "_build"))
  end

  test "a rebar3 build puts results beside the BEAM files that rebar_mix takes", context do
    %{tmp_dir: folder, be_tree: be_tree, rust: rust} = context
    fetched = Path.join(folder, "erlang/_build/default/lib/be_tree")
    File.mkdir_p!(Path.dirname(fetched))
    File.rename!(be_tree, fetched)
    mix!(fetched, ["compile"], [{"MIX_ENV", "prod"} | rust])
    File.rm_rf!(Path.join(fetched, "_build"))
    results = for path <- [@wasm, @rules, @nif], path <- [path, path <> ".sha256"], do: Path.relative_to(path, "priv")
    assert fetched |> Path.join("priv") |> files() |> Map.keys() |> Enum.sort() == results
    refute File.exists?(Path.join(fetched, "wasm/target"))
  end
end

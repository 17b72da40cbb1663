defmodule Mix.Tasks.Compile.BeTreeHost do
  @moduledoc false
  # This task installs the NIF, the crate `wasm/host`, as `priv/native/be_tree_host.so` in the build of the project
  # (`_build/dev/lib/be_tree`). It writes nothing to the folder of the sources.
  #
  # `mix compile` runs it. The NIF is the built-in runtime. In this order:
  #
  #   * if `config :be_tree, :runtime` names another runtime, the task does nothing;
  #   * if the package `rustler_precompiled` is present, and BeTree's package has the checksums of released NIFs, the task
  #     downloads the one for this machine, and refuses it if its checksum differs. `config :be_tree, force_build: true`, or the
  #     environment variable `BE_TREE_BUILD=1`, turns this off;
  #   * with Rust 1.95 the task compiles the crate, which takes minutes, most of them for wasmtime. cargo's other files are
  #     deleted afterwards, unless `CARGO_TARGET_DIR` names a folder for them;
  #   * if wasmex is present, the task prints once that the NIF is left out;
  #   * otherwise it raises an error that names these ways.
  #
  # While `priv/native/be_tree_host.so.sha256` holds the digests of the library and of its sources and flags, the task does
  # nothing; `--force` does not change that. A library that another environment of the project has is copied.

  use Mix.Task.Compiler

  alias Mix.BeTree.{Build, Crate, Precompiled, Toolchain}

  @file_name "native/be_tree_host.so"

  @impl Mix.Task.Compiler
  def run(_arguments) do
    cond do
      Application.get_env(:be_tree, :runtime, BeTree.Runtime.Wasmtime) != BeTree.Runtime.Wasmtime -> {:noop, []}
      Precompiled.chosen?(crate().file) -> Precompiled.compile(crate().file)
      true -> Crate.compile(crate(), &Toolchain.native/0, &without_rust/1)
    end
  end

  defp without_rust(missing) do
    if wasmex?() do
      # A library built from other sources must not be loaded.
      Crate.clean(crate())

      Build.note_once(
        :be_tree_host,
        "BeTree: no Rust here compiles the built-in runtime. It is left out, and wasmex serves."
      )

      {:noop, []}
    else
      Mix.raise("""
      The NIF of BeTree, its built-in runtime, is not here, and nothing here can compile it. #{missing}
      #{wasmex_instead()}

      #{Precompiled.instead()}

      If you have a runtime of your own, name it: config :be_tree, runtime: MyRuntime
      """)
    end
  end

  # Mix hides applications outside BeTree's dependencies; without Hex this list is complete.
  defp wasmex? do
    Code.ensure_loaded?(Wasmex) or File.dir?(Path.join(Mix.Project.build_path(), "lib/wasmex/ebin"))
  end

  defp wasmex_instead do
    version =
      if Version.match?(System.version(), "~> 1.18"),
        do: "",
        else: "; it needs Elixir 1.18, and this is #{System.version()}"

    "Or do without Rust: add {:wasmex, \"~> 0.15.1\"} to your dependencies, which runs the module more slowly#{version}."
  end

  @impl Mix.Task.Compiler
  def clean do
    Build.forget_note(:be_tree_host)
    Crate.clean(crate())
  end

  @doc false
  # Returns the crate of the NIF.
  @spec crate() :: Crate.t()
  def crate do
    %Crate{
      package: "be_tree_host",
      profile: "release",
      sources: ["host/Cargo.toml", "host/build.rs", "host/src/**/*.rs"],
      product: product(:os.type()),
      file: Path.join(Build.priv(), @file_name),
      kept: Build.kept(@file_name),
      others: Build.kept_anywhere(@file_name),
      remark: " (with wasmtime, which takes some minutes the first time)"
    }
  end

  # The VM looks for a NIF under .so on every Unix, macOS included.
  defp product({:unix, :darwin}), do: "libbe_tree_host.dylib"
  defp product(_), do: "libbe_tree_host.so"
end

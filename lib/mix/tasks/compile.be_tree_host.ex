defmodule Mix.Tasks.Compile.BeTreeHost do
  @shortdoc "Compiles the NIF, priv/native/be_tree_host.so"

  @moduledoc """
  This task compiles the NIF, the crate `wasm/host`, to `priv/native/be_tree_host.so`.

  `mix compile` runs it. The task does nothing while `priv/native/be_tree_host.so.sha256` holds the digests of the library
  and of the crate's sources; `--force` does not change that. It needs Rust 1.95, and prints how to install it if it is
  missing. The first build takes minutes, most of them for wasmtime. Its results are kept in `wasm/target`, or in
  `CARGO_TARGET_DIR`.

  The NIF is the built-in runtime. The task leaves it out if `config :be_tree, :runtime` names another runtime, or if
  wasmex is present and Rust is not.
  """

  use Mix.Task.Compiler

  alias Mix.BeTree.{Crate, Toolchain}

  @impl Mix.Task.Compiler
  def run(_arguments) do
    if Application.get_env(:be_tree, :runtime, BeTree.Runtime.Wasmtime) == BeTree.Runtime.Wasmtime do
      Crate.compile(crate(), &Toolchain.native/0, otherwise())
    else
      {:noop, []}
    end
  end

  defp otherwise do
    if Code.ensure_loaded?(Wasmex), do: "the built-in runtime: it is left out, and wasmex serves"
  end

  @impl Mix.Task.Compiler
  def clean, do: Crate.clean(crate())

  defp crate do
    %Crate{
      package: "be_tree_host",
      profile: "release",
      sources: ["host/Cargo.toml", "host/build.rs", "host/src/**/*.rs"],
      product: product(:os.type()),
      file: "priv/native/be_tree_host.so",
      remark: " (with wasmtime, which takes about four minutes the first time)"
    }
  end

  # The VM looks for a NIF under .so on every Unix, macOS included.
  defp product({:unix, :darwin}), do: "libbe_tree_host.dylib"
  defp product(_), do: "libbe_tree_host.so"
end

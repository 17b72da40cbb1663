defmodule Mix.Tasks.Compile.BeTreeHost do
  @shortdoc "Compiles the NIF, priv/native/be_tree_host.so"

  @moduledoc """
  Compiles the NIF, the crate `wasm/host`, to `priv/native/be_tree_host.so`.

  It runs as a part of `mix compile`, and does nothing while `priv/native/be_tree_host.so.sha256` holds the digests of the
  library and of the crate's sources: `--force` does not change that. It needs Rust 1.95, and says how to install it where
  it is missing. The first time takes minutes, which go to wasmtime; they are kept in `wasm/target`, or in
  `CARGO_TARGET_DIR`.

  The NIF is the built-in runtime. It is left out where `config :be_tree, :runtime` names another, and where there is no
  Rust but wasmex.
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

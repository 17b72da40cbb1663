defmodule Mix.Tasks.Compile.BeTreeGuest do
  @shortdoc "Compiles the sandboxed module, priv/be_tree.wasm"

  @moduledoc """
  Compiles the index and the evaluator, the crates `wasm/index` and `wasm/guest`, to `priv/be_tree.wasm`.

  It runs as a part of `mix compile`, and does nothing while `priv/be_tree.wasm.sha256` holds the digests of the module
  and of the crates' sources, as in a released package: `--force` does not change that. It needs Rust 1.95 with the
  standard library for `wasm32-unknown-unknown`, or Debian's Rust and the source of that library; where both are missing
  it says how to install them. Where wasmex is there, which can run a module that was built elsewhere, it leaves one that
  is there as it is.
  """

  use Mix.Task.Compiler

  alias Mix.BeTree.{Crate, Toolchain}

  @crate %Crate{
    package: "be_tree_guest",
    profile: "guest",
    target: "wasm32-unknown-unknown",
    # The host puts the shadow stack's pointer back after a trap, so it has to be exported. No operation has more than
    # 10 KB on that stack, as none recurses on what it is given; it lies below all else, so that what overflows it traps.
    rustflags:
      ~w(-C target-feature=+simd128 -C link-arg=--export=__stack_pointer -C link-arg=-zstack-size=#{128 * 1024}),
    sources: ["{index,guest}/Cargo.toml", "{index,guest}/src/**/*.rs"],
    product: "be_tree_guest.wasm",
    file: "priv/be_tree.wasm"
  }

  @impl Mix.Task.Compiler
  def run(_arguments), do: Crate.compile(@crate, &Toolchain.wasm32/0, otherwise())

  defp otherwise do
    if Code.ensure_loaded?(Wasmex) and File.exists?(@crate.file) do
      "#{@crate.file} from these sources: it stays as it is"
    end
  end

  @impl Mix.Task.Compiler
  def clean, do: Crate.clean(@crate)
end

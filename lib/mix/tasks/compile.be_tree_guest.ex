defmodule Mix.Tasks.Compile.BeTreeGuest do
  @shortdoc "Compiles the sandboxed module, priv/be_tree.wasm"

  @moduledoc """
  This task compiles the index and the evaluator, the crates `wasm/index` and `wasm/guest`, to `priv/be_tree.wasm`.

  `mix compile` runs it. The task does nothing while `priv/be_tree.wasm.sha256` holds the digests of the module and of the
  crates' sources, as in a released package; `--force` does not change that. It needs Rust 1.95 with the standard library for
  `wasm32-unknown-unknown`, or Debian's Rust and the source of that library. If both are missing, it prints how to install
  them. With wasmex, which can run a module that was built elsewhere, it then keeps an existing module.
  """

  use Mix.Task.Compiler

  alias Mix.BeTree.{Crate, Toolchain}

  @crate %Crate{
    package: "be_tree_guest",
    profile: "guest",
    target: "wasm32-unknown-unknown",
    # The host restores the pointer of the shadow stack after a trap, so it has to be exported. No operation needs more than
    # 10 KB of that stack, because none recurses on its input. The stack lies below all other data, so an overflow traps.
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

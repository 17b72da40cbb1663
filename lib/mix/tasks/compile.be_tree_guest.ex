defmodule Mix.Tasks.Compile.BeTreeGuest do
  @shortdoc "Compiles the sandboxed module, be_tree.wasm"

  @moduledoc """
  This task compiles the index and the evaluator, the crates `wasm/index` and `wasm/guest`, to `priv/be_tree.wasm` in the
  build of the project (`_build/dev/lib/be_tree`). It writes nothing to the folder of the sources.

  `mix compile` runs it. A released package has the module, with the digest of its sources in `priv/be_tree.wasm.sha256`, and
  needs no Rust for it. A git or path dependency has no module, so the task compiles it. It needs Rust 1.95 with the standard
  library for `wasm32-unknown-unknown`, or Debian's Rust and the source of that library. While the digest of the module in the
  build is that of the sources, the task does nothing; `--force` does not change that.
  """

  use Mix.Task.Compiler

  alias Mix.BeTree.{Build, Crate, Toolchain}

  @file_name "be_tree.wasm"

  @impl Mix.Task.Compiler
  def run(_arguments) do
    crate = crate()
    check_released(crate, Path.expand("priv/#{@file_name}"))
    Crate.compile(crate, &Toolchain.wasm32/0, &without_rust/1)
  end

  # Mix copies the package's file over one that was built from changed sources, so one of them has to go.
  defp check_released(crate, released) do
    if released != crate.file and File.exists?(released) and not Crate.fresh?(released, Crate.origin(crate)) do
      Mix.raise("""
      #{released} was not built from the sources beside it, or was changed. \
      Restore the package, or delete this file and compile again, to build the module with Rust.
      """)
    end
  end

  @spec without_rust(String.t()) :: no_return
  defp without_rust(missing) do
    Mix.raise("""
    #{File.cwd!()} has BeTree's sources without its WebAssembly module, like every git or path dependency, and nothing here \
    can compile them. #{missing}
    Or depend on a released package of BeTree, which has the module, in place of the sources.
    """)
  end

  @impl Mix.Task.Compiler
  def clean, do: Crate.clean(crate())

  @doc false
  # Returns the crate of the module.
  @spec crate() :: Crate.t()
  def crate do
    %Crate{
      package: "be_tree_guest",
      profile: "guest",
      target: "wasm32-unknown-unknown",
      # The host restores the pointer of the shadow stack after a trap, so it has to be exported. No operation needs more
      # than 10 KB of that stack, because none recurses on its input. The stack lies below all other data, so an overflow
      # traps.
      rustflags:
        ~w(-C target-feature=+simd128 -C link-arg=--export=__stack_pointer -C link-arg=-zstack-size=#{128 * 1024}),
      sources: ["{index,guest}/Cargo.toml", "{index,guest}/src/**/*.rs"],
      product: "be_tree_guest.wasm",
      file: Path.join(Build.priv(), @file_name),
      kept: Build.kept(@file_name),
      # A released package has the file.
      others: [Path.expand("priv/#{@file_name}") | Build.kept_anywhere(@file_name)]
    }
  end
end

defmodule Mix.Tasks.Compile.BeTreeGuest do
  @moduledoc false
  # This task compiles the sandboxed modules to `priv` in the build of the project (`_build/dev/lib/be_tree`): the index and the
  # evaluator to `be_tree.wasm`, and the engine of stateful rules to `be_tree_rules.wasm`. It writes nothing to the folder of the
  # sources.
  #
  # `mix compile` runs it. A released package has the modules, with the digests of their sources (`priv/be_tree.wasm.sha256`), and
  # needs no Rust for them. A git or path dependency has no modules, so the task compiles them. It needs Rust 1.95 with the standard
  # library for `wasm32-unknown-unknown`, or Debian's Rust and the source of that library. While the digest of a module in the
  # build is that of its sources, the task does nothing; `--force` does not change that.
  #
  # The portable index module is not built here, but by the first `mix be_tree.image build --portable` (`Mix.Tasks.BeTree.Image`).

  use Mix.Task.Compiler

  alias Mix.BeTree.{Build, Crate, Toolchain}

  @impl Mix.Task.Compiler
  def run(_arguments) do
    outcomes =
      for crate <- crates() do
        check_released(crate, Path.expand("priv/#{Path.basename(crate.file)}"))
        {outcome, []} = Crate.compile(crate, &Toolchain.wasm32/0, &without_rust/1)
        outcome
      end

    {if(:ok in outcomes, do: :ok, else: :noop), []}
  end

  # Mix copies the packaged file over one built from changed sources, so the user must delete one.
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
  def clean, do: Enum.each([portable() | crates()], &Crate.clean/1)

  @doc false
  # Returns the crates of the modules.
  @spec crates() :: [Crate.t()]
  def crates do
    # The index needs at most 10 KB of the shadow stack, because nothing recurses on its input. The parser of rules recurses
    # to a bounded depth.
    [
      crate("be_tree.wasm", "be_tree_guest", ~w(index module guest), 128, "+simd128"),
      crate("be_tree_rules.wasm", "be_tree_rules_guest", ~w(index module rules rules_guest), 512, "+simd128")
    ]
  end

  @doc false
  # Returns the crate of the index module without vector instructions, which some WebAssembly runtimes lack.
  @spec portable() :: Crate.t()
  def portable, do: crate("be_tree_portable.wasm", "be_tree_guest", ~w(index module guest), 128, "-simd128")

  defp crate(file_name, package, folders, stack, target_feature) do
    folders = Enum.join(folders, ",")

    %Crate{
      package: package,
      profile: "guest",
      target: "wasm32-unknown-unknown",
      # The host restores the shadow stack's pointer after a trap, so it is exported. The stack lies below all other data,
      # so an overflow traps.
      rustflags:
        ~w(-C target-feature=#{target_feature} -C link-arg=--export=__stack_pointer -C link-arg=-zstack-size=#{stack * 1024}),
      sources: ["{#{folders}}/Cargo.toml", "{#{folders}}/src/**/*.rs"],
      product: "#{package}.wasm",
      file: Path.join(Build.priv(), file_name),
      kept: Build.kept(file_name),
      # A released package has the file.
      others: [Path.expand("priv/#{file_name}") | Build.kept_anywhere(file_name)]
    }
  end
end

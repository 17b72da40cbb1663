defmodule Mix.BeTree.PortableGuest do
  @moduledoc false
  # The index module without vector instructions. Few users need it and its build takes minutes, so `mix compile` omits it and
  # the first command that needs it builds it. A released package has it.

  alias Mix.BeTree.Crate
  alias Mix.BeTree.Toolchain
  alias Mix.Tasks.Compile.BeTreeGuest

  @doc "Returns the bytes of the portable index module, after building it if its file is missing or of other sources."
  @spec read!() :: binary
  def read!, do: in_be_tree(fn -> read_built!(BeTreeGuest.portable()) end)

  defp read_built!(crate) do
    Crate.compile(%{crate | remark: ", once, without vector instructions"}, &Toolchain.wasm32/0, &without_rust/1)
    File.read!(crate.file)
  end

  # The paths of a crate belong to the project of BeTree, in the build of the user's project.
  defp in_be_tree(fun) do
    if Mix.Project.config()[:app] == :be_tree do
      fun.()
    else
      folder = Mix.Project.deps_paths()[:be_tree] || Mix.raise("BeTree is not a dependency of this project")
      build = [env_path: Mix.Project.build_path()]
      Mix.Project.in_project(:be_tree, folder, build, fn _project -> fun.() end)
    end
  end

  @spec without_rust(String.t()) :: no_return
  defp without_rust(missing) do
    Mix.raise("""
    The portable index module is not in this build of BeTree, and nothing here can compile it. #{missing}
    Or depend on a released package of BeTree, which has the module. Or omit --portable: the image then needs a WebAssembly \
    runtime with vector instructions (SIMD), as Node, browsers, wasmtime and wazero have.
    """)
  end
end

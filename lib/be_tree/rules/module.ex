defmodule BeTree.Rules.Module do
  @moduledoc false
  # The WebAssembly module of rules.

  alias BeTree.{Error, Guest}
  alias BeTree.Engine.Instance

  @doc "Returns the module. It is read and compiled once for each runtime and kept for the life of the VM."
  @spec built_in(module) :: {:ok, Guest.t()} | {:error, Error.t()}
  def built_in(runtime), do: Instance.built_in(runtime, "be_tree_rules.wasm", &load/2)

  defp load(wasm, runtime) do
    with {:ok, compiled} <- runtime.load(wasm), do: {:ok, %Guest{runtime: runtime, compiled: compiled}}
  end
end

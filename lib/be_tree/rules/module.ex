defmodule BeTree.Rules.Module do
  @moduledoc false
  # The WebAssembly module of rules.

  alias BeTree.{Error, Guest}
  alias BeTree.Engine.Instance

  @doc "Returns the module. It is read and compiled once for each runtime and kept for the life of the VM."
  @spec built_in(module) :: {:ok, Guest.t()} | {:error, Error.t()}
  def built_in(runtime), do: Instance.built_in(runtime, "be_tree_rules.wasm", &load/2)

  @doc "Returns an instance with the rules of `input`, as docs/abi.md describes it. It compiles them in slices, and cannot be cut off."
  @spec compile(Guest.t(), pos_integer, binary) :: {:ok, BeTree.Runtime.instance()} | {:error, Error.t()}
  def compile(%Guest{runtime: runtime} = guest, memory, input) do
    arguments = [byte_size(input)]

    with {:ok, instance} <- Instance.instantiate(guest, memory),
         {:ok, _nothing} <- Instance.call(runtime, instance, "be_tree_rules", arguments, input, scheduler: :whole),
         do: {:ok, instance}
  end

  defp load(wasm, runtime) do
    with {:ok, compiled} <- runtime.load(wasm), do: {:ok, %Guest{runtime: runtime, compiled: compiled}}
  end
end

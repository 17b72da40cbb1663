defmodule BeTree.Rules.Module do
  @moduledoc false
  # The WebAssembly module of rules.

  alias BeTree.{Error, Guest}
  alias BeTree.Engine.Instance

  @file_name "be_tree_rules.wasm"

  @doc "Returns the module. It is read and compiled once for each runtime and kept for the life of the VM."
  @spec built_in(module) :: {:ok, Guest.t()} | {:error, Error.t()}
  def built_in(runtime) do
    with nil <- :persistent_term.get({__MODULE__, runtime}, nil),
         {:ok, wasm} <- Instance.read_built_in(@file_name),
         {:ok, compiled} <- runtime.load(wasm) do
      guest = %Guest{runtime: runtime, compiled: compiled}
      :persistent_term.put({__MODULE__, runtime}, guest)
      {:ok, guest}
    else
      %Guest{} = guest -> {:ok, guest}
      {:error, error} -> {:error, error}
    end
  end
end

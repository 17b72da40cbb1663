defmodule BeTree.Sandbox.Module do
  @moduledoc "A module is WebAssembly code that `BeTree.Sandbox.load/1` compiled. Its fields are private."

  @enforce_keys [:compiled]
  defstruct @enforce_keys

  @type t :: %__MODULE__{compiled: BeTree.Runtime.compiled()}

  defimpl Inspect do
    def inspect(%{compiled: compiled}, _options) do
      case BeTree.Runtime.Wasmtime.exports(compiled) do
        [_one] -> "#BeTree.Sandbox.Module<1 export>"
        exports -> "#BeTree.Sandbox.Module<#{length(exports)} exports>"
      end
    end
  end
end

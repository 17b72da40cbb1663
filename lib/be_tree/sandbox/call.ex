defmodule BeTree.Sandbox.Call do
  @moduledoc "A call between two slices, as `BeTree.Sandbox.start/4` returns it. Its fields are private."

  alias BeTree.Call.Slices

  @enforce_keys [:slices]
  defstruct @enforce_keys

  @type t :: %__MODULE__{slices: struct}

  defimpl Inspect do
    def inspect(%{slices: slices}, _options) do
      "#BeTree.Sandbox.Call<#{Slices.count(slices)}, #{slices.fuel} fuel>"
    end
  end
end

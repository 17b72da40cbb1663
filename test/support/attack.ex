defmodule BeTree.Test.Attack do
  @moduledoc false
  # The sizes of the attacks in test/attacks/: small ones in `make test`, full ones in `make attack`, which sets
  # BE_TREE_ATTACK=full.

  @doc "Returns `small`, or `full` in `make attack`."
  def size(small, full), do: if(full?(), do: full, else: small)

  @doc "Returns whether this is `make attack`."
  def full?, do: System.get_env("BE_TREE_ATTACK") == "full"
end

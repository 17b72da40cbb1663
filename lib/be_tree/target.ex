defmodule BeTree.Target do
  @moduledoc false
  # What can be searched: a tree, or a published index. Whatever searches asks here for the handle that its target stands
  # for; both kinds have the fields runtime, instance and fuel_per_reduction.

  alias BeTree.Index

  @type t :: BeTree.t() | Index.t()

  @doc "The handle to search, or an `ArgumentError`."
  @spec resolve(t) :: BeTree.t() | Index.t()
  def resolve(%BeTree{} = tree), do: tree
  def resolve(%Index{} = index), do: index

  def resolve(other) do
    raise ArgumentError, "what is searched is a tree or a published index, got: #{inspect(other)}"
  end
end

defmodule BeTree.Call.Handle do
  @moduledoc false
  # Resolves a target to the handle of one index: a tree, a published index or a server's view. Handles have the fields runtime,
  # instance and fuel_per_reduction. A cluster has no handle, because it has several indexes.

  import BeTree.Input.Limits, only: [is_name: 1]

  alias BeTree.Cluster.Shards
  alias BeTree.{Error, Index, Tree}
  alias BeTree.Input.Describe
  alias BeTree.Server.View

  @type t :: BeTree.target() | View.t()

  @doc """
  Returns the handle to search, or an error if there is no such server. Raises an `ArgumentError` for other
  terms.
  """
  @spec resolve(t) :: BeTree.t() | Index.t() | View.t() | {:error, Error.t()}
  def resolve(%Tree{} = tree), do: tree
  def resolve(%Index{} = index), do: index
  def resolve(%View{} = view), do: view

  def resolve(name) when is_name(name) do
    with {:ok, view} <- View.fetch(name), do: view
  end

  def resolve(%Shards{}) do
    raise ArgumentError,
          "a cluster is not searched step by step, and has no profile: call BeTree.search/3, or the function for each shard"
  end

  def resolve(other) do
    # Prints the kind only: with swapped arguments this term is the event.
    raise ArgumentError,
          "expected a tree, a published index, a server's name or a cluster, got: #{Describe.kind(other)}"
  end

  @doc "Raises the `ArgumentError` of a target that cannot be changed or published."
  @spec no_tree!(term) :: no_return
  def no_tree!(other) do
    raise ArgumentError,
          "expected a tree to change or publish, or the name of a server to change, got: #{Describe.value(other)}"
  end

  @doc "Returns a handle with the schema of the target."
  @spec handle(t) :: {:ok, BeTree.t() | Index.t()} | {:error, Error.t()}
  def handle(target) do
    case resolve(target) do
      {:error, error} -> {:error, error}
      %View{name: name} -> with {:ok, %{index: index}} <- View.base(name), do: {:ok, index}
      handle -> {:ok, handle}
    end
  end
end

defmodule BeTree.Engine.Target do
  @moduledoc false
  # Resolves the target of a search: a tree, a published index, or the name of a server. The result is a handle, or a
  # server's view, which has two handles. Handles have the fields runtime, instance and fuel_per_reduction.

  alias BeTree.{Error, Index, Tree}
  alias BeTree.Engine.Describe
  alias BeTree.Server.View

  @type t :: BeTree.target() | View.t()

  @doc "Returns the handle or the view to search, or an error if no such server runs. Others raise an `ArgumentError`."
  @spec resolve(t) :: BeTree.t() | Index.t() | View.t() | {:error, Error.t()}
  def resolve(%Tree{} = tree), do: tree
  def resolve(%Index{} = index), do: index
  def resolve(%View{} = view), do: view

  def resolve(name) when is_atom(name) and name not in [nil, true, false] do
    with {:ok, view} <- View.of(name), do: plain(view)
  end

  def resolve(other) do
    raise ArgumentError,
          "a search takes a tree, a published index or a server's name, got: #{Describe.value(other)}"
  end

  @doc "Returns `{:ok, handle}` with one handle that has the target's attributes."
  @spec handle(t) :: {:ok, BeTree.t() | Index.t()} | {:error, Error.t()}
  def handle(target) do
    case resolve(target) do
      {:error, error} -> {:error, error}
      %View{base: base} -> {:ok, base}
      handle -> {:ok, handle}
    end
  end

  # A view without a delta and deletions is its base.
  defp plain(%View{base: base, delta: nil, deleted: nil}), do: base
  defp plain(view), do: view
end

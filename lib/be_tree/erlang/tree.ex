defmodule BeTree.Erlang.Tree do
  @moduledoc false
  # What a reference to a tree holds, the errors of searching it, and what is asked of it beside searches.

  alias BeTree.{Answer, Domain, Error, Guest}
  alias BeTree.Erlang.{Domains, Reference}

  @enforce_keys [:tree, :inserted, :reasons]
  defstruct @enforce_keys

  @typedoc """
  The handle without its domains, which each look at the reference would copy; a counter of insertions; and, where
  reasons are kept, the name of each.
  """
  @type t :: %__MODULE__{tree: BeTree.t(), inserted: :atomics.atomics_ref(), reasons: tuple | nil}

  @doc "A reference to a new tree over what erl-be-tree calls domains, which tells reasons or does not."
  @spec make(term, boolean) :: reference
  def make(domains, with_reasons) do
    domains = Domains.parse(domains)

    with {:ok, tree} <- BeTree.new(domains),
         :ok <- if(with_reasons, do: keep_reasons(tree), else: :ok) do
      reasons = if with_reasons, do: reasons(domains)
      Reference.new(:tree, %__MODULE__{tree: %{tree | domains: []}, inserted: :atomics.new(1, []), reasons: reasons})
    else
      {:error, error} -> fail(error)
    end
  end

  defp keep_reasons(tree) do
    with {:ok, ""} <- Guest.call(tree.runtime, tree.instance, "be_tree_keep_reasons", [], nil) do
      :ok
    else
      {:ok, other} -> {:error, Answer.bad("#{byte_size(other)} bytes where it has nothing to say")}
      {:error, error} -> {:error, error}
    end
  end

  # In the order of docs/abi.md. An expression that is false whatever the event has no attribute to name.
  defp reasons(domains) do
    names = for %Domain{name: name} <- domains, do: String.to_existing_atom(name)
    List.to_tuple(names ++ [:geo, :no_reason, :invalid_event])
  end

  @doc "What the reference holds, or a badarg."
  @spec open(reference) :: t
  def open(reference), do: Reference.open(:tree, reference)

  @doc "Raises an error: a badarg where it is the caller's input that is wrong."
  @spec fail(Error.t()) :: no_return
  def fail(%Error{kind: kind}) when kind in [:type, :out_of_bounds, :missing_attribute, :syntax, :not_found] do
    :erlang.error(:badarg)
  end

  def fail(%Error{} = error), do: raise(error)

  @doc "A picture of the tree in Graphviz's language."
  @spec draw(t) :: binary
  def draw(%__MODULE__{tree: tree}) do
    case Guest.call(tree.runtime, tree.instance, "be_tree_draw", [], nil) do
      {:ok, picture} -> picture
      {:error, error} -> fail(error)
    end
  end
end

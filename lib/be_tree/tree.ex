defmodule BeTree.Tree do
  @moduledoc """
  A tree is a mutable index. `BeTree.new/2` returns one; the functions of `BeTree` change it and search it.

      iex> {:ok, tree} = BeTree.new(age: :integer)
      iex> BeTree.insert(tree, 1, "age >= 21")
      :ok
      iex> inspect(tree) =~ "#BeTree<1 expression, "
      true

  A tree holds one instance of the index module and runs one operation at a time. Any process may use it. Its memory is
  freed once no process refers to it.
  """

  alias BeTree.{Domain, Guest}

  @enforce_keys [:runtime, :instance, :fuel_per_reduction, :guest, :schema, :memory]
  defstruct @enforce_keys

  @typedoc "A handle. Its fields are private."
  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          fuel_per_reduction: pos_integer,
          guest: Guest.t(),
          schema: [Domain.t()],
          memory: pos_integer
        }

  defimpl Inspect do
    alias BeTree.Engine.{Describe, Instance}
    alias BeTree.Error

    def inspect(%{runtime: runtime, instance: instance} = tree, _options) do
      info = runtime.info(instance)
      "#BeTree<#{content(tree, info)}, #{Describe.megabytes(info.memory)}>"
    end

    # Printing a tree does not wait until another process is done with it.
    defp content(_tree, %{state: state}) when state != :free, do: state

    defp content(tree, _info) do
      case Instance.info(tree.runtime, tree.instance, 0) do
        {:error, %Error{kind: :timeout}} -> :running
        {:ok, %{expressions: count}} -> Describe.expressions(count)
        {:error, error} -> error.kind
      end
    end
  end
end

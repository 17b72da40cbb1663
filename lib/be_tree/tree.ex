defmodule BeTree.Tree do
  @moduledoc """
  A tree is a mutable index. `BeTree.new/2` returns one; the functions of `BeTree` change it and search it.

      iex> {:ok, tree} = BeTree.new(age: :integer)
      iex> BeTree.insert(tree, 1, "age >= 21")
      :ok
      iex> inspect(tree) =~ "#BeTree<1 expression, "
      true

  A tree holds one instance of the index module and runs one operation at a time. Any process may use a tree. Its memory is
  freed once no process refers to the tree.
  """

  alias BeTree.{Domain, Error, Guest}
  alias BeTree.Call.Instance

  @enforce_keys [:runtime, :instance, :fuel_per_reduction, :guest, :schema, :forgiving, :memory]
  defstruct @enforce_keys

  @typedoc "A handle. Its fields are private."
  @type t :: %__MODULE__{
          runtime: module,
          instance: BeTree.Runtime.instance(),
          fuel_per_reduction: pos_integer,
          guest: Guest.t(),
          schema: [Domain.t()],
          forgiving: boolean,
          memory: pos_integer
        }

  @doc false
  # Returns a tree that begins as a snapshot of `source`, a tree or an index, and may take `memory` bytes.
  @spec from_snapshot(t | BeTree.Index.t(), BeTree.Runtime.snapshot(), pos_integer) :: {:ok, t} | {:error, Error.t()}
  def from_snapshot(source, snapshot, memory) do
    with {:ok, instance} <- Instance.instantiate(source.guest, memory, snapshot) do
      fields = Map.take(source, [:runtime, :fuel_per_reduction, :guest, :schema, :forgiving])
      {:ok, struct!(__MODULE__, Map.merge(fields, %{instance: instance, memory: memory}))}
    end
  end

  defimpl Inspect do
    alias BeTree.Input.Describe

    def inspect(%{runtime: runtime, instance: instance}, _options) do
      info = runtime.info(instance)
      "#BeTree<#{Describe.content(info, fn -> count(runtime, instance) end)}, #{Describe.megabytes(info.memory)}>"
    end

    defp count(runtime, instance) do
      with {:ok, info} <- Instance.info(runtime, instance, 0), do: {:ok, Describe.expressions(info.expressions)}
    end
  end
end

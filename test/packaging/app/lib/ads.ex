defmodule Ads do
  @moduledoc "An application that uses BeTree, for the test of releases."

  @doc "Prints the runtime, and the ids that an event finds in a tree and in its published index."
  @spec main() :: :ok
  def main do
    {:ok, tree} = BeTree.new(age: :integer, country: :string)
    :ok = BeTree.insert(tree, 1, "age >= 21 and country in ('CA', 'US')")
    :ok = BeTree.insert(tree, 2, "age < 65")
    {:ok, index} = BeTree.publish(tree)
    event = %{age: 30, country: "CA"}
    {:ok, of_tree} = BeTree.search(tree, event)
    {:ok, of_index} = BeTree.search(index, event)
    IO.puts("#{inspect(BeTree.Runtime.default())} finds #{inspect(of_tree)} and #{inspect(of_index)}")
  end
end

defmodule BeTree.Call.InstanceOptions do
  @moduledoc false
  # The options of functions that make instances.

  alias BeTree.Input.{Check, Limits}
  alias BeTree.{Fuel, Guest}

  @doc "Returns the definitions of these options, in this order."
  @spec take([atom]) :: BeTree.Input.Options.definitions()
  def take(names), do: for(name <- names, do: {name, definition(name)})

  defp definition(:memory) do
    [
      type: {:bytes, 1, Limits.max_u64()},
      default: Limits.default_memory(),
      default_doc: "1 GiB",
      doc: "the bytes of memory that the index may take. More is refused as `:out_of_memory`"
    ]
  end

  defp definition(:fuel_per_reduction) do
    [
      type: :positive,
      default: {:computed, &Fuel.per_reduction/0},
      default_doc: "`BeTree.Fuel.per_reduction/0`",
      doc: "the fuel of a reduction (`BeTree.Fuel`)"
    ]
  end

  defp definition(:guest) do
    [
      type: {:check, "a binary or a BeTree.Guest", &Guest.option?/1},
      doc: "an index module in place of the built-in one: its bytes, or a loaded `BeTree.Guest`"
    ]
  end

  defp definition(:runtime) do
    [
      type: {:check, "a module that implements BeTree.Runtime", &Check.runtime?/1},
      default: {:computed, &BeTree.Runtime.default/0},
      default_doc: "`BeTree.Runtime.default/0`",
      doc: "the `BeTree.Runtime` that runs the index module"
    ]
  end

  defp definition(:replicas) do
    [
      type: {:integer, 1, Limits.max_replicas()},
      default: {:computed, &Limits.default_replicas/0},
      default_doc: "twice the number of online schedulers",
      doc:
        "the number of searches that may run at once, up to #{Limits.max_replicas()}. A replica is made when it is " <>
          "first needed, and each may take as much memory as the tree"
    ]
  end

  defp definition(:queue) do
    [
      type: {:integer, 0, Limits.max_replicas()},
      default: Limits.default_queue(),
      default_doc: "10,000",
      doc:
        "the number of callers that may wait for a replica, up to #{Limits.max_replicas()}. The next one is refused as " <>
          "`:overloaded`"
    ]
  end
end

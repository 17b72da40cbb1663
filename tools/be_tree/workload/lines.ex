defmodule BeTree.Workload.Lines do
  @moduledoc false
  # Writes the files of a workload in be-tree's lines.

  alias BeTree.Domain

  @spec files(module, BeTree.Workload.parameters()) :: [{role :: atom, name :: String.t(), lines :: Enumerable.t()}]
  def files(workload, parameters) do
    [
      {:schema, "betree_defs", parameters |> workload.schema() |> Stream.map(&[domain(&1), ?\n])},
      {:expressions, "betree_exprs", parameters |> workload.expressions() |> Stream.map(&[&1, ?\n])},
      {:events, "betree_events", parameters |> workload.events() |> Stream.map(fn {:json, json} -> [json, ?\n] end)}
    ]
  end

  # `name|type|optional`, then the bounds.
  @spec domain(Domain.t()) :: String.t()
  def domain(%Domain{} = domain) do
    type = domain.type |> Atom.to_string() |> String.replace("_", " ")
    bounds = for bound <- [domain.min, domain.max, domain.count], bound != nil, do: to_string(bound)
    Enum.join([domain.name, type, domain.optional | bounds], "|")
  end
end

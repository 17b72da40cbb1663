defmodule BeTreeExchange.Status do
  @moduledoc false
  # What this node tells about its indexes: counters, bindings, bytes of memory.

  alias BeTree.Server
  alias BeTreeExchange.{Counters, Records, Table}

  @doc "Returns the numbers of all exchanges with an index on this node."
  @spec all() :: [{Records.name(), keyword(non_neg_integer)}]
  def all, do: for({name, row} <- Table.all(), do: {name, numbers(row)})

  @doc "Returns the numbers of an exchange, or an empty list if it has no index on this node."
  @spec of(Records.name()) :: keyword(non_neg_integer)
  def of(name) do
    case Table.find(name) do
      nil -> []
      row -> numbers(row)
    end
  end

  defp numbers(row), do: Counters.all(row.counters) ++ size(row.server)

  defp size(server) do
    case Server.info(server, timeout: 1_000) do
      {:ok, info} -> [bindings: info.expressions, memory: info.memory_bytes + info.replicas.bytes]
      {:error, _not_now} -> []
    end
  end
end

defmodule BeTree.PubSub.Gauges do
  @moduledoc false
  # The measurements of the event [:be_tree, :pub_sub, :measure] (BeTree.Telemetry).

  alias BeTree.Error
  alias BeTree.PubSub.Table

  @doc "Returns the measurements of a pubsub, from the sizes of its tables."
  @spec read(atom) :: {:ok, %{atom => number}} | {:error, Error.t()}
  def read(name) do
    with {:ok, table} <- Table.fetch(name) do
      sizes = %{
        subscriptions: :ets.info(table.rows, :size),
        subscribers: :ets.info(table.subscribers, :size),
        full: :ets.info(table.full, :size)
      }

      # The tables may have ended meanwhile.
      if :undefined in Map.values(sizes), do: Table.missing(name), else: {:ok, sizes}
    end
  end
end

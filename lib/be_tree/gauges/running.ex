defmodule BeTree.Gauges.Running do
  @moduledoc false
  # Finds by their tables what runs on this node, so that nothing registers for gauges, and no process keeps a list. A table
  # of the name of a server, an output, a pubsub or tenants has a row that no other table has. Servers whose names are not atoms have
  # rows in the table of BeTree.Server.Names, and servers of rules in that of their subscribers.

  alias BeTree.Output.Settings
  alias BeTree.{PubSub, Tenants}
  alias BeTree.Rules.Server.Subscribers
  alias BeTree.Server.{Names, Table}

  @doc "Returns the names by kind. The kinds whose gauges wait for processes come last."
  @spec names() :: [{BeTree.Gauges.kind(), [term]}]
  def names do
    named = Enum.filter(:ets.all(), &is_atom/1)

    [
      output: Enum.filter(named, &match?({:ok, _queue}, Settings.fetch(&1, :queue))),
      pub_sub: Enum.filter(named, &match?({:ok, _table}, PubSub.Table.fetch(&1))),
      tenants: Enum.filter(named, &match?({:ok, _directory}, Tenants.Directory.fetch(&1))),
      server: servers(named),
      rules: Subscribers.running()
    ]
  end

  defp servers(named),
    do: for(table <- named ++ Names.tables(), {:ok, tables} <- [Table.fetch(table)], do: tables.server)
end

defmodule BeTree.Test.Servers do
  @moduledoc "Finds the processes of servers."

  alias BeTree.Server.Table

  @doc "Returns the process that makes the changes of a server, or `nil` if it does not run."
  def process(name) do
    pid = Table.process(name)
    if pid && Process.alive?(pid), do: pid
  rescue
    ArgumentError -> nil
  end

  @doc "Returns the keeper of a server."
  def keeper(name) do
    {:dictionary, dictionary} = name |> process() |> Process.info(:dictionary)
    dictionary |> Keyword.fetch!(:"$ancestors") |> hd()
  end
end

defmodule BeTree.Test.Servers do
  @moduledoc "Starts servers, and finds their processes."

  alias BeTree.Server.Table

  @doc "Starts a server under a new name for the duration of the test, and returns the name."
  def start(options) do
    name = new_name()
    ExUnit.Callbacks.start_supervised!({BeTree.Server, Keyword.merge([name: name], options)}, id: name)
    name
  end

  @doc "Returns an unused name."
  def new_name, do: :"server_#{System.unique_integer([:positive])}"

  @doc "Returns the writer of a server, or `nil` if it does not run."
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

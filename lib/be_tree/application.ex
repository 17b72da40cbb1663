defmodule BeTree.Application do
  @moduledoc false
  # Starts the process that forgets the names of servers that ended, which only servers whose names are not atoms need, and the process
  # that forgets the subscribers of rules that ended. The supervisor owns the tables of both.

  use Application
  use Supervisor

  alias BeTree.Rules.Server.Subscribers
  alias BeTree.Server.Names

  @impl Application
  def start(_type, _arguments), do: Supervisor.start_link(__MODULE__, [], name: __MODULE__)

  @impl Supervisor
  def init(_argument) do
    Names.new()
    Subscribers.new()
    Supervisor.init([Names, Subscribers], strategy: :one_for_one)
  end
end

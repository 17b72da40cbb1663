defmodule BeTree.Application do
  @moduledoc false
  # Starts the process that forgets the names of servers that ended. The supervisor owns the table of these names. Only servers
  # whose names are not atoms need it.

  use Application
  use Supervisor

  alias BeTree.Server.Names

  @impl Application
  def start(_type, _arguments), do: Supervisor.start_link(__MODULE__, [], name: __MODULE__)

  @impl Supervisor
  def init(_argument) do
    Names.new()
    Supervisor.init([Names], strategy: :one_for_one)
  end
end

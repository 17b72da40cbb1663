defmodule BeTree.PubSub.Nodes do
  @moduledoc false
  # Supervises the processes that connect the nodes: the scope of `:pg`, the routers, and `BeTree.PubSub.Peers`. All of them start again
  # with the scope, which forgets its members when it ends.

  use Supervisor

  alias BeTree.PubSub.{Peers, Router, Table}

  @max_routers 8

  @spec start_link({Table.t(), keyword}) :: Supervisor.on_start()
  def start_link(argument), do: Supervisor.start_link(__MODULE__, argument)

  @impl Supervisor
  def init({table, restarts}) do
    scope = %{id: :scope, start: {:pg, :start_link, [table.scope]}}
    count = min(System.schedulers_online(), @max_routers)

    routers =
      for place <- 0..(count - 1), do: Supervisor.child_spec({Router, {table, place, count}}, id: {Router, place})

    # The order: rest_for_one would restart the routers after one that was killed.
    children = [
      scope,
      %{id: :members, type: :supervisor, start: {__MODULE__, :start_members, [table, routers, restarts]}}
    ]

    Supervisor.init(children, [strategy: :rest_for_one] ++ restarts)
  end

  @doc false
  @spec start_members(Table.t(), [Supervisor.child_spec()], keyword) :: Supervisor.on_start()
  def start_members(table, routers, restarts),
    do: Supervisor.start_link(routers ++ [{Peers, table}], [strategy: :one_for_one] ++ restarts)
end

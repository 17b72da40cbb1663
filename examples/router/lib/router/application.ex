defmodule Router.Application do
  @moduledoc false
  use Application

  @impl Application
  def start(_type, _arguments) do
    [schema, limit, port] = for key <- [:schema, :limit, :port], do: Application.fetch_env!(:router, key)

    children = [
      {BeTree.PubSub, name: Router.Alerts, schema: schema, limit: limit},
      {DynamicSupervisor, name: Router.Connections},
      {Router.Listener, port}
    ]

    # Connections have lost their subscriptions if the pubsub ended, so they end too.
    Supervisor.start_link(children, strategy: :rest_for_one, name: Router.Supervisor)
  end
end

defmodule BeTreeExchange.Application do
  @moduledoc false
  use Application

  alias BeTreeExchange.{Follower, Prometheus, Table}

  @impl Application
  def start(_type, _arguments) do
    Table.new()
    Prometheus.register()
    Supervisor.start_link([Follower], strategy: :one_for_one, name: BeTreeExchange.Supervisor)
  end

  @impl Application
  def stop(_state), do: Prometheus.deregister()
end

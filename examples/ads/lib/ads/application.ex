defmodule Ads.Application do
  @moduledoc false
  use Application

  @impl Application
  def start(_type, _arguments) do
    dir = Application.fetch_env!(:ads, :dir)
    schema = Application.fetch_env!(:ads, :schema)
    File.mkdir_p!(dir)

    children = [
      {BeTree.Server, name: Ads.Campaigns, schema: schema, dir: Path.join(dir, "campaigns"), schema_change: :migrate},
      {Ads.Offers, Path.join(dir, "offers")},
      {Ads.Web, port: Application.fetch_env!(:ads, :port), dir: dir}
    ]

    Supervisor.start_link(children, strategy: :one_for_one, name: Ads.Supervisor)
  end
end

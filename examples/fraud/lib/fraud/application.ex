defmodule Fraud.Application do
  @moduledoc false
  use Application

  @impl Application
  def start(_type, _arguments) do
    [dir, rules, clock] = for key <- [:dir, :rules, :clock], do: Application.fetch_env!(:fraud, key)

    children = [
      # If the file has other rules than the folder, the start swaps them and keeps the facts.
      {BeTree.Rules.Server, name: Fraud.Rules, rules: File.read!(rules), clock: clock, dir: Path.join(dir, "rules")},
      {Fraud.Desk, Path.join(dir, "desk")}
    ]

    # The desk subscribes again if the rules start again.
    Supervisor.start_link(children, strategy: :rest_for_one, name: Fraud.Supervisor)
  end
end

defmodule Flags.Application do
  @moduledoc false
  use Application

  @impl Application
  def start(_type, _arguments) do
    [dir, poll] = for key <- [:dir, :poll], do: Application.fetch_env!(:flags, key)
    Supervisor.start_link([{Flags.Store, dir: dir, poll: poll}], strategy: :one_for_one, name: Flags.Supervisor)
  end
end

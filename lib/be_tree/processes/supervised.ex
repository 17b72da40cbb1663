defmodule BeTree.Processes.Supervised do
  @moduledoc false
  # The start of a named supervisor that users put into their supervision tree.

  alias BeTree.Error
  alias BeTree.Input.{Describe, Options}

  @doc "Returns the child specification of a supervisor, whose module has `start_link/1` with the option `:name`."
  @spec child_spec(module, keyword) :: Supervisor.child_spec()
  def child_spec(module, options) do
    Options.keyword!(options)
    %{id: {module, options[:name]}, start: {module, :start_link, [options]}, type: :supervisor}
  end

  @doc """
  Starts a supervisor, which makes an ETS table of its name. Returns the error of a child that could not start without the wrapping of
  the supervisor, and an error of kind `:overloaded` if another process has a table of this name.
  """
  @spec start_link(module, term, GenServer.name()) :: Supervisor.on_start() | {:error, Error.t()}
  def start_link(module, argument, name) do
    if free?(name) do
      # The supervisor takes the name first, so one of many concurrent starts makes the tables.
      case Supervisor.start_link(module, argument, name: name) do
        {:error, {:shutdown, {:failed_to_start_child, _child, %Error{} = error}}} -> {:error, error}
        other -> other
      end
    else
      {:error, %Error{kind: :overloaded, message: "another ETS table has the name #{Describe.value(name)}"}}
    end
  end

  # A table of another process has the name for as long as that process lives. A supervisor has the name before its table.
  defp free?(name) when is_atom(name) do
    owner = :ets.info(name, :owner)
    owner == :undefined or owner == Process.whereis(name) or not Process.alive?(owner)
  end

  defp free?(_name), do: true
end

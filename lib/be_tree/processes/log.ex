defmodule BeTree.Processes.Log do
  @moduledoc false
  # Messages to operators. They have no domain: the handler of Erlang, which is the only one where Elixir's Logger does not run, drops
  # messages of any domain but its own. Filters know them by the metadata `application: :be_tree`.

  @metadata %{application: :be_tree}

  @doc "Logs a fault that someone must mend, or by which work was lost."
  @spec error(String.t()) :: :ok
  def error(text), do: :logger.error("BeTree: " <> text, @metadata)

  @spec warning(String.t()) :: :ok
  def warning(text), do: :logger.warning("BeTree: " <> text, @metadata)

  @doc "Logs an event of normal operation that an operator should know of."
  @spec notice(String.t()) :: :ok
  def notice(text), do: :logger.notice("BeTree: " <> text, @metadata)
end

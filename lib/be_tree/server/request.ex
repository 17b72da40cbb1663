defmodule BeTree.Server.Request do
  @moduledoc false
  # Requests to the process of a server, by the server's name.

  alias BeTree.Engine.Describe
  alias BeTree.Error
  alias BeTree.Server.{Table, View}

  @doc "Calls the process of the server `name` and returns its reply, or an error if none runs."
  @spec call(BeTree.Server.name(), term) :: term
  def call(name, request) when is_atom(name) and name not in [nil, true, false] do
    if Table.server?(name), do: ask(name, request), else: View.missing(name)
  end

  def call(name, _request), do: raise(ArgumentError, "a server's name is an atom, got: #{Describe.value(name)}")

  defp ask(name, request) do
    with {:raise, message} <- GenServer.call(name, request, :infinity), do: raise(ArgumentError, message)
  catch
    :exit, {:noproc, _call} ->
      {:error,
       %Error{
         kind: :not_found,
         message: "no BeTree.Server called #{Describe.value(name)} runs; it may be starting again"
       }}

    :exit, {_reason, _call} ->
      message = "the server #{Describe.value(name)} ended before it replied: the change may have been made or not"

      {:error, %Error{kind: :not_found, message: message}}
  end
end

defmodule BeTree.Server.Request do
  @moduledoc false
  # Requests to the process of a server, by the server's name.

  alias BeTree.Engine.Describe
  alias BeTree.Error
  alias BeTree.Server.{Table, View}

  @doc """
  Calls the process of the server `name` and returns its reply. Returns an error if no such process runs, or if the reply takes
  longer than `timeout` milliseconds. The process then still executes the request.
  """
  @spec call(BeTree.Server.name(), term, timeout) :: term
  def call(name, request, timeout)

  def call(name, request, timeout) when is_atom(name) and name not in [nil, true, false] do
    if Table.server?(name), do: send_to(name, request, timeout), else: View.missing(name)
  end

  def call(name, _request, _timeout),
    do: raise(ArgumentError, "a server's name is an atom, got: #{Describe.value(name)}")

  defp send_to(name, request, timeout) do
    with {:raise, message} <- GenServer.call(name, request, timeout), do: raise(ArgumentError, message)
  catch
    :exit, {:noproc, _call} ->
      error(:not_found, "no BeTree.Server called #{Describe.value(name)} runs; it may be starting again")

    :exit, {:timeout, _call} ->
      error(
        :timeout,
        "the server #{Describe.value(name)} did not reply within #{timeout} ms: the change may still be made"
      )

    :exit, {_reason, _call} ->
      error(
        :not_found,
        "the server #{Describe.value(name)} ended before it replied: the change may have been made or not"
      )
  end

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end

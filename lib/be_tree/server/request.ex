defmodule BeTree.Server.Request do
  @moduledoc false
  # Requests to the process of a server, by the server's name.

  import BeTree.Input.Limits, only: [is_name: 1]

  alias BeTree.Input.{Describe, Subscription}
  alias BeTree.{Error, Telemetry}
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Names, Table}
  alias BeTree.Target.{Ids, View}

  @doc """
  Calls the process of the server `name` and returns its reply. Returns an error if no such process runs, or if the reply takes
  longer than `timeout` milliseconds. The process then still executes the request.
  """
  @spec call(BeTree.Server.name(), term, timeout) :: term
  def call(name, request, timeout) do
    with {:ok, table} <- table(name), do: send_to(Table.process(table), name, request, timeout)
  end

  @doc "Returns the table of the server `name`, or an error if there is no such server. Raises for a term that is no name."
  @spec table(BeTree.Server.name() | Names.table()) :: {:ok, Names.table()} | {:error, Error.t()}
  def table(name) when is_name(name) or is_reference(name) do
    with {:ok, table} <- Names.table(name),
         true <- Table.server?(table) do
      {:ok, table}
    else
      _none -> View.no_server(name)
    end
  end

  def table(name), do: check_name!(name)

  @doc "Returns the name of a server, or raises an `ArgumentError` for another term."
  @spec check_name!(term) :: BeTree.Server.name()
  def check_name!(name) when is_name(name), do: name

  def check_name!(other) do
    raise ArgumentError, "a server's name is an atom or {:via, module, term}, got: #{Describe.value(other)}"
  end

  @doc "Returns the kind of the ids of the server `name`."
  @spec kind(BeTree.Server.name() | Names.table()) :: {:ok, Id.kind()} | {:error, Error.t()}
  def kind(name) do
    with {:ok, table} <- table(name), do: kind(table, name)
  end

  defp kind(table, name) do
    {:ok, table |> Table.ids_of() |> Ids.kind()}
  rescue
    # The server ended meanwhile.
    ArgumentError -> View.no_server(name)
  end

  @doc "Like `call/3`, for a change, whose telemetry events it emits."
  @spec change(BeTree.Server.name(), tuple, timeout) :: term
  def change(name, request, timeout) do
    metadata = %{server: name, operation: elem(request, 0)}
    Telemetry.span(:change, metadata, fn -> call(name, request, timeout) end, &counts(request, &1))
  end

  defp counts(_request, {:error, _error}), do: %{put: 0, deleted: 0}
  defp counts({:insert, wires}, _reply), do: %{put: length(wires), deleted: 0}
  defp counts({:insert, wires, :version}, _reply), do: %{put: length(wires), deleted: 0}
  defp counts(_change, {:ok, %{put: _, deleted: _} = counts}), do: Map.take(counts, [:put, :deleted])
  defp counts({:delete, _id}, _reply), do: %{put: 0, deleted: 1}
  defp counts(_swap, _reply), do: %{put: 0, deleted: 0}

  @doc "Inserts one subscription."
  @spec insert(BeTree.Server.name(), Subscription.wire(), timeout) :: :ok | {:error, Error.t()}
  def insert(name, {id, expression, _constants} = wire, timeout) do
    case change(name, {:insert, [wire]}, timeout) do
      {:ok, 1} -> :ok
      {:error, error} -> {:error, alone(error, id, expression)}
    end
  end

  @doc "Inserts one subscription, or replaces the one with its id."
  @spec put(BeTree.Server.name(), Subscription.wire(), timeout) :: :ok | {:error, Error.t()}
  def put(name, {id, expression, _constants} = wire, timeout) do
    case change(name, {:change, [wire], []}, timeout) do
      {:ok, _counts} -> :ok
      {:error, error} -> {:error, alone(error, id, expression)}
    end
  end

  @doc "Turns the error of a list of one subscription into an error of a single subscription."
  @spec alone(Error.t(), term, String.t()) :: Error.t()
  def alone(%Error{position: nil} = error, _id, _expression), do: error

  def alone(error, id, expression) do
    message = String.replace_prefix(error.message, "subscription #{Describe.value(id)}: ", "")
    %{error | message: message, text: expression, position: nil}
  end

  defp send_to(nil, name, _request, _timeout) do
    error(:not_ready, "the server #{Describe.value(name)} is not ready yet")
  end

  defp send_to(pid, name, request, timeout) do
    with {:raise, message} <- GenServer.call(pid, request, timeout), do: raise(ArgumentError, message)
  catch
    :exit, {:noproc, _call} ->
      error(:no_server, "the process of the server #{Describe.value(name)} does not run; it may be starting again")

    :exit, {:timeout, _call} ->
      error(
        :timeout,
        "the server #{Describe.value(name)} did not reply within #{timeout} ms: the change may still be made"
      )

    :exit, {reason, _call} ->
      error(
        :no_server,
        "the server #{Describe.value(name)} ended before it replied#{Describe.because(reason)}: the change may have been made or not"
      )
  end

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end

defmodule BeTree.Rules.Server.Request do
  @moduledoc false
  # Calls of the processes of a server of rules.

  import BeTree.Input.Limits, only: [is_name: 1]

  alias BeTree.Input.{Check, Describe}
  alias BeTree.Processes.Deadline
  alias BeTree.Error
  alias BeTree.Rules.Server

  @doc "Returns the name of a server. Raises for another term."
  @spec name!(term) :: Server.name()
  def name!(name) when is_name(name), do: name
  def name!(other), do: Check.expected!("the name of a server, an atom or {:via, module, term}", other)

  @doc "Calls a process, and returns its reply or an error."
  @spec call(pid | Server.name() | nil, Server.name(), term, Deadline.t()) :: term
  def call(process, name, request, deadline), do: hd(all([{process, request}], name, deadline))

  @doc "Calls several processes at once, and returns their replies or errors in the same order."
  @spec all([{pid | Server.name() | nil, term}], Server.name(), Deadline.t()) :: [term]
  def all(requests, name, deadline) do
    requests
    |> Enum.map(fn
      {nil, _request} -> :none
      {process, request} -> :gen_server.send_request(process, request)
    end)
    |> Enum.map(&response(&1, name, deadline))
  end

  defp response(:none, name, _deadline), do: no_server(name)

  defp response(id, name, deadline) do
    case :gen_server.receive_response(id, Deadline.left(deadline)) do
      {:reply, reply} -> reply
      :timeout -> late(name)
      {:error, {:noproc, _process}} -> no_server(name)
      {:error, {reason, _process}} -> ended(name, reason)
    end
  end

  @doc "Returns an error if the deadline of a call has passed before its turn came."
  @spec in_time(Deadline.t()) :: :ok | {:error, Error.t()}
  def in_time(deadline) do
    if Deadline.passed?(deadline),
      do: error(:timeout, "the call's turn did not come in time, and nothing was done; allow more time"),
      else: :ok
  end

  @doc "Returns an error if an operation moves time beyond the latest that a server takes. The module checks facts."
  @spec check_time(tuple, integer | nil) :: :ok | {:error, Error.t()}
  def check_time({:advance, time}, latest) when latest != nil and time > latest do
    error(
      :out_of_bounds,
      "the time is #{time - latest} milliseconds after the latest that the server takes, its clock's and `max_skew:`; give an earlier " <>
        "one, in milliseconds since 1970"
    )
  end

  def check_time(_operation, _latest), do: :ok

  defp no_server(name) do
    error(
      :no_server,
      "no server #{inspect(name)} runs; start it under a supervisor, or wait until it has started again"
    )
  end

  defp ended(name, reason) do
    error(
      :no_server,
      "the server #{inspect(name)} ended before it replied#{Describe.because(reason)}: the call may have been made or not"
    )
  end

  defp late(name) do
    error(
      :timeout,
      "the server #{inspect(name)} did not reply in time: a call whose turn has not come is not made, one that has begun is made " <>
        "to its end; allow more time"
    )
  end

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end

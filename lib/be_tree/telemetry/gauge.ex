defmodule BeTree.Telemetry.Gauge do
  @moduledoc false
  # Measurements that several kinds of gauges have in common.

  alias BeTree.Error

  @doc "Returns a boolean as a number."
  @spec flag(boolean) :: 0 | 1
  def flag(boolean), do: if(boolean, do: 1, else: 0)

  @doc """
  Returns the measurements of a server from the reply to a call of its `info`, and `queue`, the length of its mailboxes. Of a server that did
  not reply in time they are `busy: 1` and `queue`.
  """
  @spec of_reply({:ok, map} | {:error, Error.t()}, non_neg_integer, (map -> %{atom => number})) ::
          {:ok, %{atom => number}} | {:error, Error.t()}
  def of_reply({:ok, info}, queue, values), do: {:ok, info |> values.() |> Map.merge(%{queue: queue, busy: 0})}
  def of_reply({:error, %Error{kind: :timeout}}, queue, _values), do: {:ok, %{queue: queue, busy: 1}}
  def of_reply({:error, error}, _queue, _values), do: {:error, error}
end

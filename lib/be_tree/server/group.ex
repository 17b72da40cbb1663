defmodule BeTree.Server.Group do
  @moduledoc false
  # The changes that wait for a sync of the journal, which they share (group commit). The tree has them; the table and the replicas
  # do not. The reply to a change that was refused, or that has changed nothing, also waits for the sync, because another change of the group
  # may be the reason.

  alias BeTree.Error
  alias BeTree.Server.Table

  # The replies that share a sync.
  @max_entries 256

  # Entries are `{from, reply, row}`, the last one first. A reply without a change has no row.
  defstruct entries: [], size: 0

  @type t :: %__MODULE__{entries: [{GenServer.from(), term, Table.row() | nil}], size: non_neg_integer}

  @spec new() :: t
  def new, do: %__MODULE__{}

  @doc "Adds a change, or with `nil` for its row a reply without one."
  @spec add(t, GenServer.from(), reply :: term, Table.row() | nil) :: t
  def add(%__MODULE__{entries: entries, size: size}, from, reply, row),
    do: %__MODULE__{entries: [{from, reply, row} | entries], size: size + 1}

  @spec full?(t) :: boolean
  def full?(%__MODULE__{size: size}), do: size >= @max_entries

  @doc "Returns the rows in the order of their versions."
  @spec rows(t) :: [Table.row()]
  def rows(%__MODULE__{entries: entries}), do: for({_from, _reply, row} <- Enum.reverse(entries), row != nil, do: row)

  @doc "Sends each caller its reply."
  @spec acknowledge(t) :: :ok
  def acknowledge(%__MODULE__{entries: entries}),
    do: entries |> Enum.reverse() |> Enum.each(fn {from, reply, _row} -> GenServer.reply(from, reply) end)

  @doc "Sends each caller the error."
  @spec refuse(t, Error.t()) :: :ok
  def refuse(%__MODULE__{entries: entries}, error),
    do: entries |> Enum.reverse() |> Enum.each(fn {from, _reply, _row} -> GenServer.reply(from, {:error, error}) end)
end

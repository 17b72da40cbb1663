defmodule BeTree.Server.Sync do
  @moduledoc false
  # Brings a server to a list of all its subscriptions (`BeTree.Server.sync/3`).
  #
  # The calling process compares the list with the texts in the server's table, because the list may be a stream that only this process
  # can read, such as that of a transaction. It keeps all ids in a table of its own, and the texts that differ. Then the server's process
  # makes the difference as one change.
  #
  # Other changes continue meanwhile. The result is that of a sync at the moment at which it began, followed by the other changes: an id
  # that another call has touched since is left as it is. So a change that is newer than the list survives. Each comparison has the
  # version that inserted the subscription at that moment, or nil, and the server's process compares it again.

  alias BeTree.Error
  alias BeTree.Input.{Check, Subscription}
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Checks, Migration, Table}
  alias BeTree.Target.View

  @enforce_keys [:table, :ids, :kind, :on_error, :in_time]
  defstruct @enforce_keys ++ [rows: 0, puts: [], faults: [], has_all_ids: true]

  @typedoc """
    * `:ids` - a table of `{id, version, :given | :absent}`: the ids of the server when the sync began and of the list;
    * `:in_time` - returns an error when the call has passed its timeout;
    * `:rows` - the rows that were read;
    * `:puts` - `{{wire, version}, position}` of the subscriptions that differ, the last one first;
    * `:faults` - the rows that cannot be read, the last one first;
    * `:has_all_ids` - the id of each of these rows can be read.
  """
  @type t :: %__MODULE__{}

  @typedoc "A subscription to put, or an id to delete, with the version that the server had of it."
  @type touched(what) :: {what, Table.version() | nil}

  @type difference :: %{
          rows: non_neg_integer,
          puts: [{touched(Subscription.wire()), position :: non_neg_integer}],
          absent: [touched(term)],
          faults: [Checks.fault()]
        }

  @doc "Returns an error if a server does not know the texts of its base."
  @spec check_texts(Table.base()) :: :ok | {:error, Error.t()}
  def check_texts(base) do
    with {:error, error} <- Migration.check_texts(base) do
      message =
        "the index was swapped in without its expressions, so they cannot be compared with others; put all subscriptions into a new " <>
          "server"

      {:error, %{error | message: message}}
    end
  end

  @doc "Compares `given` with the subscriptions of a server. With `:stop`, the first row that cannot be read is an error."
  @spec compare(Table.t(), Enumerable.t(), Id.kind(), :stop | :collect, (... -> :ok | {:error, Error.t()})) ::
          {:ok, difference} | {:error, Error.t()}
  def compare(table, given, kind, on_error, in_time) do
    ids = :ets.new(:ids, [:set, :private])

    try do
      sync = %__MODULE__{table: table, ids: ids, kind: kind, on_error: on_error, in_time: in_time}

      with :ok <- Check.enumerable(given, "subscriptions"),
           {:ok, versions} <- look_up(table, &Table.versions/1),
           true = :ets.insert(ids, for({id, version} <- versions, do: {Id.copy(id), version, :absent})),
           %__MODULE__{} = sync <- Enum.reduce_while(given, sync, &add/2) do
        {:ok,
         %{rows: sync.rows, puts: Enum.reverse(sync.puts), absent: absent(sync), faults: Enum.reverse(sync.faults)}}
      end
    after
      :ets.delete(ids)
    end
  end

  # A row whose id cannot be read may belong to any subscription that the list lacks, so the sync deletes none of them.
  defp absent(%{has_all_ids: false}), do: []
  defp absent(%{ids: ids}), do: :ets.select(ids, [{{:"$1", :"$2", :absent}, [], [{{:"$1", :"$2"}}]}])

  defp add(row, %{rows: position} = sync) do
    sync = %{sync | rows: position + 1}

    with :ok <- sync.in_time.(),
         {:ok, wire} <- read(row, sync),
         {:ok, version} <- take(wire, sync),
         {:ok, present} <- look_up(sync.table, &Table.find_with_version(&1, elem(wire, 0))) do
      {:cont, compare_one(wire, version, present, position, sync)}
    else
      {:fault, error} when sync.on_error == :collect ->
        {:cont, %{keep(row, sync) | faults: [Checks.fault(row, error, position) | sync.faults]}}

      {:fault, error} ->
        {:halt, {:error, %{error | position: position}}}

      {:error, error} ->
        {:halt, {:error, error}}
    end
  end

  defp read(row, %{kind: kind}), do: with({:error, error} <- Subscription.new(row, kind), do: {:fault, error})

  # Returns the version that the server had of the subscription when the sync began.
  defp take({id, _text, _constants}, %{ids: ids}) do
    case :ets.lookup(ids, id) do
      [] -> {:ok, give(ids, id, nil)}
      [{_id, version, :absent}] -> {:ok, give(ids, id, version)}
      [{_id, _version, :given}] -> {:fault, Subscription.twice(id)}
    end
  end

  defp give(ids, id, version) do
    :ets.insert(ids, {Id.copy(id), version, :given})
    version
  end

  # A subscription whose row is wrong is not deleted.
  defp keep(row, %{ids: ids} = sync) do
    with {:ok, id} <- id_of(row, sync) do
      with [{id, version, :absent}] <- :ets.lookup(ids, id), do: give(ids, id, version)
      sync
    else
      :error -> %{sync | has_all_ids: false}
    end
  end

  defp id_of(row, %{kind: kind}) when is_tuple(row) and tuple_size(row) in 2..3 do
    id = elem(row, 0)
    if Id.check(id, kind) == :ok, do: {:ok, id}, else: :error
  end

  defp id_of(_row, _sync), do: :error

  # The server may end while the list is read, and its tables with it.
  defp look_up(%{server: server} = table, read) do
    {:ok, read.(table)}
  rescue
    ArgumentError -> View.no_server(server)
  end

  # `version` is that of the server's subscription when the sync began, and `present` the subscription now.
  defp compare_one({_id, text, constants} = wire, version, present, position, sync) do
    case present do
      {:ok, ^version, subscription} ->
        if Subscription.same?({text, constants}, {:ok, subscription}),
          do: sync,
          else: put(wire, version, position, sync)

      :error when version == nil ->
        put(wire, version, position, sync)

      _touched_meanwhile ->
        sync
    end
  end

  defp put(wire, version, position, sync), do: %{sync | puts: [{{wire, version}, position} | sync.puts]}
end

defmodule BeTree.Server.Table do
  @moduledoc false
  # The data that must survive a crash of a server's writer: the base, and the changes since. The tables belong to the
  # server's supervisor and outlive the writer.
  #
  # Every change has a version, one more than the change before. The row of the base has the version of the base. Then
  #
  #   * a subscription with a later version was inserted after the base;
  #   * an id in `deleted` with a later version was deleted from the base, if the base ever had it;
  #   * a subscription with another version is part of the base. It is kept only to build another index from. For that the
  #     subscriptions are complete, unless the base came from elsewhere.
  #
  # A writer may be killed between any two operations here. Each operation leaves the tables unchanged, or changed by a whole
  # change, acknowledged or not. `recover/1` ignores and clears the remains of an interrupted one.

  alias BeTree.Index
  alias BeTree.Engine.Subscription
  alias BeTree.Server.Changes

  @enforce_keys [:name, :subscriptions, :deleted]
  defstruct @enforce_keys

  @type t :: %__MODULE__{name: atom, subscriptions: :ets.tid(), deleted: :ets.tid()}
  @type version :: non_neg_integer

  @type base :: %{id: reference, index: Index.t(), version: version, complete: boolean}

  @typedoc "The changes since the base, up to `version`."
  @type recovered :: %{base: base, version: version, changes: Changes.t()}

  @doc "Returns the tables of a server, owned by the calling process. Searches find the view in the table called `name`."
  @spec new(atom) :: t
  def new(name) do
    table = :ets.new(name, [:named_table, :public, read_concurrency: true])
    :ets.insert(table, {__MODULE__})

    %__MODULE__{
      name: table,
      subscriptions: :ets.new(:subscriptions, [:public]),
      deleted: :ets.new(:deleted, [:public])
    }
  end

  @doc "Returns whether `name` is the table of a server."
  @spec server?(atom) :: boolean
  def server?(name) do
    :ets.lookup(name, __MODULE__) == [{__MODULE__}]
  rescue
    # There is no such table, or it is a private table of another process.
    ArgumentError -> false
  end

  @doc "Returns whether the server's process has ever started."
  @spec started?(t) :: boolean
  def started?(%__MODULE__{name: name}), do: :ets.member(name, :started)

  @spec put_started(t) :: true
  def put_started(%__MODULE__{name: name}), do: :ets.insert(name, {:started})

  @doc "Makes `index` the base with all changes up to `version`."
  @spec put_base(t, base) :: :ok
  def put_base(%__MODULE__{} = table, base) do
    :ets.insert(table.name, {:base, base})
    :ets.select_delete(table.deleted, [{{:_, :"$1"}, [{:"=<", :"$1", base.version}], [true]}])
    unless base.complete, do: clear(table, base.version)
    :ok
  end

  # A base that came from elsewhere has subscriptions of its own.
  defp clear(table, version) do
    :ets.select_delete(table.subscriptions, [{{:_, :"$1", :_, :_}, [{:"=<", :"$1", version}], [true]}])
  end

  @spec insert(t, [Subscription.wire()], version) :: true
  def insert(%__MODULE__{subscriptions: subscriptions}, wires, version) do
    :ets.insert(subscriptions, for({id, text, constants} <- wires, do: {id, version, own(text), constants}))
  end

  # A text that is part of a file would keep the whole file in memory.
  defp own(text) do
    if :binary.referenced_byte_size(text) > byte_size(text), do: :binary.copy(text), else: text
  end

  @spec delete(t, BeTree.id(), version) :: true
  def delete(%__MODULE__{} = table, id, version) do
    :ets.insert(table.deleted, {id, version})
    :ets.delete(table.subscriptions, id)
  end

  @doc "Returns all subscriptions up to `version`, in lists of `count`, if the table is complete."
  @spec subscriptions(t, version, pos_integer) :: Enumerable.t()
  def subscriptions(%__MODULE__{subscriptions: subscriptions}, version, count) do
    match = [{{:"$1", :"$2", :"$3", :"$4"}, [{:"=<", :"$2", version}], [{{:"$1", :"$3", :"$4"}}]}]

    Stream.resource(
      fn ->
        :ets.safe_fixtable(subscriptions, true)
        :ets.select(subscriptions, match, count)
      end,
      fn
        :"$end_of_table" -> {:halt, :done}
        {part, continuation} -> {[part], :ets.select(continuation)}
      end,
      fn _ -> :ets.safe_fixtable(subscriptions, false) end
    )
  end

  @doc "Returns the base and the changes since, or nothing if there is no base yet."
  @spec recover(t) :: recovered | nil
  def recover(%__MODULE__{} = table) do
    case :ets.lookup(table.name, :base) do
      [{:base, base}] -> recover(table, base)
      [] -> nil
    end
  end

  defp recover(table, base) do
    put_base(table, base)
    deleted = :ets.tab2list(table.deleted)
    later = [{{:"$1", :"$2", :"$3", :"$4"}, [{:>, :"$2", base.version}], [{{:"$2", {{:"$1", :"$3", :"$4"}}}}]}]
    inserted = :ets.select(table.subscriptions, later)

    # The writer was killed before it deleted the row.
    for {id, _version} <- deleted, [{_id, version, _text, _constants}] <- [:ets.lookup(table.subscriptions, id)] do
      if version <= base.version, do: :ets.delete(table.subscriptions, id)
    end

    versions = Enum.map(deleted, &elem(&1, 1)) ++ Enum.map(inserted, &elem(&1, 0))

    %{
      base: base,
      version: Enum.max([base.version | versions]),
      changes: %{inserted: inserted, deleted: deleted}
    }
  end
end

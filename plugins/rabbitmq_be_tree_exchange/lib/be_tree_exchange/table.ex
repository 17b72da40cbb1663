defmodule BeTreeExchange.Table do
  @moduledoc false
  # The tables that channels read. The supervisor of the plugin owns them, so they outlive the processes that fill them.

  alias BeTreeExchange.Records

  @indexes :rabbit_be_tree_indexes
  @scratch :rabbit_be_tree_scratch

  @typedoc """
  A complete index: the arguments of its exchange, its configuration, its process, the name of its server, the table of destinations by
  id, the store that it follows, and the number of the last change that it has, in an `:atomics`.
  """
  @type row :: %{
          arguments: list,
          config: BeTreeExchange.Config.t(),
          pid: pid,
          server: atom,
          destinations: :ets.tid(),
          store: BeTreeExchange.Store.kind(),
          last_change: :atomics.atomics_ref(),
          counters: BeTreeExchange.Counters.t()
        }

  @spec new() :: :ok
  def new do
    for table <- [@indexes, @scratch] do
      :ets.new(table, [:named_table, :public, read_concurrency: true])
    end

    :ok
  end

  @doc "Deletes the indexes of processes that ended."
  @spec clear() :: true
  def clear, do: :ets.delete_all_objects(@indexes)

  @spec put(Records.name(), row) :: true
  def put(name, row), do: :ets.insert(@indexes, {name, row})

  @spec delete(Records.name()) :: true
  def delete(name) do
    :ets.delete(@scratch, name)
    :ets.delete(@indexes, name)
  end

  @doc "Returns the index of an exchange, or `nil` if it is not complete, or the plugin has not started."
  @spec find(Records.name()) :: row | nil
  def find(name) do
    case :ets.lookup(@indexes, name) do
      [{_name, row}] -> row
      [] -> nil
    end
  rescue
    ArgumentError -> nil
  end

  @spec all() :: [{Records.name(), row}]
  def all do
    :ets.tab2list(@indexes)
  rescue
    ArgumentError -> []
  end

  @doc "Returns the tree in which bindings of an exchange are checked, with the arguments for which it was made."
  @spec scratch(Records.name(), list) :: BeTree.t() | nil
  def scratch(name, arguments) do
    case :ets.lookup(@scratch, name) do
      [{_name, ^arguments, tree}] -> tree
      _none_or_other -> nil
    end
  rescue
    ArgumentError -> nil
  end

  @spec put_scratch(Records.name(), list, BeTree.t()) :: boolean
  def put_scratch(name, arguments, tree) do
    :ets.insert(@scratch, {name, arguments, tree})
  rescue
    # The plugin has not started.
    ArgumentError -> false
  end
end

defmodule BeTreeExchange.Changes do
  @moduledoc false
  # The last changes of bindings in Khepri, in a table that Khepri fills on each node: a projection.
  #
  # Khepri calls the function of a projection on each node with each change that this node has applied, in the process of the store and in
  # the order of the changes. So the table misses no change: not one whose node was killed before it told the others, nor one that came
  # with a snapshot. The serial number of an exchange, which the broker increments after it has removed bindings, would miss the first.
  #
  #     {number, previous, :put | :delete, binding}    a change; `previous` is the number of the change before it in the same bucket
  #     {{:bucket, hash}, number}                      the last change of the exchanges with this hash
  #
  # Numbers are negative, and increase as long as the node runs, also when the store makes its table anew.

  import BeTreeExchange.Records

  alias BeTreeExchange.Records

  # The version of the function: Khepri keeps the function that was registered first under a name.
  @table :rabbit_be_tree_changes_1

  # A change that has left the table is read as the difference between all bindings. A full table has 5 to 10 MB.
  @kept 10_000

  # An exchange takes the number of its bucket, so that exchanges that are deleted leave nothing behind.
  @buckets 1024

  # Records of Khepri: conditions on the nodes of a path. The data of an exchange are its record.
  @of_this_type {:if_data_matches, :"$1", [{:"=:=", {:element, 3, :"$1"}, :"x-be-tree"}], :undefined}
  @any {:if_name_matches, :any, :undefined}

  @doc "Makes Khepri fill the table, on all nodes, if it does not yet. This needs a majority of the nodes."
  @spec register() :: term
  def register do
    if :ets.whereis(@table) == :undefined do
      pattern = :rabbit_db_binding.khepri_route_path(@any, @of_this_type, @any, @any, @any)

      :khepri.register_projection(:rabbit_khepri.get_store_id(), pattern, projection(), %{
        timeout: 5_000,
        reply_from: :local
      })
    end
  end

  defp projection do
    options = %{
      type: :ordered_set,
      read_concurrency: true,
      standalone_fun_options: %{should_process_function: &extract?/4}
    }

    :khepri_projection.new(@table, &record/4, options)
  end

  # Khepri stores a copy of the function, and refuses calls whose result depends on the node. This exempts the calls that number changes,
  # because the numbers hold on one node only.
  defp extract?(:ets, _function, _arity, _from), do: false
  defp extract?(:erlang, function, _arity, _from) when function in [:unique_integer, :phash2], do: false

  defp extract?(module, function, arity, from),
    do: :khepri_tx_adv.should_process_function(module, function, arity, from)

  # The function of the projection. The data of a route are the set of the bindings between two ends with one key.
  defp record(table, _path, before, now) do
    before = :maps.get(:data, before, :sets.new(version: 2))
    now = :maps.get(:data, now, :sets.new(version: 2))
    add(table, :delete, :sets.to_list(:sets.subtract(before, now)))
    add(table, :put, :sets.to_list(:sets.subtract(now, before)))
  end

  defp add(_table, _operation, []), do: :ok

  defp add(table, operation, [binding | bindings]) do
    bucket = {:bucket, :erlang.phash2(:erlang.element(2, binding), @buckets)}
    number = :erlang.unique_integer([:monotonic])
    # A reader that sees the number finds the change.
    :ets.insert(table, {number, last(:ets.lookup(table, bucket)), operation, binding})
    :ets.insert(table, {bucket, number})
    forget(table, :ets.info(table, :size))
    add(table, operation, bindings)
  end

  defp last([{_bucket, number}]), do: number
  defp last([]), do: 0

  defp forget(table, size) when size > @kept, do: :ets.delete(table, :ets.first(table))
  defp forget(_table, _size), do: :ok

  @doc "Returns the number of the last change that may be one of this exchange, 0 if there was none, or `nil` without a table."
  @spec last_number(Records.name()) :: integer | nil
  def last_number(name) do
    last(:ets.lookup(@table, {:bucket, :erlang.phash2(name, @buckets)}))
  rescue
    ArgumentError -> nil
  end

  @doc "Returns the changes of an exchange after `known`, up to `last`, or `:gap` if the table does not have all of them."
  @spec since(Records.name(), integer | nil, integer) :: {:ok, [{:put | :delete, Records.binding()}]} | :gap
  def since(_name, nil, _known), do: :gap
  def since(name, last, known), do: collect(name, last, known, [])

  defp collect(_name, known, known, changes), do: {:ok, changes}

  defp collect(name, number, known, changes) do
    case :ets.lookup(@table, number) do
      [{_number, previous, operation, binding_record(source: ^name) = binding}] ->
        collect(name, previous, known, [{operation, binding} | changes])

      [{_number, previous, _operation, _binding_of_another_exchange}] ->
        collect(name, previous, known, changes)

      [] ->
        :gap
    end
  rescue
    ArgumentError -> :gap
  end
end

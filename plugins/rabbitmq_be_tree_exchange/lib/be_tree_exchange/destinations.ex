defmodule BeTreeExchange.Destinations do
  @moduledoc false
  # The destinations of an exchange's bindings. Each has a number, which is in the upper bits of the ids of its bindings. So a route
  # looks a destination up once, however many of its bindings are true.
  #
  # A number is never used again: a route that found an id before its binding was deleted must not come to another destination.

  import Bitwise

  alias BeTreeExchange.Records

  # Ids of 59 bits are small integers of the BEAM.
  @binding_bits 28
  @max_binding (1 <<< @binding_bits) - 1
  @max_number (1 <<< 31) - 1

  @enforce_keys [:table, :numbers, :bindings, :last]
  defstruct @enforce_keys

  @typedoc """
  Tables of the destinations by number, which channels read; of the number and the last binding by destination; of the count of bindings
  by number. `last` counts the numbers.
  """
  @type t :: %__MODULE__{table: :ets.tid(), numbers: :ets.tid(), bindings: :ets.tid(), last: :counters.counters_ref()}

  @spec new() :: t
  def new do
    %__MODULE__{
      table: :ets.new(:rabbit_be_tree_destinations, [:public, read_concurrency: true]),
      numbers: :ets.new(:rabbit_be_tree_numbers, [:private]),
      bindings: :ets.new(:rabbit_be_tree_bindings, [:private]),
      last: :counters.new(1, [])
    }
  end

  @doc "Returns an id for a binding to a destination."
  @spec add(t, Records.name()) :: pos_integer
  def add(destinations, name) do
    {number, binding} = next(destinations, name)
    :ets.insert(destinations.numbers, {name, number, binding})
    :ets.update_counter(destinations.bindings, number, 1, {number, 0})
    number <<< @binding_bits ||| binding
  end

  # The index begins anew when the numbers are used up, which takes hundreds of millions of bindings.
  defp next(destinations, name) do
    case :ets.lookup(destinations.numbers, name) do
      [{_name, number, binding}] when binding < @max_binding -> {number, binding + 1}
      [_used_up] -> exit({:shutdown, :no_more_ids})
      [] -> {new_number(destinations, name), 1}
    end
  end

  defp new_number(%{last: last} = destinations, name) do
    number = :counters.get(last, 1) + 1
    if number > @max_number, do: exit({:shutdown, :no_more_ids})
    :counters.put(last, 1, number)
    :ets.insert(destinations.table, {number, name})
    number
  end

  @doc "Removes the id of a binding that is gone, and its destination with its last binding."
  @spec remove(t, pos_integer) :: :ok
  def remove(destinations, id) do
    number = id >>> @binding_bits

    if :ets.update_counter(destinations.bindings, number, -1) == 0 do
      [{_number, name}] = :ets.take(destinations.table, number)
      :ets.delete(destinations.bindings, number)
      :ets.delete(destinations.numbers, name)
    end

    :ok
  end

  @doc """
  Returns the destinations of ids, each once, from the table of destinations by number. A destination that has been removed since the ids
  were found is left out. Raises `ArgumentError` if the index ended, and its table with it.
  """
  @spec find(:ets.tid(), [pos_integer]) :: [Records.name()]
  def find(_table, []), do: []

  def find(table, ids) do
    for number <- :lists.usort(for id <- ids, do: id >>> @binding_bits),
        {_number, name} <- :ets.lookup(table, number),
        do: name
  end
end

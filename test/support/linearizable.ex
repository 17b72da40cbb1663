defmodule BeTree.Test.Linearizable do
  @moduledoc """
  Checks histories of concurrent operations for linearizability, by Wing and Gong's search with Lowe's memoization.
  """

  @typedoc """
  An operation, its result, and the times of its call and return. With the result `:unknown` and the return `:infinity` it
  may have taken effect at any time after its call, or never.
  """
  @type operation :: %{operation: term, result: term, called: integer, returned: integer | :infinity}

  @doc """
  Returns whether some order of the operations explains all results, each taking effect between its call and return. `apply`
  applies an operation to a model, and returns the result and the new model.
  """
  @spec check(term, [operation], (term, term -> {term, term})) :: boolean
  def check(model, operations, apply) do
    operations = operations |> Enum.sort_by(& &1.called) |> Enum.with_index()
    seen = :ets.new(:seen, [])
    result = order?(operations, model, apply, seen)
    :ets.delete(seen)
    result
  end

  defp order?(operations, model, apply, seen) do
    state = {Enum.map(operations, &elem(&1, 1)), model}

    cond do
      Enum.all?(operations, fn {operation, _number} -> operation.result == :unknown end) -> true
      not :ets.insert_new(seen, {state}) -> false
      true -> operations |> candidates() |> Enum.any?(&next?(&1, operations, model, apply, seen))
    end
  end

  # An operation can be next if no other returned before its call. Any integer is less than the atom :infinity.
  defp candidates(operations) do
    first = operations |> Enum.map(fn {operation, _number} -> operation.returned end) |> Enum.min()
    Enum.filter(operations, fn {operation, _number} -> operation.called < first end)
  end

  defp next?({%{operation: operation, result: result}, _number} = candidate, operations, model, apply, seen) do
    rest = List.delete(operations, candidate)

    case apply.(operation, model) do
      {^result, after_it} -> order?(rest, after_it, apply, seen)
      {_other, after_it} when result == :unknown -> order?(rest, after_it, apply, seen)
      _other -> false
    end
  end
end

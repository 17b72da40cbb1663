defmodule BeTree.Test.Linearizable do
  @moduledoc """
  Decides whether a history of concurrent operations is linearizable, by the search of Wing and Gong with the memory of Lowe.
  """

  @typedoc """
  An operation, its result, and the moments of its call and its return. An operation with the result `:unknown` and the return
  `:infinity` may have taken effect at any moment after its call, or not at all.
  """
  @type operation :: %{operation: term, result: term, called: integer, returned: integer | :infinity}

  @doc """
  Returns whether there is an order of the operations in which each takes effect between its call and its return. `apply` returns the
  result of an operation on a model, and the model afterwards.
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

  # An operation can be the next one if no other returned before it was called. An integer is less than an atom.
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

defmodule BeTree.Test.LinearizableTest do
  # The checker of histories.
  use ExUnit.Case, async: true

  alias BeTree.Test.Linearizable

  defp apply_to({:write, value}, _model), do: {:ok, value}
  defp apply_to(:read, model), do: {model, model}

  defp check(operations) do
    operations =
      for {operation, result, called, returned} <- operations,
          do: %{operation: operation, result: result, called: called, returned: returned}

    Linearizable.check(0, operations, &apply_to/2)
  end

  test "the checker tells linearizable histories of a register from others" do
    assert check([])
    assert check([{{:write, 1}, :ok, 1, 2}, {:read, 1, 3, 4}])
    refute check([{{:write, 1}, :ok, 1, 2}, {:read, 0, 3, 4}])
    # During a write both values may be read, but never the old one after the new one.
    assert check([{{:write, 1}, :ok, 1, 6}, {:read, 0, 2, 3}, {:read, 1, 4, 5}])
    refute check([{{:write, 1}, :ok, 1, 6}, {:read, 1, 2, 3}, {:read, 0, 4, 5}])
    # After a write with an unknown result both values are valid.
    assert check([{{:write, 1}, :unknown, 1, :infinity}, {:read, 0, 2, 3}, {:read, 1, 4, 5}])
    refute check([{{:write, 1}, :unknown, 1, :infinity}, {:read, 1, 2, 3}, {:read, 0, 4, 5}])
    refute check([{{:write, 1}, :unknown, 4, :infinity}, {:read, 1, 2, 3}])
  end
end

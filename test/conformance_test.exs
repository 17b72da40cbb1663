defmodule BeTree.ConformanceTest do
  use ExUnit.Case, async: true

  alias BeTree.Test.{Json, Language, Runtimes}

  @bounded [
    small: {:integer, optional: true, min: 0, max: 9},
    low: {:float, optional: true, max: 1.5},
    two: {:string, optional: true, count: 2},
    one: {:integer_enum, optional: true, count: 1}
  ]

  # Every search runs as it does by default, and again with the smallest slice: it yields, or traps, wherever it can.
  @options [[], [slice: 10_000], [slice: 1]]

  for runtime <- Runtimes.all(), {{expression, event, holds}, row} <- Enum.with_index(Language.rows(), 1) do
    @tag row: {expression, event, holds}, runtime: runtime
    test(
      "#{Runtimes.name(runtime)}, #{row}: #{expression} is #{holds} of #{inspect(event)}",
      %{row: row, runtime: runtime},
      do: check_row(row, runtime)
    )
  end

  # A function, because a thousand tests with this body would take a minute to compile.
  defp check_row({expression, event, holds}, runtime) do
    tree = BeTree.new!(Language.schema(), runtime: runtime)
    BeTree.insert!(tree, 1, expression, constants: Language.constants())
    BeTree.insert!(tree, 0, "not (#{expression})", constants: Language.constants())
    expected = if holds, do: [1], else: [0]

    for options <- @options do
      assert BeTree.search!(tree, event, options) == expected
      assert BeTree.search!(tree, Map.to_list(event), options) == expected
      assert BeTree.search!(tree, Map.new(event, fn {name, value} -> {"#{name}", value} end), options) == expected

      assert BeTree.search!(tree, {:record, Language.record(event)}, options) == expected

      assert BeTree.search!(tree, {:json, Json.encode(for {name, value} <- event, do: {"#{name}", value})}, options) ==
               expected
    end

    assert BeTree.explain!(tree, event, 1).match == holds
  end

  for runtime <- Runtimes.all() do
    @tag runtime: runtime
    test "#{Runtimes.name(runtime)}: all rows in one tree", %{runtime: runtime} do
      tree = BeTree.new!(Language.schema(), runtime: runtime)
      BeTree.insert_all!(tree, Language.subscriptions())
      index = BeTree.publish!(tree)

      for {{text, event, holds}, id} <- Enum.with_index(Language.rows()), options <- @options do
        found = BeTree.search!(tree, event, options)
        assert {text, event, id in found} == {text, event, holds}
        assert BeTree.search!(index, event, options) == found
      end
    end
  end

  for runtime <- Runtimes.all(),
      {{expression, kind, attribute, column}, row} <- Enum.with_index(Language.refusals(), 1) do
    @tag row: {expression, kind, attribute, column}, runtime: runtime
    test(
      "#{Runtimes.name(runtime)}, #{row}: #{inspect(expression)} is refused as #{kind}",
      %{row: row, runtime: runtime},
      do: check_refusal(row, runtime)
    )
  end

  defp check_refusal({expression, kind, attribute, column}, runtime) do
    tree = BeTree.new!(Language.schema() ++ @bounded, runtime: runtime)

    assert {:error, %BeTree.Error{} = error} = BeTree.insert(tree, 1, expression)
    assert {error.kind, error.attribute, error.text} == {kind, attribute, expression}
    if column, do: assert(error.column == column)
    assert BeTree.info!(tree).expressions == 0
  end
end

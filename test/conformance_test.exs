defmodule BeTree.ConformanceTest do
  use ExUnit.Case, async: true

  alias BeTree.Test.{Json, Language}

  @bounded [
    small: {:integer, optional: true, min: 0, max: 9},
    low: {:float, optional: true, max: 1.5},
    two: {:string, optional: true, count: 2},
    one: {:integer_enum, optional: true, count: 1}
  ]

  # Every search runs as it does by default, and again with the smallest slice: it yields wherever it can.
  @options [[], [slice: 1]]

  for {{expression, event, holds}, row} <- Enum.with_index(Language.rows(), 1) do
    @tag row: {expression, event, holds}
    test "#{row}: #{expression} is #{holds} of #{inspect(event)}", %{row: {expression, event, holds}} do
      tree = BeTree.new!(Language.domains())
      BeTree.insert!(tree, 1, expression, constants: Language.constants())
      BeTree.insert!(tree, 0, "not (#{expression})", constants: Language.constants())
      expected = if holds, do: [1], else: [0]

      for options <- @options do
        assert BeTree.search!(tree, event, options) == expected
        assert BeTree.search!(tree, Map.to_list(event), options) == expected
        assert BeTree.search!(tree, Map.new(event, fn {name, value} -> {"#{name}", value} end), options) == expected

        assert BeTree.search!(tree, {:record, for({name, _} <- Language.domains(), do: event[name])}, options) ==
                 expected

        assert BeTree.search!(tree, {:json, Json.encode(for {name, value} <- event, do: {"#{name}", value})}, options) ==
                 expected
      end

      assert BeTree.explain!(tree, event, 1).match == holds
    end
  end

  test "all rows in one tree, searched with each row's event" do
    tree = BeTree.new!(Language.domains())
    BeTree.insert_all!(tree, Language.subscriptions())

    for {{text, event, holds}, id} <- Enum.with_index(Language.rows()), options <- @options do
      assert {text, event, id in BeTree.search!(tree, event, options)} == {text, event, holds}
    end
  end

  for {{expression, kind, attribute, column}, row} <- Enum.with_index(Language.refusals(), 1) do
    @tag row: {expression, kind, attribute, column}
    test "#{row}: #{inspect(expression)} is refused as #{kind}", %{row: {expression, kind, attribute, column}} do
      tree = BeTree.new!(Language.domains() ++ @bounded)

      assert {:error, %BeTree.Error{} = error} = BeTree.insert(tree, 1, expression)
      assert {error.kind, error.attribute, error.text} == {kind, attribute, expression}
      if column, do: assert(error.column == column)
      assert BeTree.info!(tree).expressions == 0
    end
  end
end

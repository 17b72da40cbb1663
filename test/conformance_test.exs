defmodule BeTree.ConformanceTest do
  use ExUnit.Case, async: true

  alias BeTree.Test.Json

  @domains [
    b: {:boolean, optional: true},
    i: {:integer, optional: true},
    j: {:integer, optional: true},
    f: {:float, optional: true},
    s: {:string, optional: true},
    e: {:integer_enum, optional: true},
    il: {:integer_list, optional: true},
    sl: {:string_list, optional: true},
    seg: {:segments, optional: true},
    now: {:integer, optional: true},
    latitude: {:float, optional: true},
    longitude: {:float, optional: true},
    segments_with_timestamp: {:segments, optional: true},
    frequency_caps: {:frequency_caps, optional: true}
  ]

  @bounded [
    small: {:integer, optional: true, min: 0, max: 9},
    low: {:float, optional: true, max: 1.5},
    two: {:string, optional: true, count: 2},
    one: {:integer_enum, optional: true, count: 1}
  ]

  @constants [flight_id: 10, advertiser_id: 20, campaign_id: 30, campaign_group_id: 40, product_id: 50]

  @language "conformance/language.exs" |> Path.expand(__DIR__) |> Code.eval_file() |> elem(0)
  @refusals "conformance/refusals.exs" |> Path.expand(__DIR__) |> Code.eval_file() |> elem(0)

  for {{expression, event, holds}, row} <- Enum.with_index(@language, 1) do
    @tag row: {expression, event, holds}
    test "#{row}: #{expression} is #{holds} of #{inspect(event)}", %{row: {expression, event, holds}} do
      tree = BeTree.new!(@domains)
      BeTree.insert!(tree, 1, expression, constants: @constants)
      BeTree.insert!(tree, 0, "not (#{expression})", constants: @constants)
      expected = if holds, do: [1], else: [0]

      assert BeTree.search!(tree, event) == expected
      assert BeTree.search!(tree, Map.to_list(event)) == expected
      assert BeTree.search!(tree, Map.new(event, fn {name, value} -> {Atom.to_string(name), value} end)) == expected
      assert BeTree.search!(tree, {:record, for({name, _spec} <- @domains, do: event[name])}) == expected
      assert BeTree.search!(tree, {:json, Json.encode(for {name, value} <- event, do: {"#{name}", value})}) == expected
      assert BeTree.search!(tree, event, slice: 100) == expected
      assert BeTree.explain!(tree, event, 1).match == holds
    end
  end

  test "all rows in one tree, searched with each row's event" do
    tree = BeTree.new!(@domains)
    numbered = Enum.with_index(@language)
    BeTree.insert_all!(tree, for({{text, _, _}, id} <- numbered, do: {id, text, constants: @constants}))

    for {{text, event, holds}, id} <- numbered do
      assert {text, event, id in BeTree.search!(tree, event)} == {text, event, holds}
    end
  end

  for {{expression, kind, attribute, column}, row} <- Enum.with_index(@refusals, 1) do
    @tag row: {expression, kind, attribute, column}
    test "#{row}: #{inspect(expression)} is refused as #{kind}", %{row: {expression, kind, attribute, column}} do
      tree = BeTree.new!(@domains ++ @bounded)

      assert {:error, %BeTree.Error{} = error} = BeTree.insert(tree, 1, expression)
      assert {error.kind, error.attribute, error.text} == {kind, attribute, expression}
      if column, do: assert(error.column == column)
      assert BeTree.info!(tree).expressions == 0
    end
  end
end

Code.require_file("examples/scan/scan.ex")

defmodule BeTree.WorkloadsTest do
  @moduledoc "Compares the sandboxed index with an evaluator of all expressions on the benchmark workloads, with thousands of values."
  use ExUnit.Case, async: true

  alias BeTree.Guest
  alias BeTree.Test.Attack
  alias BeTree.Workload.{W1, W2, W3, W4, W5, W8, W9}

  @workloads [
    {W1, %{expressions: Attack.size(400, 800), attributes: 96}},
    {W2, %{expressions: Attack.size(1_500, 3_000)}},
    {W3, %{expressions: Attack.size(2_000, 4_000)}},
    {W4, %{expressions: Attack.size(2_000, 4_000)}},
    {W5, %{expressions: Attack.size(2_000, 4_000), dimensions: 60}},
    {W8, %{expressions: Attack.size(2_000, 4_000)}},
    {W9, %{expressions: Attack.size(5_000, 20_000)}}
  ]
  @events Attack.size(30, 60)

  setup_all do
    {:ok, guest} = Guest.load(Scan.wasm!())
    {:ok, guest: guest}
  end

  for {workload, parameters} <- @workloads do
    @workload workload
    @parameters workload.defaults() |> Map.merge(parameters) |> Map.put(:events, @events)

    test "#{inspect(workload)}: searches find the same after random changes", %{guest: guest} do
      subscriptions = @parameters |> @workload.expressions() |> Enum.with_index(&{&2 + 1, &1})
      events = @parameters |> @workload.events() |> Enum.to_list()
      [tree, scan] = for options <- [[], [guest: guest]], do: BeTree.new!(@workload.schema(@parameters), options)
      for tree <- [tree, scan], do: BeTree.insert_all!(tree, subscriptions)
      expected = for event <- events, do: BeTree.search!(scan, event)
      assert Enum.any?(expected, &(&1 != []))
      same(tree, events, expected)
      come_and_go(tree, subscriptions, events, expected)
    end
  end

  # Each wave deletes some present expressions, and all return: an event's matches, nine of ten, the first half.
  defp come_and_go(tree, subscriptions, events, expected) do
    half = div(length(subscriptions), 2)

    for goes? <- [&(&1 in hd(expected)), &(rem(&1, 10) != 0), &(&1 <= half)] do
      gone = for {id, _text} = subscription <- subscriptions, goes?.(id), do: subscription
      for {id, _text} <- gone, do: BeTree.delete!(tree, id)
      same(tree, events, for(ids <- expected, do: Enum.reject(ids, goes?)))
      BeTree.insert_all!(tree, gone)
      same(tree, events, expected)
    end
  end

  # Single searches, then a batch.
  defp same(tree, events, expected) do
    assert for(event <- events, do: BeTree.search!(tree, event)) == expected
    assert BeTree.search_many!(tree, events) == expected
  end
end

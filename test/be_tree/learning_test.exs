defmodule BeTree.LearningTest do
  use ExUnit.Case, async: true

  # Of the two attributes that each expression asks for, the first has more values and the second fewer events.
  defp tree do
    BeTree.new!([
      %BeTree.Domain{name: "often", type: :integer, min: 0, max: 19, optional: true},
      %BeTree.Domain{name: "seldom", type: :integer, min: 0, max: 9, optional: true}
    ])
  end

  defp insert(tree, ids) do
    BeTree.insert_all!(tree, for(id <- ids, do: {id, "often = #{rem(id, 10)} and seldom = #{rem(id, 10)}"}))
  end

  defp visited(tree) do
    {[], stats} = BeTree.search!(tree, %{"often" => 3}, stats: true)
    stats.visited
  end

  # So few for each value that no list is split by both attributes.
  test "what is inserted after many searches waits for what few events define" do
    [searched, other] = trees = [tree(), tree()]

    for portion <- Enum.chunk_every(0..199, 40), tree <- trees do
      insert(tree, portion)
      if tree == searched, do: for(_ <- 1..300, do: visited(tree))
    end

    assert visited(searched) < visited(other)
    expected = for id <- 0..199, rem(id, 10) == 3, do: id
    for tree <- trees, do: assert(BeTree.search!(tree, %{"often" => 3, "seldom" => 3}) == expected)
  end
end

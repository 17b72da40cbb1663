defmodule BeTree.MigrationTest do
  use ExUnit.Case, async: true

  # docs/guides/migration.md has a table of expressions for which be-tree returns wrong ids. These are the results here.
  @row ~r/^\| `([^`]+)` \| `b` is (true|false), `([ai])` undefined \| (?:no )?match \| (no match|match) \|$/m

  test "what be-tree loses or invents is right" do
    rows = "docs/guides/migration.md" |> File.read!() |> then(&Regex.scan(@row, &1, capture: :all_but_first))
    assert length(rows) == 4

    for [expression, b, undefined, answer] <- rows do
      domains = [{:b, :bool, :allow_undefined}, {:a, :bool, :allow_undefined}, {:i, :int, :allow_undefined}]
      {:ok, betree} = :erl_betree.betree_make([domains])
      {:ok, sub} = :erl_betree.betree_make_sub(betree, 1, [], expression)
      :ok = :erl_betree.betree_insert_sub(betree, sub)

      # Attributes outside the expression do not matter.
      event =
        if undefined == "a", do: {:event, b == "true", :undefined, 1}, else: {:event, b == "true", true, :undefined}

      assert :erl_betree.betree_search(betree, [event]) == {:ok, if(answer == "match", do: [1], else: [])}
    end
  end

  test "the negation of an undefined attribute or another one is that of the other one" do
    assert File.read!("docs/guides/migration.md") =~
             "be-tree matches `not (a or b)` when `a` is undefined, for every `b`"

    tree = BeTree.new!(a: {:boolean, optional: true}, b: :boolean)
    BeTree.insert!(tree, 1, "not (a or b)")
    assert BeTree.search!(tree, %{b: false}) == [1]
    assert BeTree.search!(tree, %{b: true}) == []
  end
end

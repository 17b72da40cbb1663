defmodule BeTree.Attacks.ChurnTest do
  @moduledoc false
  # Memory after churn: a tree with replaced subscriptions takes at most 1.25 times the memory of a new one. This repeats
  # wasm/index/tests/index/churn.rs in the sandbox, where free blocks count too.
  use ExUnit.Case, async: true

  alias BeTree.Test.Attack

  @schema [
            s: {:string, optional: true},
            i: {:integer, optional: true},
            f: {:float, optional: true},
            il: {:integer_list, optional: true},
            c: {:string, optional: true}
          ] ++ for(n <- 0..59, do: {:"b#{n}", {:boolean, optional: true}})

  defp many(count, by, each), do: Enum.map_join(0..(count - 1), by, each)

  # An expression of about `length` predicates.
  defp text(0, length, salt), do: many(length, " and ", &"i <> #{1000 + &1 + salt}") <> " and s = 'x#{rem(salt, 300)}'"

  defp text(1, length, salt),
    do: many(length, " or ", &"(b#{rem(&1 + salt, 60)} and not b#{rem(&1 * 7 + salt + 1, 60)})")

  defp text(2, length, salt),
    do: "s in (#{many(length, ", ", &"'a string #{rem(salt, 900)} #{&1}'")}) and i > #{rem(salt, 100)}"

  defp text(3, length, salt),
    do: "il one of (#{many(4 * length, ", ", &"#{salt + 3 * &1}")}) and f > #{rem(salt, 50)}.5"

  defp text(4, length, salt) do
    countries = many(length, " or ", &"c = 'country #{rem(&1 + salt, 70)}'")
    "i > #{rem(salt, 500)} and i <= #{rem(salt, 500) + length} and (#{countries})"
  end

  defp text(5, length, salt), do: many(length, " and ", &"(f < #{rem(salt, 90) + &1}.25 or b#{rem(&1 + salt, 60)})")

  # All kinds at once.
  defp text(6, length, salt), do: text(rem(salt, 6), length, salt)

  defp count, do: Attack.size(500, 2_000)

  defp tree(texts) do
    tree = BeTree.new!(@schema)
    insert(tree, texts)
    tree
  end

  # Inserts one by one, because a tree's memory depends on how it grew.
  defp insert(tree, texts), do: for({id, text} <- texts, do: :ok = BeTree.insert(tree, id, text))
  defp delete(tree, texts), do: for({id, _text} <- texts, do: :ok = BeTree.delete(tree, id))
  defp replace(tree, texts), do: for(text <- texts, do: {delete(tree, [text]), insert(tree, [text])})

  defp assert_as_small_as_new(tree, texts) do
    [churned, fresh] = for tree <- [tree, tree(texts)], do: BeTree.info!(tree).memory_bytes
    assert churned <= 1.25 * fresh, "#{churned} bytes, #{fresh} of a fresh tree"
  end

  for kind <- 0..6 do
    test "expressions of kind #{kind} replaced by longer ones take the memory of the longer ones" do
      texts = fn length -> for id <- 1..count(), do: {id, text(unquote(kind), length, id)} end
      tree = tree(texts.(1))

      for length <- Attack.size([11, 26, 41], 2..41), do: replace(tree, texts.(length))
      assert_as_small_as_new(tree, texts.(41))
    end

    test "expressions of kind #{kind} replaced by any length take the memory of the new ones" do
      Attack.each(1, fn _number ->
        texts = fn round -> for id <- 1..count(), do: {id, text(unquote(kind), :rand.uniform(41), id + round)} end
        tree = tree(texts.(0))
        rounds = for round <- 1..Attack.size(1, 20), do: texts.(round)

        for round <- rounds, do: replace(tree, Enum.shuffle(round))
        assert_as_small_as_new(tree, List.last(rounds))
      end)
    end

    test "expressions of kind #{kind} mostly deleted and inserted again take the same memory" do
      Attack.each(1, fn _number ->
        # A large number, so that a few pages of fragmentation do not matter: an insertion may need a block of some hundred
        # KB that the gaps between live blocks cannot provide.
        texts = for id <- 1..5_000, do: {id, text(unquote(kind), 9, id)}
        tree = tree(texts)

        for _round <- 1..Attack.size(2, 6) do
          most = Enum.take_random(texts, 4_500)
          delete(tree, most)
          insert(tree, most)
        end

        assert_as_small_as_new(tree, texts)
      end)
    end
  end
end

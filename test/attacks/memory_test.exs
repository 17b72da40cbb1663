defmodule BeTree.Attacks.MemoryTest do
  @moduledoc false
  # Changes and reads at every memory limit, page by page, from the tree's size up to the need of the call. Each succeeds,
  # or returns :out_of_memory and changes nothing.
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.Attack

  @page 65_536
  @schema [s: {:string, optional: true}, i: {:integer, optional: true}] ++
            for(n <- 0..39, do: {:"b#{n}", {:boolean, optional: true}})

  @event %{s: "x3", i: 7, b1: true, b2: false}

  defp join(count, by, each), do: Enum.map_join(0..(count - 1), by, each)

  defp disjunction(count), do: join(count, " or ", &"s = 'x#{&1}'")
  defp predicates(count), do: join(count, " and ", &"i <> #{100 + &1}") <> " and s = 'x3'"
  defp booleans(count), do: join(count, " or ", &"(b#{rem(&1, 40)} and not b#{rem(7 * &1 + 1, 40)})")
  defp members(count), do: "i in (#{join(count, ", ", &"#{&1}")}) and s in ('x1', 'x3')"

  # Returns a tree with this limit and some subscriptions, or none if even these do not fit.
  defp tree(limit) do
    with {:ok, tree} <- BeTree.new(@schema, memory: limit),
         {:ok, _} <- BeTree.insert_all(tree, for(id <- 1..40, do: {id, "s = 'x#{rem(id, 5)}' and i > #{rem(id, 9)}"})) do
      tree
    else
      {:error, %Error{kind: :out_of_memory}} -> nil
    end
  end

  defp holds(tree) do
    {BeTree.search!(tree, @event), Map.take(BeTree.info!(tree), [:expressions, :predicates, :strings, :entries])}
  end

  # Calls `each` with a tree at every limit from the smallest possible on, until it returns :ok. Returns the number of
  # refusals.
  defp sweep(each) do
    {:ok, none} = BeTree.new(@schema)
    least = BeTree.info!(none).memory_bytes

    least
    |> Stream.iterate(&(&1 + @page))
    |> Stream.map(&tree/1)
    |> Stream.reject(&is_nil/1)
    |> Enum.reduce_while(0, fn tree, refused ->
      before = holds(tree)

      case each.(tree) do
        :ok ->
          {:halt, refused}

        {:error, error} ->
          assert %Error{kind: :out_of_memory} = error
          assert holds(tree) == before
          for id <- Enum.shuffle(1..40), do: assert(:ok = BeTree.delete(tree, id))
          assert BeTree.info!(tree).expressions == 0
          {:cont, refused + 1}
      end
    end)
  end

  for {name, size} <- [disjunction: 2_000, predicates: 800, booleans: 600, members: 2_000] do
    test "an insertion of #{name} succeeds or changes nothing" do
      text = unquote(name)(unquote(size))

      refused =
        sweep(fn tree ->
          with :ok <- BeTree.insert(tree, 99, text) do
            assert :ok = BeTree.delete(tree, 99)
            :ok
          end
        end)

      assert refused > 0
    end
  end

  test "a batch of many insertions succeeds or changes nothing" do
    count = Attack.size(1_000, 10_000)
    batch = for id <- 100..(100 + count), do: {id, "s = 'y#{id}' and i > #{rem(id, 77)} or b#{rem(id, 40)}"}

    refused = sweep(fn tree -> with {:ok, _} <- BeTree.insert_all(tree, batch), do: :ok end)
    assert refused > 0
  end

  test "a full tree explains and can be emptied" do
    for limit <- Enum.map(0..Attack.size(3, 31), &(4_000_000 + &1 * @page)) do
      tree = tree(limit)

      held =
        for id <- 100..3_000,
            text = Enum.at([disjunction(30), predicates(20), "s = 'x#{id}'"], rem(id, 3)),
            reduce: [] do
          held ->
            case BeTree.insert(tree, id, text) do
              :ok -> [id | held]
              {:error, %Error{kind: :out_of_memory}} -> held
            end
        end

      large = Map.put(@event, :s, String.duplicate("x", 300_000))

      for id <- Enum.take(held, 20) do
        before = holds(tree)

        case BeTree.explain(tree, large, id) do
          {:ok, _} -> :ok
          {:error, error} -> assert %Error{kind: :out_of_memory} = error
        end

        assert holds(tree) == before
      end

      for id <- Enum.shuffle(held), do: assert(:ok = BeTree.delete(tree, id))
      assert {:ok, _} = BeTree.insert_all(tree, for(id <- 100..200, do: {id, "s = 'x#{id}'"}))
    end
  end
end

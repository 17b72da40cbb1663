defmodule BeTree.PropertyTest do
  @moduledoc "The index against the oracle: random domains, expressions and events over the whole language."
  use ExUnit.Case, async: true

  alias BeTree.Test.{Attack, Json, Nested, Random}

  @moduletag :property

  @schema 100
  @expressions 200
  @events Attack.size(80, 200)
  @parts 4

  # Each number seeds its own domains, expressions and events. A failure prints the number, which repeats it alone.
  for part <- 1..@parts do
    test "search/3 finds what the oracle finds, part #{part} of #{@parts}" do
      for seed <- unquote(part)..@schema//@parts, do: compare(seed)
    end
  end

  # With fewer than 1,024 attributes filters never check the number of attributes.
  test "search/3 finds what the oracle finds behind 1,100 other attributes" do
    others = for number <- 1..1_100, do: {:"other_#{number}", {:boolean, optional: true}}
    for seed <- 1..3, do: compare(seed, others)
  end

  defp compare(seed, others \\ []) do
    :rand.seed(:exsss, seed)
    domains = Random.nested_schema()
    tree = BeTree.new!(others ++ domains)
    expressions = for id <- 1..@expressions, do: {id, Random.expression(domains)}
    texts = Random.subscriptions(expressions)
    BeTree.insert_all!(tree, texts)
    changed = churn(tree, texts)
    assert changed > 0

    for number <- 1..@events do
      event = Random.event(domains)
      dressed = Random.dress(event, domains)
      expected = matches(expressions, Map.new(event))
      where = "seed #{seed}, event #{number}: #{inspect(dressed, limit: :infinity)}"

      same(expected, BeTree.search(tree, as_term(dressed)), texts, where)
      same(expected, BeTree.search(tree, {:json, Json.encode(dressed)}), texts, "as JSON, " <> where)
      if number == 1, do: same_in_other_ways(expected, tree, others ++ domains, event, texts, where)
    end
  end

  # Deletes and reinserts some, so the index differs from one filled once.
  defp churn(tree, texts) do
    again = Enum.take_random(texts, div(@expressions, 4))
    for {id, _, _} <- again, do: BeTree.delete!(tree, id)
    BeTree.insert_all!(tree, again)
  end

  defp matches(expressions, event) do
    Random.matches(expressions, event)
  end

  defp as_term(pairs) do
    pairs = for {name, value} <- pairs, do: {name, Nested.loosen(value)}
    if :rand.uniform(2) == 1, do: Map.new(pairs), else: pairs
  end

  defp same(expected, {:ok, expected}, _texts, _where), do: :ok

  defp same(expected, answer, texts, where) do
    case answer do
      {:ok, found} ->
        wrong = (expected -- found) ++ (found -- expected)
        wrong = for {id, text, _} <- texts, id in wrong, do: "\n  #{id}, #{id in expected} by the oracle: #{text}"
        flunk("#{where}#{wrong}")

      {:error, error} ->
        flunk("#{where}: #{Exception.message(error)}")
    end
  end

  defp same_in_other_ways(expected, tree, domains, event, texts, where) do
    record = for {name, _spec} <- domains, do: Map.new(event)[name]
    same(expected, BeTree.search(tree, {:record, record}), texts, "as a record, " <> where)
    nested = Nested.nest(event)
    same(expected, BeTree.search(tree, nested, slice: 1_000), texts, "in slices, " <> where)
    half = Enum.take_every(1..@expressions, 2)
    same(Enum.filter(expected, &(&1 in half)), BeTree.search(tree, nested, ids: half), texts, "among ids, " <> where)
    explained = for {id, _, _} <- texts, BeTree.explain!(tree, nested, id).match, do: id
    same(expected, {:ok, explained}, texts, "explained, " <> where)
    prepared = BeTree.Event.prepare!(tree, nested)
    same(expected, BeTree.search(tree, prepared), texts, "prepared, " <> where)
  end
end

defmodule BeTree.Bench.Adversaries do
  @moduledoc false
  # Workloads that are hard for boolean indexes, each beside an easy one: values that most expressions have, values that all
  # events have, intervals of a 64-bit domain, and expressions with a disjunctive form thousands of times as long. Each
  # expression has a function in Elixir as its oracle.

  alias BeTree.Bench.{Bars, Timing}

  @name "adversaries"
  @expressions 20_000
  @events 50

  # Distinct values of an attribute, chosen so that an event meets as many expressions under both distributions.
  @even 33
  @skewed 1_000
  # Parts of a domain. An interval is as long as one part.
  @parts 1_000

  @spec run(keyword) :: {String.t(), [map], [Bars.t()]}
  def run(limits) do
    :rand.seed(:exsss, {1, 2, 3})

    measured =
      for {adversary, calm} <- pairs() do
        {row(adversary, limits), row(calm, limits)}
      end

    ratios =
      for {adversary, calm} <- measured do
        Bars.line(@name, "#{adversary.engine} / #{calm.engine}", "x", adversary.total_p50 / calm.total_p50, nil)
      end

    rows = Enum.flat_map(measured, &Tuple.to_list/1)

    sizes =
      for row <- rows,
          {what, unit, value} <- [
            {"matches", "an event", row.matches / row.verified},
            {"memory", "bytes an expression", row.memory_bytes / @expressions}
          ],
          do: Bars.line(@name, "#{row.engine}: #{what}", unit, value, nil)

    {"#{@name}: #{@expressions} expressions", rows, ratios ++ sizes}
  end

  # Returns the hard workloads, each with its easy one: a name, the attributes, the expressions with their functions, and
  # the events.
  # events.
  defp pairs do
    even = conjunctions(fn -> value(@even) end, @even)
    calm = [a: fn -> value(@even) end, b: fn -> value(@even) end]

    [
      {{"skewed values", [:a, :b], conjunctions(&common/0, @skewed),
        events(a: fn -> 0 end, b: fn -> value(@skewed) end)}, {"even values", [:a, :b], even, events(calm)}},
      {{"skewed events", [:a, :b], even, events(Keyword.put(calm, :a, fn -> 7 end))},
       {"even events", [:a, :b], even, events(calm)}},
      {intervals("a wide domain", 0x7FFF_FFFF_FFFF_FFFF), intervals("a narrow domain", 100_000)},
      {alternatives("12 clauses", 12, 4), alternatives("3 clauses", 3, 54)}
    ]
  end

  # Nine of ten expressions have the same value.
  defp common, do: if(value(10) == 0, do: value(@skewed), else: 0)

  defp conjunctions(first, values) do
    for _ <- 1..@expressions do
      {a, b} = {first.(), value(values)}
      {"a = #{a} and b = #{b}", &(&1.a == a and &1.b == b)}
    end
  end

  defp intervals(name, domain) do
    expressions =
      for _ <- 1..@expressions do
        low = value(domain - div(domain, @parts))
        high = low + div(domain, @parts)
        {"a > #{low} and a < #{high}", &(&1.a > low and &1.a < high)}
      end

    {name, [:a], expressions, events(a: fn -> value(domain) end)}
  end

  # Expressions of `clauses` clauses with two alternatives each. Their disjunctive form has 2^`clauses` conjunctions.
  defp alternatives(name, clauses, values) do
    attributes = for clause <- 1..clauses, side <- ["x", "y"], do: String.to_atom("#{side}#{clause}")

    expressions =
      for _ <- 1..@expressions do
        asked = for pair <- Enum.chunk_every(attributes, 2), do: for(attribute <- pair, do: {attribute, value(values)})
        {Enum.map_join(asked, " and ", &clause/1), &all?(asked, &1)}
      end

    {name, attributes, expressions, events(for(attribute <- attributes, do: {attribute, fn -> value(values) end}))}
  end

  defp clause([{x, v}, {y, w}]), do: "(#{x} = #{v} or #{y} = #{w})"

  defp all?(asked, event) do
    Enum.all?(asked, fn alternatives -> Enum.any?(alternatives, fn {name, value} -> event[name] == value end) end)
  end

  defp events(attributes), do: for(_ <- 1..@events, do: Map.new(attributes, fn {name, draw} -> {name, draw.()} end))

  # Returns one of `count` values, from 0.
  defp value(count), do: :rand.uniform(count) - 1

  defp row({name, attributes, expressions, events}, limits) do
    tree = BeTree.new!(for(attribute <- attributes, do: {attribute, :integer}))
    texts = for {{text, _holds?}, id} <- Enum.with_index(expressions, 1), do: {id, text}
    {build, _count} = :timer.tc(fn -> BeTree.insert_all!(tree, texts) end)
    matches = for event <- events, do: check!(name, tree, expressions, event)

    Map.merge(
      %{
        case: @name,
        engine: name,
        format: "term",
        build: build,
        verified: length(events),
        matches: Enum.sum(matches),
        memory_bytes: BeTree.info!(tree).memory_bytes
      },
      Timing.run(events, fn event -> BeTree.search(tree, event) end, limits[:seconds])
    )
  end

  defp check!(name, tree, expressions, event) do
    expected = for {{_text, holds?}, id} <- Enum.with_index(expressions, 1), holds?.(event), do: id

    case BeTree.search!(tree, event) do
      ^expected -> length(expected)
      found -> Mix.raise("#{name}: BeTree.search/2 finds #{length(found)} ids, expected #{length(expected)}")
    end
  end
end

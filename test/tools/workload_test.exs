defmodule BeTree.WorkloadTest do
  use ExUnit.Case, async: true

  alias BeTree.{Explanation, Files, Workload}
  alias BeTree.Test.BooleanNaive
  alias BeTree.Tune.Calibration.Random
  alias BeTree.Workload.{W1, W2, W3, W4, W5, W8, W9}

  doctest BeTree.Workload

  @w3 %{W3.defaults() | expressions: 5_000, events: 200}

  setup_all do
    tree = BeTree.new!(W3.schema(@w3))
    texts = Enum.to_list(W3.expressions(@w3))
    assert BeTree.insert_all!(tree, Enum.with_index(texts, &{&2 + 1, &1})) == 5_000
    %{tree: tree, texts: texts}
  end

  for workload <- [W1, W2, W3, W4, W5, W8, W9] do
    describe "#{inspect(workload)}" do
      @workload workload

      test "equals itself with the same seed, differs with another" do
        parameters = %{@workload.defaults() | expressions: 20, events: 20}
        assert take_all(@workload, parameters) == take_all(@workload, parameters)

        assert [{expressions, events}, {others, other_events}] =
                 for(seed <- [1, 2], do: take_all(@workload, %{parameters | seed: seed}))

        assert expressions -- others == expressions
        assert events -- other_events == events
      end

      test "is a prefix of a larger one" do
        large = %{@workload.defaults() | expressions: 20, events: 20}
        {expressions, events} = take_all(@workload, large)

        assert take_all(@workload, %{large | expressions: 7, events: 3}) ==
                 {Enum.take(expressions, 7), Enum.take(events, 3)}

        assert take_all(@workload, %{large | expressions: 0, events: 0}) == {[], []}
      end

      @tag :tmp_dir
      test "writes files with the streamed content", %{tmp_dir: folder} do
        parameters = %{@workload.defaults() | expressions: 600, events: 30}
        files = Workload.write(@workload, parameters, Path.join(folder, "new"))
        {expressions, events} = take_all(@workload, parameters)

        assert {:ok, domains, subscriptions} =
                 Files.load(files.expressions, files |> Map.take([:schema, :constants]) |> Map.to_list())

        assert domains == @workload.schema(parameters)
        assert for(subscription <- subscriptions, do: elem(subscription, 0)) == Enum.to_list(1..600)
        assert for(subscription <- subscriptions, do: elem(subscription, 1)) == expressions
        assert files.events |> Files.events() |> Enum.map(&elem(&1, 0)) == events
      end
    end
  end

  defp take_all(workload, parameters) do
    {Enum.to_list(workload.expressions(parameters)), Enum.to_list(workload.events(parameters))}
  end

  describe "W1" do
    test "uses each attribute once a tree, with operators in the documented shares" do
      parameters = %{W1.defaults() | expressions: 500}
      names = for domain <- W1.schema(parameters), do: domain.name
      trees = parameters |> W1.expressions() |> Enum.map(&BooleanNaive.parse/1)

      for tree <- trees, do: assert(tree |> names() |> Enum.sort() == Enum.sort(names))

      counts = trees |> Enum.flat_map(&operators/1) |> Enum.frequencies()
      assert counts[:and] + counts[:or] == 500 * 127
      assert_in_delta counts[:and] / counts[:or], 1.0, 0.03
      assert_in_delta counts[:not] / (500 * 255), 0.12, 0.005
    end

    test "matches about half of the expressions for every number of attributes" do
      for attributes <- [64, 96, 128] do
        parameters = %{W1.defaults() | expressions: 1_500, events: 20, attributes: attributes}
        names = for domain <- W1.schema(parameters), do: domain.name
        assert length(names) == attributes
        expressions = parameters |> W1.expressions() |> Enum.map(&BooleanNaive.parse/1) |> Enum.with_index(&{&2, &1})

        matches =
          for {:record, bits} <- W1.events(parameters) do
            expressions |> BooleanNaive.matches(BooleanNaive.to_map(names, bits)) |> length()
          end

        assert_in_delta Enum.sum(matches) / (20 * 1_500), 0.5, 0.05
      end
    end

    defp names({:not, operand}), do: names(operand)
    defp names({_operator, left, right}), do: names(left) ++ names(right)
    defp names(name), do: [name]

    defp operators({:not, operand}), do: [:not | operators(operand)]
    defp operators({operator, left, right}), do: [operator] ++ operators(left) ++ operators(right)
    defp operators(_name), do: []
  end

  describe "W3" do
    test "has expressions of the published sizes", %{tree: tree, texts: texts} do
      [event] = @w3 |> W3.events() |> Enum.take(1)
      roots = for id <- 1..5_000, do: BeTree.explain!(tree, event, id).root

      predicates = for root <- roots, do: root |> predicates() |> length()
      assert Enum.min(predicates) == 1
      assert Enum.max(predicates) in 30..56
      assert_in_delta Enum.sum(predicates) / 5_000, 8.0, 0.2
      assert Enum.max(Enum.map(roots, &depth/1)) in 7..9

      lists =
        for text <- texts,
            list <- Regex.scan(~r/(?:in|of) \(([^()]*)\)/, text),
            do: list |> List.last() |> String.split(", ")

      assert Enum.max(Enum.map(lists, &length/1)) in 150..180

      counts = roots |> Enum.flat_map(&predicates/1) |> Enum.frequencies_by(& &1.attribute)
      assert map_size(counts) == 122
      [{"country", first}, {_second, second} | _rest] = Enum.sort_by(counts, &(-elem(&1, 1)))
      assert first > 1.1 * second
    end

    test "has 20 attributes an event, 10 to 30 % of them null" do
      for {:json, json} <- W3.events(@w3) do
        fields = Regex.scan(~r/"(\w+)": /, json)
        assert fields |> Enum.uniq() |> length() == 20
        assert (length(String.split(json, ": null")) - 1) in 2..6
      end
    end

    test "matches 0.1 to 1 % of the expressions", %{tree: tree} do
      matches = @w3 |> W3.events() |> Enum.map(&length(BeTree.search!(tree, &1)))
      assert Enum.sum(matches) / (200 * 5_000) > 0.001
      assert Enum.sum(matches) / (200 * 5_000) < 0.01
    end

    defp predicates(%Explanation.Node{kind: :predicate} = node), do: [node]
    defp predicates(node), do: Enum.flat_map(node.children, &predicates/1)
  end

  describe "W2" do
    test "has expressions of depth 1 to 6, with operators in the documented shares" do
      {tree, events} = build(W2, %{W2.defaults() | expressions: 2_000, events: 1})
      roots = for id <- 1..2_000, do: BeTree.explain!(tree, hd(events), id).root

      # An explanation flattens an `and` within an `and`, so its depth is at most the text's.
      depths = roots |> Enum.map(&depth/1) |> Enum.frequencies()
      assert depths |> Map.keys() |> Enum.sort() == [1, 2, 3, 4, 5, 6]
      assert_in_delta depths[1], 333, 80

      kinds = Enum.frequencies_by(roots, & &1.kind)
      operators = kinds[:and] + kinds[:or] + kinds[:not]
      assert_in_delta kinds[:and] / operators, 0.45, 0.04
      assert_in_delta kinds[:or] / operators, 0.45, 0.04
      assert_in_delta kinds[:not] / operators, 0.1, 0.03
    end

    test "shares more with a greater exponent" do
      distinct =
        for sharing <- [0.0, 0.4, 0.8] do
          texts = Enum.to_list(W2.expressions(%{W2.defaults() | expressions: 3_000, sharing: sharing}))
          ~r/a\d+ [<>=]+ \d+/ |> Regex.scan(Enum.join(texts, "\n")) |> Enum.uniq() |> length()
        end

      assert distinct == Enum.sort(distinct, :desc)
      assert List.last(distinct) * 2 < hd(distinct)
    end

    test "has 20 attributes an event" do
      for {:json, json} <- W2.events(%{W2.defaults() | events: 50}) do
        assert ~r/"a\d+": \d+/ |> Regex.scan(json) |> Enum.uniq() |> length() == 20
      end
    end
  end

  describe "W8" do
    test "puts a prefix, a suffix and a part of three rules into a message" do
      for form <- ["start", "end", "part", "like", "network"] do
        {tree, events} = build(W8, %{W8.defaults() | expressions: 10_000, events: 20, patterns: 100, form: form})
        for event <- events, do: assert(BeTree.search!(tree, event) != [])
      end
    end

    test "has 10 rules of 100 that begin with a pattern" do
      texts = Enum.to_list(W8.expressions(%{W8.defaults() | expressions: 3_000}))
      for function <- ["starts_with", "ends_with", "contains"], do: assert(Enum.count(texts, &(&1 =~ function)) == 100)
      assert Enum.count(texts, &(&1 =~ ~r/^service/)) == 2_700
    end
  end

  describe "W9" do
    test "has some 50 of 100,000 circles around a place" do
      {tree, events} = build(W9, %{W9.defaults() | expressions: 10_000, events: 200})
      matches = Enum.sum(for event <- events, do: length(BeTree.search!(tree, event)))
      assert div(matches, 200) in 3..8
    end
  end

  describe "W4" do
    test "matches the ten rules of the event's number" do
      {tree, events} = build(W4, %{W4.defaults() | events: 50})

      for {:json, json} = event <- events do
        [number] = Regex.run(~r/"number": (\d+)/, json, capture: :all_but_first)
        first = String.to_integer(number) + 1
        assert BeTree.search!(tree, event) == for(turn <- 0..9, do: first + 10_000 * turn)
      end
    end

    test "requires a part of the name in one rule of ten" do
      texts = Enum.to_list(W4.expressions(W4.defaults()))
      assert Enum.count(texts, &(&1 =~ "contains(name")) == 10_000
    end

    test "matches nothing in the near-miss variant, for one of three reasons" do
      {tree, events} = build(W4, %{W4.defaults() | expressions: 10_000, events: 200, near_miss: true})
      for event <- events, do: assert(BeTree.search!(tree, event) == [])

      faults =
        for {:json, json} = event <- events do
          [number] = Regex.run(~r/"number": (\d+)/, json, capture: :all_but_first)
          root = BeTree.explain!(tree, event, String.to_integer(number) + 1).root
          assert [fault] = for(node <- nodes(root), node.kind == :predicate, not node.verdict, do: node.attribute)
          fault
        end

      assert faults |> Enum.uniq() |> Enum.sort() == ["region", "tags", "type"]
    end
  end

  describe "W5" do
    test "has conjunctions of 5 to 30 predicates, with the documented share of equalities" do
      for equality <- [0.0, 0.4, 1.0] do
        texts = Enum.to_list(W5.expressions(%{W5.defaults() | expressions: 500, equality: equality}))
        equalities = for text <- texts, do: ~r/ = / |> Regex.scan(text) |> length()
        ranges = for text <- texts, do: ~r/ >= / |> Regex.scan(text) |> length()
        assert Enum.min_max(Enum.zip_with(equalities, ranges, &+/2)) == {5, 30}
        assert_in_delta Enum.sum(equalities) / Enum.sum(equalities ++ ranges), equality, 0.03
      end
    end

    test "matches with the documented probability" do
      for {dimensions, matching} <- [{100, 0.01}, {100, 0.5}, {30_000, 0.1}] do
        parameters = %{W5.defaults() | expressions: 2_000, events: 100, dimensions: dimensions, matching: matching}
        {tree, events} = build(W5, parameters)
        matches = for event <- events, do: length(BeTree.search!(tree, event))
        assert_in_delta Enum.sum(matches) / (100 * 2_000), matching, 0.3 * matching
      end
    end
  end

  # A tree over the workload's expressions, and its events.
  defp build(workload, parameters) do
    tree = BeTree.new!(workload.schema(parameters))
    BeTree.insert_all!(tree, Enum.with_index(workload.expressions(parameters), &{&2 + 1, &1}))
    {tree, Enum.to_list(workload.events(parameters))}
  end

  defp nodes(node), do: [node | Enum.flat_map(node.children, &nodes/1)]
  defp depth(%Explanation.Node{children: []}), do: 1
  defp depth(node), do: 1 + (node.children |> Enum.map(&depth/1) |> Enum.max())

  describe "random draws" do
    test "follow Zipf's law" do
      table = Random.zipf_table(50, 1.0)

      {ranks, _random} =
        Enum.map_reduce(1..100_000, Random.new(1, 2, 3), fn _draw, random -> Random.zipf(random, table) end)

      counts = Enum.frequencies(ranks)
      assert counts |> Map.keys() |> Enum.sort() == Enum.to_list(0..49)
      for rank <- [1, 4, 9], do: assert_in_delta(counts[0] / counts[rank] / (rank + 1), 1.0, 0.1)
    end

    test "are independent for adjacent items" do
      firsts = for index <- 1..10_000, do: 1 |> Random.new(1, index) |> two_draws()
      for quarter <- 0..3, half <- 0..1, do: assert_in_delta(Enum.count(firsts, &(&1 == {quarter, half})), 1_250, 150)
    end

    defp two_draws(random) do
      {first, random} = Random.below(random, 4)
      {second, _random} = Random.below(random, 2)
      {first, second}
    end

    test "have the mean and the bound of a geometric distribution" do
      {draws, _random} =
        Enum.map_reduce(1..50_000, Random.new(1, 2, 3), fn _draw, random -> Random.geometric(random, 0.2, 30) end)

      assert Enum.min_max(draws) == {0, 30}
      assert_in_delta Enum.sum(draws) / 50_000, 4.0, 0.1
    end
  end
end

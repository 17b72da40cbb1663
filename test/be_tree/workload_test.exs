defmodule BeTree.WorkloadTest do
  use ExUnit.Case, async: true

  alias BeTree.{Explanation, Files, Workload}
  alias BeTree.Test.BooleanNaive
  alias BeTree.Workload.{Random, W1, W3}

  doctest BeTree.Workload

  for workload <- [W1, W3] do
    describe "#{inspect(workload)}" do
      @workload workload

      test "the same seed gives the same, another one something else" do
        parameters = %{@workload.defaults() | expressions: 20, events: 20}
        assert take_all(@workload, parameters) == take_all(@workload, parameters)

        assert [{expressions, events}, {others, other_events}] =
                 for(seed <- [1, 2], do: take_all(@workload, %{parameters | seed: seed}))

        assert expressions -- others == expressions
        assert events -- other_events == events
      end

      test "a smaller one is the beginning of a larger one" do
        large = %{@workload.defaults() | expressions: 20, events: 20}
        {expressions, events} = take_all(@workload, large)

        assert take_all(@workload, %{large | expressions: 7, events: 3}) ==
                 {Enum.take(expressions, 7), Enum.take(events, 3)}

        assert take_all(@workload, %{large | expressions: 0, events: 0}) == {[], []}
      end

      @tag :tmp_dir
      test "its files hold what it streams", %{tmp_dir: folder} do
        parameters = %{@workload.defaults() | expressions: 600, events: 30}
        files = Workload.write(@workload, parameters, Path.join(folder, "new"))
        {expressions, events} = take_all(@workload, parameters)

        assert {:ok, domains, subscriptions} =
                 Files.load(files.expressions, files |> Map.take([:domains, :constants]) |> Map.to_list())

        assert domains == @workload.domains(parameters)
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
    test "each tree uses each attribute once, with and, or and not as often as is said" do
      parameters = %{W1.defaults() | expressions: 500}
      names = for domain <- W1.domains(parameters), do: domain.name
      trees = parameters |> W1.expressions() |> Enum.map(&BooleanNaive.parse/1)

      for tree <- trees, do: assert(tree |> names() |> Enum.sort() == Enum.sort(names))

      counts = trees |> Enum.flat_map(&operators/1) |> Enum.frequencies()
      assert counts[:and] + counts[:or] == 500 * 127
      assert_in_delta counts[:and] / counts[:or], 1.0, 0.03
      assert_in_delta counts[:not] / (500 * 255), 0.12, 0.005
    end

    test "about half of the expressions match, at every number of attributes" do
      for attributes <- [64, 96, 128] do
        parameters = %{W1.defaults() | expressions: 1_500, events: 20, attributes: attributes}
        names = for domain <- W1.domains(parameters), do: domain.name
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
    setup do
      parameters = %{W3.defaults() | expressions: 5_000, events: 200}
      tree = BeTree.new!(W3.domains(parameters))
      texts = Enum.to_list(W3.expressions(parameters))
      assert BeTree.insert_all!(tree, Enum.with_index(texts, &{&2 + 1, &1})) == 5_000
      %{parameters: parameters, tree: tree, texts: texts}
    end

    test "expressions are of the published sizes", %{parameters: parameters, tree: tree, texts: texts} do
      [event] = parameters |> W3.events() |> Enum.take(1)
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

    test "events name 20 attributes, of which 10 to 30 % are null", %{parameters: parameters} do
      for {:json, json} <- W3.events(parameters) do
        fields = Regex.scan(~r/"(\w+)": /, json)
        assert fields |> Enum.uniq() |> length() == 20
        assert (length(String.split(json, ": null")) - 1) in 2..6
      end
    end

    test "from 0.1 to 1 % of the expressions match", %{parameters: parameters, tree: tree} do
      matches = parameters |> W3.events() |> Enum.map(&length(BeTree.search!(tree, &1)))
      assert Enum.sum(matches) / (200 * 5_000) > 0.001
      assert Enum.sum(matches) / (200 * 5_000) < 0.01
    end

    defp predicates(%Explanation.Node{kind: :predicate} = node), do: [node]
    defp predicates(node), do: Enum.flat_map(node.children, &predicates/1)

    defp depth(%Explanation.Node{children: []}), do: 1
    defp depth(node), do: 1 + (node.children |> Enum.map(&depth/1) |> Enum.max())
  end

  describe "random draws" do
    test "Zipf's law" do
      table = Random.zipf_table(50, 1.0)

      {ranks, _random} =
        Enum.map_reduce(1..100_000, Random.new(1, 2, 3), fn _draw, random -> Random.zipf(random, table) end)

      counts = Enum.frequencies(ranks)
      assert counts |> Map.keys() |> Enum.sort() == Enum.to_list(0..49)
      for rank <- [1, 4, 9], do: assert_in_delta(counts[0] / counts[rank] / (rank + 1), 1.0, 0.1)
    end

    test "items that lie side by side do not depend on one another" do
      firsts = for index <- 1..10_000, do: 1 |> Random.new(1, index) |> two_draws()
      for quarter <- 0..3, half <- 0..1, do: assert_in_delta(Enum.count(firsts, &(&1 == {quarter, half})), 1_250, 150)
    end

    defp two_draws(random) do
      {first, random} = Random.below(random, 4)
      {second, _random} = Random.below(random, 2)
      {first, second}
    end

    test "a geometric draw has its mean, and its bound" do
      {draws, _random} =
        Enum.map_reduce(1..50_000, Random.new(1, 2, 3), fn _draw, random -> Random.geometric(random, 0.2, 30) end)

      assert Enum.min_max(draws) == {0, 30}
      assert_in_delta Enum.sum(draws) / 50_000, 4.0, 0.1
    end
  end
end

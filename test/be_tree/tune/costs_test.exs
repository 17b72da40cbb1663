defmodule BeTree.Tune.CostsTest do
  use ExUnit.Case, async: true

  alias BeTree.Tune.Costs

  setup do
    tree = BeTree.new!(age: :integer, country: {:string, optional: true})

    BeTree.insert_all!(
      tree,
      for(id <- 1..500, do: {id, "age > #{rem(id * 37, 100)} and country <> 'c#{id}' or age = #{id}"})
    )

    %{tree: tree, events: for(age <- 1..120, do: %{age: age, country: "c#{age}"})}
  end

  test "a stop ends the searches over its budget", %{tree: tree, events: events} do
    {:ok, costs} = Costs.measure(tree, events)
    {:ok, budget} = Costs.budget(tree, events, costs)
    assert length(budget.stops) > 10
    assert hd(budget.stops).ended == 0

    for stop <- budget.stops do
      ended =
        for event <- events,
            match?({:error, %{kind: :out_of_fuel}}, BeTree.search(tree, event, fuel: stop.budget)),
            do: event

      # A search may exceed its budget by a few units.
      assert length(ended) <= stop.ended
      assert Enum.count(costs, &(&1.fuel > stop.budget + 100)) <= length(ended)
      assert stop.share == stop.ended / length(events)
    end

    assert for(stop <- budget.stops, do: stop.budget) == Enum.sort(for(stop <- budget.stops, do: stop.budget), :desc)
  end

  test "lost matches are those of the ended searches", %{tree: tree, events: events} do
    {:ok, costs} = Costs.measure(tree, events)
    {:ok, budget} = Costs.budget(tree, events, costs)

    for stop <- budget.stops do
      ids =
        for cost <- costs, cost.fuel > stop.budget, id <- BeTree.search!(tree, Enum.at(events, cost.position)), do: id

      times = Enum.frequencies(ids)
      assert stop.lost == length(ids)
      assert stop.subscriptions == map_size(times)
      assert Enum.all?(stop.most, &(times[&1.id] == &1.times))
      assert Enum.map(stop.most, & &1.times) == times |> Map.values() |> Enum.sort(:desc) |> Enum.take(10)
    end
  end

  test "the budget is the least that serves its share", %{tree: tree, events: events} do
    {:ok, costs} = Costs.measure(tree, events)
    {:ok, budget} = Costs.budget(tree, events, costs)
    assert budget.budget == costs |> Enum.map(& &1.fuel) |> Enum.max()
    assert budget.quantiles["max"] == budget.budget
    # Of a thousand searches, one may end.
    many =
      for number <- 0..999,
          do: %{position: rem(number, 120), fuel: 1_000 + number, visited: 0, evaluated: 0, matches: 0}

    {:ok, budget} = Costs.budget(tree, events, many)
    assert budget.budget == 1_998
    assert Enum.find(budget.stops, &(&1.budget == 1_998)).share == 0.001
  end

  test "no matches are counted beyond the most expensive thousand", %{tree: tree, events: events} do
    many = for number <- 1..3_000, do: %{position: rem(number, 120), fuel: number, visited: 0, evaluated: 0, matches: 0}
    {:ok, budget} = Costs.budget(tree, events, many)
    assert Enum.find(budget.stops, &(&1.ended == 1_000)).lost > 0
    assert Enum.find(budget.stops, &(&1.ended > 1_000)).lost == nil
    assert length(budget.events) == 200
  end

  test "an error has the position of its event", %{tree: tree, events: events} do
    assert {:error, %{kind: :missing_attribute, position: 2}} = Costs.measure(tree, Enum.take(events, 2) ++ [%{}])
  end
end

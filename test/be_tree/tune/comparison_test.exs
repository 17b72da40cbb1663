defmodule BeTree.Tune.ComparisonTest do
  use ExUnit.Case, async: true

  alias BeTree.Tune
  alias BeTree.Input.Json
  alias BeTree.Tune.Comparison

  defp run(expressions, ages \\ 1..50) do
    tree = BeTree.new!(age: :integer)
    subscriptions = for id <- 1..expressions, do: {id, "not (age < #{id}) or age = #{id}"}
    BeTree.insert_all!(tree, subscriptions)
    Tune.run!(tree, for(age <- ages, do: %{age: age}), seconds: nil, subscriptions: subscriptions)
  end

  defp compare(new, old, threshold) do
    {:ok, earlier} = old |> Tune.to_json() |> Tune.read()
    Tune.compare(new, earlier, threshold)
  end

  defp document(run), do: run |> Tune.to_json() |> Json.decode!()

  defp timed(document, factor, machine \\ %{}) do
    turns = fn value -> for number <- 1..20, do: value * (1 + 0.02 * :math.sin(number)) end

    document
    |> Map.merge(%{
      "verdict" => %{"state" => "clear"},
      "turns" => %{
        "default" => %{
          "rate" => turns.(1_000 / factor),
          "latency_p50_us" => turns.(10 * factor),
          "latency_p99_us" => turns.(50 * factor)
        },
        "default_crowd" => %{"late_p99_us" => turns.(1_000 * factor)}
      }
    })
    |> Map.update!("machine", &Map.merge(&1, machine))
  end

  test "a run equals itself" do
    document = document(run(100))
    comparison = Comparison.compare(document, document, 0.0)
    refute comparison.worse
    assert comparison.changes == []
    assert Enum.all?(comparison.lines, &(&1.ratio == 1.0))
    assert comparison.not_compared == ["One run measured fuel only, so times are not compared."]
  end

  test "more expressions cost more fuel, and the change is named" do
    {old, new} = {run(100), run(200)}
    %{comparison: comparison} = compare(new, old, 0.05)
    assert comparison.worse
    [total | _] = comparison.lines
    assert total.old == old.costs |> Enum.map(& &1.fuel) |> Enum.sum()
    assert total.new == new.costs |> Enum.map(& &1.fuel) |> Enum.sum()
    assert total.ratio == total.new / total.old and total.low == total.ratio
    assert Enum.any?(comparison.changes, &(&1 == "number of expressions: 100 became 200"))
    assert [%{position: position, old: before, new: now} | _] = comparison.events
    assert before == Enum.at(old.costs, position).fuel and now == Enum.at(new.costs, position).fuel

    # Improvements are no fault, and a large threshold permits the rest.
    better = compare(old, new, 0.05)
    refute better.comparison.worse
    allowed = compare(new, old, 10.0)
    refute allowed.comparison.worse
  end

  test "other events are a sample: only certain differences count" do
    {one, other} = {run(100, 1..40), run(100, 2..41)}
    %{comparison: comparison} = compare(other, one, 0.02)
    assert [%{name: "median fuel of an event, other events", low: low, high: high}] = comparison.lines
    assert low < high
    refute comparison.worse
    %{comparison: comparison} = compare(run(300, 2..41), one, 0.02)
    assert comparison.worse
  end

  test "times are compared on the same machine, by intervals" do
    document = document(run(10))
    times = fn new, threshold -> Comparison.compare(timed(document, 1.0), new, threshold) end
    refute times.(timed(document, 1.0), 0.05).worse
    refute times.(timed(document, 1.03), 0.05).worse
    worse = times.(timed(document, 1.2), 0.05)
    assert Enum.map(Enum.filter(worse.lines, & &1.worse), & &1.unit) == ["1/s", "us", "us", "us"]
    refute times.(timed(document, 0.8), 0.05).worse

    other = times.(timed(document, 2.0, %{"cpu" => "another"}), 0.05)
    refute other.worse
    assert Enum.any?(other.not_compared, &(&1 =~ "different machines"))
    noisy = times.(Map.put(timed(document, 2.0), "verdict", %{"state" => "too_noisy"}), 0.05)
    assert Enum.any?(noisy.not_compared, &(&1 =~ "too noisy in the new run"))
  end

  test "refuses JSON that is no run" do
    assert {:error, %{kind: :syntax, message: message}} = Tune.read(~S({"format": "other"}))
    assert message =~ "not a run of mix be_tree.tune"
    assert {:error, %{kind: :syntax, message: "invalid JSON at byte 1"}} = Tune.read("[")
  end
end

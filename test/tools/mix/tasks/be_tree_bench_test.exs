defmodule Mix.Tasks.BeTree.BenchTest do
  use ExUnit.Case

  # Compiled by the task, which every test here has run before.
  @compile {:no_warn_undefined, [BeTree.Bench.Bars, BeTree.Bench.Cases, BeTree.Bench.Json]}

  alias BeTree.Bench.{Bars, Cases, Json}

  setup do
    message = refusal(["--only", "W7"])
    assert message == ~s(there is no workload "W7", only tiny, W1, W3, W4, W8, W9, W2, W6, W5, adversaries)
    :ok
  end

  defp refusal(arguments), do: Exception.message(assert_raise(Mix.Error, fn -> run(arguments) end))
  defp run(arguments), do: Mix.Task.rerun("be_tree.bench", arguments)

  test "refuses what is no option" do
    assert refusal(["W1"]) == ~s("W1" belongs to no option)
    assert refusal(["--fast"]) =~ "--fast : Unknown option"
  end

  test "every case has a name of its own, and formats that its workload can be written in" do
    names = Cases.names() -- ["tiny", "adversaries"]
    cases = for name <- names, quick <- [true, false], bench <- Cases.of(name, quick), do: bench
    for bench <- cases, do: assert(Map.keys(bench.parameters) == Map.keys(bench.workload.defaults()))

    full = for name <- names, bench <- Cases.of(name, false), do: bench.name
    assert Enum.uniq(full) == full

    for bench <- cases, engine <- bench.engines ++ bench.peers do
      [_engine, format] = String.split(engine, ":")
      assert String.to_existing_atom(format) in bench.formats
    end
  end

  test "reads the JSON of workloads, and writes that of results" do
    assert Json.decode(~s({"a": null, "b": [1, -2], "c": 0.5, "d": "x_1", "e": [], "f": true})) ==
             %{"a" => nil, "b" => [1, -2], "c" => 0.5, "d" => "x_1", "e" => [], "f" => true}

    assert Json.encode(%{a: nil, b: [1, "x\"\\"], c: 0.5, d: :e}) == ~S({"a":null,"b":[1,"x\"\\"],"c":0.5,"d":"e"})
  end

  test "a bar holds up to its limit, and lines that lack a measurement are left out" do
    rows = [
      %{case: "W1@128", engine: "search", format: "record", total_p50: 60_000},
      %{case: "W1@128", engine: "guest", format: "record", total_p50: 17_000},
      %{case: "W1@128", engine: "index", format: "record", total_p50: 10_000},
      %{case: "W1@128", engine: "a-tree", format: "record", skipped: "it takes too long"},
      %{case: "W1@128", engine: "insert_all", format: "", build: 3_000_000, memory_bytes: 7_000, expressions: 5}
    ]

    lines = for bar <- Bars.of(%{name: "W1@128"}, rows), do: {bar.text, bar.value, bar.holds}

    assert lines == [
             {"one event from Elixir", 60.0, true},
             {"one event in the sandbox", 17.0, true},
             {"sandbox with fuel / native", 1.7, true},
             {"insert_all", 3.0, false},
             {"memory an expression", 1_400.0, true}
           ]
  end
end

defmodule Mix.Tasks.BeTree.BenchTest do
  use ExUnit.Case

  # Every test here runs the task first, which compiles this module.
  @compile {:no_warn_undefined, [BeTree.Bench.Bars, BeTree.Bench.Cases, BeTree.Bench.Readme]}

  alias BeTree.Bench.{Bars, Cases, Readme}

  setup do
    message = refusal(["--only", "W7"])
    assert message == ~s(there is no workload "W7", only tiny, W1, W3, W4, W8, W9, structures, W2, W6, W5, adversaries)
    :ok
  end

  defp refusal(arguments), do: Exception.message(assert_raise(Mix.Error, fn -> run(arguments) end))
  defp run(arguments), do: Mix.Task.rerun("be_tree.bench", arguments)

  test "refuses unknown options" do
    assert refusal(["W1"]) == ~s("W1" belongs to no option)
    assert refusal(["--fast"]) =~ "--fast : Unknown option"
  end

  test "each case has a unique name and formats of its workload" do
    names = Cases.names() -- ["tiny", "structures", "adversaries"]
    cases = for name <- names, quick <- [true, false], bench <- Cases.of(name, quick), do: bench
    for bench <- cases, do: assert(Map.keys(bench.parameters) == Map.keys(bench.workload.defaults()))

    full = for name <- names, bench <- Cases.of(name, false), do: bench.name
    assert Enum.uniq(full) == full

    for bench <- cases, engine <- bench.engines ++ bench.peers do
      [_engine, format] = String.split(engine, ":")
      assert String.to_existing_atom(format) in bench.formats
    end
  end

  # Numbers and processor names are placeholders.
  defp shape(text) do
    text |> String.replace(~r/on one core \(.*\)\./, "on one core (CPU).") |> String.replace(~r/\d[\d,.]*(?= |$)/m, "N")
  end

  defp rows(scale) do
    for name <- ["W1@128", "W3@10k", "W3@100k", "W3@1M", "W4@100k"],
        row <- [
          %{engine: "search", format: "json", total_p50: 9_100 * scale, matches: 1_000 * scale, verified: 2},
          %{engine: "search", format: "term", total_p50: 1, matches: 1_000 * scale, verified: 2},
          %{engine: "scan", format: "json", total_p50: 33_000_000 * scale},
          %{engine: "insert_all", format: "", build: 16_400_000 * scale, memory_bytes: 2_640_000, expressions: 10_000}
        ],
        do: Map.put(row, :case, name)
  end

  test "the README's table has the shape of a full run's" do
    readme = File.read!("README.md")
    text = Readme.text(%{cpu: "A processor"}, rows(1))
    assert shape(Readme.present(readme)) == shape(text)
    assert shape(Readme.present(readme)) == shape(Readme.text(%{cpu: "Another"}, rows(7)))
    assert text =~ "| 10,000 ad-targeting expressions | 500 | 9.1 us | 33,000 us |\n"
    assert text =~ "The million takes 16 seconds to insert and 264 bytes an expression."

    # Only the text between the marks is replaced.
    written = Readme.replace(readme, text)
    assert Readme.present(written) == text
    assert Readme.replace(written, Readme.present(readme)) == readme
  end

  test "a run without all cases of the table leaves the README unchanged" do
    before = File.read!("README.md")
    refute Readme.write(%{cpu: "A processor"}, Enum.reject(rows(1), &(&1.case == "W4@100k")))
    assert File.read!("README.md") == before
  end

  test "a bar holds up to its limit, and lines without a measurement are omitted" do
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

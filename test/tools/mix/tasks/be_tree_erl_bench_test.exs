defmodule Mix.Tasks.BeTree.ErlBenchTest do
  use BeTree.Test.TaskCase, task: "be_tree.erl_bench"

  defp small(folder, events), do: ["--dir", folder, "--expressions", "20", "--events", "#{events}"]

  test "generates, measures and prints the tables", %{tmp_dir: folder} do
    run(["generate" | small(folder, 2_000)])

    assert Enum.map(all_said(), &(&1 |> String.split(":") |> hd())) == [
             "64 parameters",
             "96 parameters",
             "128 parameters"
           ]

    run(["measure" | small(folder, 2_000)])
    assert ["64 parameters: 20 expressions, built in " <> _, std, _all, next, _event, "96 " <> _ | _] = all_said()
    assert std =~ ~r"^  betree_search/2: 2,000 events, [\d.]+ us each, in #{folder}/stats_P_64_std.txt$"
    assert next =~ "search_next/1 until the last candidate: 2,000 events"
    stats = for parameters <- [64, 96, 128], do: Path.join(folder, "stats_P_#{parameters}_std.txt")
    for path <- stats, {:ok, terms} = :file.consult(path), do: assert([_, _] = terms[:nano_diffs])

    run(["compare_stats", "--dir", folder])
    assert [tables] = all_said()
    assert [ratios, times] = Regex.split(~r/(?<==\+\n)(?=\+=)/, tables)

    for table <- [ratios, times],
        do: assert(Regex.scan(~r/^\| +(\d+) /m, table, capture: :all_but_first) == [["64"], ["96"], ["128"]])

    assert length(Regex.scan(~r/median: -?\d+% +\|/, ratios)) == 9
    assert length(Regex.scan(~r/ [\d.]+ us +\|/, times)) == 12

    run(["compare_stats", hd(stats), hd(stats)])
    assert [" range: (0%, 0%)\nmedian: 0%\n  99th: 0%\nbetter: 0%\n  event: " <> _] = all_said()
  end

  test "writes the statistics of one way and, on request, its ids", %{tmp_dir: folder} do
    one = ["--parameters", "96" | small(folder, 1_000)]
    run(["generate" | one])
    for way <- ["std", "iterated_all"], do: run([way, "--output" | one])
    for way <- ["iterated_next", "with_event"], do: run([way | one])

    assert folder |> File.ls!() |> Enum.sort() ==
             ["P_96_Ev_1_000.txt", "P_96_Ex_20.txt", "output_P_96_all.txt", "output_P_96_std.txt"] ++
               for(way <- ~w(all event next std), do: "stats_P_96_#{way}.txt")

    outputs = for way <- ["std", "all"], do: Path.join(folder, "output_P_96_#{way}.txt")
    all_said()
    run(["diff" | outputs])
    assert all_said() == ["1,000 events, no differences"]
    run(["check" | one])
    assert ["96 parameters: " <> _, "1,000 events, no differences"] = all_said()

    [_first | rest] = outputs |> hd() |> File.read!() |> String.split("\n")
    outputs |> hd() |> File.write!(Enum.join(["[21]." | rest], "\n"))
    assert refusal(["diff" | outputs]) == "1,000 events, 1 differences"
    assert [text] = all_said()
    assert text =~ ~r"^event 1: .*only the first has \[21\], only the second \[\d+"
  end

  test "evaluates fewer events than one sum without comparing them", %{tmp_dir: folder} do
    one = ["--parameters", "64" | small(folder, 10)]
    run(["generate" | one])
    run(["measure" | one])
    assert List.last(all_said()) =~ "10 events, fewer than a sum has"
    assert refusal(["compare_stats", "--dir", folder]) =~ "stats_P_64_std.txt: has no sums"
  end

  test "refuses wrong arguments and names the right ones", %{tmp_dir: folder} do
    assert refusal([]) =~ "a command is to be named\n\nUsage: mix be_tree.erl_bench generate|std|"
    assert refusal(["standard"]) =~ "there is no command standard, only generate, std, iterated_all, iterated_next"
    assert refusal(["std", "more"]) =~ "more arguments than std takes\n\nUsage: "
    assert refusal(["diff", "one"]) =~ "diff compares two files\n\nUsage: "
    assert refusal(["compare_stats", "one"]) =~ "compare_stats compares two files, or without them"
    assert refusal(["std", "--parameters", "65"]) == "--parameters is 64, 96 or 128, got: 65"
    assert refusal(["std", "--events", "-1"]) == "--events is 0 or more, got: -1"
    assert refusal(["std", "--event", "1"]) =~ "--event : Unknown option. Did you mean --events?"
    assert refusal(["check", "--output"]) == "--output belongs to std, iterated_all, iterated_next, with_event"

    assert refusal(["std", "--dir", folder]) ==
             "there is no #{folder}/P_64_Ex_5_000.txt; mix be_tree.erl_bench generate, with the same options, makes it"

    assert refusal(["compare_stats", "--dir", folder]) == "#{folder}: has no statistics of two ways to be compared"
    assert refusal(["diff", Path.join(folder, "gone"), folder]) =~ "gone: no such file or directory"

    file = Path.join(folder, "file")
    File.write!(file, "")
    assert refusal(["generate", "--dir", file]) =~ "could not make directory"
  end
end

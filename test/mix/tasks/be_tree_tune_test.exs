defmodule Mix.Tasks.BeTree.TuneTest do
  use BeTree.Test.TaskCase, task: "be_tree.tune"

  import BeTree.Test.Files

  alias BeTree.Input.Json

  defp files(folder, expressions \\ 100) do
    texts = for id <- 1..expressions, do: "age > #{rem(id * 7, 100)} and country <> \"c#{id}\"\n"

    [
      "--schema",
      write(folder, "defs", "age|integer|false|0|120\ncountry|string|true\n"),
      "--expressions",
      write(folder, "exprs#{expressions}", Enum.join(texts)),
      "--events",
      write(folder, "events", for(age <- 1..60, do: ~s({"age": #{age}, "country": "c#{age}"}\n)))
    ]
  end

  defp tune(arguments, folder), do: run(arguments ++ ["--quiet", "--out", Path.join(folder, "out")])
  defp refused(arguments, folder), do: String.replace(refusal(arguments), folder <> "/", "")

  test "--calibrate measures this machine and prints the configuration" do
    run(["--calibrate"])
    output = said()

    assert [[_, fuel, rate], [_, _, _]] =
             Regex.scan(~r/^W[13]: ([\d,]+) fuel a search, ([\d,]+) fuel a microsecond$/m, output)

    assert number(fuel) > 100_000
    # From the slowest machine in a debugger to ten times the fastest.
    assert number(rate) in 50..100_000
    assert output =~ ~r/^ +10,000 +[+-]\d+\.\d % +[+-]\d+\.\d %$/m
    assert output =~ ~r/^ +10,000,000 +no yield +no yield$/m
    assert [_, ratio] = Regex.run(~r/^    config :be_tree, fuel_per_reduction: (\d+)$/m, output)
    assert_in_delta String.to_integer(ratio), number(rate) / 4, number(rate) / 4
  end

  test "--budget prints what budgets would end, and writes the run", %{tmp_dir: folder} do
    tune(files(folder) ++ ["--budget"], folder)
    output = said()
    assert output =~ ~r/^100 expressions, 60 events\. Fuel of an event: p50 [\d,]+, p90 /
    assert output =~ ~r/^Fuel by phase: \w+ \d+\.\d %, /m
    assert output =~ ~r/^  +fuel  of the searches  searches  matches lost  expressions affected$/m
    assert output =~ ~r/^ +[\d,]+ +0\.0 % +0 +0 +0$/m
    assert output =~ ~r/^The most expensive events: line \d+ \([\d,]+ fuel, \d+ matches\)/m
    assert [_, budget] = Regex.run(~r/With some room: fuel: ([\d_]+)/, output)
    assert output =~ ~r/^The expressions that lose the most matches with [\d,]+ fuel: \d+ \(\d+\)/m
    refute output =~ "RECOMMENDED"

    json = folder |> Path.join("out/tune.json") |> File.read!() |> Json.decode!()
    assert String.to_integer(String.replace(budget, "_", "")) >= Enum.max(json["fuel"])
    assert length(json["fuel"]) == 60
    assert json["sweep"] == nil
    assert Enum.sum(for phase <- json["profile"]["phases"], do: phase["fuel"]) == Enum.sum(json["fuel"])
    assert said() =~ ~r/(The report: .*tune\.html|No report: )[^\n]*\nFor a later --compare: .*tune\.json/
  end

  test "says before it measures that the page is missing, and what to run", %{tmp_dir: folder} do
    page = Application.app_dir(:be_tree, "priv/tune.html")
    aside = Path.join(folder, "page")

    if File.exists?(page) do
      File.cp!(page, aside)
      File.rm!(page)
      on_exit(fn -> File.cp!(aside, page) end)
    end

    # Refused after the warning, and before anything is measured.
    message = refusal(["--expressions", "nowhere", "--events", "nowhere", "--out", Path.join(folder, "out")])
    assert message =~ "nowhere: no such file"
    assert_received {:mix_shell, :error, ["There will be no page with charts" <> text]}
    assert text =~ "make report"
  end

  test "recommends a configuration, or reports a noisy machine", %{tmp_dir: folder} do
    tune(files(folder) ++ ["--seconds", "1"], folder)
    output = said()
    assert output =~ ~r/^\d+ configurations, 5 rounds of 60 ms each\. Those that no other one surpasses/m
    assert output =~ ~r/^(TOO NOISY: this machine allows no recommendation now|RECOMMENDED)/m
    json = folder |> Path.join("out/tune.json") |> File.read!() |> Json.decode!()

    case json["verdict"]["state"] do
      "clear" ->
        assert output =~ "    config :be_tree, fuel_per_reduction: " and output =~ "BeTree.publish(tree, replicas: "

      "too_noisy" ->
        assert json["verdict"]["noise"] != []
    end

    assert length(json["turns"]["default"]["rate"]) == json["sweep"]["confirmation"]["rounds"]
    beside = for cell <- json["sweep"]["charts"]["beside"], do: Enum.at(json["sweep"]["cells"], cell)["processes"]
    schedulers = System.schedulers_online()
    assert Enum.uniq(Enum.sort(beside)) == Enum.uniq([0, 1, schedulers, 4 * schedulers])
  end

  test "--compare fails past the threshold and keeps the earlier run", %{tmp_dir: folder} do
    run(files(folder) ++ ["--budget", "--out", Path.join(folder, "old")])
    old = Path.join(folder, "old/tune.json")
    before = File.read!(old)
    all_said()

    tune(files(folder) ++ ["--budget", "--compare", old], folder)
    assert said() =~ "nothing that is measured changed: the same expressions, events and versions"
    all_said()

    message = refused(files(folder, 300) ++ ["--budget", "--compare", old, "--out", Path.join(folder, "out")], folder)
    assert message =~ ~r/\Aworse than before by more than 5\.00 %: fuel of all events \+\d+(\.\d+)? %; /
    output = said()
    assert output =~ "number of expressions: 100 became 300"
    assert output =~ ~r/The events whose fuel grew the most: line \d+ \+\d+(\.\d+)? %, line /

    tune(files(folder, 300) ++ ["--budget", "--compare", old, "--threshold", "1000.0"], folder)
    assert File.read!(old) == before

    assert refused(files(folder) ++ ["--budget", "--compare", old, "--out", Path.join(folder, "old")], folder) =~
             "old/tune.json: the command reads this file too, as old/tune.json; name another file for the output"

    assert refused(files(folder) ++ ["--compare", Path.join(folder, "none")], folder) ==
             "none: no such file or directory"

    assert refused(
             files(folder) ++ ["--budget", "--compare", write(folder, "no_json", "{}"), "--out", folder <> "/o"],
             folder
           ) =~
             ~r/\Ano_json: not a run of mix be_tree.tune/
  end

  test "tunes an image", %{tmp_dir: folder} do
    [_, schema, _, expressions, _, events] = files(folder)
    image = Path.join(folder, "image")
    Mix.Task.rerun("be_tree.image", ["build", "--schema", schema, "--expressions", expressions, "--out", image])
    all_said()
    tune(["--image", image, "--events", events, "--budget"], folder)
    assert said() =~ "100 expressions, 60 events."
  end

  test "refuses wrong options and names the right ones", %{tmp_dir: folder} do
    assert refusal([]) =~ "--expressions, --events missing\n\nUsage: mix be_tree.tune --expressions FILE --events FILE"
    assert refusal(["fast"]) =~ ~s("fast" belongs to no option\n\nUsage: )
    assert refusal(["--workload", "W9"]) =~ "there is no workload W9, only W1 and W3"
    assert refusal(["--workload", "W1", "--events", "x"]) =~ "--workload and --events exclude each other"
    assert refusal(["--workload", "W1", "--image", "x"]) =~ "--image and --workload exclude each other"
    assert refusal(["--workload", "W1", "--budget", "--quick"]) =~ "--budget and --quick exclude each other"
    assert refusal(["--workload", "W1", "--threshold", "3.0"]) =~ "--threshold belongs to --compare"
    assert refusal(["--workload", "W1", "--seconds", "0"]) =~ "--seconds is 1 or more, got: 0"
    assert refusal(["--workload", "W1", "--schema", "x"]) =~ "--schema belongs to --expressions"
    assert refusal(["--calibrate", "--budget"]) =~ "--calibrate and --budget exclude each other"
    assert refusal(["--seconds", "soon"]) =~ ~s(--seconds : Expected type integer, got "soon")

    [_, schema, _, expressions, _, _] = files(folder)
    empty = write(folder, "empty", "")

    assert refused(["--schema", schema, "--expressions", expressions, "--events", empty], folder) ==
             "empty: there are no events to measure with"

    wrong = write(folder, "wrong", ~s({"age": 3}\n{"country": "CA"}\n))

    assert refused(["--schema", schema, "--expressions", expressions, "--events", wrong, "--budget"], folder) =~
             ~r/\Awrong:2.*`age`/
  end

  defp number(text), do: text |> String.replace(",", "") |> String.to_integer()
end

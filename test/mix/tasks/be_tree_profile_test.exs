defmodule Mix.Tasks.BeTree.ProfileTest do
  use BeTree.Test.TaskCase, task: "be_tree.profile"

  import BeTree.Test.Files

  # Devices lead to expressions, which then fail on the place.
  defp files(folder, events \\ ~s({"device": "tv", "geo": "g3"}\n{"device": "pc"}\n)) do
    expressions = for id <- 1..40, do: "device = 'tv' and not (geo = 'g#{id}' or geo is null) and geo <> 'x'\n"

    [
      "--schema",
      write(folder, "defs", "device|string|false\ngeo|string|true\n"),
      "--expressions",
      write(folder, "exprs", Enum.join(expressions)),
      "--events",
      write(folder, "events", events)
    ]
  end

  test "prints the fuel by phase, attribute, expression and event", %{tmp_dir: folder} do
    folded = Path.join(folder, "search.folded")
    run(files(folder) ++ ["--folded", folded, "--top", "3"])
    text = said()
    assert text =~ ~r/^2 searches, ([\d,]+) fuel, [\d,]+ a search$/m
    assert text =~ ~r/^decode +[\d,]+ +\d+\.\d$/m
    assert text =~ ~r/^attribute that leads +lookups +nodes +entries +proven +candidates +failed$/m
    assert text =~ ~r/^event, from 0 +fuel +visited +evaluated +matches\n0 +[\d,]+ +40 +/m
    [total] = Regex.run(~r/searches, ([\d,]+) fuel/, text, capture: :all_but_first)

    stacks = folded |> File.read!() |> String.split("\n", trim: true)
    assert Enum.all?(stacks, &(&1 =~ ~r/^search(;[^;]+)+ \d+$/))
    fuel = Enum.sum(for stack <- stacks, do: stack |> String.split(" ") |> List.last() |> String.to_integer())
    assert fuel == total |> String.replace(",", "") |> String.to_integer()

    run(files(folder) ++ ["--top", "0"])
    refute said() =~ "candidate "
  end

  test "profiles an image like its files", %{tmp_dir: folder} do
    ["--schema", schema, "--expressions", expressions, "--events", events] = files = files(folder)
    image = Path.join(folder, "index.wasm")
    Mix.Task.rerun("be_tree.image", ["build", "--schema", schema, "--expressions", expressions, "--out", image])
    all_said()
    run(files)
    built = said()
    run(["--image", image, "--events", events])
    # The two decode names in tables of different sizes.
    assert counts(said()) == counts(built)
  end

  defp counts(text), do: ~r/^attribute.*^event/ms |> Regex.run(text) |> hd()

  test "accepts no events, and reports faults of files and arguments", %{tmp_dir: folder} do
    run(files(folder, ""))
    assert said() == "There are no events."
    assert refusal(files(folder, "{\"device\": \"tv\"}\n{}\n")) =~ "events:2: "
    assert refusal(["--events", "x"]) =~ "--expressions missing\n\nUsage: mix be_tree.profile"
    assert refusal(files(folder) ++ ["--image", "x"]) =~ "--image and --expressions exclude each other"
    assert refusal(files(folder) ++ ["--top", "-1"]) =~ "--top is 0 or more, got: -1"
    assert refusal(files(folder) ++ ["--folded", Path.join(folder, "no/folder")]) =~ "no such file or directory"
  end
end

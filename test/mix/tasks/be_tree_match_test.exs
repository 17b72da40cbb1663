defmodule Mix.Tasks.BeTree.MatchTest do
  use BeTree.Test.TaskCase, task: "be_tree.match"

  import BeTree.Test.Files
  import ExUnit.CaptureIO

  alias BeTree.Test.BooleanNaive
  alias BeTree.Workload

  # Returns the message without the folder of the test.
  defp refusal(arguments, folder), do: String.replace(refusal(arguments), folder <> "/", "")

  test "finds what the naive evaluator finds, in Erlang terms", %{tmp_dir: folder} do
    parameters = %{Workload.W1.defaults() | expressions: 200, events: 50, attributes: 64}
    files = Workload.write(Workload.W1, parameters, folder)
    out = Path.join(folder, "results")
    run(["--expressions", files.expressions, "--events", files.events, "--out", out])

    {_names, expressions, events} = BooleanNaive.read(files.expressions, files.events)

    expected =
      for event <- events, do: inspect(BooleanNaive.matches(expressions, event), limit: :infinity, width: :infinity)

    assert out |> File.read!() |> String.split("\n", trim: true) == Enum.map(expected, &String.replace(&1, " ", ""))

    summary = said()
    assert summary =~ ~r/^  expressions            200, built in [\d,]+ ms$/m
    assert summary =~ ~r/^  events                 50, [\d,]+ a second$/m
    assert summary =~ ~r/^  matches                [\d,]+, \d+(\.\d+)? an event \(\d+\.\d+ %\)$/m
    assert summary =~ ~r/^  microseconds an event  p50 \d+\.\d, p99 \d+\.\d$/m
    assert summary =~ ~r/^  fuel                   [\d,]+, [\d,]+ an event$/m
    assert summary =~ ~r/^  slices                 [\d,]+, \d+\.\d\d an event$/m
    refute summary =~ "visited"
  end

  test "reads be-tree's lines with constants, and prints statistics", %{tmp_dir: folder} do
    files = %{
      schema: write(folder, "defs", "age|integer|false|0|120\ncountry|string|true\n"),
      expressions: write(folder, "exprs", "age >= 21\ncountry = \"CA\" and not (age < 65)\n"),
      constants: write(folder, "constants", "30,1,1,1,1\n20,1,1,1,1\n"),
      events: write(folder, "events", ~s({"age": 70, "country": "CA"}\n{"age": 3}\n\n{"age":21,"country":null}\n))
    }

    out = Path.join(folder, "results")
    arguments = for {role, path} <- files, argument <- ["--#{role}", path], do: argument
    run(arguments ++ ["--out", out, "--stats"])

    assert File.read!(out) == "[20,30]\n[]\n[30]\n"
    assert said() =~ ~r/^  matches                3, 1.00 an event \(50.00 %\)$/m
    index = said()
    assert index =~ ~r/^  entries visited        \d+, /m
    assert index =~ ~r/^  index expressions      2$/m
  end

  test "counts values that do not fit, in JSON, positional events and images", %{tmp_dir: folder} do
    json = [
      schema: write(folder, "defs", "age|integer|true\ncountry|string|false\n"),
      expressions: write(folder, "exprs", "country = \"CA\"\nage > 3\n"),
      events: write(folder, "events", ~s({"age": "70", "country": "CA"}\n{"age": 4, "country": "US"}\n))
    ]

    terms = [
      expressions:
        write(
          folder,
          "terms",
          ~s([{age,int,allow_undefined},{country,bin,disallow_undefined}].\n<<"country = 'CA'">>.\n<<"age > 3">>.\n)
        ),
      events: write(folder, "term_events", ~s([<<"70">>,<<"CA">>].\n[4,<<"US">>].\n))
    ]

    image = Path.join(folder, "image.wasm")
    {:ok, schema, subscriptions} = BeTree.Files.load(json[:expressions], schema: json[:schema])
    tree = BeTree.new!(schema)
    BeTree.insert_all!(tree, subscriptions)
    BeTree.Image.write!(tree, image)

    for files <- [json, terms, [image: image, events: json[:events]]] do
      out = Path.join(folder, "results")
      arguments = for {role, path} <- files, argument <- ["--#{role}", path], do: argument
      assert refusal(arguments) =~ "`age`"
      run(arguments ++ ["--out", out, "--on-mismatch", "undefined"])
      assert File.read!(out) == "[1]\n[2]\n"
      assert said() =~ ~r/^  values that do not fit +1$/m
      assert refusal(arguments ++ ["--on-mismatch", "none"]) =~ "--on-mismatch is error or undefined, got: none"
    end
  end

  test "reads EventBridge patterns without a file of attributes", %{tmp_dir: folder} do
    patterns = ~s({"source": ["a", "b"]}\n\n {"detail": {"n": [{"numeric": [">", 1]}], "tags": [{"exists": true}]}}\n)
    events = ~s({"source": "b", "detail": {"n": 2, "tags": ["x"]}}\n{"source": "c", "detail": {"n": 2}}\n{"id": 1}\n)
    files = ["--expressions", write(folder, "patterns", patterns), "--events", write(folder, "events", events)]
    out = Path.join(folder, "results")
    run(files ++ ["--out", out])
    assert File.read!(out) == "[1,2]\n[]\n[]\n"

    # The schema tells which fields have arrays.
    schema = write(folder, "defs", "source|string list|true\ndetail.n|float|true\ndetail.tags|string list|true\n")
    listed = write(folder, "listed", ~s({"source": ["b", "c"]}\n))
    run(["--expressions", files |> Enum.at(1), "--events", listed, "--schema", schema, "--out", out])
    assert File.read!(out) == "[1]\n"

    for {text, expected} <- [
          {~s({"a": ["x"]}\n{"a": [1]}\n), "patterns:2: `a` is tested as a string and as a number"},
          {~s({"a": ["x"]}\n{"b": "x"}\n), "patterns:2: `b`: a field has an object or an array"},
          {~s({"a": ["x"]}\n{"b": [x]}\n), "patterns:2:8: the pattern is no JSON here; give a JSON object"},
          {~s({"a": ["x"]}\n{"a": {"b": ["x"]}}\n), "patterns: attribute `a` is of type string, so `a.b` cannot"}
        ] do
      path = write(folder, "patterns", text)
      assert refusal(["--expressions", path, "--events", Enum.at(files, 3)], folder) =~ expected
    end
  end

  test "writes results to the standard output and everything else to the standard error", %{tmp_dir: folder} do
    expressions = write(folder, "exprs", "[{a,bool,disallow_undefined}].\n<<\"a\">>.\n<<\"not a\">>.\n")
    events = write(folder, "events", "[1].\n[0].\n")

    error =
      capture_io(:stderr, fn ->
        output = capture_io(fn -> run(["--expressions", expressions, "--events", events, "--out", "-"]) end)
        assert output == "[1]\n[2]\n"
      end)

    assert error =~ "  events                 2, "
    refute_received {:mix_shell, :info, _text}
  end

  test "accepts an empty file of events", %{tmp_dir: folder} do
    expressions = write(folder, "exprs", "[{a,bool,disallow_undefined}].\n<<\"a\">>.\n")
    run(["--expressions", expressions, "--events", write(folder, "events", "")])
    assert said() =~ ~r/^  matches                0, 0 an event \(0 %\)$/m
  end

  test "reports faults of files with their place", %{tmp_dir: folder} do
    domains = write(folder, "defs", "age|integer|false\n")
    bad = write(folder, "bad", "age > 3\nage > 3 and\n")
    good = write(folder, "good", "age > 3\n")
    events = write(folder, "events", ~s({"age": 3}\n{"age": "x"}\n))

    assert refusal(["--schema", domains, "--expressions", bad, "--events", events], folder) =~
             ~r/\Abad:2:12: .*\n\n    age > 3 and\n               \^\z/

    assert refusal(["--schema", domains, "--expressions", good, "--events", events], folder) =~
             ~r/\Aevents:2.*: .*`age`/

    events = write(folder, "events", ~s({"age": 3}\n{"age": 3\n))
    assert refusal(["--schema", domains, "--expressions", good, "--events", events], folder) =~ ~r/\Aevents:2:\d+: /

    assert refusal(["--schema", domains, "--expressions", good, "--events", Path.join(folder, "none")], folder) ==
             "none: no such file or directory"
  end

  test "refuses wrong options and names the right ones", %{tmp_dir: folder} do
    path = write(folder, "exprs", "[{a,bool,disallow_undefined}].\n<<\"a\">>.\n")
    assert refusal([]) =~ "--expressions, --events missing\n\nUsage: mix be_tree.match --expressions FILE --events FILE"
    assert refusal(["--expressions", path, "more"]) =~ "\"more\" belongs to no option\n\nUsage: "
    assert refusal(["--expression", path]) =~ "Did you mean --expressions?"

    nowhere = Path.join([folder, "none", "out"])
    message = refusal(["--expressions", path, "--events", write(folder, "events", ""), "--out", nowhere])
    assert message == "#{nowhere}: no such file or directory"
  end
end

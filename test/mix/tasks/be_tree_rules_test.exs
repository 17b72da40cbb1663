defmodule Mix.Tasks.BeTree.RulesTest do
  use BeTree.Test.TaskCase, task: "be_tree.rules"

  import BeTree.Test.Quiet

  @rules "examples/rules/orders.rules"
  @facts "examples/rules/orders.jsonl"

  test "prints notices, totals and the most expensive rules" do
    run(["run", @rules, @facts, "--until", "3600000"])
    said = Enum.join(all_said(), "\n")
    assert said =~ ~s(underpaid {"missing":4.5,"order":1}\nunpaid {"order":2,"user":"bob"}\n)
    assert said =~ "5 facts inserted, "
    assert said =~ "2 firings, 2 notices"
    assert said =~ ~r/fuel for firings, [\d,]+ a firing/
    assert said =~ ~r/^  unpaid: 1 firings, [\d,]+ fuel each$/m
    assert said =~ ~r/^  underpaid: 1 firings, [\d,]+ fuel each$/m
  end

  test "prints the fact types without a window in the last line", %{tmp_dir: folder} do
    rules = Path.join(folder, "some.rules")
    facts = Path.join(folder, "facts.jsonl")

    bounded =
      "fact a(x: integer)\nrule late when a: a none a(x = a.x + 1) within 1 minutes after a then notify late(x: a.x)\n"

    File.write!(facts, ~s({"a": {"x": 1, "at": 0}}\n{"a": {"x": 1, "at": 100000}}\n))

    File.write!(rules, bounded)
    run(["run", rules, facts, "--until", "1000000"])
    [_notices, _more, summary] = all_said()
    assert summary =~ "2 facts inserted, 0 kept"
    refute summary =~ "no window bounds"

    File.write!(
      rules,
      bounded <> "fact d(x: integer)\nfact b(x: integer)\nrule both when b: b d: d(x = b.x) then notify both"
    )

    run(["run", rules, facts, "--quiet"])
    lines = all_said() |> Enum.join("\n") |> String.split("\n")

    assert List.last(lines) ==
             "no window bounds the facts of b, d: they are kept until a rule or a call retracts them"
  end

  setup :quiet

  test "prints warnings about endless rules first", %{tmp_dir: folder} do
    rules = Path.join(folder, "loop.rules")
    facts = Path.join(folder, "facts.jsonl")
    File.write!(rules, "fact a(x: integer)\nrule r when a: a then modify a(x: a.x + 1)\n")
    File.write!(facts, "")
    run(["run", rules, facts])
    assert_received {:mix_shell, :error, [told]}
    assert told == "#{rules}: warning: rule `r` (line 2) can enable itself without end"
  end

  test "prints the fuel of each fact and each firing" do
    run(["run", @rules, @facts, "--until", "3600000", "--quiet", "--memory", "100000000"])
    said = Enum.join(all_said(), "\n")
    assert said =~ ~r/^5 facts inserted, \d+ kept, in [\d,]+ ms$/m
    assert said =~ ~r/^[\d,]+ fuel for insertions and time, [\d,]+ a fact$/m
    assert said =~ ~r/^[\d,]+ fuel for firings, [\d,]+ a firing$/m
  end

  test "charges a firing for its own search only", %{tmp_dir: folder} do
    rules = Path.join(folder, "two.rules")
    facts = Path.join(folder, "facts.jsonl")

    # The second rule passes all items but the oldest.
    File.write!(rules, """
    fact item(x: integer)
    fact go(x: integer)
    rule cheap priority 1 when g: go then notify cheap
    rule dear when g: go i: item, i.x + i.x = g.x then notify dear
    """)

    items = for x <- 1..300, do: ~s({"item": {"x": #{x}}}\n)
    File.write!(facts, [items, ~s({"go": {"x": 2}}\n)])
    run(["run", rules, facts, "--quiet"])
    said = Enum.join(all_said(), "\n")
    [cheap, dear] = for rule <- ["cheap", "dear"], do: fuel(said, rule)
    assert 3 * cheap < dear
  end

  defp fuel(said, rule) do
    [fuel] = Regex.run(~r/^  #{rule}: 1 firings, ([\d,]+) fuel each$/m, said, capture: :all_but_first)
    fuel |> String.replace(",", "") |> String.to_integer()
  end

  test "omits notices and rules on request" do
    run(["run", @rules, @facts, "--quiet", "--top", "0"])
    said = Enum.join(all_said(), "\n")
    refute said =~ "underpaid"
    assert said =~ "2 firings, 2 notices"
  end

  test "reads every example" do
    for path <- Path.wildcard("examples/rules/*.rules"), do: assert({:ok, _rules} = BeTree.Rules.new(File.read!(path)))
  end

  test "reports faults with their place", %{tmp_dir: folder} do
    assert refusal([]) =~ "the command is missing"
    assert refusal(["rnu", @rules, @facts]) =~ "\"rnu\" is no command. Did you mean run?"
    assert refusal(["run", @rules]) =~ "run takes two files, got 1"
    assert refusal(["run", @rules, @facts, "--untill", "5"]) =~ "Did you mean --until?"
    assert refusal(["run", @rules, @facts, "--top", "-1"]) =~ "--top is 0 or more"
    assert refusal(["run", "no such file", @facts]) =~ "no such file: no such file"
    assert refusal(["run", @rules, "no such file"]) =~ "no such file: no such file"
    wrong = Path.join(folder, "wrong.rules")
    File.write!(wrong, "fact a(x: integer)\nrule r when b then retract b")
    assert refusal(["run", wrong, @facts]) =~ "wrong.rules: `b` is no fact type"
    facts = Path.join(folder, "facts.jsonl")
    File.write!(facts, ~s(\n{"order": {"id": 1, "uzer": "a"}}\n))

    assert refusal(["run", @rules, facts]) =~
             "facts.jsonl:2: `order` lacks `user`; give it a value or declare it optional"
  end

  test "--help prints the documentation" do
    run(["--help"])
    assert said() =~ "mix be_tree.rules run RULES FACTS"
  end
end

defmodule BeTree.Test.RuleScripts do
  @moduledoc """
  Random rules, random calls of them, and the results of these calls. Another implementation makes the same calls, and compares.

  Rules join, miss and count, in windows and without, and assert, modify and retract. Some loop, so that calls reach the limit on
  firings; some facts are wrong. The generators use the process's `:rand`, so a seed repeats them.
  """

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Fact, Notice, Operation, Page}
  alias BeTree.Rules.Server.Change

  @types """
  fact t0(a: integer, b: integer optional, s: string)
  fact t1(a: integer, b: integer optional, s: string, f: float optional on_mismatch undefined)
  fact t2(a: integer, b: integer optional, s: string, ok: boolean optional) strict
  """

  @strings ["x", "y", "été 🎈"]
  @wide [9_007_199_254_740_993, -0x8000_0000_0000_0000]
  @relations ["=", "<>", "<", "<=", ">", ">="]

  @doc "Returns the text of random rules."
  def text, do: @types <> Enum.map_join(1..Enum.random(1..4), "\n", &rule/1)

  @doc "Returns random limits of the rules."
  def options,
    do: [
      firings: Enum.random([20, 200]),
      lateness: Enum.random([0, 0, 3, 10]),
      facts: Enum.random([40, 1_000, 1_000, 1_000])
    ]

  defp rule(number) do
    bound = Enum.random([1, 1, 2, 2, 2, 3])
    {last, conditions} = 0..(bound - 1) |> Enum.map(&condition(&1, &1)) |> List.pop_at(-1)
    last = if chance(15), do: "either (#{last}) or (#{condition(bound - 1, bound - 1)})", else: last
    guards = for guard <- 1..2, chance(35), do: guard(guard, bound)
    actions = for _action <- 1..Enum.random(1..2), do: action(Enum.random(0..(bound - 1)))

    """
    rule r#{number} priority #{Enum.random(-1..1)}
      when #{Enum.join(conditions ++ [last] ++ guards, "\n       ")}
      then #{Enum.join(["notify fired(a: p0.a, b: p0.b, s: p0.s, at: p0.at, sum: p0.a * 1.5)" | actions], ", ")}
    """
  end

  defp condition(number, others), do: "p#{number}: t#{Enum.random(0..2)}#{tests(others)}"

  defp tests(others) do
    tests = for _test <- 1..2, chance(45), do: test(others, 2)
    times = if others > 0 and chance(40), do: [time(others)], else: []
    Enum.map_join(tests ++ times, &", #{&1}")
  end

  defp test(others, depth) do
    cond do
      depth > 0 and chance(12) -> "not (#{test(others, depth - 1)})"
      depth > 0 and chance(10) -> "(#{test(others, depth - 1)} or #{test(others, depth - 1)})"
      others > 0 and chance(60) -> join(Enum.random(0..(others - 1)))
      true -> constant(Enum.random(1..5))
    end
  end

  defp join(other) do
    relation = if chance(65), do: "=", else: Enum.random(@relations)

    Enum.random([
      "s #{if relation == "=", do: "=", else: "<>"} p#{other}.s",
      "b #{relation} p#{other}.#{Enum.random(~w(a b))}",
      "a #{relation} p#{other}.#{Enum.random(~w(a b))} + #{Enum.random(0..2)}"
    ])
  end

  defp constant(1), do: "b is #{Enum.random(["", "not "])}null"
  defp constant(2), do: "a in (#{Enum.random(0..3)}, #{Enum.random(0..3)})"
  defp constant(3), do: "s #{Enum.random(["=", "<>"])} '#{Enum.random(@strings)}'"
  defp constant(4), do: "b #{Enum.random(@relations)} #{Enum.random(0..3)}"
  defp constant(5), do: "a #{Enum.random(@relations)} #{Enum.random(0..3)}"

  defp time(others) do
    relation = Enum.random(~w(after before of))
    of = "p#{Enum.random(0..(others - 1))}"
    within = "within #{Enum.random(2..30)} milliseconds"

    cond do
      relation == "of" -> "#{within} of #{of}"
      chance(80) -> "#{within} #{relation} #{of}"
      true -> "#{relation} #{of}"
    end
  end

  defp guard(number, bound) do
    {type, tests} = {"t#{Enum.random(0..2)}", tests(bound)}
    limit = "n#{number} #{Enum.random(@relations)} #{Enum.random(0..3)}"

    case Enum.random(~w(none none count sum min max)) do
      "none" -> "none #{type}#{tests}"
      "count" -> "n#{number}: count #{type}#{tests}, #{limit}"
      aggregate -> "n#{number}: #{aggregate} #{type}.b#{tests}, #{limit}"
    end
  end

  defp action(bound) do
    p = "p#{bound}"

    Enum.random([
      "notify also(s: #{p}.s)",
      "retract #{p}",
      "retract #{p}",
      "modify #{p}(a: (#{p}.a + #{Enum.random(1..3)}) mod 4)",
      "modify #{p}(b: #{p}.a, s: 'z')",
      "assert t#{Enum.random(0..2)}(a: (#{p}.a + 1) mod 4, b: #{p}.b, s: #{p}.s)",
      # Fails where `b` is undefined.
      "assert t0(a: #{p}.b, s: #{p}.s)"
    ])
  end

  @doc "Returns `count` random calls, with facts of several sources or without sources."
  def calls(count) do
    sources = Enum.random([[nil], [nil], [nil], [nil, "east", "west"]])

    {calls, _at} =
      Enum.map_reduce(1..count, 1_000, fn number, at -> call(Enum.random(1..20), {number, at}, Enum.random(sources)) end)

    calls
  end

  defp call(1, {_number, at}, _source), do: {{:advance, at + 15, nil}, at + 15}
  defp call(2, {_number, at}, source), do: {{:advance, at, source}, at}
  defp call(3, {_number, at}, source) when source != nil, do: {{:end_source, source}, at}
  defp call(kind, {number, at}, _source) when kind in 4..5, do: {{:retract, Enum.random(1..(3 * number))}, at}
  defp call(kind, {_number, at}, source) when kind in 6..11, do: {{:assert_all, facts(at), source}, at + 3}
  defp call(_kind, {_number, at}, source), do: {{:assert, fact(at), source}, at + Enum.random(0..2)}

  defp facts(at), do: for(number <- 1..Enum.random(1..6), do: fact(at + div(number, 2)))

  defp fact(at) do
    fields = %{"a" => Enum.random(0..3), "s" => Enum.random(@strings)}
    fields = if chance(75), do: Map.put(fields, "b", Enum.random(0..3)), else: fields
    fields = if chance(3), do: Map.put(fields, "b", Enum.random(@wide)), else: fields
    fields = if chance(85), do: Map.put(fields, "at", at - Enum.random([0, 0, 0, 2, 12])), else: fields
    spoil(Enum.random(1..100), Enum.random(~w(t0 t1 t2)), fields)
  end

  defp spoil(1, type, fields), do: {type, Map.delete(fields, "a")}
  defp spoil(2, type, fields), do: {type, %{fields | "a" => "3"}}
  defp spoil(3, type, fields), do: {type, Map.put(fields, "other", true)}
  defp spoil(4, _type, fields), do: {"t3", fields}
  defp spoil(5, type, fields), do: {type, Map.put(fields, "at", 9_000_000_000_000_000)}
  defp spoil(kind, "t1", fields) when kind < 30, do: {"t1", Map.put(fields, "f", "no number")}
  defp spoil(kind, "t1", fields) when kind < 60, do: {"t1", Map.put(fields, "f", Enum.random([0.1, 3.0, -2.5e-7]))}
  defp spoil(kind, "t2", fields) when kind < 60, do: {"t2", Map.put(fields, "ok", chance(50))}
  defp spoil(_kind, type, fields), do: {type, fields}

  @doc "Makes calls, each as a whole or not at all, and returns their results and the state that they leave, as maps for JSON."
  def run(text, options, calls) do
    rules = quietly(fn -> Rules.new!(text, options) end)
    results = for call <- calls, do: rules |> make(call, options[:firings]) |> Map.put("counts", counts(rules))
    types = Map.keys(Rules.info!(rules).types)

    %{
      "warnings" => Rules.warnings!(rules),
      "results" => results,
      "facts" => Map.new(types, &{&1, for(fact <- Rules.facts!(rules, &1), do: fact(fact, :map))}),
      "sources" => rules |> Rules.sources!() |> Enum.map(&Tuple.to_list/1) |> Enum.sort(),
      "explanations" => for([_all, rule] <- Regex.scan(~r/^rule (\w+)/m, text), do: [rule, explanations(rules, rule)])
    }
  end

  # Rules that may fire without end are logged.
  defp quietly(function) do
    :logger.add_primary_filter(__MODULE__, {fn _event, _none -> :stop end, nil})
    function.()
  after
    :logger.remove_primary_filter(__MODULE__)
  end

  defp make(rules, call, firings) do
    case Change.make(rules, operation(call), firings) do
      {:ok, page, notices} -> page(page, notices)
      {:error, error, _part, nil} -> error(error, match?({:assert_all, _facts, _source}, call))
    end
  end

  defp operation({:assert, fact, source}), do: operation({:assert_all, [fact], source})
  defp operation({:assert_all, facts, nil}), do: {:assert, Operation.encode(facts)}
  defp operation({:assert_all, facts, source}), do: {:assert, Operation.encode(facts), source}
  defp operation({:advance, now, nil}), do: {:advance, now}
  defp operation(other), do: other

  defp page(%Page{} = page, notices) do
    %{
      "ids" => page.ids,
      "firings" => page.firings,
      "notices" => Enum.map(notices, &notice/1),
      "mismatches" => page.mismatches,
      "late" => page.late,
      "lastRule" => page.last_rule,
      "nextDue" => page.next_due
    }
  end

  defp notice(%Notice{} = notice), do: %{"rule" => notice.rule, "name" => notice.name, "values" => notice.values}

  # An option is an atom here and a name elsewhere.
  defp error(%Error{} = error, list?) do
    reason = String.replace(error.message, "option :firings", "option firings")
    position = if list?, do: error.position
    %{"kind" => error.kind, "reason" => reason, "attribute" => error.attribute, "position" => position}
  end

  defp counts(rules) do
    info = Rules.info!(rules)
    names = [:facts, :asserted, :firings, :late, :waiting, :now, :latest]
    info |> Map.take(names) |> Map.new(fn {name, count} -> {"#{name}", count} end) |> Map.put("nextDue", info.next_due)
  end

  defp explanations(rules, rule) do
    for explanation <- Rules.explain!(rules, rule) do
      %{
        "verdict" => explanation.verdict,
        "facts" => Enum.map(explanation.facts, &fact(&1, :map)),
        "until" => explanation.until,
        "line" => explanation.line,
        "condition" => explanation.condition,
        "by" => explanation.by && fact(explanation.by, :map)
      }
    end
  end

  defp fact(%Fact{id: id, type: type, at: at, fields: fields}, :map),
    do: %{"id" => id, "type" => type, "at" => at, "fields" => fields}

  defp chance(percent), do: :rand.uniform(100) <= percent
end

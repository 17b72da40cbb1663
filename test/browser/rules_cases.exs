# Writes what the tests of rules in JavaScript compare with: scripts of calls, random ones and workloads, with the results of the Elixir
# side. `mix run test/browser/rules_cases.exs`, with MIX_ENV=test.

alias BeTree.{Rules, RuleWorkloads}
alias BeTree.Test.{Json, RuleScripts}

defmodule RulesCases do
  @max_safe 0x1F_FFFF_FFFF_FFFF

  # Integers that no number of JavaScript holds are objects.
  def value(integer) when is_integer(integer) and abs(integer) > @max_safe, do: %{"$integer" => "#{integer}"}
  def value(list) when is_list(list), do: Enum.map(list, &value/1)
  def value(tuple) when is_tuple(tuple), do: tuple |> Tuple.to_list() |> value()
  def value(map) when is_map(map), do: Map.new(map, fn {name, value} -> {name, value(value)} end)
  def value(other), do: other

  def script(text, options, calls) do
    given = %{
      "text" => text,
      "options" => Map.new(options, fn {name, value} -> {"#{name}", value} end),
      "calls" => calls
    }

    value(Map.merge(given, RuleScripts.run(text, options, calls)))
  end

  def workload({text, facts}) do
    facts = for {type, fields} <- facts, do: {"#{type}", Map.new(fields, fn {name, value} -> {"#{name}", value} end)}
    script(text, [firings: 10_000], [{:assert_all, facts, nil}])
  end

  def refusal(text) do
    {:error, error} = Rules.new(text)
    fields = Map.take(error, [:kind, :attribute, :line, :column, :text])
    given = %{"rules" => text, "reason" => error.message, "message" => Exception.message(error)}
    Map.merge(given, Map.new(fields, fn {name, value} -> {"#{name}", value} end))
  end
end

seed = String.to_integer(System.get_env("SEED", "1"))
count = String.to_integer(System.get_env("SCRIPTS", "300"))

scripts =
  for number <- 1..count do
    :rand.seed(:exsss, {seed, number, 0})
    RulesCases.script(RuleScripts.text(), RuleScripts.options(), RuleScripts.calls(30))
  end

# Each text lacks a part of a correct one, so that the fault lies anywhere in it.
refusals =
  for number <- 1..200,
      :rand.seed(:exsss, {seed, number, 1}),
      {before, [_word | behind]} = RuleScripts.text() |> String.split(" ") |> Enum.split(Enum.random(0..30)),
      text = Enum.join(before ++ behind, " "),
      match?({:error, _error}, Rules.new(text)),
      do: RulesCases.refusal(text)

workloads = for guests <- [8, 16, 32], do: RulesCases.workload(RuleWorkloads.manners(guests))

cases = %{
  "scripts" => scripts,
  "workloads" => workloads ++ [RulesCases.workload(RuleWorkloads.waltzdb(4))],
  "refusals" => refusals
}

File.write!("_build/web/rules_cases.json", Json.encode(cases))

defmodule BeTree.Attacks.RulesGrowthTest do
  @moduledoc false
  # The fuel of BeTree.Rules.new/2 is linear in the text, for every kind of growth. So are calls that return all types or
  # rules. The insertion of a fact does not depend on their number.
  use ExUnit.Case, async: true

  alias BeTree.{Error, Rules}
  alias BeTree.Test.{Attack, Metered}

  # As in BeTree.Attacks.GrowthTest.
  @max_growth 2.4
  @constant_fuel 1_000_000

  @fact_declaration "fact t(x: integer, y: integer optional, s: string optional, b: boolean optional)\n"

  # Kinds of text, with the number of their parts and the maximum fuel of a byte. Parts with a limit stay below it.
  @shapes [
    fact_types: {2_000, 6_000},
    fact_types_with_fields: {500, 2_000},
    long_type_names: {1_000, 1_000},
    long_field_names: {1_000, 3_000},
    domains: {1_000, 6_000},
    long_domain: {4_000, 3_000},
    uses_of_a_long_domain: {1_000, 6_000},
    rules: {500, 15_000},
    rules_without_tests: {500, 15_000},
    rules_over_types: {500, 10_000},
    rules_that_join_types: {500, 12_000},
    rules_that_join_one_type_with_others: {500, 12_000},
    rules_with_alternatives: {20, 30_000},
    rules_with_guards: {300, 12_000},
    rules_in_a_chain: {500, 12_000},
    rules_in_a_ring: {500, 12_000},
    rules_that_assert_one_type: {500, 12_000},
    wide_joins: {10, 75_000},
    clauses: {500, 20_000},
    joined_clauses: {500, 20_000},
    equal_clauses: {500, 20_000},
    orders: {500, 20_000},
    alternatives: {15, 30_000},
    long_list: {2_000, 4_000},
    lists: {500, 15_000},
    strings: {500, 12_000},
    long_strings: {500, 4_000},
    actions: {500, 12_000},
    modifications: {500, 20_000},
    long_expressions: {100, 25_000},
    repeated_expressions: {100, 30_000},
    chain: {200, 60_000},
    comments: {5_000, 100},
    spaces: {50_000, 100}
  ]

  defp shape(:fact_types, n), do: join(n, "\n", "fact type?(x: integer)")

  defp shape(:fact_types_with_fields, n),
    do: each(n, &"fact type#{&1}(#{for(field <- 1..30, do: "field#{field}: integer optional") |> Enum.join(", ")})\n")

  defp shape(:long_type_names, n), do: each(n, &"fact #{String.duplicate("long", 50)}#{&1}(x: integer)\n")

  defp shape(:long_field_names, n) do
    name = String.duplicate("f", 10 * n)
    "fact u(#{name}: integer) " <> join(10, "\n", "rule r? when a: u(#{name} = ?) then notify n(v: a.#{name})")
  end

  defp shape(:domains, n), do: each(n, &"fact type#{&1}(x: string in ('a#{&1}', 'b#{&1}'), y: integer 1..#{&1})\n")
  defp shape(:long_domain, n), do: "fact u(x: string in (#{join(n, ", ", "'value?'")}))"

  defp shape(:uses_of_a_long_domain, n),
    do: shape(:long_domain, n) <> each(n, &"rule r#{&1} when a: u(x = 'value#{&1}') then retract a\n")

  defp shape(:rules, n), do: @fact_declaration <> join(n, "\n", "rule r? when a: t(x = ?) then retract a")
  defp shape(:rules_without_tests, n), do: @fact_declaration <> join(n, "\n", "rule r? when a: t then retract a")

  defp shape(:rules_over_types, n),
    do:
      shape(:fact_types, n) <> "\n" <> join(n, "\n", "rule r? when a: type?(x > 1) then assert type?(x: 0), retract a")

  defp shape(:rules_that_join_types, n) do
    rules = each(n - 1, &"rule r#{&1} when a: type#{&1} b: type#{&1 + 1}(x = a.x) then retract a\n")
    shape(:fact_types, n) <> "\n" <> rules
  end

  defp shape(:rules_that_join_one_type_with_others, n),
    do:
      @fact_declaration <>
        shape(:fact_types, n) <> "\n" <> join(n, "\n", "rule r? when a: t b: type?(x = a.x) then retract b")

  defp shape(:rules_with_alternatives, n),
    do:
      @fact_declaration <>
        join(n, "\n", "rule r? when a: t(x = ?) either (b: t(y = 1)) or (b: t(y = 2)) or (b: t(y = 3)) then retract a")

  defp shape(:rules_with_guards, n) do
    @fact_declaration <>
      join(n, "\n", "rule r? when a: t(x = ?) none t(y = a.x, x = ?) n: count t(y = a.y), n > ? then retract a")
  end

  defp shape(:rules_in_a_chain, n),
    do: @fact_declaration <> each(n, &"rule r#{&1} when a: t(x = #{&1}) then modify a(x: #{&1 + 1})\n")

  defp shape(:rules_in_a_ring, n),
    do: @fact_declaration <> each(n, &"rule r#{&1} when a: t(x = #{&1}) then modify a(x: #{rem(&1, n) + 1})\n")

  defp shape(:rules_that_assert_one_type, n),
    do: @fact_declaration <> join(n, "\n", "rule r? when a: t(x > ?) none t(y = ?) then assert t(x: a.x + ?)")

  defp shape(:wide_joins, n) do
    conditions = each(14, &"c#{&1}: t(x = c#{&1 - 1}.x, y = c#{&1 - 1}.y) after c#{&1 - 1}\n")
    @fact_declaration <> each(n, &"rule r#{&1} when c0: t(x > #{&1})\n #{conditions} then retract c0\n")
  end

  defp shape(:clauses, n), do: @fact_declaration <> "rule r when a: t(#{join(n, ", ", "x <> ?")}) then retract a"

  defp shape(:joined_clauses, n),
    do: @fact_declaration <> "rule r when a: t b: t(#{join(n, ", ", "x <> a.x + ?")}) then retract a"

  defp shape(:equal_clauses, n),
    do:
      @fact_declaration <> "rule r when a: t b: t c: t(#{join(n, ", ", "x = a.x, a.x = b.x, y = a.y")}) then retract a"

  defp shape(:orders, n),
    do:
      @fact_declaration <> "rule r when a: t b: t after a c: t #{join(n, ", ", "after b within ? days")} then retract a"

  # A type with more than 32 conditions gets an index.
  defp shape(:alternatives, n),
    do: @fact_declaration <> "rule r when either #{join(n, " or ", "(a: t(x = ?))")} then retract a"

  defp shape(:long_list, n), do: @fact_declaration <> "rule r when a: t(x in (#{join(n, ", ", "?")})) then retract a"

  defp shape(:lists, n),
    do: @fact_declaration <> join(n, "\n", "rule r? when a: t(x in (?, ?1, ?2), s not in ('a?', 'b?')) then retract a")

  defp shape(:strings, n),
    do: @fact_declaration <> join(n, "\n", "rule r? when a: t(s = 'string ?') then notify n(s: 'other ?')")

  defp shape(:long_strings, n),
    do: @fact_declaration <> join(20, "\n", "rule r? when a: t(s = '?#{String.duplicate("s", n)}') then retract a")

  defp shape(:actions, n),
    do: @fact_declaration <> "rule r when a: t then #{join(n, ", ", "assert t(x: a.x + ?)")}, retract a"

  defp shape(:modifications, n),
    do: @fact_declaration <> "rule r when a: t then #{join(n, ", ", "modify a(x: a.x + ?)")}"

  defp shape(:long_expressions, n),
    do:
      @fact_declaration <>
        "rule r when a: t then #{each(n, &"notify n(v: #{join(200, " + ", "a.x * #{&1} - ?")}), ")}retract a"

  defp shape(:repeated_expressions, n),
    do:
      @fact_declaration <>
        "rule r when a: t then #{each(n, &"notify n(v: (a.x * a.x + a.x mod 7) * #{rem(&1, 20)}), ")}retract a"

  defp shape(:chain, n),
    do: @fact_declaration <> "rule r when a: t then notify n(v: #{join(n, " + ", "a.x * ?")}), retract a"

  defp shape(:comments, n), do: join(n, "\n", "# ?") <> "\n" <> @fact_declaration
  defp shape(:spaces, n), do: String.duplicate(" \n", n) <> @fact_declaration

  defp join(count, by, template), do: Enum.map_join(1..count, by, &String.replace(template, "?", "#{&1}"))
  defp each(count, text), do: Enum.map_join(1..count, &text.(&1))

  for {name, {parts, fuel}} <- @shapes do
    test "the cost of compiling rules is linear in #{name}" do
      parts = Attack.size(unquote(parts), 4 * unquote(parts))
      parts = if unquote(name) in [:alternatives, :chain], do: unquote(parts), else: parts
      [{less, fewer}, {text, more}] = for n <- [parts, 2 * parts], do: measure_new(shape(unquote(name), n))
      growth = "#{fewer} fuel of #{less} bytes, and #{more} of #{text}"
      assert more <= @max_growth * fewer + @constant_fuel, growth
      assert div(more, text) <= unquote(fuel), growth <> ", #{div(more, text)} a byte"
    end
  end

  defp measure_new(text) do
    {result, fuel} = Metered.measure(fn -> Rules.new(text, runtime: Metered) end)
    assert {:ok, _rules} = result
    {byte_size(text), fuel}
  end

  # Texts over a limit, with a part of the error's message.
  @refused [
    conditions: {1_000, "binds at most 16 facts"},
    guards: {1_000, "at most 16 `none` and aggregates"},
    fields: {1_000, "more than 32 fields"},
    values: {1_000, "at most 32 values"},
    lets: {1_000, "at most 16 aggregates and `let`"},
    combinations: {1_000, "more than 64 combinations"},
    multiplied_alternatives: {1_000, "more than 64 combinations"},
    nested_alternatives: {1_000, "nested more than 64 deep"},
    parentheses: {1_000, "nested more than 64 deep"},
    negations: {1_000, "nested more than 64 deep"},
    signs: {1_000, "nested more than 64 deep"},
    chain: {1_000, "nests more than 576 deep"},
    chains_in_chains: {12, "nests more than 576 deep"},
    lists_in_lists: {30, "the operand of `not in` has more than 256 parts"}
  ]

  defp refused(:conditions, n), do: @fact_declaration <> "rule r when #{join(n, " ", "c?: t(x = ?)")} then retract c1"
  defp refused(:guards, n), do: @fact_declaration <> "rule r when a: t #{join(n, " ", "none t(x = ?)")} then retract a"
  defp refused(:fields, n), do: "fact t(#{join(n, ", ", "f?: integer")})"
  defp refused(:values, n), do: @fact_declaration <> "rule r when a: t then notify n(#{join(n, ", ", "v?: 1")})"
  defp refused(:lets, n), do: @fact_declaration <> "rule r when a: t then #{join(n, ", ", "let v? = a.x + ?")}"

  defp refused(:combinations, n),
    do: @fact_declaration <> "rule r when either #{join(n, " or ", "(a: t(x = ?))")} then retract a"

  defp refused(:multiplied_alternatives, n),
    do: @fact_declaration <> "rule r when #{join(n, " ", "either (t(x = ?)) or (t(y = ?))")} then notify n"

  defp refused(:nested_alternatives, n),
    do:
      @fact_declaration <>
        "rule r when #{String.duplicate("either (", n)}a: t#{String.duplicate(")", n)} then retract a"

  defp refused(:parentheses, n), do: in_condition(String.duplicate("(", n) <> "x = 1" <> String.duplicate(")", n))
  defp refused(:negations, n), do: in_condition(String.duplicate("not ", n) <> "x = 1")
  defp refused(:signs, n), do: in_condition("x = " <> String.duplicate("- ", n) <> "1")
  defp refused(:chain, n), do: in_condition(join(n, " + ", "x") <> " = 1")

  # Each chain contains the one before it, so the lengths add up.
  defp refused(:chains_in_chains, n),
    do: in_condition(Enum.reduce(1..n, "b", fn _level, inner -> "not (#{inner}) and #{join(100, " and ", "b")}" end))

  # A size that doubles with each level would take an hour here.
  defp refused(:lists_in_lists, n),
    do: in_condition(Enum.reduce(1..n, "b", fn _level, inner -> "(#{inner}) not in (true)" end))

  defp in_condition(expression), do: @fact_declaration <> "rule r when a: t(#{expression}) then retract a"

  for {name, {parts, message}} <- @refused do
    test "refusing rules over the limit on #{name} costs time linear in the text" do
      [fewer, more] =
        for n <- [unquote(parts), 2 * unquote(parts)] do
          {result, fuel} = Metered.measure(fn -> Rules.new(refused(unquote(name), n), runtime: Metered) end)
          assert {:error, %Error{kind: :out_of_bounds, line: line, message: message}} = result
          assert is_integer(line) and message =~ unquote(message)
          fuel
        end

      assert more <= @max_growth * fewer + @constant_fuel
    end
  end

  test "counting all types costs time linear in their number" do
    [fewer, more] =
      for n <- [2_000, 4_000] do
        rules = Rules.new!(shape(:fact_types, n), runtime: Metered)
        {{:ok, info}, fuel} = Metered.measure(fn -> Rules.info(rules) end)
        assert map_size(info.types) == n
        fuel
      end

    assert more <= @max_growth * fewer + @constant_fuel
  end

  test "inserting a fact looks its type up without a search of all types" do
    [few, many] =
      for n <- [2, Attack.size(5_000, 50_000)] do
        rules = Rules.new!(shape(:fact_types, n), runtime: Metered)
        Rules.assert!(rules, {"type1", x: 1})
        {_page, fuel} = Metered.measure(fn -> Rules.assert!(rules, {"type#{n}", x: 1}) end)
        fuel
      end

    assert many <= few + 4_000
  end
end

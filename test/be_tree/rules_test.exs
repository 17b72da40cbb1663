defmodule BeTree.RulesTest do
  use ExUnit.Case, async: true

  alias BeTree.Call.Instance
  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Fact, Notice, Page, Span, Swap}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.RuleWorkloads
  alias BeTree.Test.Runtimes

  doctest Rules

  # Warnings about rules are not printed.
  setup_all do
    id = :"rules_#{System.unique_integer([:positive])}"
    :ok = :logger.add_handler_filter(:default, id, {&filter/2, nil})
    on_exit(fn -> :logger.remove_handler_filter(:default, id) end)
  end

  defp filter(%{meta: %{application: :be_tree}}, _extra), do: :stop
  defp filter(_event, _extra), do: :ignore

  @orders """
  fact order(id: integer, user: string)
  fact payment(order: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 minutes after o
    then notify unpaid(order: o.id, user: o.user)
  """

  @chain """
  fact step(left: integer, name: string)
  rule next when s: step(left > 0) then retract s, assert step(left: s.left - 1, name: s.name), notify at(left: s.left)
  """

  @released """
  fact a(x: integer)
  fact b(x: integer)
  rule r when p: a none b then notify m(x: p.x)
  """

  # Each operation makes dozens of matches due: inserting or retracting a fact, and the end of a window.
  @paged """
  fact a(x: integer)
  fact b(x: integer)
  fact c(x: integer)
  fact done(x: integer)
  rule r when p: a none b then notify m(x: p.x)
  rule s priority 1 when p: a c: c(x = p.x) n: count a(x > p.x), n > 3 then notify n(x: p.x), assert done(x: p.x + n)
  rule t when p: a none done within 1 seconds after p then notify late(x: p.x), notify very(x: p.x)
  rule u when d: done, d.x > 0 then modify d(x: d.x - 20), notify lowered(x: d.x)
  """

  # 50 facts in one call, then calls that each fire many rules.
  defp paged_calls do
    [
      {:assert, [{:b, x: 0, at: 0}]},
      {:assert_all, [for(x <- 1..50, do: {:a, x: x, at: x})]},
      {:retract, [1]},
      {:assert_all, [for(x <- 1..50//2, do: {:c, x: x, at: 100})]},
      {:advance, [20_000]},
      {:assert_all, [for(x <- 1..40, do: {:a, x: x, at: 30_000}) ++ [{:b, x: 1, at: 32_000}]]},
      {:retract, [10]},
      {:advance, [40_000]},
      {:assert, [{:a, x: 7}]},
      {:advance, [50_000]}
    ]
  end

  # Calls next/1 until everything is done. Returns the joined pages.
  defp all({:ok, page}), do: page
  defp all({:more, page}), do: joined(page, all(Rules.next(page)))

  defp joined(a, b) do
    %{b | notices: a.notices ++ b.notices, ids: a.ids ++ b.ids, firings: a.firings + b.firings, fuel: a.fuel + b.fuel}
  end

  defp seats(notices) do
    seats = for %{name: "seat", values: %{"name" => name, "seat" => seat}} <- notices, do: {seat, name}
    seats |> Enum.sort() |> Enum.map_join(" ", &elem(&1, 1))
  end

  for runtime <- Runtimes.all() do
    describe "on #{Runtimes.name(runtime)}" do
      @describetag runtime: runtime

      test "facts are maps, keyword lists and JSON, and notices are structs", %{runtime: runtime} do
        rules = Rules.new!(@orders, runtime: runtime)

        facts = [
          {:order, %{"id" => 1, user: "ann", at: 0}},
          {"order", [id: 2, user: :bob, at: 1_000]},
          {:order, ~s({"id": 3, "user": "c\\u00e9d", "at": 2000})},
          ~s({"order": {"id": 4, "user": "dan", "at": 3000}}),
          {:payment, order: 3}
        ]

        page = Rules.assert_all!(rules, facts)
        assert page.ids == [1, 2, 3, 4, 5]
        assert page.notices == []

        page = Rules.advance!(rules, 700_000)
        users = for %Notice{rule: "unpaid", name: "unpaid", values: values} <- page.notices, do: values

        assert users == [
                 %{"order" => 1, "user" => "ann"},
                 %{"order" => 2, "user" => "bob"},
                 %{"order" => 4, "user" => "dan"}
               ]

        assert page.last_rule == "unpaid" and page.firings == 3 and page.fuel > 0
      end

      test "unknown fields are skipped, or refused by a strict type", %{runtime: runtime} do
        text =
          "fact m(x: string) fact s(x: string) strict rule r when a: m then notify r(x: a.x) rule t when a: s then notify t"

        rules = Rules.new!(text, runtime: runtime)

        for fact <- [
              {:m, %{x: "a", other: 1}},
              {:m, [other: [%{"x" => nil}], x: "a"]},
              {:m, ~s({"other": {"x": [1, {}]}, "x": "a"})},
              ~s({"m": {"x": "a", "x2": null, "big": 99999999999999999999}})
            ] do
          assert %{notices: [%Notice{rule: "r", values: %{"x" => "a"}}]} = Rules.assert!(rules, fact)
        end

        assert {:error, %Error{kind: :unknown_attribute, message: message}} = Rules.assert(rules, {:s, %{x: "a", y: 1}})
        assert message == "`s` has no field `y`; declare it, or leave it out"

        assert {:error, %Error{kind: :unknown_attribute, column: 13}} =
                 Rules.assert(rules, {:s, ~s({"x": "a", "y": 1})})

        assert %{notices: [%Notice{rule: "t"}]} = Rules.assert!(rules, {:s, %{x: "a"}})
      end

      test "mismatching values count as undefined if the field says so", %{runtime: runtime} do
        text = """
        fact m(x: string, n: integer 0..9 optional on_mismatch undefined, f: float optional on_mismatch undefined)
        rule r when a: m(n is null) then notify r
        rule s when a: m(n is not null) then notify s
        """

        rules = Rules.new!(text, runtime: runtime)

        for {fact, rule, mismatches} <- [
              {{:m, %{x: "a", n: 3}}, "s", 0},
              {{:m, %{x: "a", n: nil}}, "r", 0},
              {{:m, %{x: "a", n: "3"}}, "r", 1},
              {{:m, %{x: "a", n: 10}}, "r", 1},
              {{:m, %{x: "a", n: 2 ** 70, f: [1]}}, "r", 2},
              {{:m, [n: %{"x" => [1]}, x: "a", f: true]}, "r", 2},
              {{:m, ~s({"n": {"x": [1]}, "x": "a", "f": 1e999})}, "r", 2},
              {~s({"m": {"n": 99999999999999999999, "x": "a", "f": "1"}}), "r", 2}
            ] do
          assert %{notices: [%Notice{rule: ^rule}], mismatches: ^mismatches} = Rules.assert!(rules, fact), inspect(fact)
        end

        facts = [{:m, %{x: "a", n: "3"}}, {:m, %{x: "a", n: 3, f: 1}}, {:m, %{x: "a", n: 1.5, f: "x"}}]
        assert {:ok, %{mismatches: 3, firings: 3}} = Rules.assert_all(rules, facts)
        assert {:more, %{mismatches: first} = page} = Rules.assert_all(rules, facts, firings: 1)
        assert {:more, %{mismatches: second} = page} = Rules.next(page)
        assert {:ok, %{mismatches: third}} = Rules.next(page)
        assert first + second + third == 3
        assert {:error, %Error{kind: :type, attribute: "x"}} = Rules.assert(rules, {:m, %{x: 1}})

        assert {:error, %Error{kind: :type, attribute: "x"} = error} =
                 Rules.new("fact m(x: string on_mismatch undefined)")

        assert error.message =~ "write `x: string optional`"
        assert {:error, %Error{kind: :syntax}} = Rules.new("fact m(x: string optional on_mismatch error)")
      end

      test "new/2 ends at its budget of fuel and at its timeout", %{runtime: runtime} do
        text =
          for n <- 1..2_000, into: "", do: "fact t#{n}(x: integer) rule r#{n} when t: t#{n}(x = #{n}) then retract t\n"

        assert {:error, %Error{kind: :out_of_fuel}} = Rules.new(text, runtime: runtime, fuel: 10_000_000)
        assert {:error, %Error{kind: :timeout}} = Rules.new(text, runtime: runtime, timeout: 0)
        assert {:ok, _rules} = Rules.new(text, runtime: runtime, fuel: 1_000_000_000, timeout: 600_000)
        assert_raise ArgumentError, ~r/:fuel/, fn -> Rules.new(text, runtime: runtime, fuel: 0) end
      end

      test "warnings/2 names rules that can enable each other endlessly", %{runtime: runtime} do
        text = """
        fact click(x: integer)
        fact session(x: integer)
        rule open when click none session then assert session(x: 1)
        rule close when s: session then retract s
        """

        warning = "rules `open` (line 3) and `close` (line 4) can enable each other without end"

        rules = Rules.new!(text, runtime: runtime)
        assert Rules.warnings(rules) == {:ok, [warning]}
        assert Rules.info!(rules).warnings == [warning]
        assert {:more, %{firings: 100}} = Rules.assert(rules, {:click, x: 1}, firings: 100)
        assert Rules.warnings!(Rules.new!(@chain, runtime: runtime)) == []
      end

      test "a list with a wrong fact changes nothing", %{runtime: runtime} do
        rules = Rules.new!(@orders, runtime: runtime)

        for {fact, kind, message} <- [
              {{:ordr, []}, :unknown_attribute, "there is no fact type `ordr`; did you mean `order`?"},
              {{:order, id: 1, users: "a"}, :missing_attribute, "`order` lacks `user`"},
              {{:order, id: 1}, :missing_attribute, "`order` lacks `user`; give it a value or declare it optional"},
              {{:order, id: 1.5, user: "a"}, :type, "`id` of `order` is an integer; give an integer"},
              {{:order, id: 2 ** 70, user: "a"}, :out_of_bounds, "64 bits"},
              {{:order, id: 1, user: "a", at: "now"}, :type, "`at` is a time; give an integer of milliseconds"},
              {{:order, id: 1, user: "a", at: 2 ** 62}, :out_of_bounds, "a hundred million days"},
              {{:order, id: 1, user: ["a"]}, :type, "a field is a number, a string or a boolean"},
              {{:order, [:id]}, :type, "tuple"},
              {{:order, ~s({"id": 1,)}, :syntax, "JSON"},
              {{:order, ~s([1])}, :type, "expected a JSON object, but here is a list"},
              {{:order, ~s({"id": {}})}, :type, "expected a string, a number, a boolean or null"},
              {~s({}), :type, "a fact as JSON is an object of one name"},
              {~s({"payment": {"order": 1}, "order": {}}), :type, "a fact as JSON is an object of one name"},
              {~s({"payment": {"order": 1}} {}), :syntax, "follow"},
              {:order, :type, "a fact is {type, fields}"},
              {{:order, 1, 2}, :type, "a fact is {type, fields}"},
              {{5, []}, :type, "expected a binary"}
            ] do
          assert {:error, %Error{kind: ^kind, position: 1} = error} =
                   Rules.assert_all(rules, [{:payment, order: 1}, fact]),
                 inspect(fact)

          assert error.message =~ message, "#{inspect(fact)}: #{error.message}"
        end

        assert {:error, %Error{kind: :type}} = Rules.assert_all(rules, :none)
        assert {:error, %Error{column: 19}} = Rules.assert(rules, {:order, ~s({"id": 1, "user": {}})})
        assert Rules.info!(rules).asserted == 0
      end

      test "the time of a fact is an integer or a DateTime", %{runtime: runtime} do
        rules = Rules.new!("fact click(id: integer)", runtime: runtime)
        at = ~U[2026-11-28 12:30:00.123456Z]
        milliseconds = DateTime.to_unix(at, :millisecond)

        facts = [
          {:click, id: 1, at: at},
          {:click, [{"id", 2}, {"at", at}]},
          {:click, %{id: 3, at: at}},
          {"click", %{"id" => 4, "at" => at}},
          {:click, id: 5, at: DateTime.add(at, 1, :second)},
          {:click, id: 6, at: milliseconds}
        ]

        {:ok, _page} = Rules.assert_all(rules, facts)
        {:ok, found} = Rules.facts(rules, :click)

        assert for(fact <- Enum.reverse(found), do: {fact.fields["id"], fact.at - milliseconds}) ==
                 [{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 1_000}, {6, 0}]

        assert {:ok, _page} = Rules.advance(rules, DateTime.add(at, 2, :second))
        assert Rules.info!(rules).now == milliseconds + 2_000

        for wrong <- [~N[2026-11-28 12:30:00], "2026-11-28T12:30:00Z", 1.5],
            do: assert({:error, %Error{kind: :type}} = Rules.assert(rules, {:click, id: 7, at: wrong}))

        assert {:error, %Error{}} = Rules.assert(rules, {:click, [{:id, 7} | at]})
      end

      test "a page and an explanation are printed without fields that say nothing", %{runtime: runtime} do
        rules = Rules.new!(@chain, runtime: runtime)
        {:ok, page} = Rules.assert(rules, {:step, left: 1, name: "a"})

        assert inspect(page) =~
                 ~r/^#BeTree.Rules.Page<last_rule: "[a-z]+", notices: .*firings: 1, fuel: \d+, slices: \d+, ...>$/

        {:ok, page} = Rules.advance(rules, 1)
        assert inspect(page) =~ ~r/^#BeTree.Rules.Page<firings: 0, fuel: \d+, slices: \d+, ...>$/
      end

      test "a page ends at its limits, and next/1 continues", %{runtime: runtime} do
        rules = Rules.new!(@chain, runtime: runtime, notices: 25, firings: 10)
        assert {:more, page} = Rules.assert_all(rules, [{:step, left: 100, name: "a"}, {:step, left: 3, name: "b"}])
        assert {page.ids, page.firings, page.reason} == {[1], 10, :firings}
        rules = Rules.new!(@chain, runtime: runtime, notices: 25, firings: 10)
        page = all(Rules.assert_all(rules, [{:step, left: 100, name: "a"}, {:step, left: 3, name: "b"}]))
        assert page.firings == 103
        assert Enum.map(page.notices, & &1.values["left"]) == Enum.to_list(100..1//-1) ++ [3, 2, 1]
        assert length(page.ids) == 2
        assert_raise Error, ~r/more than a page/, fn -> Rules.assert!(rules, {:step, left: 100, name: "a"}) end
      end

      test "a retraction that releases many matches is one call", %{runtime: runtime} do
        rules = Rules.new!(@released, runtime: runtime)
        Rules.assert_all!(rules, [{:b, x: 0} | for(x <- 1..300, do: {:a, x: x})])
        assert {:ok, page} = Rules.retract(rules, 1)
        assert for(%{name: "m", values: %{"x" => x}} <- page.notices, do: x) == Enum.to_list(300..1//-1)
        assert {:error, %Error{kind: :not_found}} = Rules.retract(rules, 1)
      end

      for options <- [[firings: 1], [notices: 1], [slice: 1], [firings: 1, slice: 1], [firings: 2, notices: 1]] do
        @tag options: options
        test "operations in pages equal those in one page: #{inspect(options)}", context do
          %{runtime: runtime, options: options} = context
          {limit, options} = Keyword.split(options, [:notices])
          whole = Rules.new!(@paged, runtime: runtime)
          paged = Rules.new!(@paged, [runtime: runtime] ++ limit)

          for {function, arguments} <- paged_calls() do
            expected = all(apply(Rules, function, [whole | arguments]))
            first = apply(Rules, function, [paged | arguments] ++ [options])
            page = all(first)
            assert page.notices == expected.notices, inspect({function, arguments})
            assert {page.ids, page.firings, page.next_due} == {expected.ids, expected.firings, expected.next_due}
            assert state(paged) == state(whole)
            if expected.firings > 2 and options != [slice: 1], do: assert({:more, _page} = first)
          end

          assert Rules.info!(whole).firings > 250
        end
      end

      test "swap/2 works with the smallest pages", %{runtime: runtime} do
        [whole, paged] =
          for limits <- [[], [firings: 1, notices: 1]] do
            rules = Rules.new!(@paged, [runtime: runtime] ++ limits)

            for {function, arguments} <- Enum.take(paged_calls(), 3),
                do: all(apply(Rules, function, [rules | arguments]))

            {:ok, swapped} = Swap.swapped(rules, @paged, [runtime: runtime] ++ limits)
            assert Rules.info!(swapped).types == Rules.info!(rules).types
            swapped
          end

        page = all(Rules.advance(paged, 20_000))
        assert page.firings == 50
        assert page.notices == Rules.advance!(whole, 20_000).notices
      end

      test "next/1 on an old page continues from the present state", %{runtime: runtime} do
        rules = Rules.new!(@released, runtime: runtime)
        Rules.assert_all!(rules, [{:b, x: 0} | for(x <- 1..5, do: {:a, x: x})])
        assert {:more, first} = Rules.retract(rules, 1, firings: 2)
        assert {:more, %{firings: 2, reason: :firings}} = Rules.next(first)
        assert {:ok, %{firings: 1}} = Rules.next(first)
        assert {:ok, %{firings: 0}} = Rules.next(first)
      end

      test ":firings limits a call", %{runtime: runtime} do
        rules = Rules.new!(@chain, runtime: runtime)
        assert {:more, page} = Rules.assert(rules, {:step, left: 5, name: "a"}, firings: 1)
        assert {page.firings, page.last_rule, page.reason} == {1, "next", :firings}
        assert {:more, page} = Rules.next(page)
        assert Enum.map(page.notices, & &1.values["left"]) == [4]
        # A new call continues too.
        assert {:ok, page} = Rules.advance(rules, 0)
        assert Enum.map(page.notices, & &1.values["left"]) == [3, 2, 1]
      end

      test "a call pauses only before a firing", %{runtime: runtime} do
        # After the first rule fired, the second searches in vain.
        rules =
          Rules.new!(
            """
            fact step(number: integer)
            fact made(number: integer)
            rule make when s: step none made(number = s.number) then assert made(number: s.number)
            rule far when m: made s: step(number > m.number + 10) then retract s
            """,
            runtime: runtime
          )

        assert {:ok, %{firings: 1}} = Rules.assert(rules, {:step, number: 1}, firings: 1)
        assert {:ok, %{firings: 2}} = Rules.assert_all(rules, [{:step, number: 2}, {:step, number: 3}], firings: 2)
        assert {:more, page} = Rules.assert_all(rules, [{:step, number: 4}, {:step, number: 5}], firings: 1)
        assert {page.firings, length(page.ids)} == {1, 2}
        assert {:ok, %{firings: 1, ids: []}} = Rules.next(page)
      end

      test "limits hold while memory grows", %{runtime: runtime} do
        rules = """
        fact step(left: integer)
        fact made(number: integer)
        rule next when s: step(left > 0) then modify s(left: s.left - 1), assert made(number: s.left), notify at(left: s.left)
        """

        rules = Rules.new!(rules, runtime: runtime, notices: 4_000)
        memory = Rules.info!(rules).memory_bytes
        assert {:more, page} = Rules.assert(rules, {:step, left: 20_000}, firings: 3_000)
        assert {page.firings, length(page.notices), page.reason} == {3_000, 3_000, :firings}
        assert Rules.info!(rules).memory_bytes > memory
        assert {:more, page} = Rules.advance(rules, 0)
        assert {page.firings, length(page.notices), page.reason} == {4_000, 4_000, :notices}
        assert hd(page.notices).values == %{"left" => 17_000}
      end

      test "memory grows, ends, and is reused", %{runtime: runtime} do
        rules = Rules.new!(@chain, runtime: runtime, memory: 16_000_000)
        step = &{:step, left: -&1, name: "name #{1_000_000 + &1}"}
        assert {:ok, %{ids: ids}} = Rules.assert_all(rules, Enum.map(1..5_000, step))
        assert ids == Enum.to_list(1..5_000)

        batches = 5_001..200_000 |> Enum.map(step) |> Enum.chunk_every(500)
        assert {inserted, %Error{kind: :out_of_memory, position: position}} = assert_until_full(rules, batches, 5_000)
        assert Rules.info!(rules).facts == inserted + position
        ones = for number <- 300_001..400_000, do: [step.(number)]
        assert {_inserted, %Error{kind: :out_of_memory, position: 0}} = assert_until_full(rules, ones, 0)
        full = Rules.info!(rules).facts
        for id <- 1..500, do: Rules.retract!(rules, id)
        assert {:ok, _page} = Rules.assert_all(rules, Enum.map(100_001..100_400, step))
        assert Rules.info!(rules).facts == full - 100
        assert [%Fact{fields: %{"left" => -100_400}} | _] = Rules.facts!(rules, :step, limit: 1)
      end

      test "too many facts are refused", %{runtime: runtime} do
        rules = Rules.new!(@orders, runtime: runtime, facts: 2)
        payments = for order <- 1..3, do: {:payment, order: order}
        assert {:error, %Error{kind: :out_of_bounds, position: 2}} = Rules.assert_all(rules, payments)
        assert Rules.info!(rules).types == %{"order" => 0, "payment" => 2}
      end

      test "facts/3 returns all facts in pages of any size", %{runtime: runtime} do
        rules = Rules.new!(@orders, runtime: runtime)
        Rules.assert_all!(rules, for(order <- 1..2_500, do: {:payment, order: order}))
        Rules.retract!(rules, 1_200)
        ids = Enum.to_list(2_500..1//-1) -- [1_200]
        assert Enum.map(Rules.facts!(rules, :payment), & &1.id) == ids
        assert Enum.map(Rules.facts!(rules, :payment, limit: 1_500), & &1.id) == Enum.take(ids, 1_500)
        assert Enum.map(Rules.facts!(rules, "payment", before: 1_200, limit: 2), & &1.id) == [1_199, 1_198]
        assert Rules.facts!(rules, :order) == []
        assert {:error, %Error{kind: :unknown_attribute}} = Rules.facts(rules, :paymnt)
      end

      test "the smallest slice has the same firings, facts and notices", %{runtime: runtime} do
        {text, facts} = RuleWorkloads.manners(8)
        whole = Rules.new!(text, runtime: runtime)
        expected = Rules.assert_all!(whole, facts)
        assert expected.firings == 59
        assert seats(expected.notices) == "8 6 3 7 2 5 1 4"

        for slice <- [1, 777, 100_000] do
          rules = Rules.new!(text, runtime: runtime)
          page = Rules.assert_all!(rules, facts, slice: slice)
          assert page.notices == expected.notices
          assert {page.firings, page.ids} == {59, expected.ids}
          if runtime == Wasmtime, do: assert(page.fuel == expected.fuel)
          assert state(rules) == state(whole)
        end
      end

      test "an exhausted budget ends a call, and next/1 continues", %{runtime: runtime} do
        {text, facts} = RuleWorkloads.manners(8)
        whole = Rules.new!(text, runtime: runtime)
        expected = Rules.assert_all!(whole, facts)
        {before, [last]} = Enum.split(facts, -1)

        for fuel <- [20_000, 100_000, 200_000] do
          rules = Rules.new!(text, runtime: runtime)
          Rules.assert_all!(rules, before)
          assert {:error, %Error{kind: :out_of_fuel}} = Rules.assert(rules, last, fuel: fuel, slice: 5_000)
          # The fact may be absent if the budget ended before its insertion.
          first = if Rules.facts!(rules, :context) == [], do: Rules.assert!(rules, last).notices, else: []
          assert first ++ Rules.advance!(rules, 0).notices == expected.notices
          assert state(rules) == state(whole)
        end
      end

      test "explain/3 names the fired facts, the blocking condition, or the time", %{runtime: runtime} do
        rules = Rules.new!(@orders, runtime: runtime)
        assert [%{verdict: :blocked, line: 4, condition: "o: order", facts: []}] = Rules.explain!(rules, :unpaid)
        Rules.assert!(rules, {:order, id: 1, user: "ann", at: 0})
        assert [%{verdict: :waits, until: 600_000} = waiting] = Rules.explain!(rules, "unpaid")
        assert to_string(waiting) == "waits until 600000 for\n  order 1 at 0 (id: 1, user: \"ann\")"
        Rules.assert!(rules, {:payment, order: 1, at: 1_000})
        assert [%{verdict: :blocked, line: 5, by: %Fact{type: "payment"}} = blocked] = Rules.explain!(rules, :unpaid)
        assert blocked.condition == "none payment(order = o.id) within 10 minutes after o"
        assert to_string(blocked) =~ "because of payment 2 at 1000 (order: 1); met so far\n  order 1"
        assert {:error, %Error{kind: :not_found, message: message}} = Rules.explain(rules, :unpayd)
        assert message =~ "did you mean `unpaid`?"

        rules = Rules.new!("fact a(x: integer) rule r when a: a then notify n", runtime: runtime)
        Rules.assert!(rules, {:a, x: 1})
        assert [%{verdict: :fired, facts: [%Fact{id: 1}]}] = Rules.explain!(rules, :r)
      end

      test "many conditions of a type go through the index", %{runtime: runtime} do
        text =
          ["fact e(kind: integer, name: string)\n"] ++
            for(n <- 1..500, do: "rule r#{n} when e: e(kind = #{n}) then notify n\n")

        rules = Rules.new!(IO.iodata_to_binary(text), runtime: runtime)

        page =
          Rules.assert_all!(rules, for(n <- 1..3_000, do: {:e, kind: rem(n, 600), name: "name #{n}"}), slice: 20_000)

        assert Enum.map(page.notices, & &1.rule) == for(n <- 1..3_000, rem(n, 600) in 1..500, do: "r#{rem(n, 600)}")
      end
    end
  end

  # All state that a call can change.
  defp state(rules) do
    info = Rules.info!(rules)
    {info.firings, info.asserted, info.now, for(type <- Map.keys(info.types), do: Rules.facts!(rules, type))}
  end

  # Returns the number of facts in the batches that fit, and the error of the next batch.
  defp assert_until_full(rules, [batch | batches], inserted) do
    case Rules.assert_all(rules, batch) do
      {:ok, page} -> assert_until_full(rules, batches, inserted + length(page.ids))
      {:error, error} -> {inserted, error}
    end
  end

  @tag runtime: Wasmtime
  test "a killed call leaves complete steps, and the next call has its notices" do
    {text, facts} = RuleWorkloads.manners(8)
    whole = Rules.new!(text)
    expected = Rules.assert_all!(whole, facts)
    {before, [last]} = Enum.split(facts, -1)
    input = :erlang.term_to_binary([last])

    for _round <- 1..200 do
      rules = Rules.new!(text)
      Rules.assert_all!(rules, before)
      request = %{input: input, output: :binary, fuel: :infinity, slice: :rand.uniform(3_000), scheduler: :normal}
      test = self()

      # It runs some slices and dies with the suspended call.
      {pid, monitor} =
        spawn_monitor(fn ->
          outcome =
            Wasmtime.call(rules.instance, "be_tree_assert", [byte_size(input), 0, -1, 0x7FFF_FFFF_FFFF_FFFF], request)

          send(test, {:ended, self(), some_slices(outcome, :rand.uniform(200))})
        end)

      assert_receive {:ended, ^pid, ended}, 60_000
      assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, 60_000
      first = if Rules.facts!(rules, :context) == [], do: Rules.assert!(rules, last).notices, else: []
      notices = first ++ Rules.advance!(rules, 0).notices
      unless ended, do: assert(notices == expected.notices)
      assert state(rules) == state(whole)
    end
  end

  defp some_slices({:yield, suspended, _fuel}, left) when left > 0,
    do: some_slices(Wasmtime.resume(suspended), left - 1)

  defp some_slices(outcome, _left), do: elem(outcome, 0) == :done

  @tag runtime: Wasmtime
  test "a call killed while it makes room leaves a consistent engine" do
    facts = for number <- 1..20_000, do: {:step, left: -number, name: "name #{number}"}

    for _round <- 1..30 do
      rules = Rules.new!(@chain)
      {pid, monitor} = spawn_monitor(fn -> Rules.assert_all(rules, facts) end)
      # The engine makes room repeatedly during this time.
      Process.sleep(:rand.uniform(60))
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, 60_000

      %{facts: before, asserted: before} = Rules.info!(rules)
      assert Rules.assert_all!(rules, Enum.take(facts, 5_000)).ids == Enum.to_list((before + 1)..(before + 5_000))
      assert length(Rules.facts!(rules, :step)) == before + 5_000
    end
  end

  # A runtime that can only trap, and loses the stack, resumes by be_tree_resume (docs/contributing/abi.md, Interruption).
  @tag runtime: Wasmtime
  test "a call that traps anywhere resumes to the same firings, facts and notices" do
    {text, facts} = RuleWorkloads.manners(8)
    whole = Rules.new!(text)
    expected = Rules.assert_all!(whole, facts)
    input = :erlang.term_to_binary(facts)
    call = {"be_tree_assert", [byte_size(input), 0, -1, 0x7FFF_FFFF_FFFF_FFFF], input}

    for fuel <- [97, 1_013] ++ Enum.map(1..40, fn _ -> 500 + :rand.uniform(300_000) end) do
      rules = Rules.new!(text)
      assert {ids, notices} = to_end(rules, call, fuel)
      assert {ids, notices} == {expected.ids, expected.notices}
      assert state(rules) == state(whole)
    end
  end

  @joined """
  fact a(x: integer, s: string)
  fact b(x: integer, seen: boolean)
  rule r when p: a q: a(x = p.x + 1) r: a(x = q.x + 1, s = p.s) none b(x = p.x)
    then notify m(x: p.x, s: p.s), assert b(x: p.x, seen: false)
  rule t when p: b none a(x = p.x + 1) within 1 seconds after p then notify late(x: p.x)
  rule u priority 1 when p: b(not seen) then modify p(seen: true)
  """

  # A step stores its undo log before it changes a word. If a compiler reorders the two stores, budgets a few units apart
  # detect it.
  @tag runtime: Wasmtime
  test "a call cut off every few units resumes, or is abandoned with complete steps" do
    facts = for x <- 5..8, do: {:a, x: x, s: "s", at: 10 * x}
    input = :erlang.term_to_binary(facts)

    start = fn ->
      rules = Rules.new!(@joined)
      Rules.assert_all!(rules, for(x <- 1..4, do: {:a, x: x, s: "s", at: 0}))
      rules
    end

    for call <- [
          {"be_tree_assert", [byte_size(input), 0, -1, 0x7FFF_FFFF_FFFF_FFFF], input},
          {"be_tree_retract", [1, -1], nil},
          {"be_tree_advance", [2_000, -1], nil}
        ] do
      whole = start.()
      {ids, notices} = whole_call(whole, call)
      expected = state(whole)

      amounts = Stream.iterate(:rand.uniform(500), &(&1 + 400 + :rand.uniform(200)))
      assert Enum.find(amounts, &(not check_cut(start, call, &1, {ids, notices, expected}))) > 1_000
    end
  end

  defp whole_call(rules, {export, arguments, input}) do
    request = %{input: input, output: :binary, fuel: 100_000_000, slice: :infinity, scheduler: :normal}
    {:done, 0, output, _fuel} = Wasmtime.call(rules.instance, export, arguments, request)
    {:ok, {:done, _position, _firings, _last_rule, _next_due, ids, notices, 0, _late}} = Rules.Reply.outcome(output)
    {ids, notices}
  end

  # Returns whether the call needs more fuel than this. If so, the call is resumed to the same end, and abandoned to check
  # the next call.
  defp check_cut(start, {export, _arguments, _input} = call, fuel, {ids, notices, expected}) do
    resumed = start.()

    if cut(resumed, call, fuel) do
      assert whole_call(resumed, next_call(resumed, call)) == {ids, notices}, "#{export} of #{fuel} fuel"
      assert state(resumed) == expected, "#{export} of #{fuel} fuel"

      given_up = start.()
      assert cut(given_up, call, fuel)
      now = if export == "be_tree_advance", do: 2_000, else: Rules.info!(given_up).now
      later = Rules.advance!(given_up, now, fuel: 100_000_000)
      is_begun = export == "be_tree_assert" and length(Rules.facts!(given_up, :a)) == 4 + length(ids)
      if is_begun or export == "be_tree_advance", do: assert({later.notices, state(given_up)} == {notices, expected})
      true
    else
      false
    end
  end

  # Returns whether a call needs more fuel than this.
  defp cut(rules, {export, arguments, input}, fuel) do
    request = %{input: input, output: :binary, fuel: fuel, slice: :infinity, scheduler: :normal}

    case Wasmtime.call(rules.instance, export, arguments, request) do
      {:done, 0, _output, _fuel} -> false
      {:error, %Error{kind: :out_of_fuel}} -> true
    end
  end

  # The engine runs out of room now and then, and the call continues afterwards.
  defp to_end(rules, {export, [length, _from | others], input} = call, fuel) do
    {:ok, {reason, position, _firings, _last_rule, _next_due, ids, notices, 0, _late}} =
      rules |> trapping(call, fuel) |> Rules.Reply.outcome()

    case reason do
      :done ->
        {ids, notices}

      :room ->
        {:ok, ""} = Instance.call(Wasmtime, rules.instance, "be_tree_room", [], nil)
        {more_ids, more_notices} = to_end(rules, {export, [length, position | others], input}, fuel)
        {ids ++ more_ids, notices ++ more_notices}
    end
  end

  # A call without progress gets twice the fuel.
  defp trapping(rules, {export, arguments, input}, fuel) do
    request = %{input: input, output: :binary, fuel: fuel, slice: :infinity, scheduler: :normal}

    case Wasmtime.call(rules.instance, export, arguments, request) do
      {:done, 0, output, _fuel} -> output
      {:error, %Error{kind: :out_of_fuel}} -> trapping(rules, next_call(rules, {export, arguments, input}), 2 * fuel)
    end
  end

  defp next_call(rules, call) do
    case progress(rules) do
      0 -> call
      _begun -> {"be_tree_resume", [], nil}
    end
  end

  defp progress(rules) do
    request = %{input: nil, output: :none, fuel: :infinity, slice: :infinity, scheduler: :normal}
    {:done, outbox, nil, _fuel} = Wasmtime.call(rules.instance, "be_tree_outbox", [], request)
    {:ok, <<progress::little-32>>} = Wasmtime.read(rules.instance, outbox + 8, 4)
    progress
  end

  @tag runtime: Wasmtime
  test "concurrent processes share rules" do
    rules = Rules.new!("fact a(x: integer) rule r when a: a then retract a, notify n(x: a.x)")

    tasks =
      for n <- 1..8 do
        Task.async(fn ->
          for x <- 1..200, do: Rules.assert!(rules, {:a, x: 1_000 * n + x}, slice: 2_000).notices
        end)
      end

    notices = tasks |> Task.await_many(120_000) |> List.flatten()
    assert Enum.sort(Enum.map(notices, & &1.values["x"])) == for(n <- 1..8, x <- 1..200, do: 1_000 * n + x)
    assert Rules.info!(rules).firings == 1_600
  end

  test "new/2 refuses a text with the place of the fault" do
    for {text, kind, line, column, message} <- [
          {"fact a(x: integr)", :type, 1, 11, "did you mean `integer`?"},
          {"fact a(x: integer)\nrule r when b: a, b.y = 1 then retract b", :unknown_attribute, 2, 21,
           "`y` is no field of `a`"},
          {"fact a(x: integer)\n\nrule r\n  when é: a then retract e", :syntax, 4, 8, "`é` has no meaning here"},
          {"rule r", :syntax, 1, 7, "`when`"}
        ] do
      assert {:error, %Error{kind: ^kind, line: ^line, column: ^column} = error} = Rules.new(text)
      assert error.message =~ message, error.message
      assert Exception.message(error) =~ ~r/ \(line #{line}\)\n\n    .*\n +\^$/
    end

    assert {:error, %Error{kind: :syntax}} = Rules.new(<<255>>)
    assert {:error, %Error{kind: :out_of_memory}} = Rules.new("fact a(x: integer)", memory: 100)
  end

  test "inspect/1 prints counts" do
    rules = Rules.new!(@orders)
    assert inspect(rules) =~ ~r/^#BeTree.Rules<1 rule, 0 facts, \d+\.\d MB>$/
    Rules.assert!(rules, {:payment, order: 1})
    assert inspect(rules) =~ "1 rule, 1 fact,"
    assert inspect(Rules.advance!(rules, 5)) =~ "#BeTree.Rules.Page<"
  end

  defmodule Recorder do
    def execute(name, measurements, metadata) do
      send(self(), {name, measurements, metadata})
      :ok
    end
  end

  test "calls emit telemetry events" do
    rules = Rules.new!(@orders)
    page = %Page{operation: nil, fuel: 9, slices: 1, firings: 2, ids: [1], notices: []}
    assert Span.run(Recorder, rules, :assert, fn -> {:ok, page} end) == {:ok, page}

    assert_received {[:be_tree, :rules, :start], %{system_time: _, monotonic_time: _},
                     %{rules: ^rules, operation: :assert, telemetry_span_context: context}}

    assert_received {[:be_tree, :rules, :stop], %{fuel: 9, slices: 1, firings: 2, facts: 1, notices: 0, duration: _},
                     %{result: :ok, reason: nil, telemetry_span_context: ^context}}

    more = {:more, %{page | reason: :firings}}
    assert Span.run(Recorder, rules, :run, fn -> more end) == more
    assert_received {[:be_tree, :rules, :stop], %{firings: 2}, %{result: :ok, reason: :firings}}

    # A refusal is a result, as in other spans.
    error = %Error{kind: :timeout, message: "m"}
    assert Span.run(Recorder, rules, :assert, fn -> {:error, error} end) == {:error, error}

    assert_received {[:be_tree, :rules, :stop], %{duration: _, firings: 0, facts: 0},
                     %{result: :error, error_kind: :timeout, error: ^error}}

    assert_raise RuntimeError, fn -> Span.run(Recorder, rules, :assert, fn -> raise "no" end) end
    assert_received {[:be_tree, :rules, :exception], %{duration: _}, %{kind: :error, reason: %RuntimeError{}}}
  end

  test "advance/3 takes a DateTime as its milliseconds since 1970" do
    text = "fact a(id: integer) rule r when a then notify n"
    rules = BeTree.Rules.new!(text)
    {:ok, _page} = BeTree.Rules.advance(rules, ~U[1970-01-01 00:00:02.500Z])
    assert {:ok, %{now: 2_500}} = BeTree.Rules.info(rules)
    name = :"#{inspect(__MODULE__)}.datetime"
    start_supervised!({BeTree.Rules.Server, name: name, rules: text})
    {:ok, _page} = BeTree.Rules.Server.advance(name, ~U[1970-01-01 00:00:03.000Z])
    assert {:ok, %{now: 3_000}} = BeTree.Rules.Server.info(name)
    assert_raise ArgumentError, ~r/or a DateTime, got: /, fn -> BeTree.Rules.advance(rules, ~D[1970-01-01]) end
  end
end

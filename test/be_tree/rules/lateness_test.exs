defmodule BeTree.Rules.LatenessTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Quiet, only: [quiet: 1]

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Notice, Server}
  alias BeTree.Test.{Notices, RulesServers, Runtimes}

  # Servers are killed here.
  setup :quiet

  @moduletag :tmp_dir
  @wait 60_000

  @rules """
  fact order(id: integer, user: string)
  fact payment(order: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 minutes after o
    then notify unpaid(order: o.id)
  rule busy
    when o: order
         n: count order(user = o.user, within 1 minutes before o), n >= 2
    then notify busy(order: o.id)
  """

  # Both fact types have the user, the key of the partitions.
  @rules_by_user """
  fact order(id: integer, user: string)
  fact payment(order: integer, user: string)
  rule unpaid
    when o: order
         none payment(order = o.id, user = o.user) within 10 minutes after o
    then notify unpaid(order: o.id)
  """

  @minute 60_000

  # Two orders in order, then one 12 minutes late with its payment, and one without a payment.
  defp late_facts do
    [
      {:order, id: 1, user: "ann", at: 0},
      {:payment, order: 1, at: @minute},
      {:order, id: 2, user: "bob", at: 14 * @minute},
      {:order, id: 3, user: "ann", at: 2 * @minute},
      {:payment, order: 3, at: 3 * @minute},
      {:payment, order: 2, at: 15 * @minute},
      {:order, id: 4, user: "cem", at: 3 * @minute}
    ]
  end

  defp told(notices), do: for(%Notice{} = notice <- notices, do: {notice.name, notice.values["order"]})

  defp start!(options),
    do: RulesServers.start!(Keyword.merge([rules: @rules, lateness: 15 * @minute], options))

  for runtime <- Runtimes.all() do
    describe "on #{Runtimes.name(runtime)}" do
      @describetag runtime: runtime

      test "assert_all/3 of late facts fires what ordered facts fire", %{runtime: runtime} do
        rules = Rules.new!(@rules, runtime: runtime, lateness: 15 * @minute)
        assert {:ok, page} = Rules.assert_all(rules, late_facts())
        assert {told(page.notices), page.late, page.ids} == {[], 0, [1, 2, 3, 4, 5, 7, 8]}
        assert page.next_due == 15 * @minute + @minute
        assert {:ok, page} = Rules.advance(rules, 60 * @minute)
        assert told(page.notices) == [{"unpaid", 4}]

        without = Rules.new!(@rules, runtime: runtime)
        assert {:ok, page} = Rules.assert_all(without, late_facts())
        assert {told(page.notices), page.late} == {[{"unpaid", 3}, {"unpaid", 4}], 3}
        assert Rules.info!(without).late == 3
      end

      test "assert_all/3 in slices of 1 waits for the same facts", %{runtime: runtime} do
        [whole, sliced] = for _rules <- 1..2, do: Rules.new!(@rules, runtime: runtime, lateness: 2 * @minute)
        facts = late_facts() ++ for(n <- 1..20, do: {:order, id: n, user: "u", at: (20 + rem(7 * n, 5)) * @minute})

        # A slice below the need of a step is enlarged.
        for options <- [[source: :web], []] do
          pages =
            for {rules, slice} <- [{whole, 10_000_000}, {sliced, 1}],
                do: Rules.assert_all!(rules, facts, [slice: slice] ++ options)

          assert [same, same] = for(page <- pages, do: {page.notices, page.ids, page.late, page.next_due})
        end

        pages = [Rules.advance!(whole, 90 * @minute), Rules.advance!(sliced, 90 * @minute, slice: 1)]
        assert [%{firings: firings, notices: notices}, %{firings: firings, notices: notices}] = pages
        assert firings > 0

        assert [same, same] =
                 for(rules <- [whole, sliced], do: Map.drop(Rules.info!(rules), [:facts_bytes, :memory_bytes]))
      end

      test "a call that reached its limit of firings resumes with waiting facts", %{runtime: runtime} do
        rules = Rules.new!(@rules, runtime: runtime, lateness: 5, firings: 1)
        facts = for n <- 10..1//-1, do: {:order, id: n, user: "u#{n}", at: n}
        assert {:ok, page} = Rules.assert_all(rules, facts)
        assert {page.late, page.firings} == {4, 0}
        assert {:more, page} = Rules.advance(rules, 60 * @minute)

        last =
          page
          |> Stream.iterate(fn page ->
            case Rules.next(page) do
              {:more, page} -> page
              {:ok, page} -> %{page | reason: nil}
            end
          end)
          |> Enum.take_while(& &1.reason)

        assert length(last) in 9..10
        assert %{facts: 0, waiting: 0, late: 4, firings: 10} = Rules.info!(rules)
      end

      test "each source has its time, and an idle source holds time back", %{runtime: runtime} do
        rules = Rules.new!(@rules, runtime: runtime)
        for source <- [:web, "mobile"], do: Rules.advance!(rules, 0, source: source)
        order = &{:order, id: &1, user: "u", at: &2}
        assert %{ids: [1], late: 0} = Rules.assert!(rules, order.(1, 30 * @minute), source: :web)
        assert %{now: 0, waiting: 1, facts: 0, latest: 1_800_000} = Rules.info!(rules)
        assert {:ok, []} = Rules.facts(rules, :order)
        assert %{late: 0} = Rules.assert!(rules, order.(2, 5 * @minute), source: :mobile)
        assert %{late: 0, notices: []} = Rules.assert!(rules, {:payment, order: 2, at: 6 * @minute}, source: :mobile)
        assert Rules.sources!(rules) == %{"web" => 30 * @minute, "mobile" => 6 * @minute}
        # A source starts at the time of facts without a source.
        Rules.assert!(rules, {:payment, order: 1}, source: :mobile)
        assert [%{at: 360_000}, _payment] = Rules.facts!(rules, :payment)
        page = Rules.advance!(rules, 31 * @minute, source: :mobile)
        assert {page.firings, Rules.info!(rules).now} == {0, 30 * @minute}
        assert [%{id: 1}] = Rules.facts!(rules, :order, limit: 1)
        page = Rules.end_source!(rules, :web)
        assert {page.notices, Rules.info!(rules).now} == {[], 31 * @minute}
        assert told(Rules.advance!(rules, 45 * @minute).notices) == [{"unpaid", 1}]
        assert Rules.sources!(rules) == %{"mobile" => 45 * @minute}
      end

      test "a waiting fact can be retracted", %{runtime: runtime} do
        rules = Rules.new!(@rules, runtime: runtime, lateness: @minute)
        %{ids: [one, two]} = Rules.assert_all!(rules, for(id <- 1..2, do: {:order, id: id, user: "u", at: id}))
        Rules.retract!(rules, one)
        assert {:error, %Error{kind: :not_found}} = Rules.retract(rules, one)
        Rules.advance!(rules, 2 * @minute)
        assert [%{id: ^two}] = Rules.facts!(rules, :order)
        Rules.retract!(rules, two)
        assert %{facts: 0, waiting: 0, asserted: 2} = Rules.info!(rules)
      end
    end
  end

  test "wrong latenesses and sources are refused" do
    for lateness <- [-1, 1.5, nil, 8_640_000_000_000_001],
        do: assert_raise(ArgumentError, ~r/lateness/, fn -> Rules.new(@rules, lateness: lateness) end)

    rules = Rules.new!(@rules)
    order = {:order, id: 1, user: "u", at: 0}

    for source <- [1, true, ~c"web"] do
      assert_raise ArgumentError, ~r/source/, fn -> Rules.assert(rules, order, source: source) end
      assert_raise ArgumentError, ~r/source/, fn -> Rules.end_source(rules, source) end
    end

    assert_raise ArgumentError, ~r/source/, fn -> Rules.retract(rules, 1, source: :web) end

    for source <- ["", String.duplicate("x", 256)] do
      assert {:error, %Error{kind: :out_of_bounds}} = Rules.assert(rules, order, source: source)
      assert {:error, %Error{kind: :out_of_bounds}} = Rules.advance(rules, 0, source: source)
    end

    assert {:error, %Error{kind: :out_of_bounds}} = Rules.advance(rules, 10 ** 17, source: :web)
    assert %{now: nil, latest: nil, facts: 0} = Rules.info!(rules)
    for n <- 1..10_000, do: Rules.advance!(rules, n, source: "source #{n}")
    assert {:error, %Error{kind: :out_of_bounds, message: message}} = Rules.assert(rules, order, source: :web)
    assert message =~ "10000"
    Rules.end_source!(rules, "source 1")
    assert %{late: 1} = Rules.assert!(rules, order, source: :web)
  end

  describe "a server with lateness" do
    # All state that calls depend on.
    defp state(name) do
      {:ok, info} = Server.info(name)
      {:ok, sources} = Server.sources(name)
      facts = for type <- Map.keys(info.types), do: Server.facts(name, type)
      {Map.drop(info, [:facts_bytes, :memory_bytes, :journal_bytes, :journal_age]), sources, facts}
    end

    defp call(name, :web, number), do: Server.assert(name, order(number), source: :web)
    defp call(name, :none, number), do: Server.assert_all(name, [order(number), {:payment, order: number - 3}])
    defp call(name, :advance, number), do: Server.advance(name, number * @minute, source: "mobile")
    defp call(name, :all, number), do: Server.advance(name, (number - 4) * @minute)
    defp call(name, :end, _number), do: Server.end_source(name, :web)
    defp call(name, :retract, number), do: Server.retract(name, number)
    defp call(name, :swap, _number), do: Server.swap(name, @rules <> "# Once more.\n")

    defp order(number), do: {:order, id: number, user: "u", at: (number - rem(number * 5, 7)) * @minute}

    defp outcome({:ok, page}), do: {page.firings, page.ids, page.late, page.next_due}
    defp outcome({:error, error}), do: error.kind
    defp outcome(:ok), do: :ok

    @calls [:web, :none, :web, :advance, :retract, :none, :web, :advance, :all, :web, :end, :none, :web]

    for {title, options} <- [{"its journal", []}, {"bases", [base_bytes: 1]}] do
      test "with a folder equals its twin after a restart from #{title}", %{tmp_dir: folder} do
        options = [lateness: 3 * @minute, durability: :none] ++ unquote(options)
        {twin, _id} = start!(options)
        {name, id} = start!([dir: folder] ++ options)

        for {call, number} <- Enum.with_index(@calls ++ [:swap] ++ @calls, 1), reduce: id do
          id ->
            assert outcome(call(name, call, number)) == outcome(call(twin, call, number)), "#{call} #{number}"
            if rem(number, 2) == 0, do: Process.exit(Process.whereis(name), :kill)
            if rem(number, 2) == 0, do: stop_supervised(id)

            id =
              if rem(number, 2) == 0,
                do: elem(start!([dir: folder, name: name, rules: rules(number)] ++ options), 1),
                else: id

            assert state(name) == state(twin), "#{call} #{number}"
            id
        end
      end
    end

    # The rules since the swap.
    defp rules(number) when number > length(@calls), do: @rules <> "# Once more.\n"
    defp rules(_number), do: @rules

    test "keeps waiting facts and sources in a swap" do
      {name, _id} = start!([])
      {:ok, _page} = Server.assert_all(name, late_facts(), source: :web)
      {:ok, _page} = Server.advance(name, 20 * @minute, source: :mobile)
      {:ok, before} = Server.info(name)
      {:ok, sources} = Server.sources(name)
      assert {before.waiting, before.facts} == {6, 1}
      :ok = Server.swap(name, @rules <> "# Once more.\n")
      {:ok, info} = Server.info(name)

      assert Map.take(info, [:waiting, :now, :latest, :next_due]) ==
               Map.take(before, [:waiting, :now, :latest, :next_due])

      assert Server.sources(name) == {:ok, sources}
      :ok = Server.subscribe(name)
      {:ok, page} = Server.advance(name, 60 * @minute)
      assert page.firings == 1
      assert told(Notices.notices(name)) == [{"unpaid", 4}]
    end

    test "refuses a folder of another lateness", %{tmp_dir: folder} do
      {name, id} = start!(dir: folder, lateness: 0)
      {:ok, _page} = Server.assert_all(name, late_facts())
      :ok = stop_supervised(id)
      Process.flag(:trap_exit, true)

      assert {:error, %Error{kind: :other_schema, message: message}} =
               Server.start_link(name: name, rules: @rules, dir: folder, lateness: 5)

      assert message =~ "lateness: 0"
      {name, _id} = start!(dir: folder, lateness: 0, name: name)
      assert {:ok, %{late: 3}} = Server.info(name)
    end

    test "with the system's clock holds facts for the lateness" do
      {name, _id} = start!(clock: :system, lateness: 20)
      :ok = Server.subscribe(name)
      now = System.os_time(:millisecond)
      {:ok, page} = Server.assert(name, {:order, id: 5, user: "u", at: now - 10 * @minute - 1})
      assert page.late == 1
      {:ok, page} = Server.assert(name, {:order, id: 6, user: "u", at: now})
      assert page.late == 0 and page.next_due <= now + 20
      {:ok, page} = Server.assert(name, {:order, id: 7, user: "u"})
      assert page.late == 0
      # The timer of the first window; the window has closed by then.
      assert_receive {Server, ^name, [%Notice{values: %{"order" => 5}}]}, @wait
    end

    test "with partitions fires what one engine fires, without sources" do
      options = [partitions: 3, partition_by: %{order: :user, payment: :user}]

      [{one, _}, {several, _}] = for more <- [[], options], do: start!([rules: @rules_by_user] ++ more)
      for name <- [one, several], do: :ok = Server.subscribe(name)

      facts =
        for n <- 1..60 do
          at = (n - rem(7 * n, 13)) * @minute
          user = "user #{rem(n, 5)}"

          case rem(n, 4) do
            0 -> {:payment, order: n - 4, user: user, at: at}
            1 -> {:order, id: n, user: user}
            _ -> {:order, id: n, user: user, at: at}
          end
        end

      for {part, number} <- Enum.with_index(Enum.chunk_every(facts, 7)), name <- [one, several] do
        assert {:ok, %{late: 0}} = Server.assert_all(name, part)
        if rem(number, 3) == 2, do: assert({:ok, _page} = Server.advance(name, 7 * number * @minute))
      end

      for name <- [one, several], do: {:ok, _page} = Server.advance(name, 90 * @minute)
      [expected, found] = for name <- [one, several], do: name |> Notices.notices() |> told() |> Enum.sort()
      assert found == expected and length(found) > 20
      {:ok, info} = Server.info(several)
      assert Map.take(info, [:waiting, :late, :lateness]) == %{waiting: 0, late: 0, lateness: 15 * @minute}
    end

    test "with partitions and sources equals one engine, also after a restart", %{tmp_dir: dir} do
      options = [partitions: 3, partition_by: %{order: :user, payment: :user}, dir: Path.join(dir, "several")]

      :rand.seed(:exsss, {1, 2, 3})

      calls =
        for n <- 1..150 do
          source = Enum.random([:web, "mobile", nil])
          at = (n - :rand.uniform(60)) * @minute

          case :rand.uniform(10) do
            1 -> {:advance, at, source}
            2 -> {:end, source || :web}
            3 -> {:assert, for(m <- 1..3, do: {:order, id: 10 * n + m, user: "user #{m}", at: at + m}), source}
            4 -> {:assert, [{:order, id: n, user: "user #{rem(n, 5)}"}], source}
            5 -> {:assert, [{:payment, order: n - 3, user: "user #{rem(n - 3, 5)}", at: at}], source}
            _ -> {:assert, [{:order, id: n, user: "user #{rem(n, 5)}", at: at}], source}
          end
        end

      {several, id} = start!([rules: @rules_by_user] ++ options)
      {one, _id} = start!(rules: @rules_by_user)

      for name <- [one, several] do
        :ok = Server.subscribe(name)
        for source <- [:web, "mobile"], do: {:ok, _page} = Server.advance(name, -90 * @minute, source: source)
      end

      for {call, number} <- Enum.with_index(calls) do
        [expected, found] = for name <- [one, several], do: name |> call(call) |> Map.fetch!(:late)
        assert {number, found} == {number, expected}
        assert Server.sources(several) == Server.sources(one)

        if number == 75 do
          :ok = stop_supervised(id)
          start!([rules: @rules_by_user, name: several] ++ options)
          :ok = Server.subscribe(several)
        end
      end

      for name <- [one, several], do: {:ok, _page} = Server.advance(name, 300 * @minute)
      [expected, found] = for name <- [one, several], do: name |> Notices.notices() |> told() |> Enum.sort()
      assert found == expected and length(found) > 20
      [{:ok, expected}, {:ok, found}] = for name <- [one, several], do: Server.info(name)
      assert Map.take(found, [:facts, :waiting, :late]) == Map.take(expected, [:facts, :waiting, :late])
      assert found.late > 0

      assert {:error, %Error{kind: :out_of_bounds}} = Server.advance(several, 0, source: "")
      assert {:error, %Error{kind: :out_of_bounds}} = Server.advance(several, 10 ** 17, source: :web)
    end
  end

  defp call(name, {:assert, facts, source}), do: done(Server.assert_all(name, facts, source: source))
  defp call(name, {:advance, now, source}), do: done(Server.advance(name, now, source: source))
  defp call(name, {:end, source}), do: done(Server.end_source(name, source))
  defp done({:ok, page}), do: page
end

defmodule BeTree.Rules.SkewTest do
  # A server with `clock: :system` refuses facts and times more than `max_skew:` ahead of its clock.
  use ExUnit.Case, async: true

  import BeTree.Test.Notices

  alias BeTree.Error
  alias BeTree.Rules
  alias BeTree.Rules.Server
  alias BeTree.Test.{Clocks, Runtimes}

  @moduletag :tmp_dir

  @minute 60_000
  @day 24 * 60 * @minute

  @text """
  fact order(id: integer)
  fact payment(order: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 minutes after o
    then notify unpaid(key: o.id)
  """

  @layouts [one: [], partitions: [partitions: 3, partition_by: %{order: :id, payment: :order}]]

  defp start!(clocks, options), do: Clocks.start_server!(clocks, [rules: @text, clock: :system] ++ options)

  defp state(name) do
    {:ok, info} = Server.info(name)
    {:ok, orders} = Server.facts(name, :order)
    {Map.take(info, [:facts, :firings, :asserted, :now, :next_due, :due]), orders}
  end

  for {layout, options} <- @layouts do
    describe "with #{layout}" do
      @describetag options: options

      test "refuses a fact a day ahead without a trace, after a restart too", %{options: options, tmp_dir: folder} do
        clocks = Clocks.new()
        options = [dir: folder, durability: :none] ++ options
        name = start!(clocks, options)
        :ok = Server.subscribe(name)
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id}))
        before = state(name)
        ahead = Clocks.start() + @day

        for facts <- [
              [{:order, id: 10, at: ahead}],
              [{:order, id: 10}, {:payment, order: 1, at: ahead}, {:payment, order: 2}],
              [{:order, id: 10, at: 0}, ~s({"payment": {"order": 1, "at": #{ahead}}})],
              [{:order, id: 10}, {:order, ~s({"id": 11})}, {"payment", %{"order" => 1, "at" => ahead}}]
            ] do
          assert {:error, %Error{kind: :out_of_bounds, attribute: "at"} = error} = Server.assert_all(name, facts)
          assert error.position == Enum.find_index(facts, &(inspect(&1) =~ "#{ahead}"))
          assert error.message =~ "`at` is #{@day - @minute} milliseconds after the latest time that the server takes"
        end

        assert {:error, %Error{kind: :out_of_bounds} = error} = Server.advance(name, ahead)
        assert error.message =~ "the time is #{@day - @minute} milliseconds after the latest that the server takes"
        assert state(name) == before
        assert notices(name) == []

        :ok = stop_supervised(name)
        name = start!(clocks, [name: name] ++ options)
        assert state(name) == before
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:payment, order: id}))
        Clocks.pass(clocks, @day)
        assert {:ok, %{firings: 0}} = Server.advance(name, 0)
      end

      test "takes a fact of max_skew ahead and refuses a millisecond more", %{options: options} do
        clocks = Clocks.new()

        for {given, skew} <- [{[], @minute}, {[max_skew: 5], 5}, {[max_skew: 2 * @day], 2 * @day}] do
          name = start!(clocks, given ++ options)
          latest = Clocks.system(clocks) + skew
          assert {:error, %Error{kind: :out_of_bounds}} = Server.assert(name, {:order, id: 1, at: latest + 1})
          assert {:error, %Error{kind: :out_of_bounds}} = Server.advance(name, latest + 1)
          assert {:ok, _page} = Server.assert(name, {:order, id: 1, at: latest})
          assert {:ok, _page} = Server.advance(name, latest)
          assert {:ok, %{now: ^latest}} = Server.info(name)
        end
      end

      test "takes any time with max_skew beyond all times", %{options: options} do
        name = start!(Clocks.new(), [max_skew: 0xFFFF_FFFF_FFFF_FFFF_FFFF] ++ options)
        assert {:ok, _page} = Server.assert(name, {:order, id: 1, at: Clocks.start() + 1000 * @day})
      end

      test "keeps accepted facts after a start with another max_skew", %{options: options, tmp_dir: folder} do
        clocks = Clocks.new()
        options = [dir: folder] ++ options
        name = start!(clocks, [max_skew: 2 * @day] ++ options)
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id, at: Clocks.start() + @day}))
        before = state(name)
        :ok = stop_supervised(name)
        name = start!(clocks, [name: name, max_skew: @day] ++ options)
        assert state(name) == before
      end

      test "without the system's clock times are those of the facts", %{options: options} do
        name = Clocks.start_server!(Clocks.new(), [rules: @text] ++ options)
        assert {:ok, _page} = Server.assert(name, {:order, id: 1, at: Clocks.start() + 1000 * @day})
        assert {:ok, _page} = Server.advance(name, Clocks.start() + 2000 * @day)
      end
    end
  end

  for runtime <- Runtimes.all() do
    describe "on #{Runtimes.name(runtime)}" do
      @describetag runtime: runtime

      test "assert_encoded/3 refuses a fact later than the latest time", %{runtime: runtime} do
        rules = Rules.new!(@text, runtime: runtime)
        facts = Rules.Operation.encode([{:order, id: 1, at: -10}, {:order, id: 2}, {:order, id: 3, at: -9}])
        options = Rules.Operation.up_to(Rules.default_options(), -10)

        assert {:error, %Error{kind: :out_of_bounds, position: 2}} =
                 Rules.Operation.assert_encoded(rules, facts, options)

        assert %{facts: 0, now: nil} = Rules.info!(rules)
        options = Rules.Operation.up_to(options, -9)
        assert {:ok, %{ids: [1, 2, 3]}} = Rules.Operation.assert_encoded(rules, facts, options)
      end
    end
  end
end

defmodule BeTree.Rules.HistoryTest do
  # A server that reads a history before it goes live equals a server that was live during that time.
  use ExUnit.Case, async: true

  import BeTree.Test.Notices
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers, only: [kill_partition: 2]

  alias BeTree.Error
  alias BeTree.Rules.Server
  alias BeTree.Test.Clocks

  # Servers are killed here.
  setup :quiet

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
  rule late
    when o: order
         p: payment(order = o.id), after o within 1 hours
         none payment(order = o.id) within 10 minutes after o
    then notify late(key: o.id, delay: p.at - o.at)
  """

  @layouts [one: [], partitions: [partitions: 3, partition_by: %{order: :id, payment: :order}]]

  defp start!(clocks, options), do: Clocks.start_server!(clocks, [rules: @text, durability: :none] ++ options)

  defp notes(name), do: Enum.sort(for(notice <- notices(name), do: {notice.name, notice.values}))

  # A day with an order each minute. Every third order is never paid, every fifth half an hour late.
  defp day(from) do
    orders = for minute <- 0..(24 * 60 - 1), do: {from + minute * @minute, {:order, minute}}

    payments =
      for {at, {:order, id}} <- orders, rem(id, 3) != 0 do
        {at + if(rem(id, 5) == 0, do: 30 * @minute, else: 20_000), {:payment, id}}
      end

    for {at, fact} <- Enum.sort(orders ++ payments), at < from + @day, do: {at, fact}
  end

  defp fact({at, {:order, id}}), do: {:order, id: id, at: at}
  defp fact({at, {:payment, order}}), do: {:payment, order: order, at: at}

  defp state(name) do
    {:ok, info} = Server.info(name)

    facts =
      for type <- [:order, :payment], {:ok, facts} = Server.facts(name, type), do: Enum.map(facts, &{&1.at, &1.fields})

    {Map.take(info, [:facts, :firings, :asserted, :next_due, :types, :due]), Enum.map(facts, &Enum.sort/1)}
  end

  for {layout, options} <- @layouts do
    describe "go_live/2 with #{layout}" do
      @describetag options: options

      test "a day of history leads to the state of a server that ran all day", %{options: options, tmp_dir: folder} do
        from = Clocks.start()
        events = day(from)

        # This server runs through the day.
        clocks = Clocks.new()
        twin = start!(clocks, [clock: :system] ++ options)
        :ok = Server.subscribe(twin)

        for {at, fact} <- events do
          Clocks.pass(clocks, at - Clocks.system(clocks))
          {:ok, _page} = Server.assert(twin, fact({at, fact}))
        end

        Clocks.pass(clocks, from + @day - Clocks.system(clocks))
        {:ok, _page} = Server.advance(twin, 0)
        expected = notes(twin)
        assert Enum.count(expected, &match?({"unpaid", _values}, &1)) > 480

        # This server reads the day afterwards.
        given = [dir: folder] ++ options
        name = start!(clocks, given)
        :ok = Server.subscribe(name)

        for part <- events |> Enum.map(&fact/1) |> Enum.chunk_every(100),
            do: {:ok, _page} = Server.assert_all(name, part)

        assert {:ok, _page} = Server.go_live(name)
        assert notes(name) == expected
        assert state(name) == state(twin)
        live_on(name, twin, clocks)

        # It stays live.
        :ok = stop_supervised(name)
        name = start!(clocks, [name: name] ++ given)
        :ok = Server.subscribe(name)
        assert state(name) == state(twin)
        live_on(name, twin, clocks)
        assert {:error, %Error{kind: :out_of_bounds}} = Server.assert(name, {:order, id: 1, at: from + 3 * @day})
      end

      test "moves time by the clock from then on; a second call only moves time", %{options: options} do
        clocks = Clocks.new()
        name = start!(clocks, options)
        ahead = Clocks.start() + @day
        assert {:ok, _page} = Server.assert(name, {:order, id: 1, at: 0})
        assert {:ok, %{firings: 1}} = Server.go_live(name)
        assert {:error, %Error{kind: :out_of_bounds}} = Server.assert(name, {:order, id: 1, at: ahead})
        assert {:ok, _page} = Server.assert(name, {:order, id: 2})
        assert {:ok, [%{at: at}]} = Server.facts(name, :order)
        assert at == Clocks.start()
        Clocks.pass(clocks, 11 * @minute)
        assert {:ok, %{firings: 1}} = Server.go_live(name)
        assert {:ok, %{firings: 0}} = Server.go_live(name)
      end

      test "changes nothing without a writable folder", %{options: options, tmp_dir: folder} do
        clocks = Clocks.new()
        name = start!(clocks, [dir: folder] ++ options)
        assert {:ok, _page} = Server.assert(name, {:order, id: 1, at: 0})
        before = state(name)
        # A directory in place of the file.
        File.mkdir!(Path.join(folder, "live.new"))
        assert {:error, %Error{kind: :file}} = Server.go_live(name)
        assert state(name) == before
        assert {:ok, _page} = Server.assert(name, {:order, id: 2, at: 1})
        File.rmdir!(Path.join(folder, "live.new"))
        assert {:ok, %{firings: 2}} = Server.go_live(name)
      end

      test "returns an error without a running server" do
        assert {:error, %Error{kind: :no_server}} = Server.go_live(:history_nobody)
        assert_raise ArgumentError, fn -> Server.go_live("x") end
        assert_raise ArgumentError, fn -> Server.go_live(:history_nobody, wrong: 1) end
      end
    end
  end

  defp live_on(name, twin, clocks) do
    for _step <- 1..5 do
      id = System.unique_integer([:positive, :monotonic]) + 10_000
      for server <- [name, twin], do: {:ok, _page} = Server.assert_all(server, [{:order, id: id}, {:order, id: id + 1}])
      Clocks.pass(clocks, @minute)
      for server <- [name, twin], do: {:ok, _page} = Server.assert(server, {:payment, order: id})
      Clocks.pass(clocks, 10 * @minute)
      for server <- [name, twin], do: Clocks.run_timers(server)
      assert [{"unpaid", %{"key" => unpaid}} | _more] = Enum.reverse(notes(name))
      assert unpaid == id + 1
      # A partition drops facts when its time moves.
      for server <- [name, twin], do: {:ok, _page} = Server.advance(server, 0)
      assert state(name) == state(twin)
    end
  end

  test "survives a kill of a partition afterwards" do
    clocks = Clocks.new()
    name = start!(clocks, partitions: 3, partition_by: %{order: :id, payment: :order})
    assert {:ok, _page} = Server.go_live(name)

    for number <- 0..2, do: kill_partition(name, number)

    {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id}))
    assert {:ok, %{now: now}} = Server.info(name)
    assert now == Clocks.start()
  end
end

defmodule BeTree.Rules.ClockTest do
  # The clock of a server with `clock: :system`. The tests control both system clocks and the timers. They read the log, so
  # they run alone: other tests may silence it.
  use ExUnit.Case

  import BeTree.Test.Notices
  import BeTree.Test.Logs

  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.Clock
  alias BeTree.Test.Clocks

  @moduletag :tmp_dir

  @minute 60_000
  @hour 60 * @minute
  @day 24 * @hour

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
  defp keys(name), do: Enum.sort(for(notice <- notices(name), do: notice.values["key"]))

  defp now(name) do
    {:ok, _page} = Server.advance(name, 0)
    {:ok, info} = Server.info(name)
    info.now
  end

  describe "read/1" do
    setup do
      clocks = Clocks.new()
      %{clocks: clocks, clock: Clock.new(%{name: :clock, max_skew: @minute, clocks: Clocks.sources(clocks)})}
    end

    # Returns the milliseconds since the clock's start, and the maximum lead of a fact.
    defp passed(clock) do
      {now, latest, clock} = Clock.read(clock)
      {now - Clocks.start(), latest - now, clock}
    end

    defp quietly_passed(clock) do
      {result, log} = with_log("clock", fn -> passed(clock) end)
      assert log == []
      result
    end

    test "follows small steps forward at once", %{clocks: clocks, clock: clock} do
      assert {0, @minute, clock} = quietly_passed(clock)
      Clocks.pass(clocks, 1_000)
      Clocks.jump(clocks, 59_000)
      assert {60_000, @minute, clock} = quietly_passed(clock)
      Clocks.pass(clocks, 5)
      assert {60_005, @minute, _clock} = quietly_passed(clock)
    end

    test "goes 1 % slower after a small step back, never back", %{clocks: clocks, clock: clock} do
      Clocks.jump(clocks, -1_000)
      assert {0, ahead, clock} = quietly_passed(clock)
      # The maximum lead is relative to the system clock, as before.
      assert ahead == @minute - 1_000

      clock =
        for step <- 1..1_000, reduce: clock do
          clock ->
            Clocks.pass(clocks, 50)
            {passed, _ahead, clock} = quietly_passed(clock)
            assert passed == 50 * step - div(step, 2)
            clock
        end

      Clocks.pass(clocks, @hour)
      assert {passed, ahead, clock} = quietly_passed(clock)
      assert passed == Clocks.system(clocks) - Clocks.start()
      assert ahead == @minute
      Clocks.pass(clocks, @hour)
      assert {later, @minute, _clock} = quietly_passed(clock)
      assert later == passed + @hour
    end

    test "ignores and logs a jump undone within max_skew", %{clocks: clocks, clock: clock} do
      for jump <- [@day, -@day], reduce: clock do
        clock ->
          {before, @minute, clock} = quietly_passed(clock)
          Clocks.jump(clocks, jump)
          {{passed, ahead, clock}, log} = with_log("clock", fn -> passed(clock) end)
          assert {passed, ahead} == {before, @minute}
          assert [line] = log
          assert line =~ "jumped #{@day} milliseconds #{if jump > 0, do: "forward", else: "back"}"
          Clocks.pass(clocks, 59_000)
          {passed, @minute, clock} = quietly_passed(clock)
          assert passed == before + 59_000
          Clocks.jump(clocks, -jump)
          {{passed, @minute, clock}, log} = with_log("clock", fn -> passed(clock) end)
          assert passed == before + 59_000
          assert [line] = log
          assert line =~ "agrees with time again"
          clock
      end
    end

    test "follows a jump forward after max_skew", %{clocks: clocks, clock: clock} do
      Clocks.jump(clocks, @hour)
      {{0, @minute, clock}, _log} = with_log("clock", fn -> passed(clock) end)
      Clocks.pass(clocks, @minute)
      {{passed, @minute, clock}, log} = with_log("clock", fn -> passed(clock) end)
      assert passed == @hour + @minute
      assert [line] = log
      assert line =~ "follows the system clock #{@hour} milliseconds forward"
      Clocks.pass(clocks, @hour)
      assert {_passed, @minute, _clock} = quietly_passed(clock)
    end

    test "restarts the wait at a second jump", %{clocks: clocks, clock: clock} do
      Clocks.jump(clocks, @hour)
      {{0, @minute, clock}, _log} = with_log("clock", fn -> passed(clock) end)
      Clocks.pass(clocks, 50_000)
      Clocks.jump(clocks, @hour)
      {{50_000, @minute, clock}, log} = with_log("clock", fn -> passed(clock) end)
      assert [line] = log
      assert line =~ "jumped #{2 * @hour} milliseconds forward"
      Clocks.pass(clocks, 50_000)
      assert {100_000, @minute, clock} = quietly_passed(clock)
      Clocks.pass(clocks, 10_000)
      {{passed, @minute, _clock}, _log} = with_log("clock", fn -> passed(clock) end)
      assert passed == 2 * @hour + 110_000
    end

    test "goes 1 % slower after a lasting jump back, and refuses facts ahead of it", %{clocks: clocks, clock: clock} do
      Clocks.jump(clocks, -@hour)
      {{0, @minute, clock}, _log} = with_log("clock", fn -> passed(clock) end)
      Clocks.pass(clocks, @minute)
      {{@minute, 0, clock}, log} = with_log("clock", fn -> passed(clock) end)
      assert [line] = log
      assert line =~ "time is #{@hour} milliseconds ahead of the system clock"
      Clocks.pass(clocks, @hour)
      assert {passed, 0, clock} = quietly_passed(clock)
      assert passed == @minute + div(@hour * 99, 100)
      # Once corrected, the system clock is ahead by the lost difference.
      Clocks.jump(clocks, @hour)
      {{passed, @minute, _clock}, log} = with_log("clock", fn -> passed(clock) end)
      assert passed == @minute + @hour
      assert [line] = log
      assert line =~ "agrees"
    end
  end

  for {layout, options} <- @layouts do
    describe "with #{layout}" do
      @describetag options: options

      test "an hour back within a window does not delay its notice", %{options: options} do
        clocks = Clocks.new()
        name = start!(clocks, options)
        :ok = Server.subscribe(name)
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id}))

        with_log(inspect(name), fn ->
          Clocks.jump(clocks, -@hour)
          Clocks.pass(clocks, 10 * @minute - 1_000)
          Clocks.run_timers(name)
          assert keys(name) == []
          # The jump has lasted since the timers checked, so time goes 1 % slower.
          Clocks.pass(clocks, 1_000)
          Clocks.run_timers(name)
          assert keys(name) == Enum.to_list(1..9)
        end)
      end

      test "a day forward and back within max_skew does not move time", %{options: options} do
        clocks = Clocks.new()
        name = start!(clocks, options)
        :ok = Server.subscribe(name)
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id}))

        {_result, log} =
          with_log(inspect(name), fn ->
            Clocks.jump(clocks, @day)
            Clocks.run_timers(name)
            assert now(name) == Clocks.start()
            Clocks.pass(clocks, 50_000)
            assert now(name) == Clocks.start() + 50_000
            Clocks.jump(clocks, -@day)
            Clocks.run_timers(name)
          end)

        assert [jumped, agrees] = log
        assert jumped =~ "jumped" and agrees =~ "agrees"
        assert now(name) == Clocks.system(clocks)
        assert keys(name) == []
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:payment, order: id}))
        Clocks.pass(clocks, @hour)
        Clocks.run_timers(name)
        assert keys(name) == []
      end

      test "a lasting jump forward closes windows by the system clock", %{options: options} do
        clocks = Clocks.new()
        name = start!(clocks, options)
        :ok = Server.subscribe(name)
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id}))

        {_result, log} =
          with_log(inspect(name), fn ->
            # Like a machine after sleep.
            Clocks.jump(clocks, @hour)
            Clocks.run_timers(name)
            Clocks.pass(clocks, @minute)
            Clocks.run_timers(name)
          end)

        assert [jumped, follows] = log
        assert jumped =~ "jumped" and follows =~ "follows"
        assert keys(name) == Enum.to_list(1..9)
        assert now(name) == Clocks.system(clocks)
      end

      test "timers wait for the monotonic clock and check the system clock", %{options: options} do
        clocks = Clocks.new()
        name = start!(clocks, options)
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id}))
        # Neither timer closes a window early.
        Clocks.run_timers(name)
        assert {:ok, %{facts: 9, firings: 0}} = Server.info(name)
      end

      test "a start continues from the time of the folder", %{options: options, tmp_dir: folder} do
        clocks = Clocks.new()
        options = [dir: folder] ++ options
        name = start!(clocks, options)
        {:ok, _page} = Server.assert_all(name, for(id <- 1..9, do: {:order, id: id}))
        :ok = stop_supervised(name)

        # The machine starts with its clock an hour behind.
        behind = Clocks.new()
        Clocks.jump(behind, -@hour)
        {name, log} = with_log(inspect(name), fn -> start!(behind, [name: name] ++ options) end)
        assert [line] = log
        assert line =~ "the facts in the folder are #{@hour} milliseconds ahead of the system clock"
        assert now(name) == Clocks.start()
        :ok = Server.subscribe(name)
        Clocks.pass(behind, 10 * @minute)
        Clocks.run_timers(name)
        # 1 % slower.
        assert keys(name) == []
        Clocks.pass(behind, 7_000)
        with_log(inspect(name), fn -> Clocks.run_timers(name) end)
        assert keys(name) == Enum.to_list(1..9)
        :ok = stop_supervised(name)

        # A fact may be slightly ahead, and so may a folder.
        clocks = Clocks.new()
        Clocks.pass(clocks, 9 * @minute + 1_000)
        {name, log} = with_log(inspect(name), fn -> start!(clocks, [name: name] ++ options) end)
        assert log == []
        assert {:ok, %{facts: 0}} = Server.info(name)
      end
    end
  end
end

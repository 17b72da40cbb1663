defmodule BeTree.TenantsTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Kill, Quiet, Tenants}

  alias BeTree.Tenants
  alias BeTree.Tenants.{Directory, Shard}

  doctest BeTree.Tenants

  setup :quiet

  @wait_ms 300_000

  defp started(options \\ [], internal \\ %{}) do
    clocks = clocks()
    {start(options, Map.merge(%{clock: clock(clocks)}, internal)), clocks}
  end

  defp totals(name, tenant, date \\ nil) do
    {:ok, usage} = Tenants.usage(name, tenant)
    if date, do: usage.days[date], else: usage.days |> Map.values() |> Enum.reduce(&BeTree.Tenants.Usage.sum/2)
  end

  defp counts(name, tenant, sections \\ [[]]) do
    Tenants.report!(name, tenants: [tenant], sections: sections)
  end

  describe "change/4" do
    test "deletes, inserts and replaces, all or nothing, and separates tenants" do
      {name, _clocks} = started()
      assert {:ok, %{put: 2, deleted: 0, bytes: bytes}} = Tenants.change(name, :a, put: [{1, "a > 0"}, {2, "a > 10"}])
      assert bytes > 0
      assert {:ok, %{put: 1}} = Tenants.change(name, :b, put: [{1, "a > 5"}])
      assert Tenants.match(name, :a, %{a: 7}) == {:ok, [1]}
      assert Tenants.match(name, :b, %{a: 7}) == {:ok, [1]}
      assert {:ok, %{put: 2, deleted: 1}} = Tenants.change(name, :a, delete: [1], put: [{2, "a > 6"}, {3, "a < 0"}])
      assert Tenants.match(name, :a, %{a: 7}) == {:ok, [2]}
      assert {:error, %{kind: :not_found}} = Tenants.change(name, :a, delete: [1], put: [{4, "a > 6"}])

      assert {:error, %{kind: :syntax, position: 1, text: "a >"}} =
               Tenants.change(name, :a, delete: [2], put: [{4, "a > 6"}, {5, "a >"}])

      assert Tenants.match(name, :a, %{a: 7}) == {:ok, [2]}
      assert Tenants.match(name, :b, %{a: 7}) == {:ok, [1]}
    end

    test "that is refused creates nothing" do
      {name, _clocks} = started()
      assert {:error, %{kind: :syntax}} = Tenants.change(name, "new", put: [{1, "a >"}])
      assert {:error, %{kind: :not_found}} = Tenants.change(name, "new", delete: [1])
      assert {:error, %{kind: :duplicate_id}} = Tenants.change(name, "new", put: [{1, "a > 1"}, {1, "a > 2"}])
      assert {:error, %{kind: :not_found}} = Tenants.match(name, "new", %{a: 1})
      assert %{tenants: 0, hot: 0, bytes: 0} = Tenants.info!(name)
      assert %{rows: 0, usage: 0, intents: 0} = sizes(name)
    end

    test "takes any term for a tenant, compared exactly" do
      {name, _clocks} = started()
      tenants = [1, 1.0, "1", :_, :"$1", {}, {:_}, nil, %{a: [1 | 2]}, [], self(), make_ref(), fn -> 1 end]
      for {tenant, id} <- Enum.with_index(tenants), do: Tenants.change!(name, tenant, put: [{id, "a > 0"}])
      for {tenant, id} <- Enum.with_index(tenants), do: assert(Tenants.match(name, tenant, %{a: 1}) == {:ok, [id]})
      for tenant <- tenants, do: :ok = Tenants.evict(name, tenant)
      for {tenant, id} <- Enum.with_index(tenants), do: assert(Tenants.match(name, tenant, %{a: 1}) == {:ok, [id]})
      assert {:error, error} = Tenants.change(name, String.duplicate("x", 70_000), put: [{1, "a > 0"}])
      assert error.kind == :out_of_bounds
      assert error.message =~ "a tenant takes at most 65536 bytes"
    end

    test "makes changes of one process in their order, and of many processes all" do
      {name, _clocks} = started()
      for number <- 1..50, do: Tenants.change!(name, "ordered", put: [{1, "a = #{number}"}])
      assert Tenants.match(name, "ordered", %{a: 50}) == {:ok, [1]}

      1..8
      |> Enum.map(fn process ->
        Task.async(fn -> for id <- 1..25, do: Tenants.change!(name, "shared", put: [{100 * process + id, "a > 0"}]) end)
      end)
      |> Task.await_many(@wait_ms)

      assert length(Tenants.match!(name, "shared", %{a: 1})) == 200
      :ok = Tenants.evict(name, "shared")
      assert length(Tenants.match!(name, "shared", %{a: 1})) == 200
    end

    test "moves a tenant to an instance of its own and back, with its counts" do
      {name, _clocks} = started()
      for tenant <- ["a", "b"], do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
      shards = Tenants.info!(name).shards
      assert Tenants.match(name, "a", %{a: 1}) == {:ok, [1]}
      assert Tenants.change!(name, "a", put: [{2, "a > 1"}], instance: :own).put == 1
      assert Tenants.match(name, "a", %{a: 2}) == {:ok, [1, 2]}
      assert Tenants.info!(name).shards == shards + 1
      # No other tenant comes into it, also after a restart of the partition.
      former = partition(name, "a")
      kill(former)
      await_partition(name, "a", former)
      for tenant <- 1..40, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
      assert Tenants.match(name, "a", %{a: 2}) == {:ok, [1, 2]}
      [{_key, _shard, id, _number, _day, _counters, _slots, _bucket, _clock}] = :ets.lookup(name, {"a"})
      assert [_alone] = for(row <- :ets.tab2list(name), tuple_size(row) == 9, elem(row, 2) == id, do: row)
      shards = Tenants.info!(name).shards
      Tenants.change!(name, "a", instance: :shared)
      assert Tenants.match(name, "a", %{a: 0}) == {:ok, []}
      assert Tenants.info!(name).shards == shards - 1
      assert [[%{events: 4, matched: 3, matches: 5}]] = counts(name, "a")
      assert_raise ArgumentError, ~r/:shared or :own/, fn -> Tenants.change(name, "a", instance: :large) end
    end
  end

  describe "match/4" do
    test "returns errors of the event, and counts none of them" do
      {name, _clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      assert {:error, %{kind: :type, attribute: "a"}} = Tenants.match(name, "a", %{a: "x"})
      assert {:error, %{kind: :missing_attribute}} = Tenants.match(name, "a", %{})
      assert {:error, %{kind: :unknown_attribute}} = Tenants.match(name, "a", %{a: 1, b: 2}, strict: true)
      assert {:error, %{kind: :syntax}} = Tenants.match(name, "a", {:json, "{"})
      assert {:error, %{kind: :out_of_fuel}} = Tenants.match(name, "a", %{a: 1}, fuel: 10)
      assert Tenants.match(name, "a", {:json, ~s({"a": 1})}) == {:ok, [1]}
      assert [[%{events: 1, matches: 1}]] = counts(name, "a")
      assert totals(name, "a").events == 1
    end

    test "of many callers loads an evicted tenant once" do
      {name, _clocks} = started()
      Tenants.change!(name, "a", put: for(id <- 1..300, do: {id, "a > #{id}"}))
      :ok = Tenants.evict(name, "a")
      pid = partition(name, "a")
      :sys.suspend(pid)
      tasks = for _number <- 1..20, do: Task.async(fn -> Tenants.match(name, "a", %{a: 3}) end)
      BeTree.Test.Eventually.eventually(fn -> Process.info(pid, :message_queue_len) >= {:message_queue_len, 20} end)
      :sys.resume(pid)
      assert Enum.uniq(Task.await_many(tasks, @wait_ms)) == [{:ok, [1, 2]}]
      assert %{loads: 1, evictions: 1, hot: 1} = Tenants.info!(name)
      assert [[%{events: 20, matches: 40}]] = counts(name, "a")
    end

    test "refuses tenants that do not run, and names that are no atoms" do
      assert {:error, %{kind: :no_server}} = Tenants.match(:no_tenants, "a", %{a: 1})
      assert {:error, %{kind: :no_server}} = Tenants.change(:no_tenants, "a", put: [{1, "a > 0"}])
      assert {:error, %{kind: :no_server}} = Tenants.info(:no_tenants)
      assert_raise ArgumentError, ~r/the name of a BeTree.Tenants, an atom/, fn -> Tenants.match("a", "a", %{a: 1}) end
    end
  end

  describe "match_many/3" do
    test "returns results in the order of the events, errors in their places" do
      {name, _clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      Tenants.change!(name, "b", put: [{2, "a < 0"}])

      events = [
        {"a", %{a: 1}},
        {"b", %{a: 1}},
        {"none", %{a: 1}},
        {"a", %{a: "x"}},
        {"b", %{a: -1}},
        {"a", 5},
        {"a", %{a: 0}}
      ]

      {:ok, results} = Tenants.match_many(name, events)

      assert [{:ok, [1]}, {:ok, []}, {:error, unknown}, {:error, wrong}, {:ok, [2]}, {:error, none}, {:ok, []}] =
               results

      assert {unknown.kind, wrong.kind, none.kind} == {:not_found, :type, :type}
      assert [[%{events: 2, matches: 1}]] = counts(name, "a")
      assert [[%{events: 2, matches: 1}]] = counts(name, "b")
      assert {:error, %{kind: :type, position: 1}} = Tenants.match_many(name, [{"a", %{a: 1}}, :x])
      assert Tenants.match_many(name, []) == {:ok, []}
    end

    test "finds what match/4 finds, for many events of evicted tenants" do
      {name, _clocks} = started([hot: 3], %{partitions: 2})
      for tenant <- 1..10, do: Tenants.change!(name, tenant, put: for(id <- 1..20, do: {id, "a > #{tenant * id}"}))
      events = for number <- 1..500, do: {rem(number, 10) + 1, %{a: rem(number * 7_919, 200)}}
      {:ok, results} = Tenants.match_many(name, Stream.map(events, & &1))
      assert results == for({tenant, event} <- events, do: Tenants.match(name, tenant, event))
      assert [[%{events: 1_000}]] = Tenants.report!(name, tenants: :all)
    end
  end

  describe "match/4 and match_many/3 with count: false" do
    test "find the same, and change neither statistics nor bill nor quota" do
      {name, clocks} = started([hot: 2, quota: [rate: 1, burst: 1_000_000_000]], %{partitions: 2})
      for tenant <- 1..4, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}, {2, "a > 100"}])
      events = for number <- 1..100, do: {rem(number, 4) + 1, %{a: number * 7 - 350}}
      counted = Tenants.match_many!(name, events)
      state = fn -> {counts(name, 1, [[], [:id]]), Tenants.usage(name, 1)} end
      # The tenant is in memory, so that its quota is known. It stays there, because the others were used before.
      pass_microseconds(clocks, 1)
      Tenants.match!(name, 1, %{a: 1})
      before = state.()

      assert Tenants.match_many!(name, for({1, event} <- events, do: {1, event}), count: false) ==
               for({{1, _event}, result} <- Enum.zip(events, counted), do: result)

      assert Tenants.match(name, 1, %{a: 7}, count: false) == {:ok, [1]}
      assert state.() == before

      # Also while tenants leave memory and come back.
      assert Tenants.match_many!(name, events, count: false) == counted
      assert [[%{events: 101}]] = Tenants.report!(name, tenants: :all)
    end

    test "return errors of the event" do
      {name, _clocks} = started()
      Tenants.change!(name, :a, put: [{1, "a > 0"}])
      assert {:error, %{kind: :type}} = Tenants.match(name, :a, %{a: "x"}, count: false)
      assert {:error, %{kind: :not_found}} = Tenants.match(name, :b, %{a: 1}, count: false)
      assert {:ok, [{:ok, [1]}, {:error, _error}]} = Tenants.match_many(name, [{:a, %{a: 1}}, {:a, 5}], count: false)
      assert_raise ArgumentError, ~r/:count/, fn -> Tenants.match(name, :a, %{a: 1}, count: 1) end
    end
  end

  describe "snapshot_many/2" do
    test "returns a result for each tenant, in order, also for tenants that are not in memory" do
      {name, _clocks} = started([hot: 2], %{partitions: 2})
      for tenant <- 1..6, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
      for tenant <- 1..6, do: Tenants.match!(name, tenant, %{a: 1})
      assert {:ok, [:ok, {:error, %{kind: :not_found}}, :ok]} = Tenants.snapshot_many(name, [1, "none", 1])
      assert Tenants.snapshot_many(name, Enum.to_list(1..6)) == {:ok, List.duplicate(:ok, 6)}
      assert Tenants.snapshot_many(name, []) == {:ok, []}
      assert [[%{events: 6}]] = Tenants.report!(name, tenants: :all)
    end

    test "refuses names of no tenants, and what is no list" do
      assert {:error, %{kind: :no_server}} = Tenants.snapshot_many(:no_such_tenants, [1])
      {name, _clocks} = started()
      assert_raise ArgumentError, ~r/a list of tenants/, fn -> Tenants.snapshot_many(name, 1) end
      assert_raise ArgumentError, ~r/a list of tenants/, fn -> Tenants.snapshot_many(name, [1 | 2]) end
    end

    test "waits for a partition that starts again" do
      {name, _clocks} = started([], %{partitions: 1})
      for tenant <- 1..50, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
      for tenant <- 1..50, do: Tenants.match!(name, tenant, %{a: 1})
      former = partition(name, 1)
      :sys.suspend(former)
      written = Task.async(fn -> Tenants.snapshot_many(name, Enum.to_list(1..50)) end)
      # The process has the requests when it is killed.
      eventually(fn -> former |> Process.info(:message_queue_len) |> elem(1) >= 50 end)
      kill(former)
      assert Task.await(written, @wait_ms) == {:ok, List.duplicate(:ok, 50)}
      assert [[%{events: 50}]] = Tenants.report!(name, tenants: :all)
    end
  end

  describe "quotas" do
    test "admit what the bucket holds, and refuse until it is refilled" do
      {name, clocks} = started(quota: [rate: 1_000, burst: 1])
      Tenants.change!(name, "a", put: [{1, "a > 0"}], quota: [rate: 1_000, burst: 1_000_000])
      # The first match of an expression makes room for its counts.
      assert {:ok, [1]} = Tenants.match(name, "a", %{a: 1})
      %{search: first} = totals(name, "a")
      %{change: change} = totals(name, "a")
      pass(clocks, 1_000)
      {:ok, %{quota: %{left: 1_000_000, rate: 1_000, burst: 1_000_000}}} = Tenants.usage(name, "a")
      assert {:ok, [1]} = Tenants.match(name, "a", %{a: 1})
      search = totals(name, "a").search - first
      assert {:ok, %{quota: %{left: left}}} = Tenants.usage(name, "a")
      assert left == 1_000_000 - search

      admitted =
        Stream.repeatedly(fn -> Tenants.match(name, "a", %{a: 1}) end) |> Enum.take_while(&match?({:ok, _ids}, &1))

      assert length(admitted) == div(1_000_000 - 1, search)
      assert {:error, error} = Tenants.match(name, "a", %{a: 1})
      assert error.kind == :quota
      pass_microseconds(clocks, 1_000 * (error.retry_after - 1))
      assert {:error, %{kind: :quota, retry_after: 1}} = Tenants.match(name, "a", %{a: 1})
      pass_microseconds(clocks, 1_000)
      assert {:ok, [1]} = Tenants.match(name, "a", %{a: 1})
      assert %{refused: 3, change: ^change, events: events} = totals(name, "a")
      assert events == length(admitted) + 3
    end

    test "hold for each tenant, also in the same batch" do
      {name, _clocks} = started(quota: [rate: 1, burst: 1_000_000_000])
      for tenant <- ["honest", "greedy"], do: Tenants.change!(name, tenant, put: [{1, "a > 0"}])
      Tenants.change!(name, "greedy", quota: [rate: 1, burst: 1])
      events = for _number <- 1..10, tenant <- ["greedy", "honest"], do: {tenant, %{a: 1}}
      results = Tenants.match_many!(name, events)
      {greedy, honest} = results |> Enum.chunk_every(2) |> Enum.map(&List.to_tuple/1) |> Enum.unzip()
      assert Enum.uniq(honest) == [{:ok, [1]}]
      assert Enum.all?(greedy, &match?({:error, %{kind: :quota}}, &1))
    end

    test "with overflow: :sample skip events, and count them" do
      {name, clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      Tenants.change!(name, "a", quota: [rate: 1_000_000, burst: 1, overflow: :sample])
      pass(clocks, 1)
      assert Tenants.match(name, "a", %{a: 1}) == {:ok, [1]}
      assert for(_number <- 1..5, do: Tenants.match(name, "a", %{a: 1})) == List.duplicate(:skipped, 5)
      assert Tenants.match_many!(name, [{"a", %{a: 1}}]) == [:skipped]
      pass(clocks, 1)
      assert Tenants.match!(name, "a", %{a: 1}) == [1]
      assert Tenants.match!(name, "a", %{a: 1}) == :skipped
      assert %{skipped: 7, events: 2, refused: 0} = totals(name, "a")
      assert [[%{events: 2}]] = counts(name, "a")
    end

    test "outlive an eviction" do
      {name, clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      Tenants.change!(name, "a", quota: [rate: 10, burst: 100])
      assert {:ok, _ids} = Tenants.match(name, "a", %{a: 1})
      {:ok, %{quota: %{left: left}}} = Tenants.usage(name, "a")
      assert left < 0
      :ok = Tenants.evict(name, "a")
      pass(clocks, 7)
      assert {:error, %{kind: :quota}} = Tenants.match(name, "a", %{a: 1})
      assert {:ok, %{quota: %{left: later}}} = Tenants.usage(name, "a")
      assert later == left + 70
    end

    test "of memory refuse a change, which leaves nothing" do
      {name, _clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      Tenants.match!(name, "a", %{a: 1})
      %{bytes: bytes} = Tenants.change!(name, "a", quota: [memory: 30_000])
      assert bytes < 30_000
      large = for id <- 2..2_000, do: {id, "a > #{id} and a < #{3 * id} or a = -#{id}"}
      assert {:error, %{kind: :quota, retry_after: nil}} = Tenants.change(name, "a", put: large)
      assert Tenants.match(name, "a", %{a: 100}) == {:ok, [1]}
      assert {:ok, _counts} = Tenants.change(name, "a", put: [{2, "a > 1"}])
      assert Tenants.match(name, "a", %{a: 100}) == {:ok, [1, 2]}
      assert [[%{events: 3, matches: 4}]] = counts(name, "a")
    end
  end

  describe "usage/2" do
    test "is the sum of the fuel of all calls, and the same for the same calls" do
      bill = fn ->
        {name, _clocks} = started()
        test = self()
        # The fuel of each call, as the module reports it.
        fuel = fn -> Tenants.info!(name).dearest end
        Tenants.change!(name, "a", put: for(id <- 1..50, do: {id, "a > #{id}"}))
        Tenants.change!(name, "b", put: for(id <- 1..500, do: {id, "a > #{id} or a = -#{id}"}))
        for number <- 1..20, do: Tenants.match(name, "a", %{a: number})
        Tenants.match(name, "a", %{a: "x"})
        Tenants.match(name, "a", %{a: 1}, fuel: 100)
        :ok = Tenants.evict(name, "a")
        for number <- 1..20, do: Tenants.match(name, "a", %{a: number})
        Tenants.change!(name, "a", delete: [1])
        send(test, {:dearest, fuel.()})
        {totals(name, "a"), totals(name, "b")}
      end

      assert {one, two} = bill.()
      assert {^one, ^two} = bill.()
      assert_receive {:dearest, [{"b", dearest}, {"a", fuel}]}, @wait_ms
      assert dearest == two.search + two.change + two.load
      assert fuel == one.search + one.change + one.load
      assert %{events: 40, load: load} = one
      assert load > 0
      assert %{search: 0, events: 0, load: 0} = two
    end

    test "of concurrent callers is exact" do
      {name, _clocks} = started()
      Tenants.change!(name, "a", put: for(id <- 1..20, do: {id, "a > #{id}"}))
      # The first match of an expression makes room for its counts.
      Tenants.match!(name, "a", %{a: 10})
      %{search: first} = totals(name, "a")
      Tenants.match!(name, "a", %{a: 10})
      one = totals(name, "a").search - first

      1..8
      |> Enum.map(fn _ -> Task.async(fn -> for _ <- 1..250, do: Tenants.match!(name, "a", %{a: 10}) end) end)
      |> Task.await_many(@wait_ms)

      assert %{search: search, events: 2_002} = totals(name, "a")
      assert search == first + 2_001 * one
      assert [[%{events: 2_002, matches: 18_018}]] = counts(name, "a")
    end
  end

  describe "evictions" do
    test "keep the most recently used tenants" do
      {name, clocks} = started([hot: 4], %{partitions: 1})

      for tenant <- 1..4 do
        pass(clocks, 1)
        Tenants.change!(name, tenant, put: [{tenant, "a > 0"}])
      end

      pass(clocks, 1)
      Tenants.match!(name, 1, %{a: 1})
      pass(clocks, 1)
      Tenants.change!(name, 5, put: [{5, "a > 0"}])
      BeTree.Test.Eventually.eventually(fn -> Tenants.info!(name).hot == 4 end)
      assert %{tenants: 5, evictions: 1} = Tenants.info!(name)
      assert for(tenant <- 1..5, Directory.row(name, tenant), do: tenant) == [1, 3, 4, 5]
    end

    test "bound the tenants of all partitions" do
      {name, _clocks} = started([hot: 5], %{partitions: 4})
      for tenant <- 1..100, do: Tenants.change!(name, tenant, put: [{tenant, "a > 0"}])
      BeTree.Test.Eventually.eventually(fn -> Tenants.info!(name).hot == 5 end)
      for tenant <- 1..100, do: assert(Tenants.match(name, tenant, %{a: 1}) == {:ok, [tenant]})
      BeTree.Test.Eventually.eventually(fn -> Tenants.info!(name).hot == 5 end)
      assert %{tenants: 100, evictions: evictions, loads: loads} = Tenants.info!(name)
      assert evictions >= 190 and loads >= 95
    end

    test "let the excess leave and no more, beside concurrent callers and kills" do
      {name, _clocks} = started([hot: 20], %{partitions: 8})

      callers =
        for caller <- 1..8 do
          Task.async(fn ->
            for number <- 1..40,
                tenant = {caller, number},
                {:error, %{kind: :no_server}} <- [Tenants.change(name, tenant, put: [{1, "a > 0"}])],
                do: Tenants.change(name, tenant, put: [{1, "a > 0"}])
          end)
        end

      for _kill <- 1..5, do: name |> partitions() |> Enum.random() |> kill()
      Task.await_many(callers, @wait_ms)
      BeTree.Test.Eventually.eventually(fn -> Enum.all?(partitions(name), &Process.alive?/1) end)

      # Too many again and again: exactly the excess leaves.
      for round <- 1..10 do
        1..8
        |> Enum.map(fn caller -> Task.async(fn -> Tenants.change!(name, {caller, -round}, put: [{1, "a > 0"}]) end) end)
        |> Task.await_many(@wait_ms)

        BeTree.Test.Eventually.eventually(fn -> Tenants.info!(name).hot <= 20 end)
        write(name)
        assert Tenants.info!(name).hot == 20
      end
    end

    test "bound the bytes in memory" do
      {name, _clocks} = started([memory: 1], %{partitions: 2})
      for tenant <- 1..20, do: Tenants.change!(name, tenant, put: [{tenant, "a > 0"}])
      BeTree.Test.Eventually.eventually(fn -> Tenants.info!(name).hot <= 1 end)
      for tenant <- 1..20, do: assert(Tenants.match(name, tenant, %{a: 1}) == {:ok, [tenant]})
    end

    test "lose no event of concurrent matches" do
      {name, _clocks} = started([hot: 1], %{partitions: 2})
      for tenant <- 1..6, do: Tenants.change!(name, tenant, put: [{1, "a > 0"}, {2, "a > 5"}])

      1..6
      |> Enum.map(fn process ->
        Task.async(fn ->
          for number <- 1..200,
              do: assert([1 | _] = Tenants.match!(name, rem(number * process, 6) + 1, %{a: rem(number, 10) + 1}))
        end)
      end)
      |> Task.await_many(@wait_ms)

      assert [[%{events: 1_200, matched: 1_200}]] = Tenants.report!(name, tenants: :all)
      sum = for tenant <- 1..6, reduce: 0, do: (sum -> sum + totals(name, tenant).events)
      assert sum == 1_200
      assert Tenants.info!(name).evictions > 0
    end

    test "of a tenant whose caller has the former row do not match another tenant" do
      {name, _clocks} = started([], %{partitions: 1})
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      {_key, shard, _id, number, day, _counters, _slots, _bucket, _clock} = Directory.row(name, "a")
      :ok = Tenants.evict(name, "a")
      for tenant <- 1..300, do: Tenants.change!(name, tenant, put: [{2, "a > 0"}])
      event = :erlang.term_to_binary(%{a: 1})
      limits = %{fuel: :infinity, timeout: :infinity}
      assert {:error, %{kind: :not_found}, _fuel} = Shard.match(shard, number, day, 0, event, limits)
    end
  end

  describe "drop/2" do
    test "forgets everything, and the tenant can come again" do
      {name, _clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      Tenants.match!(name, "a", %{a: 1})
      assert Tenants.drop(name, "a") == :ok
      assert {:error, %{kind: :not_found}} = Tenants.drop(name, "a")
      assert {:error, %{kind: :not_found}} = Tenants.match(name, "a", %{a: 1})
      assert {:error, %{kind: :not_found}} = Tenants.usage(name, "a")
      assert {:error, %{kind: :not_found}} = Tenants.report(name, tenants: ["a"])
      assert %{rows: 0, usage: 0, intents: 0, tails: 0, blobs: 0} = sizes(name)
      Tenants.change!(name, "a", put: [{2, "a > 0"}])
      assert Tenants.match!(name, "a", %{a: 1}) == [2]
      assert [[%{events: 1}]] = counts(name, "a")
      :ok = Tenants.evict(name, "a")
      assert Tenants.drop(name, "a") == :ok
      assert %{rows: 0, usage: 0, intents: 0, tails: 0, blobs: 0} = sizes(name)
    end

    test "meanwhile matches find the tenant or none" do
      {name, _clocks} = started()

      matcher =
        Task.async(fn ->
          for _number <- 1..2_000 do
            case Tenants.match(name, "a", %{a: 1}) do
              {:ok, ids} -> assert ids in [[1], []]
              {:error, error} -> assert error.kind == :not_found
            end
          end
        end)

      for _number <- 1..50 do
        Tenants.change!(name, "a", put: [{1, "a > 0"}])
        :ok = Tenants.drop(name, "a")
      end

      Task.await(matcher, @wait_ms)
      assert %{rows: 0, usage: 0, intents: 0, tails: 0, blobs: 0} = sizes(name)
      assert %{tenants: 0, hot: 0, bytes: 0} = Tenants.info!(name)
    end
  end

  describe "days" do
    @day 86_400

    test "end at midnight, are reported each apart, and are kept for the retention" do
      {name, clocks} = started(retention: 2)
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      first = today(clocks)
      for _number <- 1..3, do: Tenants.match!(name, "a", %{a: 1})
      pass(clocks, @day)
      second = today(clocks)
      for _number <- 1..2, do: Tenants.match!(name, "a", %{a: 0})

      days = fn ->
        for entry <- hd(counts(name, "a", [[:day]])), into: %{}, do: {entry.day, {entry.events, entry.matches}}
      end

      assert days.() == %{first => {3, 3}, second => {2, 0}}
      assert totals(name, "a", first).events == 3
      assert totals(name, "a", second).events == 2
      write(name)
      assert days.() == %{first => {3, 3}, second => {2, 0}}
      :ok = Tenants.evict(name, "a")
      assert days.() == %{first => {3, 3}, second => {2, 0}}
      pass(clocks, @day)
      Tenants.match!(name, "a", %{a: 1})
      pass(clocks, @day)
      Tenants.match!(name, "a", %{a: 1})
      write(name)
      assert days.() == %{second => {2, 0}, Date.add(second, 1) => {1, 1}, Date.add(second, 2) => {1, 1}}
      assert [[%{events: 2}]] = Tenants.report!(name, tenants: ["a"], days: Date.range(second, second))
      {:ok, usage} = Tenants.usage(name, "a")
      assert Enum.sort(Map.keys(usage.days), Date) == [second, Date.add(second, 1), Date.add(second, 2)]
    end

    test "do not begin again when the clock goes back" do
      {name, clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      first = today(clocks)
      Tenants.match!(name, "a", %{a: 1})
      pass(clocks, @day)
      second = today(clocks)
      Tenants.match!(name, "a", %{a: 1})
      write(name)
      jump(clocks, -@day)
      for _number <- 1..4, do: Tenants.match!(name, "a", %{a: 1})
      Tenants.change!(name, "a", put: [{2, "a > 0"}])
      write(name)
      :ok = Tenants.evict(name, "a")
      for _number <- 1..4, do: Tenants.match!(name, "a", %{a: 1})
      assert [entries] = counts(name, "a", [[:day]])
      assert for(entry <- entries, do: {entry.day, entry.events}) == [{first, 1}, {second, 9}]
      assert totals(name, "a", first).events == 1
      assert totals(name, "a", second).events == 9
    end

    test "of a tenant that nobody used end when it is used again" do
      {name, clocks} = started()
      Tenants.change!(name, "a", put: [{1, "a > 0"}])
      first = today(clocks)
      Tenants.match!(name, "a", %{a: 1})
      :ok = Tenants.evict(name, "a")
      pass(clocks, 5 * @day)
      Tenants.match!(name, "a", %{a: 1})
      :ok = Tenants.evict(name, "a")
      Tenants.match!(name, "a", %{a: 1})
      assert [entries] = counts(name, "a", [[:day]])
      assert for(entry <- entries, do: {entry.day, entry.events}) == [{first, 1}, {today(clocks), 2}]
    end
  end

  describe "start_link/1" do
    test "refuses wrong options" do
      for {options, text} <- [
            {[schema: [a: :integer]], "the option :name is missing; it takes an atom"},
            {[name: Wrong], "schema"},
            {[name: Wrong, schema: [a: :integer], hot: 0], "the option :hot takes a positive integer"},
            {[name: Wrong, schema: [a: :integer], quota: [rate: 0]], "the option :quota takes nil, or a keyword list"},
            {[name: Wrong, schema: [a: :integer], durability: :none],
             "the option :durability takes :sync or {:interval"}
          ] do
        assert_raise ArgumentError, ~r/#{Regex.escape(text)}/, fn ->
          with {:error, error} <- Tenants.start_link(options), do: raise(ArgumentError, error.message)
        end
      end

      assert {:error, %{kind: :unknown_attribute}} =
               Tenants.start_link(name: Wrong, schema: [a: :integer], stats: [u: {:uniques, :b}])
    end

    test "refuses a name that is taken" do
      {name, _clocks} = started()
      assert {:error, {:already_started, _pid}} = Tenants.start_link(name: name, schema: [a: :integer])
    end
  end
end

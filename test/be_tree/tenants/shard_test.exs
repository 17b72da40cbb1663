defmodule BeTree.Tenants.ShardTest do
  use ExUnit.Case, async: true

  alias BeTree.{Domain, Error, Event}
  alias BeTree.Call.{Instance, Reply}
  alias BeTree.Runtime.Wasmtime
  alias BeTree.Tenants.Shard
  alias BeTree.Test.Random

  @wait_ms 300_000

  @memory 512 * 1024 * 1024
  @day 20_000
  @limits %{fuel: :infinity, timeout: :infinity}

  setup do
    {:ok, shard: start(age: :integer, city: {:string, optional: true})}
  end

  defp start(schema, memory \\ @memory) do
    {:ok, guest} = Instance.built_in(Wasmtime)
    {:ok, schema} = Domain.parse(schema)
    {:ok, shard} = Shard.start(guest, schema, memory)
    shard
  end

  defp change!(shard, number, deleted \\ [], puts, options \\ []) do
    puts = for {id, expression} <- puts, do: {id, expression, [], nil}
    {:ok, sizes} = Shard.change(shard, number, @day, nil, deleted, puts, options)
    sizes
  end

  defp match(shard, number, event, limits \\ @limits, day \\ @day) do
    {:ok, format, bytes} = Event.encode(event)
    Shard.match(shard, number, day, format, bytes, limits)
  end

  defp ids(shard, number, event) do
    {:ok, ids, _fuel} = match(shard, number, event)
    ids
  end

  defp info!(shard, number) do
    {:ok, info} = Shard.info(shard, number)
    info
  end

  describe "change/7" do
    test "creates a tenant, whose expressions no other tenant sees", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}, {2, "city = 'Rome'"}])
      change!(shard, 7, [{1, "age < 3"}])
      assert ids(shard, 0, %{age: 4, city: "Rome"}) == [1, 2]
      assert ids(shard, 7, %{age: 4, city: "Rome"}) == []
      assert ids(shard, 7, %{age: 2}) == [1]
      assert {:error, %Error{kind: :not_found}, _fuel} = match(shard, 1, %{age: 2})
    end

    test "deletes, inserts and replaces together", %{shard: shard} do
      change!(shard, 0, for(id <- 1..9, do: {id, "age > #{id}"}))
      change!(shard, 0, [1, 2, 3], [{3, "age = 5"}, {4, "age = 6"}, {100, "age = 5"}])
      assert ids(shard, 0, %{age: 5}) == [3, 100]
      assert ids(shard, 0, %{age: 10}) == [5, 6, 7, 8, 9]
      assert info!(shard, 0).expressions == 8
    end

    test "changes nothing after an error, which has its position", %{shard: shard} do
      change!(shard, 0, [{1, "age > 1"}, {2, "age > 2"}])

      refused = fn deleted, puts ->
        puts = for {id, expression} <- puts, do: {id, expression, [], nil}
        {:error, error} = Shard.change(shard, 0, @day, nil, deleted, puts)
        {error.kind, error.position, error.text}
      end

      assert refused.([1], [{1, "age > 3"}, {2, "age >"}]) == {:syntax, 1, "age >"}
      assert refused.([1, 3], [{1, "age > 3"}]) == {:not_found, nil, nil}
      assert refused.([1, 1], []) == {:not_found, nil, nil}
      assert refused.([], [{5, "age = 1"}, {5, "age = 2"}]) == {:duplicate_id, 1, "age = 2"}
      assert refused.([], [{2, "age = 1"}, {2, "age = 2"}]) == {:duplicate_id, 1, "age = 2"}
      assert ids(shard, 0, %{age: 3}) == [1, 2]
      assert info!(shard, 0).expressions == 2
      assert {:error, %Error{kind: :syntax}} = Shard.change(shard, 5, @day, nil, [], [{1, "age >", [], nil}])
      assert {:error, %Error{kind: :not_found}} = Shard.info(shard, 5)
    end
  end

  describe "drop/2" do
    test "forgets a tenant, whose number can be used again", %{shard: shard} do
      change!(shard, 3, [{1, "age > 3"}])
      assert Shard.drop(shard, 3) == :ok
      assert {:error, %Error{kind: :not_found}} = Shard.drop(shard, 3)
      assert {:error, %Error{kind: :not_found}, _fuel} = match(shard, 3, %{age: 5})
      change!(shard, 3, [{2, "age > 3"}])
      assert ids(shard, 3, %{age: 5}) == [2]
    end
  end

  # The day, events and matched events of a tenant's current day, and the matches of each id.
  defp counts(shard, number) do
    {:ok, blob} = Shard.statistics(shard, number)
    {:ok, [[{[day], events, matched, _matches, _stats}], ids]} = report([blob], [[:day], [:id]])
    {day, events, matched, for({[id], nil, nil, matches, _stats} <- ids, into: %{}, do: {id, matches})}
  end

  defp report(blobs, sections, quantiles \\ []) do
    {:ok, guest} = Instance.built_in(Wasmtime)
    Shard.report(guest, {:all, :all, sections, quantiles}, Enum.with_index(blobs, &{&2, &1}))
  end

  describe "match/6" do
    test "counts the events of a tenant", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}, {2, "age > 5"}])
      change!(shard, 1, [{1, "age > 3"}])
      for age <- [1, 4, 6, 7], do: match(shard, 0, %{age: age})
      assert counts(shard, 0) == {@day, 4, 3, %{1 => 3, 2 => 2}}
      assert counts(shard, 1) == {@day, 0, 0, %{}}
    end

    test "returns the error of an event, and counts nothing", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      {:ok, before} = Shard.statistics(shard, 0)
      assert {:error, %Error{kind: :type, attribute: "age"}, _fuel} = match(shard, 0, %{age: "x"})
      assert Shard.statistics(shard, 0) == {:ok, before}
    end

    test "returns the same and counts once, for every slice", %{shard: shard} do
      fill(shard, 0, 300)
      {ids, fuel} = warm(shard, 0, %{age: 200, city: "Rome"})
      assert length(ids) == 200

      for slice <- [1, 7, 100, 1_001, fuel - 1, fuel, fuel + 1] do
        before = counts(shard, 0)
        assert {:ok, ^ids, ^fuel} = match(shard, 0, %{age: 200, city: "Rome"}, Map.put(@limits, :slice, slice))
        assert elem(counts(shard, 0), 1) == elem(before, 1) + 1
      end
    end

    test "counts nothing beyond a budget, and at most once at it", %{shard: shard} do
      fill(shard, 0, 300)
      event = %{age: 200, city: "Rome"}
      {ids, fuel} = warm(shard, 0, event)

      for budget <- Enum.uniq([1, 100 | Enum.to_list(1_000..fuel//div(fuel, 50))] ++ [fuel]) do
        {_day, before, _matched, _ids} = counts(shard, 0)
        outcome = match(shard, 0, event, %{@limits | fuel: budget})
        {_day, events, _matched, _ids} = counts(shard, 0)

        case outcome do
          {:ok, ^ids, ^fuel} -> assert events == before + 1
          {:error, %Error{kind: :out_of_fuel}, used} -> assert events == before and used < fuel
        end
      end

      assert {:error, %Error{kind: :out_of_fuel}, _fuel} = match(shard, 0, event, %{@limits | fuel: 1})
      assert {:ok, ^ids, ^fuel} = match(shard, 0, event, %{@limits | fuel: fuel + 1})
    end

    test "counts nothing after its timeout", %{shard: shard} do
      fill(shard, 0, 300)

      assert {:error, %Error{kind: :timeout}, _fuel} =
               match(shard, 0, %{age: 200}, %{@limits | timeout: 0} |> Map.put(:slice, 1_000))

      assert counts(shard, 0) == {@day, 0, 0, %{}}
    end
  end

  # Returns the ids and the fuel of a match whose counters exist.
  defp warm(shard, number, event) do
    {:ok, ids, _fuel} = match(shard, number, event)
    {:ok, ^ids, fuel} = match(shard, number, event)
    {ids, fuel}
  end

  defp fill(shard, number, count),
    do: change!(shard, number, for(id <- 1..count, do: {id, "age >= #{id} and city <> 'x#{id}'"}))

  describe "match/6 of a killed process" do
    test "counts once or not at all", %{shard: shard} do
      fill(shard, 0, 2_000)
      event = %{age: 2_000, city: "Rome"}
      {_ids, fuel} = warm(shard, 0, event)

      for share <- 1..40 do
        {_day, before, _matched, _ids} = counts(shard, 0)
        slice = max(div(fuel * share, 40), 1)
        {pid, monitor} = spawn_monitor(fn -> match(shard, 0, event, Map.put(@limits, :slice, slice)) end)
        if rem(share, 4) == 0, do: :erlang.yield()
        Process.exit(pid, :kill)
        assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, @wait_ms
        # The next call waits for the end of the killed process's call.
        {_day, events, matched, ids} = counts(shard, 0)
        assert (events - before) in [0, 1]
        assert {matched, ids[1], ids[2_000]} == {events, events, events}
      end
    end

    test "is completed between two slices", %{shard: shard} do
      fill(shard, 0, 2_000)
      event = %{age: 2_000, city: "Rome"}
      warm(shard, 0, event)
      test = self()
      {:ok, format, bytes} = Event.encode(event)
      request = %{input: bytes, output: :u64s, fuel: :infinity, slice: 1_000, scheduler: :whole}

      {pid, monitor} =
        spawn_monitor(fn ->
          {:yield, suspended, _fuel} =
            Wasmtime.call(shard.instance, "be_tree_tenant_match", [0, @day, format, byte_size(bytes), 0], request)

          send(test, :suspended)
          Process.sleep(:infinity)
          Wasmtime.cancel(suspended)
        end)

      assert_receive :suspended, @wait_ms
      Process.exit(pid, :kill)
      assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}, @wait_ms
      assert {@day, 3, 3, %{1 => 3, 2_000 => 3}} = counts(shard, 0)
    end
  end

  # A host without suspended calls cuts a call off, and resumes it from its last step.
  test "a match that is cut off anywhere and resumed counts once, or damages its instance", %{shard: shard} do
    fill(shard, 0, 200)
    {ids, fuel} = warm(shard, 0, %{age: 100, city: "Rome"})
    {:ok, format, bytes} = Event.encode(%{age: 100, city: "Rome"})
    arguments = [0, @day, format, byte_size(bytes), 0]

    call = fn shard, export, arguments, input, fuel ->
      request = %{input: input, output: :u64s, fuel: fuel, slice: :infinity, scheduler: :normal}
      Wasmtime.call(shard.instance, export, arguments, request)
    end

    {damaged, _shard} =
      Enum.map_reduce(1..fuel//div(fuel, 200), shard, fn cut, shard ->
        {_day, before, _matched, _ids} = counts(shard, 0)

        outcome =
          with {:error, %Error{kind: :out_of_fuel}} <- call.(shard, "be_tree_tenant_match", arguments, bytes, cut),
               {:done, 1, refusal, _fuel} <- call.(shard, "be_tree_resume", [], nil, :infinity),
               %Error{kind: :not_found} <- Reply.refusal(refusal),
               do: call.(shard, "be_tree_tenant_match", arguments, bytes, :infinity)

        case outcome do
          {:done, 0, [_visited, _evaluated | ^ids], _fuel} ->
            assert {_day, events, _matched, _ids} = counts(shard, 0)
            assert events == before + 1
            {false, shard}

          %Error{kind: :trap} ->
            fresh = start(age: :integer, city: {:string, optional: true})
            fill(fresh, 0, 200)
            {true, fresh}
        end
      end)

    assert Enum.any?(damaged) and not Enum.all?(damaged)
  end

  describe "an instance whose counting trapped" do
    test "refuses every later call, and other shards go on", %{shard: shard} do
      other = start(age: :integer)
      for shard <- [shard, other], do: change!(shard, 0, [{1, "age > 3"}])
      {:ok, format, bytes} = Event.encode(%{age: 5})
      arguments = [0, @day, format, byte_size(bytes), 0]
      call = fn fuel -> %{input: bytes, output: :u64s, fuel: fuel, slice: :infinity, scheduler: :normal} end

      {:done, 0, [_visited, _evaluated, 1], fuel} =
        Wasmtime.call(shard.instance, "be_tree_tenant_match", arguments, call.(:infinity))

      # The host cuts off a call that is no change at the end of its fuel: every budget from the end on, until one falls into the
      # counting.
      damaged =
        Enum.find(fuel..1//-1, fn fuel ->
          Wasmtime.call(shard.instance, "be_tree_tenant_match", arguments, call.(fuel))
          match?({:error, %Error{kind: :trap}}, Shard.info(shard, 0))
        end)

      assert damaged in 1..fuel
      assert {:error, %Error{kind: :trap}, _fuel} = match(shard, 0, %{age: 5})
      assert {:error, %Error{kind: :trap}} = Shard.change(shard, 1, @day, nil, [], [{1, "age > 3", [], nil}])
      assert {:error, %Error{kind: :trap}} = Shard.drop(shard, 0)
      assert ids(other, 0, %{age: 5}) == [1]
    end
  end

  describe "match_many/5" do
    test "returns the results of all events, each counted", %{shard: shard} do
      fill(shard, 0, 300)
      ages = for number <- 0..599, do: rem(number * 7, 301)
      {:ok, results, fuel} = match_many(shard, 0, for(age <- ages, do: %{age: age, city: "Rome"}))
      assert results == for(age <- ages, do: Enum.to_list(1..age//1))
      assert fuel > 600
      assert {@day, 600, matched, ids} = counts(shard, 0)
      assert matched == Enum.count(ages, &(&1 > 0))
      assert ids[150] == Enum.count(ages, &(&1 >= 150))
    end

    test "has the error of an event in its place", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      wrong = %{age: "x"}
      assert {:ok, results, _fuel} = match_many(shard, 0, [wrong, %{age: 4}, wrong, wrong, %{age: 3}])
      assert [%Error{kind: :type, position: nil}, [1], %Error{}, %Error{}, []] = results
      assert counts(shard, 0) == {@day, 2, 1, %{1 => 1}}
      assert match_many(shard, 0, []) == {:ok, [], 0}
      assert {:error, %Error{kind: :not_found}, _fuel} = match_many(shard, 1, [wrong])
    end

    test "counts the events within its budget", %{shard: shard} do
      fill(shard, 0, 300)
      events = for age <- 1..100, do: %{age: age, city: "Rome"}
      {:ok, all, fuel} = match_many(shard, 0, events)
      {:ok, results, used} = match_many(shard, 0, events, %{@limits | fuel: div(fuel, 2)})
      {found, errors} = Enum.split_while(results, &is_list/1)
      assert found == Enum.take(all, length(found)) and found != []
      assert length(results) == 100 and Enum.all?(errors, &match?(%Error{kind: :out_of_fuel}, &1)) and errors != []
      assert used in div(fuel, 2)..fuel
      assert {@day, events, _matched, _ids} = counts(shard, 0)
      assert events == 100 + length(found)
    end
  end

  defp match_many(shard, number, events, limits \\ @limits) do
    encoded = for event <- events, {:ok, format, bytes} <- [Event.encode(event)], do: {format, bytes}
    Shard.match_many(shard, number, @day, encoded, limits)
  end

  @declared [
    {"people", :uniques, "city", nil},
    {"ages", :sum, "age", nil},
    {"cities", :top, "city", 2},
    {"spread", :quantiles, "age", nil},
    {"which", :members, "city", 3}
  ]

  defp put!(shard, number, declaration, puts) do
    {:ok, _sizes} = Shard.change(shard, number, @day, declaration, [], puts)
  end

  defp stats(blobs, quantiles) do
    {:ok, [ids]} = report(blobs, [[:id]], quantiles)

    for {[id], nil, nil, matches, stats} <- ids,
        do: {id, matches, for({name, _kind, _attribute, value} <- stats, do: {name, value})}
  end

  describe "declared statistics" do
    test "are those of the tenant, and of each expression with its own", %{shard: shard} do
      put!(shard, 0, @declared, [
        {1, "age > 3", [], nil},
        {2, "age > 5", [], [{"ages", :sum, "age", nil}]},
        {3, "age > 9", [], []}
      ])

      for {age, city} <- [{4, "Rome"}, {6, "Oslo"}, {10, "Rome"}, {12, nil}],
          do: match(shard, 0, %{age: age, city: city})

      {:ok, blob} = Shard.statistics(shard, 0)
      assert [{1, 4, one}, {2, 3, [{"ages", {3, 28, 6, 12}}]}, {3, 2, []}] = stats([blob], [0.5])

      assert [
               {"ages", {4, 32, 4, 12}},
               {"cities", {3, [{"Rome", 2, 0}, {"Oslo", 1, 0}]}},
               {"people", {2, true}},
               {"spread", {4, 4.0, 12.0, [{0.5, median}]}},
               {"which", {["Oslo", "Rome"], false}}
             ] = one

      assert_in_delta median, 6, 0.06
    end

    test "that are refused change nothing", %{shard: shard} do
      put!(shard, 0, [], [{1, "age > 3", [], nil}])
      refused = fn declaration, puts -> Shard.change(shard, 0, @day, declaration, [1], puts) end
      assert {:error, %Error{kind: :unknown_attribute, position: nil}} = refused.([{"x", :uniques, "no", nil}], [])
      wrong = [{2, "age > 3", [], nil}, {3, "age > 3", [], [{"x", :sum, "city", nil}]}]
      assert {:error, %Error{kind: :type, position: 1, text: "age > 3"}} = refused.(nil, wrong)
      assert ids(shard, 0, %{age: 4}) == [1]
    end

    test "take no memory for an expression that has not matched", %{shard: shard} do
      put!(shard, 0, @declared, for(id <- 1..100, do: {id, "age > #{id}", [], nil}))
      before = info!(shard, 0).statistics_bytes
      match(shard, 0, %{age: 0})
      assert info!(shard, 0).statistics_bytes == before
      match(shard, 0, %{age: 200})
      assert info!(shard, 0).statistics_bytes > before
    end
  end

  describe "a day" do
    test "is sealed by the first match of a later one, and stays until it is released", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      for day <- [@day, @day + 1, @day, @day + 5], do: {:ok, [1], _fuel} = match(shard, 0, %{age: 4}, @limits, day)
      assert %{day: day, sealed: 2} = info!(shard, 0)
      assert day == @day + 5
      assert counts(shard, 0) == {@day + 5, 1, 1, %{1 => 1}}

      # A clock that went back counts on the current day.
      for {day, matches} <- [{@day, 1}, {@day + 1, 2}] do
        assert {:ok, {^day, blob}} = Shard.sealed(shard, 0)
        assert Shard.sealed(shard, 0) == {:ok, {day, blob}}
        assert {:ok, [[{[^day], ^matches, ^matches, ^matches, []}]]} = report([blob], [[:day]])
        assert Shard.release(shard, 0, day) == :ok
      end

      assert Shard.sealed(shard, 0) == {:ok, nil}
      assert Shard.release(shard, 0, @day) == :ok
      assert {:error, %Error{kind: :not_found}} = Shard.sealed(shard, 1)
    end

    test "is restored from its blob, into the current day or beside it", %{shard: shard} do
      put!(shard, 0, @declared, [{1, "age > 3", [], nil}])
      for day <- [@day, @day + 1], age <- 4..13, do: match(shard, 0, %{age: age, city: "c#{age}"}, @limits, day)
      {:ok, {_day, first}} = Shard.sealed(shard, 0)
      {:ok, second} = Shard.statistics(shard, 0)

      put!(shard, 1, @declared, [{1, "age > 3", [], nil}])
      assert Shard.restore(shard, 1, second) == :ok
      assert Shard.restore(shard, 1, first) == :ok
      assert Shard.statistics(shard, 1) == {:ok, second}
      # Statistics of a day that is over may be in another order.
      assert {:ok, {@day, again}} = Shard.sealed(shard, 1)
      assert stats([again], [0.5]) == stats([first], [0.5])
      match(shard, 1, %{age: 4}, @limits, @day + 1)
      assert {_day, 11, 11, %{1 => 11}} = counts(shard, 1)
      assert {:error, %Error{kind: :syntax}} = Shard.restore(shard, 1, binary_part(second, 0, byte_size(second) - 1))
      assert {_day, 11, 11, %{1 => 11}} = counts(shard, 1)
    end
  end

  test "report/4 and merge/3 join the blobs of days and tenants", %{shard: shard} do
    for number <- 0..2, do: put!(shard, number, @declared, [{1, "age > 3", [], nil}])
    for number <- 0..2, age <- 4..9, do: match(shard, number, %{age: age + 10 * number})
    blobs = for number <- 0..2, do: elem({:ok, _blob} = Shard.statistics(shard, number), 1)
    assert {:ok, [[{[], 18, 18, 18, _stats}], tenants]} = report(blobs, [[], [:tenant]])
    assert [{[0], 6, 6, 6, _}, {[1], 6, 6, 6, _}, {[2], 6, 6, 6, _}] = tenants
    {:ok, guest} = Instance.built_in(Wasmtime)
    assert {:ok, merged} = Shard.merge(guest, blobs)
    assert stats([merged], [0.5]) == stats(blobs, [0.5])
    assert {:error, %Error{kind: :type}} = Shard.merge(guest, [])
    assert {:error, %Error{kind: :syntax}} = Shard.merge(guest, ["no blob"])
    assert {:error, %Error{}} = Shard.report(guest, {:all, :all, [[:hour]], []}, [])
  end

  test "a change beyond the memory limit is refused, and changes nothing" do
    shard = start([age: :integer, city: {:string, optional: true}], 6 * 1024 * 1024)
    puts = fn number -> for id <- 1..50, do: {id, "age > #{id} and city <> 'c#{number}x#{id}'", [], nil} end
    change = fn number -> Shard.change(shard, number, @day, @declared, [], puts.(number)) end
    last = Enum.find(0..5_000, &(not match?({:ok, _sizes}, change.(&1))))
    assert last > 10
    assert {:error, %Error{kind: :out_of_memory}} = change.(last)
    assert {:error, %Error{kind: :not_found}} = Shard.info(shard, last)
    for number <- [0, div(last, 2), last - 1], do: assert(ids(shard, number, %{age: 3}) == [])
    # Matches are counted, or refused without a count.
    half = div(last, 2)

    outcomes =
      for number <- Enum.take_every((half + 1)..(last - 2), max(div(last, 40), 1)) do
        events =
          for age <- [50, 60] do
            case match(shard, number, %{age: age, city: "c"}) do
              {:ok, ids, _fuel} -> assert length(ids) == min(age - 1, 50)
              {:error, %Error{kind: :out_of_memory}, _fuel} -> false
            end
          end

        {number, Enum.count(events, & &1)}
      end

    assert Enum.any?(outcomes, fn {_number, events} -> events < 2 end)
    # A change needs a block of some 70 KB, and freed memory is scattered.
    for number <- 0..(half - 1), do: assert(Shard.drop(shard, number) == :ok)

    for {number, events} <- outcomes, do: assert({:ok, %{events: ^events}} = Shard.info(shard, number))

    assert {:ok, _sizes} = change.(last)
    assert {:ok, [1, 2], _fuel} = match(shard, last, %{age: 3, city: "c"})
  end

  describe "freeze/2" do
    test "refuses matches, and keeps the statistics until the tenant is dropped", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      match(shard, 0, %{age: 4})
      assert Shard.freeze(shard, 0) == :ok
      assert {:error, %Error{kind: :not_found}, _fuel} = match(shard, 0, %{age: 4})
      assert {:error, %Error{kind: :not_found}, _fuel} = match_many(shard, 0, [%{age: 4}])
      assert {@day, 1, 1, %{1 => 1}} = counts(shard, 0)
      assert Shard.drop(shard, 0) == :ok
      change!(shard, 0, [{1, "age > 3"}])
      assert ids(shard, 0, %{age: 4}) == [1]
    end
  end

  describe "search/5" do
    test "counts nothing", %{shard: shard} do
      change!(shard, 0, [{1, "age > 3"}])
      {:ok, format, bytes} = Event.encode(%{age: 5})
      assert {:ok, [1], _fuel} = Shard.search(shard, 0, format, bytes, @limits)
      assert counts(shard, 0) == {@day, 0, 0, %{}}
    end
  end

  describe "a tenant among others" do
    test "finds what its own tree finds, under random changes" do
      for seed <- 1..8 do
        :rand.seed(:exsss, seed)
        domains = Random.schema()
        shard = start(domains)

        trees = for number <- Enum.take_random(0..200, 12), do: {number, BeTree.new!(domains)}
        for {number, tree} <- trees, do: churn(shard, number, tree, domains, [], 4)

        for _event <- 1..20 do
          event = Map.new(Random.event(domains))

          for {number, tree} <- trees,
              do: assert({number, found(shard, number, event)} == {number, BeTree.search(tree, event)})
        end
      end
    end

    test "costs the same alone and beside 999 tenants with hostile patterns" do
      schema = [age: :integer, city: {:string, optional: true}, tags: {:string_list, optional: true}]
      [alone, beside] = [start(schema), start(schema)]
      letters = for letter <- ?a..?z, do: <<letter>>

      hostile = fn number ->
        for id <- 1..8 do
          text =
            case rem(id + number, 4) do
              0 -> "city like '*#{Enum.join(Enum.take(letters, 12), "*")}*#{number}*'"
              1 -> "city matches '(a|b|c){1,30}#{number}.*(x|y)?'"
              2 -> "lower(city) like '*?a?b*' or contains(city, 'ro#{id}') or tags one of ('t#{number}', 'rome')"
              3 -> "age <> #{number} and not (city = 'r#{id}')"
            end

          {id * 1_000_003 * number, text}
        end
      end

      for number <- 0..499, do: change!(beside, number, hostile.(number + 1))
      ours = for id <- 1..40, do: {id, "age >= #{id} and city <> 'x#{id}' or city like '*o#{id}*'"}
      for shard <- [alone, beside], do: change!(shard, 500, ours)
      for number <- 501..999, do: change!(beside, number, hostile.(number + 1))

      events = [
        %{age: 20, city: "Rome"},
        {:json, ~s({"age": 90, "city": "o1o2o3", "tags": ["t1", "rome"]})},
        %{age: 3, city: String.duplicate("ab", 5_000)},
        %{city: "Rome"}
      ]

      # The first match of an expression allocates its counter. That costs more or less by the state of the heap, as events of more
      # than 16 KiB do by the memory of earlier ones.
      for shard <- [alone, beside], event <- events, do: match(shard, 500, event)

      for event <- events, round <- 1..3 do
        # Neighbours leave their traces in the tables that all share.
        for number <- Enum.take_random(0..999, 5), do: match(beside, number, event)
        [one, other] = for shard <- [alone, beside], do: match(shard, 500, event)
        assert {round, one} == {round, other}
      end
    end
  end

  defp wire(constants), do: for({name, value} <- constants, do: {to_string(name), value})

  # Makes the same changes to a tenant and to a tree with the ids `present`.
  defp churn(_shard, _number, _tree, _domains, _present, 0), do: :ok

  defp churn(shard, number, tree, domains, present, rounds) do
    texts = Random.subscriptions(for id <- Enum.take_random(1..60, 25), do: {id, Random.expression(domains)})
    deleted = Enum.take_random(present, 5)
    puts = for {id, text, constants: constants} <- texts, do: {id, text, wire(constants), nil}
    {:ok, _sizes} = Shard.change(shard, number, @day, nil, deleted, puts)
    Enum.each(deleted, &BeTree.delete!(tree, &1))
    for {id, text, options} <- texts, do: BeTree.put!(tree, id, text, options)
    present = Enum.uniq((present -- deleted) ++ for({id, _text, _options} <- texts, do: id))
    churn(shard, number, tree, domains, present, rounds - 1)
  end

  defp found(shard, number, event) do
    case match(shard, number, event) do
      {:ok, ids, _fuel} -> {:ok, ids}
      {:error, error, _fuel} -> {:error, error}
    end
  end
end

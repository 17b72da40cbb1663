defmodule BeTree.Tenants.TransferTest do
  @moduledoc "Dumps, restores and moves: everything arrives, nothing counts twice, and bytes that are no dump change nothing."
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.{Eventually, Kill, Quiet, Tenants}

  alias BeTree.Tenants
  alias BeTree.Tenants.{Body, Dump, Store, Usage}
  alias BeTree.Test.Attack

  setup [:quiet, :folder]

  @day 86_400
  @wait_ms 300_000
  @schema [a: :integer, b: {:string, optional: true}, cap: {:frequency_caps, optional: true}]
  @stats [users: {:uniques, :a}, sum: {:sum, :a}]

  # Tenants on the same clocks, whose statistics are written only when the test says so.
  defp both(options \\ []) do
    clocks = clocks()
    options = Keyword.merge([schema: @schema, stats: @stats, durability: {:interval, 4_000_000_000}], options)
    internal = %{clock: clock(clocks), partitions: 2}
    {start(options, internal), start(options, internal), clocks}
  end

  defp match(name, tenant, values), do: for(a <- values, do: Tenants.match!(name, tenant, %{a: a}))

  defp report(name, tenant, sections \\ [[]]), do: Tenants.report!(name, tenants: [tenant], sections: sections)

  defp days(name, tenant) do
    {:ok, %{days: days}} = Tenants.usage(name, tenant)
    days
  end

  defp totals(name, tenant), do: name |> days(tenant) |> Map.values() |> Enum.reduce(&Usage.sum/2)

  defp body(name, tenant) do
    {:ok, body} = BeTree.Tenants.Copy.read(directory(name), tenant)
    body
  end

  defp figures(name, tenant), do: {report(name, tenant, [[], [:day], [:id], [:day, :id]]), days(name, tenant)}

  describe "dump/3 and restore/3" do
    test "bring expressions, settings, days, bills and debt into other tenants" do
      {from, to, clocks} = both()
      quota = [rate: 10, burst: 5_000_000, memory: 1_000_000]
      own = [put: [{3, "a > 2", stats: [top: {:top, :a, 3}]}], quota: quota, stats: [sum: {:sum, :a}], instance: :own]
      Tenants.change!(from, {:t, 1}, put: [{1, "a > 0"}, {2, "a > 5 and b = 'x'", constants: [campaign_id: 4]}])
      match(from, {:t, 1}, 1..10)
      pass(clocks, @day)
      match(from, {:t, 1}, 1..7)
      Tenants.change!(from, {:t, 1}, own)
      match(from, {:t, 1}, 1..4)

      dump = Tenants.dump!(from, {:t, 1})
      assert {:ok, %{tenant: {:t, 1}, expressions: 3, days: 2}} = Tenants.restore(to, dump)

      assert report(to, {:t, 1}, [[], [:day], [:id], [:day, :id]]) ==
               report(from, {:t, 1}, [[], [:day], [:id], [:day, :id]])

      # Entering the shard is a load.
      load = totals(to, {:t, 1}).load
      assert load > 0
      assert %{totals(to, {:t, 1}) | load: 0} == %{totals(from, {:t, 1}) | load: 0}
      [one, other] = for name <- [from, to], do: body(name, {:t, 1})
      settings = [:expressions, :stats, :quota, :instance]
      assert Map.take(one, settings) == Map.take(other, settings)
      assert one.origin != other.origin
      {:ok, %{quota: %{left: left}}} = Tenants.usage(from, {:t, 1})
      assert {:ok, %{quota: %{left: ^left, rate: 10, memory: 1_000_000}}} = Tenants.usage(to, {:t, 1})
      assert Tenants.match(to, {:t, 1}, %{a: 9}) == {:ok, [1, 3]}
    end

    test "a dump that is restored again, and after more events, counts nothing twice" do
      {from, to, clocks} = both()
      Tenants.change!(from, "t", put: [{1, "a > 0"}])
      match(from, "t", 1..3)
      first = Tenants.dump!(from, "t")
      match(from, "t", 4..6)
      pass(clocks, @day)
      match(from, "t", 7..9)
      second = Tenants.dump!(from, "t")

      for existing <- [:keep, :replace, :keep], dump <- Enum.shuffle([first, second, first]) do
        Tenants.restore!(to, dump, existing: existing)
      end

      match(to, "t", 10..11)
      figures = figures(to, "t")
      assert [[%{events: 11, matches: 11, stats: stats}] | _] = elem(figures, 0)
      assert Enum.find(stats, &(&1.name == "users")).count == 11
      assert totals(to, "t").events == 11
      assert {:ok, %{days: 0}} = Tenants.restore(to, first, existing: :keep)
      assert figures(to, "t") == figures

      # The way back: what was counted here is known.
      dump = Tenants.dump!(to, "t")
      assert {:ok, %{days: days}} = Tenants.restore(from, dump, existing: :keep)
      assert days > 0
      assert {:ok, %{days: 0}} = Tenants.restore(from, dump, existing: :keep)
      assert [[%{events: 11}]] = report(from, "t")
      assert totals(from, "t").events == 11
    end

    test "of a tenant that exists is refused, keeps what the tenant has, or replaces it" do
      {from, to, _clocks} = both()
      Tenants.change!(from, "t", put: [{1, "a > 0"}, {2, "a > 1"}], quota: [rate: 1_000_000], stats: [sum: {:sum, :a}])
      Tenants.change!(to, "t", put: [{1, "a < 0"}, {9, "a = 3"}])
      match(from, "t", [3, 3])
      match(to, "t", [3, -3, 3])
      dump = Tenants.dump!(from, "t")
      before = body(to, "t")
      assert {:error, %{kind: :exists, message: message}} = Tenants.restore(to, dump)
      assert message =~ "existing:"
      assert {:ok, %{expressions: 2, days: 1}} = Tenants.restore(to, dump, existing: :keep)
      assert Tenants.match(to, "t", %{a: 3}) == {:ok, [9]}
      settings = [:expressions, :stats, :quota, :origin]
      assert Map.take(body(to, "t"), settings) == Map.take(before, settings)
      assert [[%{events: 6}]] = report(to, "t")
      assert {:ok, %{expressions: 2, days: 0}} = Tenants.restore(to, dump, existing: :replace)
      assert Tenants.match(to, "t", %{a: 3}) == {:ok, [1, 2]}

      assert Map.delete(Map.take(body(to, "t"), settings), :origin) ==
               Map.delete(Map.take(body(from, "t"), settings), :origin)

      assert body(to, "t").origin == before.origin
      assert [[%{events: 7}]] = report(to, "t")
      assert totals(to, "t").events == 7
    end

    test "survive the end of a partition, of the shards, and an eviction after them" do
      {from, to, clocks} = both()
      Tenants.change!(from, "t", put: [{1, "a > 0"}])
      match(from, "t", 1..5)
      Tenants.restore!(to, Tenants.dump!(from, "t"))
      match(to, "t", 6..8)
      figures = figures(to, "t")
      partition = partition(to, "t")
      kill(partition)
      await_partition(to, "t", partition)
      assert figures(to, "t") == figures
      :ok = Tenants.evict(to, "t")
      assert figures(to, "t") == figures
      match(to, "t", 9..10)
      pass(clocks, @day)
      match(to, "t", 11..11)
      write(to)
      assert [[%{events: 11}], [%{events: 10}, %{events: 1}]] = report(to, "t", [[], [:day]])
      :ok = Tenants.evict(to, "t")
      assert totals(to, "t").events == 11
    end

    test "leave out days before the retention" do
      {from, _same, clocks} = both(retention: 10)
      Tenants.change!(from, "t", put: [{1, "a > 0"}])

      for _day <- 1..5 do
        match(from, "t", [1])
        pass(clocks, @day)
      end

      match(from, "t", [1])
      to = start([schema: @schema, stats: @stats, retention: 2], %{clock: clock(clocks)})
      assert {:ok, %{days: 3}} = Tenants.restore(to, Tenants.dump!(from, "t"))
      assert [[%{events: 3}]] = report(to, "t")
      assert totals(to, "t").events == 3
    end

    test "refuse a tenant that does not exist, is no term elsewhere, or takes too much memory" do
      {from, to, _clocks} = both()
      assert {:error, %{kind: :not_found}} = Tenants.dump(from, "t")
      Tenants.change!(from, self(), put: [{1, "a > 0"}])
      assert {:error, %{kind: :type}} = Tenants.dump(from, self())
      Tenants.change!(from, "t", put: for(id <- 1..200, do: {id, "a > #{id}"}))
      Tenants.change!(from, "t", quota: [memory: 1])
      dump = Tenants.dump!(from, "t")
      assert {:error, %{kind: :quota}} = Tenants.restore(to, dump)
      assert %{tenants: 0, hot: 0, bytes: 0} = Tenants.info!(to)
      assert %{rows: 0, usage: 0, intents: 0, blobs: 0} = sizes(to)
      Tenants.change!(to, "t", put: [{1, "a > 0"}])
      assert {:error, %{kind: :quota}} = Tenants.restore(to, dump, existing: :replace)
      assert Tenants.match(to, "t", %{a: 9}) == {:ok, [1]}
      assert {:ok, %{expressions: 1}} = Tenants.restore(to, dump, existing: :keep)
      other = start(schema: [a: :float])
      assert {:error, %{kind: :other_schema}} = Tenants.restore(other, dump)
      assert {:error, %{kind: :no_server}} = Tenants.restore(:nothing_here, dump)
    end

    test "give errors, and change nothing, for bytes that are no dump" do
      {from, to, clocks} = both()
      Tenants.change!(from, "t", put: [{1, "a > 0", stats: [top: {:top, :a}]}], quota: [rate: 1_000_000_000])
      match(from, "t", 1..3)
      pass(clocks, @day)
      match(from, "t", 1..3)
      dump = Tenants.dump!(from, "t")
      refused = fn bytes -> assert({:error, %{kind: :damaged}} = Tenants.restore(to, bytes)) end
      refused.("")
      refused.("BTTENANT")
      refused.(:binary.part(dump, 0, byte_size(dump) - 1))
      refused.(dump <> <<0>>)
      refused.(:crypto.strong_rand_bytes(200))
      <<before::binary-8, _version, rest::binary>> = dump
      refused.(<<before::binary, 2, rest::binary>>)

      for at <- Enum.take_random(0..(byte_size(dump) - 1), Attack.size(60, 2_000)) do
        <<before::binary-size(at), byte, rest::binary>> = dump
        refused.(<<before::binary, Bitwise.bxor(byte, 1 + :rand.uniform(254)), rest::binary>>)
      end

      assert %{tenants: 0} = Tenants.info!(to)
    end

    test "check every part of a forged dump" do
      {from, to, clocks} = both()
      today = div(elem(clock(clocks), 0).(), @day)
      Tenants.change!(from, "t", put: [{1, "a > 0"}])
      match(from, "t", 1..3)
      dump = Tenants.dump!(from, "t")
      content = content(dump)
      {key, parts, debt, [{^today, [{origin, blob, counts, digest}]}]} = content
      assert {:ok, _counts} = Tenants.restore(to, forge(content, dump))
      :ok = Tenants.drop(to, "t")
      day = fn entry -> {key, parts, debt, [{today, [entry]}]} end

      forged = [
        :nothing,
        {},
        {"not a term", parts, debt, []},
        {:erlang.term_to_binary(self()), parts, debt, []},
        {:erlang.term_to_binary(&Usage.zero/0), parts, debt, []},
        {:erlang.term_to_binary(fn -> 1 end), parts, debt, []},
        {key, [], debt, :none},
        {key, [{:put, [1 | 2]}], debt, []},
        {key, [put: fn _command, _fun -> exit(:ran) end], debt, []},
        {key, [put: %{1 => "a > 0"}], debt, []},
        {key, [put: [{1, "a > 0", [other: 1]}]], debt, []},
        {key, [put: [{1, "a > 0"}, {1, "a > 1"}]], debt, []},
        {key, [put: [{-1, "a > 0"}]], debt, []},
        {key, [put: [{1, "a > "}]], debt, []},
        {key, [put: [{1, <<255, 254>>}]], debt, []},
        {key, [put: [{1, "a > 0", constants: [{"c", 0x1_0000_0000_0000_0000}]}]], debt, []},
        {key, [put: [{1, "a > 0", stats: [x: {:top, "a", 1_000_000}]}]], debt, []},
        {key, [stats: [{"x", {:sum, "b", nil}}]], debt, []},
        {key, [quota: [rate: -1]], debt, []},
        {key, [quota: 1], debt, []},
        {key, [instance: :sum], debt, []},
        {key, [timeout: 1], debt, []},
        {key, parts, {-1, 0}, []},
        {key, parts, {0x1_0000_0000_0000_0000, 0}, []},
        {key, parts, nil, []},
        {key, parts, debt, [{today + 10_000, []}]},
        {key, parts, debt, [{0x1_0000_0000_0000, []}]},
        {key, parts, debt, [{today, []}, {today, []}]},
        {key, parts, debt, [{today, [{origin, blob, counts, digest}, {origin, blob, counts, digest}]}]},
        {key, parts, debt, [{today - 1, [{origin, blob, counts, digest}]}]},
        day.({"short", blob, counts, digest}),
        day.({origin, 1, counts, digest}),
        day.({origin, blob, tl(counts), digest}),
        day.({origin, blob, [-1 | tl(counts)], digest}),
        day.({origin, blob, [0x1_0000_0000_0000_0000 | tl(counts)], digest}),
        day.({origin, blob, counts, "ABC"}),
        day.({origin, "", counts, digest}),
        day.({origin, "BTST", counts, digest}),
        day.({origin, blob <> <<0>>, counts, digest}),
        day.({origin, :binary.part(blob, 0, byte_size(blob) - 1), counts, digest})
      ]

      for content <- forged do
        assert {:error, %BeTree.Error{kind: kind}} = Tenants.restore(to, forge(content, dump))
        assert kind in [:damaged, :type, :syntax, :out_of_bounds, :duplicate_id], "#{inspect(content)} gave #{kind}"
        assert %{tenants: 0, hot: 0} = Tenants.info!(to)
      end

      # A flipped byte of a blob may leave another blob. It crashes nothing.
      for _number <- 1..Attack.size(200, 5_000) do
        at = :rand.uniform(byte_size(blob)) - 1
        <<before::binary-size(at), _byte, rest::binary>> = blob
        changed = <<before::binary, :rand.uniform(256) - 1, rest::binary>>
        result = Tenants.restore(to, forge(day.({origin, changed, counts, digest}), dump), existing: :replace)

        assert match?({:ok, _counts}, result) or
                 match?({:error, %{kind: kind}} when kind in [:damaged, :out_of_memory], result)

        if match?({:ok, _counts}, result), do: assert([[%{}]] = report(to, "t"))
      end

      assert %{intents: 0} = sizes(to)
    end

    test "a dump that would inflate without end is refused" do
      {from, to, _clocks} = both()
      Tenants.change!(from, "t", put: [{1, "a > 0"}])
      dump = Tenants.dump!(from, "t")
      bomb = :binary.copy(<<0>>, 50_000_000)

      for length <- [100, 1_000_000, 0x7FFF_FFFF_FFFF],
          do: refute_restored(to, head(dump, length, :zlib.compress(bomb)))
    end

    defp refute_restored(name, dump), do: assert({:error, %{kind: :damaged}} = Tenants.restore(name, dump))
  end

  # The content of a dump, and a dump with another content and a right digest.
  defp content(dump) do
    <<_identity::binary-73, _length::64, deflated::binary>> = dump
    deflated |> :zlib.uncompress() |> :erlang.binary_to_term()
  end

  defp forge(content, dump) do
    bytes = :erlang.term_to_binary(content)
    head(dump, byte_size(bytes), :zlib.compress(bytes))
  end

  defp head(<<identity::binary-41, _digest::binary-32, _rest::binary>>, length, deflated) do
    rest = <<length::64, deflated::binary>>
    identity <> :crypto.hash(:sha256, [identity, rest]) <> rest
  end

  describe "move/4" do
    test "brings a tenant to other tenants, to and fro" do
      {one, other, clocks} = both()
      Tenants.change!(one, "t", put: [{1, "a > 0"}, {2, "a > 5"}])

      for {{from, to}, round} <- Enum.with_index(List.duplicate([{one, other}, {other, one}], 3) |> List.flatten(), 1) do
        match(from, "t", 1..10)
        assert {:ok, %{expressions: 2}} = Tenants.move(from, "t", {to, node()})
        assert {:ok, []} = Tenants.tenants(from)
        assert {:ok, ["t"]} = Tenants.tenants(to)
        assert {:error, %{kind: :not_found}} = Tenants.match(from, "t", %{a: 1})
        assert [[%{events: events, matches: matches}]] = report(to, "t")
        assert {events, matches} == {10 * round, 15 * round}
        assert totals(to, "t").events == 10 * round
        if rem(round, 2) == 0, do: pass(clocks, @day)
        assert %{rows: 0, usage: 0, intents: 0, tails: 0, blobs: 0} = sizes(from)
      end
    end

    test "leaves the tenant when the target does not take it" do
      {from, to, _clocks} = both()
      Tenants.change!(from, "t", put: [{1, "a > 0"}])
      match(from, "t", 1..3)
      assert {:error, %{kind: :not_found}} = Tenants.move(from, "other", {to, node()})
      assert {:error, %{kind: :exists}} = Tenants.move(from, "t", node())
      assert {:error, %{kind: :no_server, message: message}} = Tenants.move(from, "t", {:nobody, node()})
      assert message =~ "stays here" and message =~ "nobody"
      assert {:error, %{kind: :no_server, message: message}} = Tenants.move(from, "t", :"nowhere@127.0.0.1")
      assert message =~ "nowhere@127.0.0.1"
      other = start(schema: [a: :float])
      assert {:error, %{kind: :other_schema}} = Tenants.move(from, "t", {other, node()})
      assert {:error, %{kind: :timeout}} = Tenants.move(from, "t", {to, node()}, timeout: 0)
      assert_raise ArgumentError, fn -> Tenants.move(from, "t", "node") end
      eventually(fn -> Tenants.match(from, "t", %{a: 1}) == {:ok, [1]} end)
      assert [[%{events: events}]] = report(from, "t")
      assert events == totals(from, "t").events
    end

    test "while a tenant is matched loses no event, and no fuel of calls that returned" do
      {one, other, _clocks} = both()
      Tenants.change!(one, "t", put: [{1, "a > 0"}])
      test = self()

      matchers =
        for number <- 1..4 do
          Task.async(fn ->
            for event <- 1..Attack.size(300, 5_000), reduce: 0 do
              matched ->
                if {number, event} == {1, 50}, do: send(test, :matching)
                matched + match_somewhere([one, other])
            end
          end)
        end

      assert_receive :matching, @wait_ms

      for {from, to} <- [{one, other}, {other, one}, {one, other}],
          do: assert({:ok, _counts} = Tenants.move(from, "t", {to, node()}))

      matched = matchers |> Task.await_many(@wait_ms) |> Enum.sum()
      assert [[%{events: ^matched}]] = report(other, "t")
      assert totals(other, "t").events <= matched
    end

    defp match_somewhere(names) do
      case Enum.find_value(names, fn name -> with {:error, _error} <- Tenants.match(name, "t", %{a: 1}), do: nil end) do
        {:ok, [1]} -> 1
        nil -> match_somewhere(names)
      end
    end

    test "that is interrupted leaves the tenant in one place or both, and another move ends it", %{folder: folder} do
      for dirs <- [[nil, nil], [Path.join(folder, "one"), Path.join(folder, "other")]] do
        clocks = clocks()

        [one, other] =
          places = for dir <- dirs, do: start([schema: @schema, dir: dir], %{clock: clock(clocks), partitions: 2})

        Tenants.change!(one, "t", put: [{1, "a > 0"}])
        counted = Enum.reduce(1..Attack.size(20, 300), 0, &interrupted_move(&1, &2, places))

        for {from, to} <- [{other, one}, {one, other}],
            do: eventually(fn -> ended?(Tenants.move(from, "t", {to, node()})) end)

        assert {:ok, []} = Tenants.tenants(one)
        assert {:ok, ["t"]} = Tenants.tenants(other)
        assert [[%{events: ^counted, matches: ^counted}]] = report(other, "t")
        assert totals(other, "t").events == counted
        eventually(fn -> sizes(one).intents == 0 and sizes(other).intents == 0 end)
        for name <- places, do: stop(name)
      end
    end

    # Kills a partition or a store during a move. Both places may have the tenant before and after it, and both count.
    defp interrupted_move(round, counted, [one, other] = places) do
      {from, to} = if rem(round, 2) == 1, do: {one, other}, else: {other, one}
      names = for name <- places, match?({:ok, ["t"]}, Tenants.tenants(name)), do: name
      for name <- names, do: match(name, "t", [1, 2])
      mover = Task.async(fn -> Tenants.move(from, "t", {to, node()}) end)
      for _yield <- 1..:rand.uniform(2_000), do: :erlang.yield()
      victim = Enum.random(places)
      pid = Enum.random([partition(victim, "t"), Store.Table.get(directory(victim).store, :process)])
      if is_pid(pid), do: kill(pid)
      Task.await(mover, @wait_ms)
      # A restore at the target may still be under way.
      eventually(fn -> Enum.any?(places, &match?({:ok, ["t"]}, Tenants.tenants(&1))) end)
      counted + 2 * length(names)
    end

    defp ended?({:ok, _counts}), do: true
    defp ended?({:error, error}), do: error.kind == :not_found
  end

  test "tenants/1 returns the tenants that exist, in memory or not" do
    name = start([hot: 2], %{partitions: 2})
    assert Tenants.tenants(name) == {:ok, []}
    for tenant <- 1..9, do: Tenants.change!(name, tenant, put: [])
    :ok = Tenants.drop(name, 4)
    assert {:ok, tenants} = Tenants.tenants(name)
    assert Enum.sort(tenants) == [1, 2, 3, 5, 6, 7, 8, 9]
    assert {:error, %{kind: :no_server}} = Tenants.tenants(:nothing_here)
  end

  test "a dump has the version of its format, and the schema" do
    {from, _to, _clocks} = both()
    Tenants.change!(from, "t", put: [{1, "a > 0"}])
    assert <<"BTTENANT", 1, _rest::binary>> = dump = Tenants.dump!(from, "t")

    assert {:ok, %{tenant: "t", change: %{put: [{1, {"a > 0", [], nil}}]}, days: [_today]}} =
             Dump.read(directory(from), dump)

    assert %Body{} = body(from, "t")
  end
end

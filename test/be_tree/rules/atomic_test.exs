defmodule BeTree.Rules.AtomicTest do
  # A call of a server is atomic, and a restart recovers exactly the acknowledged calls, under any options.
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers, only: [kill: 2, kill_partition: 2, start!: 1]

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Server
  alias BeTree.Test.{Attack, Notices}

  # Kills of servers and held time are logged.
  setup :quiet

  @moduletag :tmp_dir

  # A click without a session makes both rules fire endlessly.
  @loop """
  fact click(id: integer)
  fact session(id: integer)
  fact note(text: string)
  rule open
    when c: click
         none session
    then assert session(id: c.id), notify opened(id: c.id)
  rule close
    when s: session
    then retract s
  rule noted
    when n: note
    then notify noted(text: n.text)
  """

  # The same loop, some time after an order.
  @late_loop """
  fact order(id: integer)
  fact payment(order: integer)
  fact ping(id: integer)
  fact other(id: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 milliseconds after o
    then assert ping(id: o.id)
  rule again
    when p: ping(id >= 1000)
    then retract p, assert ping(id: p.id)
  rule seen
    when o: other
    then notify seen(id: o.id)
  """

  # All state that calls depend on.
  defp state(name) do
    {:ok, info} = Server.info(name)
    facts = for type <- Map.keys(info.types), do: Server.facts(name, type)
    {Map.take(info, [:facts, :firings, :asserted, :now, :next_due, :types, :due]), facts}
  end

  describe "a call that fires endlessly" do
    test "is undone without a notice" do
      {name, _id} = start!(rules: @loop, firings: 1_000, notices: 10)
      :ok = Server.subscribe(name)
      {:ok, _page} = Server.assert_all(name, [{:note, text: "before"}], [])
      before = state(name)
      assert {:error, %Error{kind: :out_of_bounds} = error} = Server.assert(name, {:click, id: 1, at: 5_000})
      assert error.message =~ "1000 rules"
      assert error.message =~ "of `open`, `close`:"
      assert state(name) == before
      assert [%{name: "noted"}] = Notices.notices(name)
      # Other calls succeed and fire only their own rules.
      assert {:ok, %{firings: 1, ids: [2]}} = Server.assert(name, {:note, text: "after"})
    end

    test "is undone in the journal", %{tmp_dir: dir} do
      options = [rules: @loop, firings: 1_000, dir: dir]
      {name, id} = start!(options)
      for id <- 1..3, do: {:error, %Error{}} = Server.assert_all(name, [{:note, text: "lost"}, {:click, id: id}])
      {:ok, _page} = Server.assert(name, {:note, text: "kept"})
      before = state(name)
      kill(name, id)
      # Without its records the restart would fire endlessly.
      {name, _id} = start!([name: name, firings: 2_000_000_000] ++ Keyword.delete(options, :firings))
      assert state(name) == before
    end

    test "by the clock holds time back while other calls succeed", %{tmp_dir: dir} do
      options = [rules: @late_loop, firings: 1_000, clock: :system, dir: dir]
      {name, id} = start!(options)
      :ok = Server.subscribe(name)
      {:ok, %{ids: [harmful]}} = Server.assert(name, {:order, id: 1_000})
      eventually(fn -> match?({:ok, %{held: %{}}}, Server.info(name)) end)
      {:ok, %{held: %{at: at, error: error}, now: now}} = Server.info(name)
      assert now < at
      assert %Error{kind: :out_of_bounds} = error
      assert {:ok, %{firings: 1}} = Server.assert(name, {:other, id: 7})
      assert [%{name: "seen"}] = Notices.notices(name)
      # After a restart too.
      kill(name, id)
      {name, _id} = start!([name: name] ++ options)
      assert {:ok, %{held: %{at: ^at}}} = Server.info(name)
      assert {:ok, %{firings: 1}} = Server.assert(name, {:other, id: 8})
      # Retracting the cause releases time.
      {:ok, _page} = Server.retract(name, harmful)
      eventually(fn -> match?({:ok, %{held: nil}}, Server.info(name)) end)
      assert {:ok, %{now: later, types: %{"ping" => 0}}} = Server.info(name)
      assert later >= at
    end

    test "by the clock ends with other rules", %{tmp_dir: dir} do
      {name, _id} = start!(rules: @late_loop, firings: 1_000, clock: :system, dir: dir)
      {:ok, _page} = Server.assert(name, {:order, id: 1_000})
      eventually(fn -> match?({:ok, %{held: %{}}}, Server.info(name)) end)
      :ok = Server.swap(name, String.replace(@late_loop, "id >= 1000", "id >= 2000"))
      eventually(fn -> match?({:ok, %{held: nil, types: %{"ping" => 1}}}, Server.info(name)) end)
    end

    test "in a partition leaves other partitions unchanged" do
      rules = """
      fact click(user: integer, n: integer)
      fact session(user: integer)
      rule open
        when c: click(n = 0)
             none session(user = c.user)
        then assert session(user: c.user)
      rule close
        when s: session
        then retract s
      """

      {name, _id} = start!(rules: rules, firings: 1_000, partitions: 2, partition_by: :user)
      assert {:error, %Error{kind: :out_of_bounds}} = Server.assert(name, {:click, user: 1, n: 0})
      assert {:ok, %{firings: 0}} = Server.assert_all(name, for(user <- 1..20, do: {:click, user: user, n: 1}))
      assert {:ok, %{types: %{"click" => 20, "session" => 0}}} = Server.info(name)
    end
  end

  test "a list out of fuel is undone, with the time that it moved" do
    {name, _id} = start!(rules: @late_loop)
    {:ok, _page} = Server.assert(name, {:order, id: 1, at: 0})
    list = for id <- 2..200, do: {:order, id: id, at: 5 * id}
    %{fuel: fuel} = Rules.assert_all!(Rules.new!(@late_loop), list)
    before = state(name)

    for part <- 1..20 do
      assert {:error, %Error{kind: :out_of_fuel}} = Server.assert_all(name, list, fuel: div(part * fuel, 25))
      assert state(name) == before
    end

    assert {:ok, %{ids: ids}} = Server.assert_all(name, list)
    assert length(ids) == 199
  end

  test "an advance that stops with an error keeps the time before it, after a restart too", %{tmp_dir: dir} do
    options = [rules: @late_loop, firings: 1_000_000, dir: dir, durability: :none]
    {name, id} = start!(options)
    # Each event changes words of the engine. Above 65,536 changed words an advance saves its time.
    orders = for number <- 1..6_000, do: {:order, id: if(number == 6_000, do: 1_000, else: -number), at: 1_000 * number}

    # Windows stay open until the last order has come.
    rules = String.replace(@late_loop, "10 milliseconds", "10 hours")
    :ok = Server.swap(name, rules)
    for part <- Enum.chunk_every(orders, 1_000), do: {:ok, _page} = Server.assert_all(name, part)
    {:ok, %{now: now}} = Server.info(name)
    assert {:error, %Error{kind: :out_of_bounds}} = Server.advance(name, 100_000_000)
    {:ok, %{now: saved, due: false}} = Server.info(name)
    assert saved > now
    before = state(name)
    kill(name, id)
    {name, _id} = start!([name: name, rules: rules] ++ options)
    assert state(name) == before
  end

  test "a fact of a partition is not stored if the advance behind it stops with an error, after a restart too", %{
    tmp_dir: dir
  } do
    # An advance saves its time once it has changed 65,536 words of the engine. One over all orders changes more.
    orders =
      for number <- 1..12_000, do: {:order, id: if(number == 12_000, do: 1_000, else: -number), at: 1_000 * number}

    rules = String.replace(@late_loop, "10 milliseconds", "10 hours")
    by = %{order: :id, payment: :order, ping: :id, other: :id}
    options = [rules: rules, firings: 1_000_000, dir: dir, durability: :none, partitions: 2, partition_by: by]
    {name, _id} = start!(options)
    for part <- Enum.chunk_every(orders, 1_000), do: {:ok, _page} = Server.assert_all(name, part)

    # An id of the other partition.
    {:ok, %{ids: [first | others]}} =
      Server.assert_all(name, for(id <- [1_000 | Enum.to_list(1..20)], do: {:other, id: id}))

    {_fact, elsewhere} = others |> Enum.zip(1..20) |> Enum.find(fn {fact, _id} -> rem(fact - first, 2) != 0 end)

    # The last fact has the time of the second. So time advances in the partition of order 1,000, whose rules then fire endlessly.
    list = [{:other, id: 1_000, at: 12_000_000}, {:other, id: elsewhere, at: 100_000_000}, {:other, id: 1_000}]
    {:ok, before} = Server.facts(name, :other)
    assert {:error, %Error{kind: :out_of_bounds}} = Server.assert_all(name, list)
    {:ok, stored} = Server.facts(name, :other)
    assert Enum.filter(stored, &(&1.fields["id"] == 1_000)) == Enum.filter(before, &(&1.fields["id"] == 1_000))
    {:ok, %{firings: firings}} = Server.info(name)
    for number <- 0..1, do: kill_partition(name, number)
    assert {:ok, ^stored} = Server.facts(name, :other)
    assert {:ok, %{firings: ^firings}} = Server.info(name)
  end

  describe "a server without memory" do
    @big """
    fact big(text: string)
    fact small(id: integer)
    rule copy
      when b: big
      then notify copied(a: b.text, b: b.text, c: b.text, d: b.text, e: b.text, f: b.text)
    """

    test "refuses a firing whose notice does not fit, and makes other calls" do
      {name, _id} = start!(rules: @big, memory: 3_000_000)
      :ok = Server.subscribe(name)
      assert {:ok, %{firings: 1}} = Server.assert(name, {:big, text: "a"})
      before = state(name)
      assert {:error, %Error{kind: :out_of_memory}} = Server.assert(name, {:big, text: String.duplicate("x", 400_000)})
      assert state(name) == before
      assert {:ok, %{firings: 0}} = Server.assert(name, {:small, id: 1})
      assert {:ok, %{firings: 1}} = Server.assert(name, {:big, text: "b"})
      assert length(Notices.notices(name)) == 2
    end

    test "can be emptied, swapped and read, and has memory after a restart", %{tmp_dir: dir} do
      options = [rules: @big, memory: 2_000_000, dir: dir, durability: :none]
      {name, id} = start!(options)
      full = fill(name, 0)
      assert full > 50
      assert {:ok, facts} = Server.facts(name, :small)
      assert length(facts) == 100 * full
      # Either works, or reports how much memory it needs.
      case Server.swap(name, @big <> "rule more when s: small(id < 0) then retract s") do
        :ok -> :ok
        {:error, error} -> assert error.kind == :out_of_memory
      end

      before = state(name)
      kill(name, id)
      # State that fitted a memory limit recovers under it.
      {name, id} = start!([name: name] ++ options)
      assert state(name) == before
      kill(name, id)
      {name, _id} = start!([name: name] ++ Keyword.put(options, :memory, 8_000_000))
      assert state(name) == before
      assert fill(name, full) > full
      {:ok, facts} = Server.facts(name, :small)
      for fact <- Enum.take(facts, 500), do: assert({:ok, _page} = Server.retract(name, fact.id))
      assert {:ok, _page} = Server.assert(name, {:small, id: 1})
    end

    # Inserts facts until memory is full. Returns the number of successful calls so far.
    defp fill(name, made) do
      case Server.assert_all(name, for(id <- 1..100, do: {:small, id: 100 * made + id})) do
        {:ok, _page} ->
          fill(name, made + 1)

        {:error, error} ->
          assert error.kind == :out_of_memory
          made
      end
    end
  end

  # A life: calls of every kind, some over their limits, reads, swaps, kills, and other options at each start. Its twin is
  # an engine without limits that repeats the acknowledged calls.
  @life """
  fact order(id: integer, user: string)
  fact payment(order: integer)
  fact step(left: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 seconds after o
    then assert step(left: o.id mod 4), retract o
  rule busy
    when o: order
         n: count order(user = o.user, within 5 seconds before o), n >= 3
    then modify o(id: o.id + 100)
  rule next priority 2
    when s: step(left > 0)
    then modify s(left: s.left - 1), notify at(left: s.left)
  rule last
    when s: step(left = 0)
         none order(id < 0) within 30 seconds after s
    then retract s
  """
  @other_life @life <> "rule paid when o: order p: payment(order = o.id) then retract p, retract o"

  for seed <- 1..Attack.size(4, 60) do
    test "a server with other options at each start equals one that never stopped, seed #{seed}", %{tmp_dir: dir} do
      :rand.seed(:exsss, {unquote(seed), 5, 6})
      name = :"life_#{unquote(seed)}_#{System.unique_integer([:positive])}"

      start = fn text ->
        options = [
          name: name,
          rules: text,
          dir: dir,
          durability: :none,
          base_bytes: Enum.random([4_000, 1_000_000]),
          firings: Enum.random([5, 50, 1_000_000]),
          facts: Enum.random([15, 100_000]),
          notices: Enum.random([1, 3, 1_000]),
          memory: Enum.random([1_500_000, 20_000_000])
        ]

        start!(options)
      end

      {text, twin} = {@life, Rules.new!(@life)}
      {_name, id} = start.(text)
      life = %{name: name, id: id, text: text, twin: twin, start: start, now: 0, refused: 0, made: 0}
      life = Enum.reduce(1..250, life, fn _step, life -> live(:rand.uniform(20), life) end)
      assert life.refused > 10
      assert life.made > 30
    end
  end

  defp live(1, %{name: name} = life) do
    before = state(name)
    kill(name, life.id)
    {_name, id} = life.start.(life.text)
    assert state(name) == before
    %{life | id: id}
  end

  defp live(2, %{name: name} = life) do
    text = Enum.random([@life, @other_life])

    case Server.swap(name, text) do
      :ok ->
        {:ok, twin} = Rules.Swap.swapped(life.twin, text, [])
        same(%{life | text: text, twin: twin})

      {:error, error} ->
        assert error.kind in [:out_of_bounds, :out_of_memory]
        same(life)
    end
  end

  defp live(3, %{name: name} = life) do
    {:ok, _facts} = Server.facts(name, :order, limit: 3)
    {:ok, _explanations} = Server.explain(name, :unpaid)
    same(life)
  end

  defp live(what, %{name: name, twin: twin} = life) do
    now = life.now + :rand.uniform(4_000)
    fuel = Enum.random([:infinity, :infinity, :rand.uniform(60_000)])

    {call, twice} =
      case what do
        what when what < 7 ->
          {&Server.advance(name, now, &1), fn -> Rules.advance(twin, now) end}

        what when what < 9 ->
          {:ok, facts} = Server.facts(name, Enum.random([:order, :payment, :step]))
          id = if facts == [], do: 1, else: Enum.random(facts).id
          {&Server.retract(name, id, &1), fn -> Rules.retract(twin, id) end}

        _list ->
          list = for _ <- 1..:rand.uniform(6), do: fact(now)
          {&Server.assert_all(name, list, &1), fn -> Rules.assert_all(twin, list) end}
      end

    case call.(fuel: fuel) do
      {:ok, page} ->
        {:ok, own} = twice.()
        assert {page.ids, page.firings, page.next_due} == {own.ids, own.firings, own.next_due}
        same(%{life | now: now, made: life.made + 1})

      {:error, %Error{kind: :not_found}} ->
        same(life)

      {:error, error} ->
        assert error.kind in [:out_of_fuel, :out_of_bounds, :out_of_memory]
        same(%{life | refused: life.refused + 1})
    end
  end

  defp fact(now) do
    case :rand.uniform(3) do
      1 -> {:payment, order: :rand.uniform(12), at: now}
      _ -> {:order, id: :rand.uniform(12), user: Enum.random(~w(ann bob)), at: now - :rand.uniform(2_000)}
    end
  end

  # A swap renumbers the facts of the server and of its twin alike.
  defp same(%{name: name, twin: twin} = life) do
    {:ok, info} = Server.info(name)
    {:ok, own} = Rules.info(twin)
    keys = [:facts, :firings, :asserted, :now, :next_due, :types, :due]
    assert Map.take(info, keys) == Map.take(own, keys)
    for type <- Map.keys(info.types), do: assert(Server.facts(name, type) == Rules.facts(twin, type))
    life
  end
end

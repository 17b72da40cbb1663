defmodule BeTree.Rules.PartitionsTest do
  # A partitioned server fires what one engine fires.
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Notices
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers, only: [kill_partition: 2]

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.{Notice, Server}
  alias BeTree.Rules.Server.Shared
  alias BeTree.Test.RulesServers

  # Partitions are killed here.
  setup :quiet

  @moduletag :tmp_dir
  @wait 60_000

  @text """
  fact login(user: string, ok: boolean)
  fact change(user: string, device: string)
  fact order(id: integer, who: string)
  fact payment(order: integer, amount: integer)
  fact alert(user: string, count: integer)
  fact trusted(device: string)

  rule takeover priority 5
    when a: login, not a.ok
         b: login, not b.ok and b.user = a.user, after a within 5 minutes
         c: change, c.user = a.user, after b within 5 minutes
         none trusted(device = c.device)
    then notify takeover(key: a.user, first: a.at, last: c.at), retract a

  rule unpaid
    when o: order
         none payment(order = o.id) within 10 minutes after o
    then notify unpaid(key: o.id, who: o.who)

  rule paid priority 2
    when o: order
         p: payment(order = o.id), within 1 hours of o
    then notify paid(key: o.id, amount: p.amount), modify p(amount: p.amount + 1)

  rule stop priority 9
    when p: payment(amount > 3)
    then retract p, notify stop(key: p.order)

  rule noisy
    when l: login
         n: count login(user = l.user, within 1 minutes before l), n >= 3
         none alert(user = l.user)
    then assert alert(user: l.user, count: n), notify noisy(key: l.user, count: n)

  rule quiet
    when a: alert
         none login(user = a.user) within 2 minutes after a
    then retract a, notify quiet(key: a.user)
  """
  @by %{login: :user, change: :user, order: :id, payment: :order, alert: :user, trusted: :all}
  @types ~w(login change order payment alert trusted)

  defp start!(options) do
    {name, id} = RulesServers.start!(Keyword.merge([rules: @text, partitions: 4, partition_by: @by], options))
    :ok = Server.subscribe(name)
    {name, id}
  end

  defp content(notices), do: for(%Notice{name: name, values: values} <- notices, do: {name, values})
  defp by_key(notices), do: notices |> content() |> Enum.group_by(fn {_name, values} -> values["key"] end)

  # The facts of a type without their numbers, which differ.
  defp stored(facts), do: facts |> Enum.map(&{&1.type, &1.at, &1.fields}) |> Enum.sort()

  defp random(seed), do: :rand.seed_s(:exsss, {seed, seed * 7, 11})

  defp pick(list, random) do
    {number, random} = :rand.uniform_s(length(list), random)
    {Enum.at(list, number - 1), random}
  end

  # Facts with mostly ascending times, some late, some without a time.
  defp facts(count, now, random) do
    Enum.map_reduce(1..count//1, {now, random}, fn _number, {now, random} ->
      {type, random} = pick([:login, :login, :login, :change, :order, :order, :payment, :payment, :trusted], random)
      {user, random} = pick(~w(ann bob cem dan eve), random)
      {id, random} = :rand.uniform_s(12, random)
      {ok, random} = pick([true, false, false], random)
      {step, random} = pick([0, 1_000, 20_000, 90_000], random)
      {form, random} = pick([:now, :now, :now, :late, :none], random)
      {as, random} = pick([:map, :keyword, :json, :whole_json], random)
      now = now + step

      fields =
        case type do
          :login -> [user: user, ok: ok]
          :change -> [user: user, device: "d#{rem(id, 4)}"]
          :order -> [id: id, who: user]
          :payment -> [order: id, amount: rem(id, 3)]
          :trusted -> [device: "d#{rem(id, 4)}"]
        end

      timed =
        case form do
          :now -> fields ++ [at: now]
          :late -> fields ++ [at: now - 100_000]
          :none -> fields
        end

      {shaped(type, timed, as), {now, random}}
    end)
  end

  defp shaped(type, fields, :map), do: {type, Map.new(fields)}
  defp shaped(type, fields, :keyword), do: {to_string(type), fields}
  defp shaped(type, fields, :json), do: {type, json(fields)}
  defp shaped(type, fields, :whole_json), do: ~s({"#{type}": #{json(fields)}})

  defp json(fields),
    do: "{" <> Enum.map_join(fields, ", ", fn {name, value} -> ~s("#{name}": #{inspect(value)}) end) <> "}"

  # Makes the same calls to one engine and to a partitioned server, and compares all visible state after each.
  defp compare(name, one, calls, random, seen \\ fn _name -> :ok end) do
    Enum.reduce(1..calls, {0, random, []}, fn call, {now, random, trusted} ->
      {what, random} = pick([:one, :one, :list, :list, :list, :advance, :retract, :untrust], random)
      {size, random} = :rand.uniform_s(12, random)
      size = if what == :one, do: 1, else: size

      {now, random, trusted} =
        case what do
          :advance ->
            now = now + 61_000 * size
            {:ok, page} = Rules.advance(one, now)
            {:ok, joined} = Server.advance(name, now)
            same(page, joined, name)
            {now, random, trusted}

          :retract ->
            {type, random} = pick(~w(login order payment), random)
            # The oldest of several equal facts.
            with [fact | _] <- Rules.facts!(one, type) do
              {:ok, facts} = Server.facts(name, type)
              equal = Enum.find(facts, &({&1.at, &1.fields} == {fact.at, fact.fields}))
              page = Rules.retract!(one, fact.id)
              {:ok, joined} = Server.retract(name, equal.id)
              same(page, joined, name)
              assert {:error, %Error{kind: :not_found}} = Server.retract(name, equal.id)
            end

            {now, random, trusted}

          :untrust ->
            with [fact | _] <- Rules.facts!(one, "trusted"), {:ok, [copy | _]} <- Server.facts(name, "trusted") do
              assert {copy.at, copy.fields} == {fact.at, fact.fields}
              page = Rules.retract!(one, fact.id)
              {:ok, joined} = Server.retract(name, copy.id)
              same(page, joined, name)
            end

            {now, random, trusted}

          _insertion ->
            {facts, {now, random}} = facts(size, now, random)
            page = Rules.assert_all!(one, facts)
            {:ok, joined} = Server.assert_all(name, facts)
            same(page, joined, name)
            assert length(joined.ids) == length(facts) and joined.ids == Enum.uniq(joined.ids)
            {now, random, trusted}
        end

      if rem(call, 7) == 0, do: same_facts(one, name)
      seen.(name)
      {now, random, trusted}
    end)

    same_facts(one, name)
  end

  defp same(page, joined, name) do
    sent = notices(name)
    assert Enum.sort(content(sent)) == Enum.sort(content(page.notices))
    # Firings of one key have the order of one engine.
    assert by_key(sent) == by_key(page.notices)
    assert joined.firings == page.firings
    assert joined.next_due == page.next_due
    assert joined.notices == []
  end

  defp same_facts(one, name) do
    info = Rules.info!(one)
    {:ok, joined} = Server.info(name)
    same = [:firings, :now, :next_due, :due, :lives, :rules]
    assert Map.take(joined, same) == Map.take(info, same)

    # Facts that no rule can use are dropped sooner or later.
    for type <- @types do
      {:ok, facts} = Server.facts(name, type)
      life = info.lives[type]
      is_of_use = fn fact -> life == nil or fact.at + life > info.now end
      [ours, theirs] = for facts <- [facts, Rules.facts!(one, type)], do: facts |> Enum.filter(is_of_use) |> stored()
      assert {type, ours -- theirs, theirs -- ours} == {type, [], []}
    end
  end

  for {partitions, seed} <- [{1, 1}, {2, 2}, {4, 3}, {4, 4}, {7, 5}] do
    test "#{partitions} partitions fire the rules of one engine, seed #{seed}" do
      {name, _id} = start!(partitions: unquote(partitions))
      compare(name, Rules.new!(@text), 120, random(unquote(seed)))
    end
  end

  test "partitions with the smallest slice fire the rules of one engine" do
    {name, _id} = start!([])
    one = Rules.new!(@text)
    {facts, _state} = facts(60, 0, random(6))
    page = Rules.assert_all!(one, facts)
    {:ok, joined} = Server.assert_all(name, facts, slice: 500)
    same(page, joined, name)
    same_facts(one, name)
  end

  test "killed partitions recover every acknowledged call without an effect on others", %{tmp_dir: folder} do
    {name, _id} = start!(dir: folder, durability: :none, base_bytes: 3_000)
    counter = :counters.new(1, [])

    compare(name, Rules.new!(@text), 120, random(8), fn name ->
      :counters.add(counter, 1, 1)
      number = :counters.get(counter, 1)

      # The supervisor allows three restarts in five seconds.
      if rem(number, 50) == 0 do
        before = for other <- 0..3, do: Shared.owner(name, other)
        kill_partition(name, rem(number, 4))

        assert Enum.count(Enum.zip(before, for(other <- 0..3, do: Shared.owner(name, other))), fn {a, b} -> a != b end) ==
                 1
      end
    end)

    assert Path.wildcard(Path.join(folder, "partition-*/*.base")) != []
  end

  test "a server recovers after a kill of all its processes", %{tmp_dir: folder} do
    options = [dir: folder, durability: :none]
    {name, id} = start!(options)
    one = Rules.new!(@text)
    {facts, {now, random}} = facts(200, 0, random(9))
    page = Rules.assert_all!(one, facts)
    {:ok, joined} = Server.assert_all(name, facts)
    same(page, joined, name)
    kill_all(name, id)

    {name, _id} = start!([name: name] ++ options)
    same_facts(one, name)
    assert notices(name) == []
    {facts, _state} = facts(50, now, random)
    page = Rules.assert_all!(one, facts)
    {:ok, joined} = Server.assert_all(name, facts)
    same(page, joined, name)
    same_facts(one, name)
  end

  test "a swap changes all partitions or none, and keeps the facts", %{tmp_dir: folder} do
    {name, _id} = start!(dir: folder, durability: :none)
    one = :"#{name}_one"
    start_supervised!({Server, name: one, rules: @text})
    :ok = Server.subscribe(one)
    {facts, {now, random}} = facts(150, 0, random(10))
    {:ok, _page} = Server.assert_all(one, facts)
    {:ok, _page} = Server.assert_all(name, facts)
    assert Enum.sort(content(notices(name))) == Enum.sort(content(notices(one)))
    # The age of the journal changes with time.
    state = fn -> with {:ok, info} <- Server.info(name), do: Map.delete(info, :journal_age) end
    before = state.()

    wrong = "fact order(id: string, who: string) rule r when o: order then notify r(key: o.id)"
    assert {:error, %Error{}} = Server.swap(name, wrong)

    assert {:error, %Error{kind: :out_of_bounds}} =
             Server.swap(name, @text <> "rule r when o: order q: order then notify r")

    changed = "fact order(id: integer, who: string) rule r when o: order then notify r(key: o.id)"
    assert {:error, %Error{kind: :other_schema} = error} = Server.swap(name, changed, partition_by: :who)
    assert error.message =~ "the facts of `order` lie in the partitions of `id`"
    assert state.() == before

    more =
      @text <>
        "fact visit(user: string) rule seen priority 20 when o: order p: payment(order = o.id) then notify seen(key: o.id)\n"

    assert {:error, %Error{kind: :missing_attribute, line: 39}} = Server.swap(name, more)
    assert :ok = Server.swap(name, more, partition_by: Map.put(@by, :visit, :user))
    assert :ok = Server.swap(one, more)
    assert notices(name) == [] and notices(one) == []
    {facts, _state} = facts(150, now, random)
    {:ok, page} = Server.assert_all(one, facts)
    {:ok, joined} = Server.assert_all(name, facts)
    sent = notices(name)
    assert by_key(sent) == by_key(notices(one))
    assert Enum.any?(sent, &(&1.name == "seen"))
    assert joined.firings == page.firings

    # A restarted partition has the rules of the others.
    kill_partition(name, 2)
    {:ok, _page} = Server.assert_all(name, [{:order, id: 100, who: "x"}, {:payment, order: 100, amount: 9}])
    assert {:ok, _page} = Server.assert_all(name, for(id <- 101..140, do: {:order, id: id, who: "x"}))
    assert {:ok, _page} = Server.assert_all(name, for(id <- 101..140, do: {:payment, order: id, amount: 1}))
    assert Enum.count(notices(name), &(&1.name == "seen")) >= 40
  end

  test "concurrent callers" do
    {name, _id} = start!([])

    1..8
    |> Task.async_stream(
      fn caller ->
        for id <- 1..50 do
          key = 1_000 * caller + id
          {:ok, _page} = Server.assert(name, {:order, id: key, who: "x", at: 1_000 * id})
          {:ok, page} = Server.assert(name, {:payment, order: key, amount: 5, at: 1_000 * id})
          page.firings
        end
      end,
      timeout: @wait
    )
    |> Enum.each(fn {:ok, firings} -> assert Enum.sum(firings) >= 50 end)

    sent = notices(name)
    keys = for caller <- 1..8, id <- 1..50, do: 1_000 * caller + id
    assert Enum.sort(for(%{name: "stop", values: %{"key" => key}} <- sent, do: key)) == keys
    assert {:ok, %{types: %{"payment" => 0}}} = Server.info(name)
  end

  test "a wrong fact changes no partition and has its position in the list" do
    {name, _id} = start!([])
    facts = for id <- 1..20, do: {:order, id: id, who: "x"}
    assert {:error, %Error{kind: :type, position: 20}} = Server.assert_all(name, facts ++ [{:order, id: "x", who: "y"}])
    assert {:error, %Error{kind: :type}} = Server.assert_all(name, [1, 2, 3])
    assert {:error, %Error{kind: :out_of_bounds}} = Server.advance(name, 2 ** 62)
    assert {:ok, %{facts: 0, asserted: 0, now: nil}} = Server.info(name)
    assert {:ok, %{ids: []}} = Server.assert_all(name, [])
    assert {:error, %Error{kind: :unknown_attribute}} = Server.facts(name, :ordr)
    assert {:error, %Error{kind: :not_found}} = Server.explain(name, :unpayed)
    assert {:error, %Error{kind: :not_found}} = Server.retract(name, 0)
  end

  test "a full partition refuses its facts with their position in the list" do
    {name, _id} = start!(facts: 3)
    facts = for id <- 1..40, do: {:order, id: id, who: "x"}
    assert {:error, %Error{kind: :out_of_bounds, position: position}} = Server.assert_all(name, facts)
    assert position in 3..13
    assert {:ok, %{facts: 0}} = Server.info(name)
    # Parts of the call in other partitions stand.
    fitting = for _ <- 1..3, do: hd(facts)
    assert {:ok, %{ids: [_, _, _]}} = Server.assert_all(name, fitting)

    assert {:error, %Error{kind: :out_of_bounds, position: 1}} =
             Server.assert_all(name, [Enum.at(facts, 10), hd(facts)])

    assert {:ok, %{facts: 4}} = Server.info(name)
  end

  test "pages of facts continue across partitions" do
    {name, _id} = start!([])
    {:ok, page} = Server.assert_all(name, for(id <- 1..50, do: {:order, id: id, who: "x"}))
    {:ok, facts} = Server.facts(name, :order)
    assert Enum.map(facts, & &1.id) == Enum.sort(page.ids, :desc)

    assert for({id, number} <- Enum.zip(page.ids, 1..50), do: {id, number}) |> Enum.sort(:desc) ==
             for(fact <- facts, do: {fact.id, fact.fields["id"]})

    for size <- [1, 7, 49], do: assert(paged(name, size, nil) == facts)
    assert {:ok, [%{verdict: :waits, facts: [%{id: id}]}]} = Server.explain(name, :unpaid)
    assert id in page.ids
  end

  defp paged(name, size, before) do
    {:ok, facts} = Server.facts(name, "order", limit: size, before: before)
    if length(facts) < size, do: facts, else: facts ++ paged(name, size, List.last(facts).id)
  end

  test "the system's clock closes the windows of each partition" do
    rules = """
    fact order(id: integer)
    fact payment(order: integer)
    rule unpaid
      when o: order
           none payment(order = o.id) within 30 milliseconds after o
      then notify unpaid(key: o.id)
    """

    {name, _id} = start!(rules: rules, partition_by: [order: :id, payment: "order"], clock: :system)
    assert {:ok, _page} = Server.assert_all(name, for(id <- 1..20, do: {:order, id: id}))
    assert keys(name, 20) == Enum.to_list(1..20)
    eventually(fn -> match?({:ok, %{facts: 0, next_due: nil}}, Server.info(name)) end)
  end

  defp keys(_name, 0), do: []

  defp keys(name, count) do
    assert_receive {Server, ^name, notices}, @wait
    Enum.sort(for(notice <- notices, do: notice.values["key"]) ++ keys(name, count - length(notices)))
  end

  test "a start refuses rules and keys that lose matches, with their place" do
    Process.flag(:trap_exit, true)
    start = &Server.start_link([name: :partitions_wrong, partitions: 3] ++ &1)
    rules = "fact a(x: integer)\nfact b(y: integer)\nrule r\n  when a: a\n       b: b\n  then notify n"
    assert {:error, %Error{} = error} = start.(rules: rules, partition_by: [a: :x, b: :y])
    assert {error.kind, error.line, error.column} == {:out_of_bounds, 5, 11}
    assert Exception.message(error) =~ "add `y = a.x` to this condition"
    assert {:error, %Error{kind: :missing_attribute, line: 2}} = start.(rules: rules, partition_by: :x)
    assert {:error, %Error{kind: :unknown_attribute}} = start.(rules: rules, partition_by: [a: :x, b: :z])
    assert {:error, %Error{kind: :syntax}} = start.(rules: "fact", partition_by: :x)
    assert_raise ArgumentError, ~r/need each other/, fn -> start.(rules: rules) end
    assert_raise ArgumentError, fn -> start.(rules: rules, partition_by: [a: 5]) end
    assert_raise ArgumentError, fn -> Server.start_link(name: :partitions_wrong, rules: rules, partition_by: :x) end
    assert Process.whereis(:partitions_wrong) == nil
  end

  test "a folder keeps its partitions and their keys", %{tmp_dir: folder} do
    Process.flag(:trap_exit, true)
    {name, id} = start!(dir: folder)
    {:ok, _page} = Server.assert(name, {:order, id: 1, who: "x"})
    options = [name: :partitions_other, rules: @text, dir: folder, partitions: 4, partition_by: @by]
    assert {:error, %Error{kind: :locked}} = Server.start_link(options)
    stop_supervised(id)
    assert {:error, %Error{kind: :other_schema} = error} = Server.start_link(Keyword.put(options, :partitions, 5))
    assert error.message =~ "has 4 partitions, not 5; start the server with `partitions: 4`, or give it another folder"
    by = Map.put(@by, :order, :who)
    text = String.replace(@text, "payment(order = o.id)", "payment(order = o.id), o.who = o.who")
    assert {:error, %Error{}} = Server.start_link(Keyword.merge(options, partition_by: by, rules: text))
    single = [name: :partitions_other, rules: @text, dir: folder]
    assert {:error, %Error{kind: :other_schema, message: message}} = Server.start_link(single)

    assert message ==
             "the folder #{folder} was written with 4 partitions; start the server with `partitions: 4`, or give it another folder"

    one = Keyword.put(single, :dir, Path.join(folder, "partition-1"))
    assert {:error, %Error{kind: :other_schema, message: message}} = Server.start_link(one)
    assert message =~ "holds only partition 1 of 4; start the server with the folder of all partitions, or"
    assert {:ok, pid} = Server.start_link(options)
    assert {:ok, %{facts: 1}} = Server.info(:partitions_other)
    GenServer.stop(pid)

    single = Path.join(folder, "single")
    {:ok, pid} = Server.start_link(name: :partitions_other, rules: @text, dir: single)
    GenServer.stop(pid)

    assert {:error, %Error{kind: :other_schema, message: message}} =
             Server.start_link(Keyword.put(options, :dir, single))

    assert message ==
             "the folder #{single} was written without partitions; start the server without `partitions:`, or give it another folder"

    for log <- Path.wildcard(Path.join(single, "*.log")), do: File.write!(log, "damaged")

    assert {:error, %Error{kind: :other_schema, message: message}} =
             Server.start_link(Keyword.put(options, :dir, single))

    assert message =~ "has a journal whose owner cannot be read; give the server of rules another folder"
    index = Path.join(folder, "index")
    {:ok, pid} = BeTree.Server.start_link(name: :partitions_index, schema: [a: :integer], dir: index)
    :ok = BeTree.Server.insert(:partitions_index, 1, "a = 1")
    Supervisor.stop(pid)

    assert {:error, %Error{kind: :other_schema, message: message}} =
             Server.start_link(Keyword.put(options, :dir, index))

    assert message =~ "holds the subscriptions of a BeTree.Server; give the server of rules another folder"
  end

  test "a failed first start can be repeated beside foreign files", %{tmp_dir: folder} do
    Process.flag(:trap_exit, true)
    folder = Path.join(folder, "rules")
    File.mkdir_p!(Path.join(folder, "lost+found"))
    # The file of the partitions cannot be written.
    File.mkdir_p!(Path.join(folder, "partitions.new/in the way"))
    options = [name: :partitions_again, rules: @text, dir: folder, partitions: 4, partition_by: @by]
    assert {:error, %Error{kind: :file, message: message}} = Server.start_link(options)
    assert message =~ "partitions.new" or message =~ "#{folder}/partitions"
    File.rm_rf!(Path.join(folder, "partitions.new"))
    # Left by a process that was killed during the write.
    File.write!(Path.join(folder, "partitions.new"), "half")
    assert {:ok, pid} = Server.start_link(options)
    {:ok, _page} = Server.assert(:partitions_again, {:order, id: 1, who: "x"})
    GenServer.stop(pid)
    assert {:ok, pid} = Server.start_link(options)
    assert {:ok, %{facts: 1}} = Server.info(:partitions_again)
    GenServer.stop(pid)
    modes = for path <- [folder | Path.wildcard(Path.join(folder, "partition*"))], do: {Path.basename(path), mode(path)}
    assert {"partitions", 0o600} in modes and {"partition-3", 0o700} in modes
    # A partition's other files name no partitions.
    File.rm!(Path.join(folder, "partitions"))
    assert {:error, %Error{kind: :other_schema, message: message}} = Server.start_link(options)
    assert message =~ "lacks its file `partitions`; take the folder from a copy, or give it another folder"
  end

  defp mode(path), do: Bitwise.band(File.stat!(path).mode, 0o777)

  test "a call past its timeout is not made" do
    {name, _id} = start!([])
    owners = for number <- 0..3, do: Shared.owner(name, number)
    Enum.each(owners, &:sys.suspend/1)
    assert {:error, %Error{kind: :timeout}} = Server.assert(name, {:order, id: 1, who: "x"}, timeout: 10)
    assert {:error, %Error{kind: :timeout}} = Server.facts(name, :order, timeout: 10)
    assert {:error, %Error{kind: :timeout}} = Server.info(name, timeout: 10)
    Enum.each(owners, &:sys.resume/1)
    assert {:ok, %{facts: 0}} = Server.info(name)
  end

  test "an ended partition fails its calls, and returns empty without a folder" do
    {name, _id} = start!([])
    {:ok, _page} = Server.assert_all(name, for(id <- 1..40, do: {:order, id: id, who: "x"}))
    {:ok, %{partitions: before}} = Server.info(name)
    kill_partition(name, 1)
    {:ok, %{partitions: now}} = Server.info(name)
    assert for(part <- now, do: part.facts) == List.replace_at(for(part <- before, do: part.facts), 1, 0)
    # Its subscribers remain.
    {:ok, _page} = Server.advance(name, 10_000_000)
    assert length(notices(name)) == Enum.sum(for(part <- now, do: part.facts))
  end

  defp kill_all(name, id) do
    pids = [Process.whereis(name), Shared.front(name) | for(number <- 0..3, do: Shared.owner(name, number))]
    for pid <- pids, do: Process.exit(pid, :kill)
    eventually(fn -> Enum.all?(pids, &(not Process.alive?(&1))) end)
    stop_supervised(id)
  end
end

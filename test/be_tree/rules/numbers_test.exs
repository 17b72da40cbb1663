defmodule BeTree.Rules.NumbersTest do
  # Each notice has a number, and a process can ask for the notices after a number.
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.Eventually
  import BeTree.Test.Notices
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers

  alias BeTree.{Error, Journal, Rules}
  alias BeTree.Rules.Server
  alias BeTree.Test.{Attack, Disk, Follower, OsNode}

  # Servers are killed here, and notices dropped.
  setup :quiet
  setup :folder

  @wait 300_000
  @rules """
  fact click(id: integer, user: integer)
  rule seen
    when c: click
    then notify seen(id: c.id)
  rule pair
    when a: click
         b: click, b.user = a.user and b.id > a.id
    then notify pair(a: a.id, b: b.id)
  """

  @partitions [partitions: 3, partition_by: :user]

  defp click(name, ids), do: Server.assert_all(name, for(id <- ids, do: {:click, id: id, user: id}))

  # The numbers and the values of notices.
  defp numbered(notices), do: for(notice <- notices, do: {notice.number, notice.values["id"]})

  defp content(notices), do: for(notice <- notices, do: {notice.rule, notice.name, notice.values})

  describe "a notice" do
    test "has the next number of its server" do
      {name, _id} = start!(rules: @rules)
      :ok = Server.subscribe(name)
      {:ok, _page} = click(name, 11..13)
      assert numbered(notices(name)) == [{1, 11}, {2, 12}, {3, 13}]
      # A call that is rolled back has no notices.
      assert {:error, %Error{}} = Server.assert_all(name, [{:click, id: 14, user: 14}, {:click, id: "x"}])
      {:ok, _page} = click(name, [14])
      assert numbered(notices(name)) == [{4, 14}]
      assert {:ok, %{first_notice: 1, last_notice: 4}} = Server.info(name)
    end

    test "has the next number of its partition" do
      {name, _id} = start!([rules: @rules] ++ @partitions)
      :ok = Server.subscribe(name)
      {:ok, _page} = click(name, 1..60)
      {:ok, %{last_notice: last, first_notice: first}} = Server.info(name)
      assert first == %{0 => 1, 1 => 1, 2 => 1}
      assert last |> Map.values() |> Enum.sum() == 60
      found = Enum.group_by(notices(name), & &1.partition, & &1.number)
      assert found == Map.new(last, fn {partition, last} -> {partition, Enum.to_list(1..last)} end)
    end

    test "of a page has none, and is printed without" do
      %{notices: [notice]} = Rules.assert!(Rules.new!(@rules), {:click, id: 1, user: 1})
      assert %{number: nil, partition: nil} = notice
      refute inspect(notice) =~ "number"
      assert inspect(%{notice | number: 7}) =~ "number: 7"
    end
  end

  describe "subscribe/2 with since:" do
    test "sends the notices after a number, and then the later ones" do
      {name, _id} = start!(rules: @rules)
      {:ok, _page} = click(name, 1..200)

      for since <- [0, 1, 63, 64, 65, 130, 199, 200] do
        :ok = Server.subscribe(name, since: since)
        assert numbered(notices(name)) == for(id <- (since + 1)..200//1, do: {id, id})
      end

      {:ok, _page} = click(name, [201])
      assert numbered(notices(name)) == [{201, 201}]
    end

    test "continues a subscription with the notices that were dropped" do
      {name, _id} = start!(rules: @rules, max_pending: 10)
      follower = Follower.start(name, 0, slow: true)
      for id <- 1..100, do: {:ok, _page} = click(name, [id])
      assert {:ok, %{dropped: 90}} = Server.info(name)
      Follower.hurry(follower)
      eventually(fn -> Follower.last(follower) == 100 end)
      assert numbered(Follower.handled(follower)) == for(id <- 1..100, do: {id, id})
    end

    test "sends them to a process of :notify, which gets later ones once" do
      listener = :"listener_#{System.unique_integer([:positive])}"
      {name, _id} = start!(rules: @rules, notify: [listener, self(), listener])
      {:ok, _page} = click(name, 1..3)
      assert numbered(notices(name)) == [{1, 1}, {2, 2}, {3, 3}]
      :ok = Server.subscribe(name, since: 1)
      assert numbered(notices(name)) == [{2, 2}, {3, 3}]
      follower = Follower.start(name, 2, register: listener)
      {:ok, _page} = click(name, [4])
      assert numbered(notices(name)) == [{4, 4}]
      eventually(fn -> Follower.last(follower) == 4 end)
      assert numbered(Follower.handled(follower)) == [{3, 3}, {4, 4}]
    end

    test "returns an error for notices that are gone, and for a number that is not there" do
      {name, _id} = start!(rules: @rules, kept_notices: 100)
      for id <- 1..1_000, do: {:ok, _page} = click(name, [id])
      {:ok, %{first_notice: first, last_notice: 1_000}} = Server.info(name)
      assert first in (901 - 64)..901
      assert {:error, %Error{kind: :not_found, message: message}} = Server.subscribe(name, since: 42)
      assert message =~ "the notices from 43 to #{first - 1} are gone, the first that the server has is #{first}"
      assert {:error, %Error{kind: :not_found}} = Server.subscribe(name, since: first - 2)
      assert {:error, %Error{kind: :out_of_bounds}} = Server.subscribe(name, since: 1_001)
      # Neither subscribes.
      {:ok, _page} = click(name, [1_001])
      assert notices(name) == []
      assert :ok = Server.subscribe(name, since: 901)
      assert numbered(notices(name)) == for(id <- 902..1_001, do: {id, id})
    end

    test "keeps a part of the notices of a long call, and none with kept_notices: 0" do
      {name, _id} = start!(rules: @rules, kept_notices: 100)
      {:ok, _page} = click(name, 1..1_000)
      {:ok, %{first_notice: first}} = Server.info(name)
      assert first in (901 - 64)..901
      {name, _id} = start!(rules: @rules, kept_notices: 0)
      {:ok, _page} = click(name, 1..3)
      assert {:ok, %{first_notice: 4, last_notice: 3}} = Server.info(name)
      assert {:error, %Error{kind: :not_found}} = Server.subscribe(name, since: 2)
      assert :ok = Server.subscribe(name, since: 3)
    end

    test "keeps at most 16 MiB" do
      text = "fact note(text: string) rule seen when n: note then notify seen(text: n.text)"
      {name, _id} = start!(rules: text)
      for _ <- 1..40, do: {:ok, _page} = Server.assert(name, {:note, text: String.duplicate("x", 1_000_000)})
      {:ok, %{first_notice: first, last_notice: 40}} = Server.info(name)
      assert first == 25
    end

    test "takes a map with partitions, and a number without" do
      {name, _id} = start!([rules: @rules, kept_notices: 10] ++ @partitions)
      {:ok, _page} = click(name, 1..900)
      {:ok, %{first_notice: first, last_notice: last}} = Server.info(name)
      assert {:error, %Error{kind: :not_found}} = Server.subscribe(name, since: %{last | 1 => 0})
      assert {:error, %Error{kind: :out_of_bounds}} = Server.subscribe(name, since: %{last | 2 => 900})
      _sent_by_others = notices(name)
      {:ok, _page} = click(name, 901..930)
      assert notices(name) == []
      {:ok, %{last_notice: last}} = Server.info(name)
      assert :ok = Server.subscribe(name, since: %{last | 1 => last[1] - 3})
      assert for(notice <- notices(name), do: {notice.partition, notice.number - last[1]}) == [{1, -2}, {1, -1}, {1, 0}]
      {:ok, _page} = click(name, 931..960)
      assert length(notices(name)) == 30
      assert map_size(first) == 3

      assert_raise ArgumentError, ~r/has partitions; give since: a map/, fn -> Server.subscribe(name, since: 1) end
      assert_raise ArgumentError, ~r/the partitions 0 to 2/, fn -> Server.subscribe(name, since: %{3 => 1}) end
      {one, _id} = start!(rules: @rules)
      assert_raise ArgumentError, ~r/has no partitions/, fn -> Server.subscribe(one, since: %{0 => 1}) end

      for wrong <- [-1, 1.0, "1", %{0 => -1}, %{a: 1}, [0]],
          do: assert_raise(ArgumentError, ~r/since/, fn -> Server.subscribe(one, since: wrong) end)
    end
  end

  describe "a restart" do
    test "without a folder continues the numbers, and has none of the notices" do
      {name, id} = start!(rules: @rules)
      {:ok, _page} = click(name, 1..5)
      kill(name, id)
      {^name, id} = start!(rules: @rules, name: name)
      assert {:error, %Error{kind: :not_found}} = Server.subscribe(name, since: 4)
      assert :ok = Server.subscribe(name, since: 5)
      {:ok, _page} = click(name, [6])
      assert numbered(notices(name)) == [{6, 6}]
      :ok = stop_supervised(id)
      start!(rules: @rules, name: name)
      {:ok, _page} = click(name, [7])
      assert numbered(notices(name)) == [{7, 7}]
    end

    test "with a folder has the notices, also those before a base", %{folder: folder} do
      options = [rules: @rules, dir: folder, base_bytes: 1]
      {name, id} = start!(options)
      {:ok, _page} = click(name, 1..500)
      eventually(fn -> bases(folder) != [] end)
      {:ok, _page} = click(name, 501..600)
      kill(name, id)
      {^name, id} = start!([name: name] ++ options)
      :ok = Server.subscribe(name, since: 3)
      assert numbered(notices(name)) == for(id <- 4..600, do: {id, id})
      {:ok, _page} = click(name, [601])
      assert numbered(notices(name)) == [{601, 601}]
      :ok = stop_supervised(id)
      # Fewer are kept from then on.
      start!([name: name, kept_notices: 64] ++ options)
      assert {:ok, %{first_notice: first, last_notice: 601}} = Server.info(name)
      assert first in (602 - 128)..(602 - 64)
    end

    test "opens a base without numbers, and begins with 1", %{folder: folder} do
      options = [rules: @rules, dir: folder, base_bytes: 1]
      {name, id} = start!(options)
      {:ok, _page} = click(name, 1..5)

      # Each call writes a base if none is being written.
      eventually(fn ->
        {:ok, _page} = Server.advance(name, 1)
        numbers_of_base(folder) == 5
      end)

      :ok = stop_supervised(id)
      remove_numbers(folder)
      {^name, _id} = start!([name: name] ++ options)
      assert {:ok, [_ | _]} = Server.facts(name, :click)
      {:ok, %{last_notice: last}} = Server.info(name)
      assert last == 0
      :ok = Server.subscribe(name, since: 0)
      {:ok, _page} = click(name, [6])
      assert numbered(notices(name)) == [{1, 6}]
    end
  end

  @late """
  fact order(id: integer)
  fact payment(order: integer)
  fact ping(id: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 hours after o
    then assert ping(id: o.id), notify unpaid(id: o.id)
  rule again
    when p: ping(id >= 1000)
    then retract p, assert ping(id: p.id)
  """

  for notices <- [100, 10_000] do
    test "an advance that fails sends the notices up to the time that it saved, as a restart does, in pages of #{notices}",
         %{
           folder: folder
         } do
      # An advance saves its time above 65,536 changed words. Its last event fails.
      orders = for n <- 1..6_000, do: {:order, id: if(n == 6_000, do: 1_000, else: -n), at: 1_000 * n}
      options = [rules: @late, dir: folder, durability: :none, notices: unquote(notices), firings: 1_000_000]
      {name, id} = start!(options)
      :ok = Server.subscribe(name)
      for part <- Enum.chunk_every(orders, 1_000), do: {:ok, _page} = Server.assert_all(name, part)
      assert {:error, %Error{kind: :out_of_bounds}} = Server.advance(name, 100_000_000)
      {:ok, %{now: saved, firings: firings, last_notice: last}} = Server.info(name)
      assert last == firings and last > 1_000
      assert numbered(notices(name)) == for(number <- 1..last, do: {number, -number})
      {:ok, _page} = Server.advance(name, saved + 10_000)
      assert [{number, _id} | _more] = later = numbered(notices(name))
      assert later == for(number <- number..(number + length(later) - 1), do: {number, -number})
      assert number == last + 1
      last = last + length(later)
      kill(name, id)
      start!([name: name] ++ options)
      assert {:ok, %{last_notice: ^last}} = Server.info(name)
      :ok = Server.subscribe(name, since: 0)
      assert numbered(notices(name)) == for(number <- 1..last, do: {number, -number})
    end
  end

  defp bases(folder), do: Path.wildcard(Path.join(folder, "*.base"))

  defp read_base(folder) do
    # A newer base may replace it meanwhile.
    with path when path != nil <- List.last(bases(folder)),
         {:ok, base} <- Journal.Base.open(Journal.Disk, path),
         {:ok, <<size::little-64, head::binary-size(size), memory::binary>>} <- Journal.Base.read(Journal.Disk, base),
         do: {:ok, base, :erlang.binary_to_term(head), memory}
  end

  defp numbers_of_base(folder) do
    with {:ok, _base, %{notices: {last, _blocks}}, _memory} <- read_base(folder), do: last
  end

  # Writes the base as it was before notices had numbers.
  defp remove_numbers(folder) do
    {:ok, base, head, memory} = read_base(folder)
    head = head |> Map.delete(:notices) |> :erlang.term_to_binary()
    payload = [[<<byte_size(head)::little-64>>, head, memory]]
    :ok = Journal.Base.write(Journal.Disk, folder, base.version, base.identity, payload)
  end

  describe "followers of a server that is killed and whose disk fails" do
    for seed <- 1..3 do
      test "handle each notice once and in order, with seed #{seed}", %{folder: folder} do
        :rand.seed(:exsss, unquote(seed))
        Disk.watch(folder)
        id = :"followed_#{System.unique_integer([:positive])}"

        options = [name: id, rules: @rules, dir: folder, base_bytes: 20_000, max_pending: 40, durability: :none]

        start_supervised!(%{id: id, start: {Server, :start_link, [options, %{files: Disk}]}})
        followers = [Follower.start(id, 0), Follower.start(id, 0, slow: true)]
        model = %{name: id, folder: folder, oracle: Rules.new!(@rules), expected: [], doubtful: nil, next: 1}
        {model, followers} = Enum.reduce(1..Attack.size(150, 2_000), {model, followers}, &step/2)

        Disk.heal(folder)
        model = settle(model)
        expected = Enum.reverse(model.expected)
        count = length(expected)

        for {follower, since} <- Enum.map(followers, &with_since/1) do
          Follower.hurry(follower)
          eventually(fn -> Follower.last(follower) == count end)
          handled = Follower.handled(follower)
          assert Enum.map(handled, & &1.number) == Enum.to_list((since + 1)..count//1)
          assert content(handled) == Enum.drop(expected, since)
        end
      end
    end
  end

  defp with_since({follower, since}), do: {follower, since}
  defp with_since(follower), do: {follower, 0}

  defp step(_number, {model, followers}) do
    case :rand.uniform(20) do
      1 ->
        {kill_owner(model), followers}

      2 ->
        # A call is killed at any moment.
        task = Task.async(fn -> assert_random(model) end)
        {model, ids} = {model, ids(model)}
        kill_owner(model)
        Task.await(task, @wait)
        {settle(%{model | doubtful: ids, next: model.next + length(ids)}), followers}

      3 ->
        Disk.fail(model.folder, fn operation, _number -> if operation in [:pwrite, :sync, :create], do: :eio end)
        {model, followers}

      4 ->
        Disk.heal(model.folder)
        {model, followers}

      5 ->
        # A late follower, which knows a number.
        since = :rand.uniform(length(model.expected) + 1) - 1
        {model, [{Follower.start(model.name, since, slow: true), since} | followers]}

      n when n < 12 ->
        for follower <- followers, {pid, _since} = with_since(follower), do: Follower.step(pid)
        {model, followers}

      _other ->
        {insert(model), followers}
    end
  end

  # The facts of the next call.
  defp ids(%{next: next}), do: Enum.to_list(next..(next + rem(next, 3)))
  defp facts(ids), do: for(id <- ids, do: {:click, id: id, user: rem(id * 7, 11)})
  defp assert_random(model), do: Server.assert_all(model.name, facts(ids(model)))

  defp insert(model) do
    ids = ids(model)
    model = %{model | next: model.next + length(ids)}

    case Server.assert_all(model.name, facts(ids)) do
      {:ok, _page} ->
        made(%{model | doubtful: nil}, ids)

      {:error, %Error{kind: :file}} ->
        %{model | doubtful: ids}

      # The start after a kill failed, because the folder was still locked, and is repeated.
      {:error, %Error{kind: :no_server}} ->
        Disk.heal(model.folder)
        settle(%{model | doubtful: ids})
    end
  end

  defp made(model, ids) do
    page = Rules.assert_all!(model.oracle, facts(ids))
    %{model | expected: Enum.reverse(content(page.notices), model.expected)}
  end

  defp kill_owner(model) do
    Disk.heal(model.folder)
    pid = Process.whereis(model.name)
    kill_and_wait(pid, fn -> Process.whereis(model.name) end)
    settle(model)
  end

  # Finds out whether a call without a reply was made.
  defp settle(%{doubtful: nil} = model), do: model

  defp settle(%{doubtful: ids} = model) do
    eventually(fn -> match?({:ok, _info}, Server.info(model.name)) end)
    {:ok, facts} = Server.facts(model.name, :click)
    found = MapSet.new(facts, & &1.fields["id"])
    model = %{model | doubtful: nil}
    if hd(ids) in found, do: made(model, ids), else: model
  end

  test "followers of partitions that are killed handle each notice once", %{folder: folder} do
    :rand.seed(:exsss, 1)
    {name, _id} = start!([rules: @rules, dir: folder, base_bytes: 20_000, durability: :none] ++ @partitions)
    followers = for slow <- [false, true], do: Follower.start(name, %{}, slow: slow)
    oracle = Rules.new!(@rules)

    expected =
      Enum.flat_map(1..100, fn step ->
        facts = facts(Enum.to_list((3 * step)..(3 * step + 2)))
        eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
        {:ok, _page} = Server.assert_all(name, facts)
        # Its supervisor ends the server after more.
        if step in [25, 50, 75], do: kill_partition(name, :rand.uniform(3) - 1)
        for follower <- followers, do: Follower.step(follower)
        content(Rules.assert_all!(oracle, facts).notices)
      end)

    eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
    {:ok, %{last_notice: last}} = Server.info(name)

    for follower <- followers do
      Follower.hurry(follower)
      eventually(fn -> Follower.last(follower) == last end)
      handled = Follower.handled(follower)
      assert Enum.sort(content(handled)) == Enum.sort(expected)

      for {_partition, numbers} <- Enum.group_by(handled, & &1.partition, & &1.number),
          do: assert(numbers == Enum.to_list(1..length(numbers)))
    end
  end

  # More notices than there are: on a busy machine the insertions are far ahead of the follower.
  @kept 1_000_000

  test "a follower of a node that is killed handles each notice once and in order", %{folder: folder} do
    handled =
      Enum.reduce(1..Attack.size(3, 20), [], fn round, handled ->
        since = length(handled)
        node = OsNode.start(node_code(folder, since, 1_000 * round))
        os_pid = OsNode.line(node, "pid ")
        assert_receive {^node, {:data, {:eol, "notice " <> first}}}, @wait
        # It is killed while it works.
        lines = [first | await_lines(node, 5 * round)] ++ notice_lines(OsNode.kill(node, os_pid))
        handled ++ distinct(lines, since)
      end)

    {name, _id} = start!(rules: @rules, dir: folder, kept_notices: @kept, max_pending: @kept)
    :ok = Server.subscribe(name, since: length(handled))
    rest = for notice <- notices(name), do: {notice.number, {notice.rule, notice.name, notice.values}}
    {:ok, facts} = Server.facts(name, :click)
    oracle = Rules.new!(@rules)

    expected =
      for fact <- Enum.reverse(facts),
          notice <- content(Rules.assert!(oracle, {:click, Map.take(fact.fields, ["id", "user"])}).notices),
          do: notice

    assert handled ++ rest == Enum.zip(1..length(expected), expected)
    assert length(handled) > 10
  end

  # Inserts clicks, and prints each notice that it handles, until it is killed. The pairs of unlimited clicks would fill a journal.
  defp node_code(folder, since, from) do
    """
    {:ok, _applications} = Application.ensure_all_started(:be_tree)
    name = :killed_rules
    {:ok, _pid} = BeTree.Rules.Server.start_link(name: name, rules: #{inspect(@rules)}, dir: #{inspect(folder)}, base_bytes: 20_000, durability: :none, kept_notices: #{@kept}, max_pending: #{@kept})
    IO.puts("pid " <> System.pid())

    spawn_link(fn ->
      :ok = BeTree.Rules.Server.subscribe(name, since: #{since})
      follow = fn follow ->
        receive do
          {BeTree.Rules.Server, ^name, notices} ->
            for notice <- notices do
              term = {notice.number, {notice.rule, notice.name, notice.values}}
              IO.puts("notice " <> Base.encode64(:erlang.term_to_binary(term)))
            end
        end
        follow.(follow)
      end
      follow.(follow)
    end)

    for id <- #{from}..#{from + 1_500} do
      {:ok, _page} = BeTree.Rules.Server.assert(name, {:click, id: id, user: rem(id * 7, 97)})
    end

    Process.sleep(:infinity)
    """
  end

  defp await_lines(_node, 0), do: []

  defp await_lines(node, count) do
    assert_receive {^node, {:data, {:eol, "notice " <> line}}}, @wait
    [line | await_lines(node, count - 1)]
  end

  defp notice_lines(lines), do: for("notice " <> line <- lines, do: line)

  # The kill may have cut off the last line.
  defp distinct(lines, since) do
    terms = for line <- lines, {:ok, bytes} <- [Base.decode64(line)], do: :erlang.binary_to_term(bytes)
    assert Enum.map(terms, &elem(&1, 0)) == Enum.to_list((since + 1)..(since + length(terms))//1)
    terms
  end
end

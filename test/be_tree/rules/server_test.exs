defmodule BeTree.Rules.ServerTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers, only: [kill: 2]

  alias BeTree.Error
  alias BeTree.Rules.{Notice, Server}
  alias BeTree.Test.{Notices, RulesServers}

  doctest Server

  # Servers are killed here.
  setup :quiet

  @moduletag :tmp_dir
  @wait 60_000

  @orders """
  fact order(id: integer)
  fact payment(order: integer)
  fact paid(order: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 minutes after o
    then notify unpaid(order: o.id)
  rule paid
    when o: order
         p: payment(order = o.id)
    then assert paid(order: o.id), notify paid(order: o.id)
  """

  defp start!(options), do: RulesServers.start!(Keyword.put_new(options, :rules, @orders))

  # All state that calls depend on.
  defp state(name) do
    {:ok, info} = Server.info(name)
    types = for type <- Map.keys(info.types), do: Server.facts(name, type)
    {Map.take(info, [:facts, :firings, :asserted, :now, :next_due, :types, :due]), types}
  end

  defp notices(name),
    do: for(%Notice{} = notice <- Notices.notices(name), do: {notice.name, notice.values["order"]})

  test "subscribers and processes of :notify get notices" do
    Process.register(self(), :rules_listener)
    {name, _id} = start!(notify: [:rules_listener, :rules_nobody])
    assert {:ok, page} = Server.assert_all(name, [{:order, id: 1, at: 0}, {:payment, order: 1, at: 1}])
    assert {page.ids, page.firings, page.notices} == {[1, 2], 1, []}
    assert notices(name) == [{"paid", 1}]

    test = self()

    spawn_link(fn ->
      :ok = Server.subscribe(name)
      send(test, :subscribed)
      receive(do: (message -> send(test, {:other, message})))
    end)

    assert_receive :subscribed, @wait
    assert {:ok, _page} = Server.assert(name, {:order, id: 2})
    assert {:ok, _page} = Server.advance(name, 10_000_000)
    assert notices(name) == [{"unpaid", 2}]
    assert_receive {:other, {Server, ^name, [%Notice{name: "unpaid"}]}}, @wait
    :ok = Server.subscribe(name)
    :ok = Server.unsubscribe(name)
    assert {:error, %Error{kind: :not_found}} = Server.retract(name, 99)
    assert {:error, %Error{kind: :type, position: 0}} = Server.assert(name, {:order, id: "x"})
    assert {:ok, [%{verdict: :fired}]} = Server.explain(name, :unpaid)
  end

  test "the system's clock closes windows" do
    rules = """
    fact order(id: integer)
    fact payment(order: integer)
    rule unpaid
      when o: order
           none payment(order = o.id) within 30 milliseconds after o
      then notify unpaid(order: o.id)
    """

    {name, _id} = start!(rules: rules, clock: :system)
    :ok = Server.subscribe(name)
    assert {:ok, page} = Server.assert(name, {:order, id: 5})
    assert is_integer(page.next_due)
    assert_receive {Server, ^name, [%Notice{values: %{"order" => 5}}]}, @wait
    assert {:ok, %{facts: 0, next_due: nil}} = Server.info(name)
  end

  test "a swap keeps the facts and fires for later ones only" do
    {name, _id} = start!([])
    :ok = Server.subscribe(name)
    facts = [{:order, id: 1, at: 0}, {:payment, order: 1, at: 1}, {:order, id: 2, at: 2}, {:order, id: 3, at: 3}]
    assert {:ok, _page} = Server.assert_all(name, facts)
    assert notices(name) == [{"paid", 1}]
    {:ok, before} = Server.info(name)

    assert {:error, %Error{kind: :syntax}} = Server.swap(name, "fact order(id: integer")
    assert {:error, %Error{kind: :unknown_attribute}} = Server.swap(name, "fact order(id: integer)")
    assert Server.info(name) == {:ok, before}

    assert :ok = Server.swap(name, @orders <> "rule seen when p: payment then notify seen(order: p.order)\n")
    {:ok, info} = Server.info(name)
    assert {info.types, info.now} == {before.types, before.now}
    assert notices(name) == []
    assert {:ok, _page} = Server.assert(name, {:payment, order: 2, at: 10})
    assert Enum.sort(notices(name)) == [{"paid", 2}, {"seen", 2}]
    # The window of the third order is still open.
    assert {:ok, _page} = Server.advance(name, 700_000)
    assert notices(name) == [{"unpaid", 3}]
  end

  for durability <- [:sync, :none] do
    test "a killed server keeps every acknowledged call, #{durability}", %{tmp_dir: folder} do
      options = [dir: folder, durability: unquote(durability)]
      {name, id} = start!(options)
      :ok = Server.subscribe(name)

      for n <- 1..50,
          do: {:ok, _page} = Server.assert_all(name, [{:order, id: n, at: 1_000 * n}, {:payment, order: n - 5}])

      assert {:error, %Error{}} = Server.assert(name, {:order, id: "x"})
      assert :ok = Server.swap(name, @orders <> "rule seen when p: payment then notify seen(order: p.order)\n")

      for n <- 51..80,
          do: {:ok, _page} = Server.assert_all(name, [{:order, id: n, at: 1_000 * n}, {:payment, order: n - 5}])

      {:ok, _page} = Server.advance(name, 620_000)
      expected = state(name)
      kill(name, id)
      flush(name)
      text = @orders <> "rule seen when p: payment then notify seen(order: p.order)\n"
      {name, _id} = start!([name: name, rules: text] ++ options)
      assert state(name) == expected
      assert notices(name) == []
      # The subscribers remain.
      {:ok, _page} = Server.advance(name, 10_000_000)
      assert notices(name) == for(n <- 76..80, do: {"unpaid", n})
      {:ok, _page} = Server.assert(name, {:payment, order: 1_000})
      assert notices(name) == [{"seen", 1_000}]
    end
  end

  test "a base replaces the journal", %{tmp_dir: folder} do
    options = [dir: folder, durability: :none, base_bytes: 20_000]
    {name, id} = start!(options)

    for n <- 1..600,
        do: {:ok, _page} = Server.assert_all(name, [{:order, id: n, at: 1_000 * n}, {:payment, order: n - 5}])

    eventually(fn -> Path.wildcard(Path.join(folder, "*.base")) != [] end)
    expected = state(name)
    kill(name, id)
    {name, _id} = start!([name: name] ++ options)
    assert state(name) == expected
    :ok = Server.subscribe(name)
    {:ok, _page} = Server.advance(name, 10_000_000)
    assert Enum.sort(notices(name)) == for(n <- 596..600, do: {"unpaid", n})
  end

  test "a base is due only :base_bytes after the last base", %{tmp_dir: folder} do
    {name, _id} = start!(dir: folder, durability: :none, base_bytes: 20_000)
    call = fn n -> {:ok, _page} = Server.assert(name, {:order, id: n, at: 0}) end
    keeping? = fn -> :sys.get_state(name).journal.writer != nil end
    due = Enum.find(1..10_000, fn n -> call.(n) && keeping?.() end)
    eventually(fn -> not keeping?.() end)
    [_one] = bases = Path.wildcard(Path.join(folder, "*.base"))

    for n <- 1..20 do
      call.(due + n)
      refute keeping?.()
    end

    assert Path.wildcard(Path.join(folder, "*.base")) == bases
    for n <- 21..(2 * due), do: call.(due + n)
    eventually(fn -> Path.wildcard(Path.join(folder, "*.base")) not in [bases, []] end)
  end

  test "many starts with a call each leave few segments", %{tmp_dir: folder} do
    for n <- 1..40 do
      {name, id} = start!(dir: folder)
      {:ok, _page} = Server.assert(name, {:order, id: n, at: 0})
      kill(name, id)
    end

    # A base may already exist, of a start that was killed before it removed the replaced files.
    {name, _id} = start!(dir: folder)
    {:ok, _page} = Server.assert(name, {:order, id: 41, at: 0})
    eventually(fn -> length(Path.wildcard(Path.join(folder, "*.log"))) < 40 end)
    assert {:ok, facts} = Server.facts(name, :order)
    assert length(facts) == 41
  end

  test "a failed start writes nothing to the folder", %{tmp_dir: folder} do
    Process.flag(:trap_exit, true)
    {name, id} = start!(dir: folder, durability: :none)
    {:ok, _page} = Server.assert(name, {:order, id: 1, at: 0})
    kill(name, id)

    state = fn ->
      for path <- Path.wildcard(Path.join(folder, "*")), File.regular?(path), do: {path, File.read!(path)}
    end

    before = state.()
    assert {:error, %Error{kind: :syntax}} = Server.start_link(name: :rules_failed, rules: "fact", dir: folder)
    assert state.() == before
  end

  test "a start refuses an empty path" do
    assert_raise ArgumentError, ~r/:dir takes the path of a folder, a string that is not empty/, fn ->
      Server.start_link(name: :rules_empty, rules: @orders, dir: "")
    end
  end

  test "a start with other rules swaps them", %{tmp_dir: folder} do
    {name, id} = start!(dir: folder)
    {:ok, _page} = Server.assert_all(name, [{:order, id: 1, at: 0}])
    kill(name, id)
    rules = "fact order(id: integer) rule r when o: order then notify r(order: o.id)"
    {name, _id} = start!(name: name, dir: folder, rules: rules)
    :ok = Server.subscribe(name)
    {:ok, _page} = Server.assert_all(name, [{:order, id: 2, at: 0}])
    assert notices(name) == [{"r", 2}]
    assert {:ok, [_, _]} = Server.facts(name, :order)
  end

  test "start_link/1 and swap/3 name the kept fact that does not fit new rules", %{tmp_dir: folder} do
    Process.flag(:trap_exit, true)
    rules = "fact login(user: string, ok: boolean) strict"
    {name, id} = start!(dir: folder, rules: rules)
    {:ok, _page} = Server.assert(name, {:login, user: "a", ok: true})

    refused = [
      {"fact login(user: string) strict", :unknown_attribute,
       "`login` has no field `ok`; keep the old declaration, or retract such facts under the old rules first"},
      {"fact login(user: string, ok: boolean, ip: string) strict", :missing_attribute,
       "`login` lacks `ip`; declare it optional, or retract such facts under the old rules first"},
      {"fact logout(user: string)", :unknown_attribute,
       "there is no fact type `login`; keep the old declaration, or retract such facts under the old rules first"}
    ]

    check = fn refuse ->
      for {text, kind, message} <- refused do
        assert {:error, %Error{kind: ^kind, position: nil} = error} = refuse.(text)
        assert error.message == "the new rules do not fit a kept fact: #{message}"
      end
    end

    check.(&Server.swap(name, &1))
    stop_supervised(id)
    check.(&Server.start_link(name: :rules_unfit, rules: &1, dir: folder))
    assert {:ok, pid} = Server.start_link(name: :rules_unfit, rules: rules, dir: folder)
    assert {:ok, [%{fields: %{"ok" => true}}]} = Server.facts(:rules_unfit, :login)
    GenServer.stop(pid)
  end

  test "refuses a folder of another owner, and a locked one", %{tmp_dir: folder} do
    Process.flag(:trap_exit, true)
    {_name, _id} = start!(dir: folder)
    options = [name: :rules_other, rules: @orders, dir: folder]
    assert {:error, %Error{kind: :locked}} = Server.start_link(options)
    index = Path.join(folder, "index")
    {:ok, pid} = BeTree.Server.start_link(name: :rules_index, schema: [a: :integer], dir: index)
    :ok = BeTree.Server.insert(:rules_index, 1, "a = 1")
    GenServer.stop(pid)

    assert {:error, %Error{kind: :other_schema, message: message}} =
             Server.start_link(Keyword.put(options, :dir, index))

    assert message ==
             "the folder #{index} holds the subscriptions of a BeTree.Server; give the server of rules another folder"
  end

  test "a call past its timeout is not made" do
    {name, _id} = start!([])
    :sys.suspend(name)
    assert {:error, %Error{kind: :timeout}} = Server.assert(name, {:order, id: 1}, timeout: 10)
    assert {:error, %Error{kind: :timeout}} = Server.swap(name, "fact a(x: integer)", timeout: 10)
    assert {:error, %Error{kind: :timeout}} = Server.facts(name, :order, timeout: 10)
    :sys.resume(name)
    assert {:ok, %{facts: 0, types: %{"order" => 0}}} = Server.info(name)
  end

  test "an unknown name is an error" do
    assert {:error, %Error{kind: :no_server}} = Server.assert(:rules_none, {:order, id: 1})
    assert {:error, %Error{kind: :no_server}} = Server.info(:rules_none)
    assert_raise ArgumentError, fn -> Server.start_link(name: :rules_bad, rules: 5) end
    assert_raise ArgumentError, fn -> Server.subscribe("text") end
  end

  defp flush(name) do
    receive do
      {Server, ^name, _notices} -> flush(name)
    after
      0 -> :ok
    end
  end
end

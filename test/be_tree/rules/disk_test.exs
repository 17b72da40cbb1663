defmodule BeTree.Rules.DiskTest do
  # A server of rules whose disk fails and recovers.
  use ExUnit.Case, async: true

  import BeTree.Test.Disk, only: [folder: 1]
  import BeTree.Test.Eventually
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers, only: [kill_partition: 2]

  alias BeTree.Error
  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.Shared
  alias BeTree.Test.{Clocks, Disk}

  # Servers are killed here, and faults of the disk logged.
  setup :quiet
  setup :folder

  @wait 60_000
  @partitions 8

  @old "fact order(id: integer) rule old when o: order(id > 1000) then notify old(key: o.id)"
  @new "fact order(id: integer) rule new when o: order(id > 1000) then notify new(key: o.id)"
  @timer """
  fact order(id: integer)
  fact payment(order: integer)
  rule unpaid
    when o: order
         none payment(order = o.id) within 10 minutes after o
    then notify unpaid(key: o.id)
  """

  defp start!(folder, options) do
    name = :"disk_#{System.unique_integer([:positive])}"
    for folder <- folders(folder), do: Disk.watch(folder)
    options = Keyword.merge([name: name, rules: @old, dir: folder], options)
    start = {Server, :start_link, [options, %{files: Disk}]}
    start_supervised!(%{id: name, start: start, restart: :temporary, type: :supervisor})
    name
  end

  defp folders(folder), do: [folder | for(number <- 0..(@partitions - 1), do: Shared.folder(folder, number))]
  defp partitions, do: [partitions: @partitions, partition_by: :id]
  defp owners(name), do: for(number <- 0..(@partitions - 1), do: Shared.owner(name, number))

  # All writes to the folders fail from now on.
  defp break(folder) do
    fault = fn operation, _number -> if operation in [:pwrite, :sync, :create], do: :eio end
    for folder <- folders(folder), do: Disk.fail(folder, fault)
  end

  defp heal(folder), do: for(folder <- folders(folder), do: Disk.heal(folder))

  defp insert(name, ids), do: Server.assert_all(name, for(id <- ids, do: {:order, id: id}))

  defp ids(name) do
    with {:ok, facts} <- Server.facts(name, :order), do: facts |> Enum.map(& &1.fields["id"]) |> Enum.sort()
  end

  for {layout, options} <- [one: [], partitions: [partitions: @partitions, partition_by: :id]] do
    test "refuses calls while the disk fails with #{layout}, and takes them again when it works", %{folder: folder} do
      name = start!(folder, unquote(options))
      process = Process.whereis(name)
      assert {:ok, _page} = insert(name, 1..40)

      for round <- 1..5 do
        break(folder)
        for id <- 41..60, do: assert({:error, %Error{kind: :file}} = insert(name, [id]))
        # The table of partitions decides a swap; a partition applies it when its journal works.
        swapped = Server.swap(name, @new)
        if unquote(layout) == :one, do: assert({:error, %Error{kind: :file}} = swapped), else: assert(swapped == :ok)
        heal(folder)
        eventually(fn -> is_list(ids(name)) end)
        assert ids(name) == Enum.to_list(1..40)
        assert {:ok, _page} = insert(name, [100 + round])
        assert {:ok, %{ids: [id]}} = insert(name, [41])
        assert {:ok, _page} = Server.retract(name, id)

        assert {:ok, page} =
                 Server.retract(name, Enum.find(elem(Server.facts(name, :order), 1), &(&1.fields["id"] > 100)).id)

        assert page.firings == 0
      end

      assert Process.whereis(name) == process
    end
  end

  test "partitions that could not journal a swap get it when the disk works", %{folder: folder} do
    name = start!(folder, partitions())
    process = Process.whereis(name)
    assert {:ok, _page} = insert(name, 1..40)
    before = owners(name)

    # The disk fails after all have made the new rules.
    [held | others] = owners(name)
    :ok = :sys.suspend(held)
    swap = Task.async(fn -> Server.swap(name, @new) end)
    for owner <- others, do: eventually(fn -> prepared?(owner) end)
    break(folder)
    :ok = :sys.resume(held)
    assert :ok = Task.await(swap, @wait)

    for id <- 1..40, do: assert({:error, %Error{kind: :file}} = insert(name, [id]))
    assert {:error, %Error{kind: :file}} = Server.info(name)
    assert {:error, %Error{kind: :file}} = Server.swap(name, @old)
    assert owners(name) == before
    heal(folder)
    eventually(fn -> is_list(ids(name)) end)
    assert ids(name) == Enum.to_list(1..40)
    :ok = Server.subscribe(name)
    assert {:ok, %{firings: 9, last_rule: rule}} = insert(name, 1001..1009)
    assert rule in ["new", nil]
    assert Process.whereis(name) == process
    assert owners(name) == before
    for owner <- owners(name), do: assert(:sys.get_state(owner).text == @new)
  end

  defp prepared?(owner) do
    case Process.info(owner, :current_stacktrace) do
      {_key, [{Server.Owner, :receive_decision, _arity, _place} | _callers]} -> true
      _elsewhere -> false
    end
  end

  test "calls that need a partition without its folder fail until the folder is back", %{folder: folder} do
    name = start!(folder, partitions())
    process = Process.whereis(name)
    assert {:ok, _page} = insert(name, 1..40)
    {:ok, facts} = Server.facts(name, :order)
    # A fact's id contains its partition.
    {mine, others} = Enum.split_with(facts, &(rem(&1.id - 1, @partitions) == 3))
    own = Shared.folder(folder, 3)
    File.rename!(own, own <> ".away")
    File.write!(own, "in the way")
    kill_partition(name, 3)

    for fact <- others, do: assert({:ok, _page} = Server.retract(name, fact.id))
    for fact <- mine, do: assert({:error, %Error{kind: :file}} = Server.retract(name, fact.id))
    assert {:error, %Error{kind: :file}} = Server.facts(name, :order)
    assert {:error, %Error{kind: :file}} = Server.swap(name, @new)

    File.rm!(own)
    File.rename!(own <> ".away", own)
    eventually(fn -> is_list(ids(name)) end)
    assert ids(name) == mine |> Enum.map(& &1.fields["id"]) |> Enum.sort()
    for fact <- mine, do: assert({:ok, _page} = Server.retract(name, fact.id))
    assert :ok = Server.swap(name, @new)
    assert Process.whereis(name) == process
  end

  test "a closed partition does not delay windows of others", %{folder: folder} do
    name = start!(folder, rules: @timer, partitions: @partitions, partition_by: %{order: :id, payment: :order})
    {:ok, _page} = Server.assert_all(name, for(id <- 1..40, do: {:order, id: id, at: 0}))
    {:ok, facts} = Server.facts(name, :order)
    own = Shared.folder(folder, 3)
    File.rename!(own, own <> ".away")
    File.write!(own, "in the way")
    kill_partition(name, 3)

    # A fact of another partition closes the windows of open partitions.
    :ok = Server.subscribe(name)
    other = Enum.find(facts, &(rem(&1.id - 1, @partitions) != 3)).fields["id"]
    assert {:ok, page} = Server.assert(name, {:order, id: other, at: 600_001})
    closed = Enum.count(facts, &(rem(&1.id - 1, @partitions) == 3))
    assert page.firings == 40 - closed

    File.rm!(own)
    File.rename!(own <> ".away", own)
    eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
    assert {:ok, %{firings: firings}} = Server.advance(name, 600_002)
    assert {:ok, %{firings: 40}} = Server.info(name)
    assert firings in [0, closed]
  end

  test "a timer whose write failed fires again", %{folder: folder} do
    clocks = Clocks.new()
    Disk.watch(folder)
    name = :"disk_#{System.unique_integer([:positive])}"
    private = %{files: Disk, clocks: Clocks.sources(clocks)}
    start = {Server, :start_link, [[name: name, rules: @timer, dir: folder, clock: :system], private]}
    start_supervised!(%{id: name, start: start, restart: :temporary})
    :ok = Server.subscribe(name)
    {:ok, _page} = insert(name, [7])
    break(folder)
    Clocks.pass(clocks, 600_000)
    Clocks.run_timers(name)
    refute_received {Server, ^name, _notices}
    %{held: %{retry: timer, error: %Error{kind: :file}}} = :sys.get_state(name)
    # Later, after a delay.
    assert is_integer(Process.read_timer(timer))
    heal(folder)
    assert_receive {Server, ^name, [%{name: "unpaid", values: %{"key" => 7}}]}, @wait
  end
end

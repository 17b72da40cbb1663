defmodule BeTree.Rules.PartitionsSwapTest do
  # Kills processes of a partitioned server during a swap. Afterwards all partitions have the same rules, no acknowledged
  # fact is lost, and every call has ended.
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually
  import BeTree.Test.Notices
  import BeTree.Test.Quiet, only: [quiet: 1]
  import BeTree.Test.RulesServers, only: [kill_and_wait: 2, kill_partition: 2]

  alias BeTree.Error
  alias BeTree.Rules.Server
  alias BeTree.Rules.Server.{Owner, Routes, Shared}

  setup :quiet

  @moduletag :tmp_dir
  @wait 60_000
  @partitions 4

  @facts "fact order(id: integer) fact payment(order: integer)\n"
  @old @facts <> "rule old when o: order p: payment(order = o.id) then notify old(key: o.id)"
  @new @facts <> "rule new when o: order p: payment(order = o.id) then notify new(key: o.id)"
  @by [order: :id, payment: :order]

  defp start!(dir) do
    name = :"swap_#{System.unique_integer([:positive])}"
    options = [name: name, rules: @old, partitions: @partitions, partition_by: @by, dir: dir, durability: :none]
    start_supervised!({Server, options}, id: name)
    :ok = Server.subscribe(name)
    {:ok, _page} = Server.assert_all(name, for(id <- 1..40, do: {:order, id: id}))
    name
  end

  defp owners(name), do: for(number <- 0..(@partitions - 1), do: Shared.owner(name, number))
  defp texts(name), do: for(owner <- owners(name), do: :sys.get_state(owner, @wait).text)

  # Begins a swap that partition 0 delays. Returns when the others have made the new rules.
  defp begin_swap(name, held) do
    :ok = :sys.suspend(held)
    swap = Task.async(fn -> Server.swap(name, @new) end)
    for owner <- owners(name), owner != held, do: eventually(fn -> prepared?(owner) end)
    swap
  end

  defp prepared?(owner) do
    case Process.info(owner, :current_stacktrace) do
      {_key, [{Owner, :receive_decision, _arity, _place} | _callers]} -> true
      _elsewhere -> false
    end
  end

  # Kills a process and waits until `now` returns its successor.
  defp kill_front(name), do: kill_and_wait(Shared.front(name), fn -> Shared.front(name) end)

  # Returns the rule that fires in each partition for orders 1 to 40.
  defp fired(name) do
    {:ok, page} = Server.assert_all(name, for(id <- 1..40, do: {:payment, order: id}))
    {page.firings, name |> notices() |> Enum.map(& &1.name) |> Enum.uniq()}
  end

  test "a partition killed before it made the new rules refuses the swap for all", %{tmp_dir: dir} do
    name = start!(dir)
    swap = begin_swap(name, Shared.owner(name, 0))
    kill_partition(name, 0)
    assert {:error, %Error{kind: :no_server, message: message}} = Task.await(swap, @wait)
    assert message =~ "a partition ended before it had made the new rules, so nothing has changed"
    assert texts(name) == List.duplicate(@old, @partitions)
    assert fired(name) == {40, ["old"]}
    assert :ok = Server.swap(name, @new)
    assert texts(name) == List.duplicate(@new, @partitions)
  end

  test "a partition killed after it made the new rules restarts with them", %{tmp_dir: dir} do
    name = start!(dir)
    held = Shared.owner(name, 0)
    swap = begin_swap(name, held)
    # It restarts with the old rules, because the swap is undecided.
    kill_partition(name, 2)
    assert :sys.get_state(Shared.owner(name, 2), @wait).text == @old
    :ok = :sys.resume(held)
    assert :ok = Task.await(swap, @wait)
    assert texts(name) == List.duplicate(@new, @partitions)
    assert fired(name) == {40, ["new"]}

    # The journal contains the swap.
    kill_partition(name, 2)
    assert texts(name) == List.duplicate(@new, @partitions)
  end

  test "without a folder such a partition restarts with the new rules and no facts" do
    name = start!(nil)
    held = Shared.owner(name, 0)
    swap = begin_swap(name, held)
    kill_partition(name, 3)
    :ok = :sys.resume(held)
    assert :ok = Task.await(swap, @wait)
    assert texts(name) == List.duplicate(@new, @partitions)
    assert {:ok, %{facts: facts, partitions: parts}} = Server.info(name)
    assert facts < 40 and List.last(parts).facts == 0
    assert fired(name) == {facts, ["new"]}
  end

  test "a swap whose front process is killed before the decision is not made", %{tmp_dir: dir} do
    name = start!(dir)
    held = Shared.owner(name, 0)
    swap = begin_swap(name, held)
    kill_front(name)
    assert {:error, %Error{kind: :no_server}} = Task.await(swap, @wait)
    :ok = :sys.resume(held)
    assert texts(name) == List.duplicate(@old, @partitions)
    assert fired(name) == {40, ["old"]}
    assert :ok = Server.swap(name, @new)
    assert texts(name) == List.duplicate(@new, @partitions)
  end

  # This process plays a front process that decides, tells only one partition, and ends.
  test "a swap whose front process is killed after the decision is made by all", %{tmp_dir: dir} do
    name = start!(dir)
    [first | others] = owners(name)
    {:ok, routes} = Routes.new(@new, @partitions, @by, [])

    {front, monitor} =
      spawn_monitor(fn ->
        swap = make_ref()
        requests = for owner <- [first | others], do: :gen_server.send_request(owner, {:prepare_swap, @new, swap})
        for request <- requests, do: {:reply, {:ok, :prepared}} = :gen_server.receive_response(request, @wait)
        # It restarts before the decision, with the old rules.
        kill_and_wait(List.last(others), fn -> Shared.owner(name, @partitions - 1) end)
        Shared.put_rules(name, @new, @by, routes)
        send(first, {swap, :commit})
      end)

    assert_receive {:DOWN, ^monitor, :process, ^front, :normal}, @wait
    assert texts(name) == List.duplicate(@new, @partitions - 1) ++ [@old]
    kill_front(name)
    eventually(fn -> texts(name) == List.duplicate(@new, @partitions) end)
    assert fired(name) == {40, ["new"]}
  end

  test "the keys of a swap outlive the front process", %{tmp_dir: dir} do
    name = start!(dir)
    visits = "fact visit(user: string)\n"
    assert :ok = Server.swap(name, visits <> @new, partition_by: @by ++ [visit: :user])
    kill_front(name)
    assert :ok = Server.swap(name, visits <> @old)
    assert texts(name) == List.duplicate(visits <> @old, @partitions)
  end

  for seed <- 1..5 do
    test "partitions agree on the rules and keep all facts under random kills, seed #{seed}", %{
      tmp_dir: dir
    } do
      name = start!(dir)
      :rand.seed(:exsss, unquote(seed))
      test = self()
      inserter = spawn_link(fn -> insert(name, 100, [], test) end)

      # The supervisor allows three restarts in five seconds.
      {_times, outcomes} =
        Enum.map_reduce(1..6, [], fn round, outcomes ->
          text = if rem(round, 2) == 1, do: @new, else: @old
          swap = Task.async(fn -> Server.swap(name, text) end)
          if round in [2, 4, 5], do: kill_soon(name)
          {round, [{text, Task.await(swap, @wait)} | outcomes]}
        end)

      for {_text, outcome} <- outcomes, do: assert(match?(:ok, outcome) or match?({:error, %Error{}}, outcome))
      eventually(fn -> Enum.all?([Shared.front(name) | owners(name)], &(&1 && Process.alive?(&1))) end)
      # The last swaps run without a kill.
      assert {@old, _outcome} = hd(outcomes)
      assert :ok = Server.swap(name, @new)
      assert texts(name) == List.duplicate(@new, @partitions)

      send(inserter, :stop)
      assert_receive {:inserted, ids}, @wait
      {:ok, facts} = Server.facts(name, :order)
      assert (Enum.to_list(1..40) ++ ids) -- Enum.map(facts, & &1.fields["id"]) == []
    end
  end

  # Kills a process of the server after a random number of reductions.
  defp kill_soon(name) do
    victims = [Shared.front(name) | owners(name)]
    for _time <- 1..:rand.uniform(3_000), do: :erlang.yield()
    if pid = Enum.random(victims), do: Process.exit(pid, :kill)
  end

  # Inserts orders until it is stopped, and sends the acknowledged ones.
  defp insert(name, id, acknowledged, test) do
    receive do
      :stop -> send(test, {:inserted, acknowledged})
    after
      0 ->
        case Server.assert(name, {:order, id: id}, timeout: @wait) do
          {:ok, _page} -> insert(name, id + 1, [id | acknowledged], test)
          {:error, %Error{kind: :no_server}} -> insert(name, id + 1, acknowledged, test)
        end
    end
  end
end

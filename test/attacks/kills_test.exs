defmodule BeTree.Attacks.KillsTest do
  # Processes that search and change are killed anywhere. Afterwards the tree has what was acknowledged, except for the one
  # pending change of each killed process.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Server}
  alias BeTree.Test.{Attack, Servers}

  @moduletag timeout: :infinity

  setup :quiet

  # Each process has ids of its own, and records in the table when it begins and when it has finished a change.
  @per_process 20

  test "a tree survives killing half of the processes that search and change it" do
    Attack.each(Attack.size(2, 10), fn _number ->
      tree = BeTree.new!(a: :integer)
      BeTree.insert_all!(tree, for(id <- 1..100, do: {id, "a = 1"}))
      log = :ets.new(:log, [:public, :set, write_concurrency: true])
      processes = Attack.size(250, 1_000)

      workers =
        for number <- 1..processes do
          ids = for id <- 1..@per_process, do: 1_000 * number + id
          random = :rand.uniform(1_000_000)
          spawn_monitor(fn -> work(tree, tree, ids, log, {number, random}) end)
        end

      {killed, spared} = Enum.split_with(workers, fn _ -> :rand.uniform(2) == 1 end)
      for {pid, _monitor} <- Enum.shuffle(killed), do: :erlang.yield() && Process.exit(pid, :kill)
      for {pid, monitor} <- spared, do: assert_receive({:DOWN, ^monitor, :process, ^pid, :normal}, 600_000)
      for {pid, monitor} <- killed, do: assert_receive({:DOWN, ^monitor, :process, ^pid, _reason}, 600_000)
      eventually(fn -> match?(%{state: :free, waiting: 0}, tree.runtime.info(tree.instance)) end)
      check(tree, tree, log, Enum.to_list(1..100))
    end)
  end

  for round <- 1..2 do
    test "a server keeps its changes when its writer is killed, round #{round}" do
      name = :"kills_#{System.unique_integer([:positive])}"

      start_supervised!({Server, name: name, schema: [a: :integer], max_restarts: 1_000_000_000}, id: name)
      Server.insert_all!(name, for(id <- 1..100, do: {id, "a = 1"}))
      log = :ets.new(:log, [:public, :set, write_concurrency: true])
      changes = Attack.size(2_000, 500_000)
      each = 4 * @per_process
      random = Attack.seed()

      changers =
        for number <- 1..4 do
          Task.async(fn ->
            :rand.seed(:exsss, {random, number, 0})
            ids = for id <- 1..each, do: 1_000 * number + id
            for _ <- 1..div(changes, 4), do: step(Server, name, Enum.random(ids), log)
          end)
        end

      killer = Task.async(fn -> kill(name, 0) end)
      Task.await_many(changers, :infinity)
      send(killer.pid, :stop)
      assert Task.await(killer, :infinity) > 0
      eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
      check(Server, name, log, Enum.to_list(1..100))
    end
  end

  # Kills the writer whenever it accepts changes again. Returns the number of kills.
  defp kill(name, kills) do
    receive do
      :stop -> kills
    after
      0 ->
        case Server.info(name) do
          {:ok, _info} ->
            Process.exit(Servers.process(name) || spawn(fn -> :ok end), :kill)
            receive(do: (:stop -> kills + 1), after: (100 -> kill(name, kills + 1)))

          {:error, %Error{}} ->
            kill(name, kills)
        end
    end
  end

  defp work(target, tree, ids, log, {number, random}) do
    :rand.seed(:exsss, {random, number, 0})

    for _ <- 1..10 do
      case :rand.uniform(3) do
        1 -> {:ok, [1 | _]} = BeTree.search(tree, %{a: 1}, slice: 5_000)
        _ -> step(BeTree, target, Enum.random(ids), log)
      end
    end
  end

  # Inserts an absent id or deletes a present one; either if the state is unknown.
  defp step(module, target, id, log) do
    state = with [{^id, state}] <- :ets.lookup(log, id), do: state, else: ([] -> :absent)
    :ets.insert(log, {id, :unknown})

    {answer, wanted, other} =
      if state == :absent or (state == :unknown and :rand.uniform(2) == 1),
        do: {module.insert(target, id, "a = 1"), :present, :duplicate_id},
        else: {module.delete(target, id), :absent, :not_found}

    case answer do
      :ok ->
        :ets.insert(log, {id, wanted})

      {:error, %Error{kind: kind, message: message}} ->
        if kind == other and message =~ "id #{id}" do
          # A refusal is right only for an unknown state.
          assert state == :unknown
          :ets.insert(log, {id, wanted})
        else
          # A killed writer leaves the outcome of its change unknown.
          assert {module, kind} == {Server, :no_server}
        end
    end
  end

  defp check(module, target, log, constant) do
    states = Map.new(:ets.tab2list(log))
    found = BeTree.search!(target, %{a: 1})
    assert Enum.filter(found, &(&1 in 1..999)) == constant
    changed = Enum.reject(found, &(&1 in 1..999))
    assert for({id, :present} <- states, id not in changed, do: id) == []
    assert for(id <- changed, states[id] not in [:present, :unknown], do: id) == []
    info = if module == Server, do: Server.info!(target), else: BeTree.info!(target)
    assert info.expressions == length(found)
  end
end

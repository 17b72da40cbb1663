defmodule BeTree.SoakTest do
  # Operations from a seed, in windows that each end empty. Results are compared with the oracle, and the VM's resources
  # after each window with those after the first ones. `make test` runs a few small windows, `make soak` as many as fit into
  # SOAK_MINUTES. The seed alone determines the operations.
  use ExUnit.Case, async: false

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Server}
  alias BeTree.Runtime.Native
  alias BeTree.Test.{Naive, Random, Servers}

  @moduletag timeout: :infinity

  setup :quiet

  @name BeTree.Soak
  @constants Random.constants()

  # The first windows fill caches of the VM and the host.
  @warm_up 3

  test "hours of load leave results right and memory, processes and mappings flat" do
    # Code is loaded when it is first called, and brings its atoms.
    {:ok, modules} = :application.get_key(:be_tree, :modules)
    for module <- modules, do: Code.ensure_loaded!(module)
    seed = seed()
    minutes = System.get_env("BE_TREE_SOAK_MINUTES")
    if minutes, do: IO.puts("soak: BE_TREE_SEED=#{seed} repeats these operations.")
    {operations, last?} = plan(minutes)
    soak(1, seed, operations, last?, nil)
  end

  # BE_TREE_SEED defaults to 1 elsewhere; an hour should not repeat the last one's operations.
  defp seed do
    given = "BE_TREE_SEED" |> System.fetch_env!() |> String.to_integer()
    if System.get_env("BE_TREE_SOAK_MINUTES") && given == 1, do: System.os_time(), else: given
  end

  defp plan(nil), do: {50, &(&1 == @warm_up + 2)}

  defp plan(minutes) do
    ends = System.monotonic_time(:second) + 60 * String.to_integer(minutes)
    {600, &(&1 > @warm_up and System.monotonic_time(:second) >= ends)}
  end

  defp soak(window, seed, operations, last?, plateau) do
    # A separate process, whose terms are freed at its end.
    fn -> window(window, seed, operations) end |> Task.async() |> Task.await(:infinity)
    plateau = flat(window, seed, plateau)
    unless last?.(window), do: soak(window + 1, seed, operations, last?, plateau)
  end

  defp flat(window, _seed, _plateau) when window < @warm_up, do: nil
  defp flat(_window, _seed, nil), do: settled(held())

  defp flat(window, seed, plateau) do
    check = fn -> Enum.all?(limits(), fn {what, more} -> held()[what] <= plateau[what] + more end) end
    patient(check, 300) || flunk("BE_TREE_SEED=#{seed}, window #{window}: #{inspect(held())} after #{inspect(plateau)}")
    plateau
  end

  # Threads of the host free resources, so this polls.
  defp patient(_check, 0), do: false

  defp patient(check, tries) do
    check.() || (Process.sleep(100) && patient(check, tries - 1))
  end

  # The resources at rest.
  defp settled(before) do
    Process.sleep(100)
    now = held()
    if {now.instances, now.suspended} == {before.instances, before.suspended}, do: now, else: settled(now)
  end

  # Tolerances above the plateau: zero, except for allocators.
  defp limits do
    [modules: 0, instances: 0, suspended: 0, processes: 0, descriptors: 0, persistent: 0] ++
      [atoms: 0, mappings: 60, memory: 4_000_000, resident: 100_000_000]
  end

  defp held do
    for pid <- Process.list(), do: :erlang.garbage_collect(pid)
    {modules, instances, suspended} = Native.counts()

    %{
      modules: modules,
      instances: instances,
      suspended: suspended,
      processes: length(Process.list()),
      descriptors: length(proc("fd", &File.ls/1, [])),
      persistent: :persistent_term.info().count,
      atoms: :erlang.system_info(:atom_count),
      mappings: length(String.split(proc("maps", &File.read/1, ""), "\n")),
      memory: :erlang.memory(:total),
      resident: resident(proc("statm", &File.read/1, "0 0"))
    }
  end

  # Only Linux has these files.
  defp proc(name, read, otherwise) do
    case read.("/proc/self/" <> name) do
      {:ok, content} -> content
      {:error, :enoent} -> otherwise
    end
  end

  defp resident(statm), do: 4_096 * (statm |> String.split() |> Enum.at(1) |> String.to_integer())

  defp window(window, seed, operations) do
    :rand.seed(:exsss, {seed, window, 0})
    domains = Random.schema()
    {:ok, supervisor} = Supervisor.start_link([server(domains)], strategy: :one_for_one)

    try do
      Enum.reduce(1..operations, {domains, %{}}, fn number, {domains, there} ->
        operation = operation(:rand.uniform(100))
        random = :rand.uniform(1_000_000_000)
        # Each operation has its own seed, so its draws leave those of the next operation unchanged.
        kept = :rand.export_seed()
        :rand.seed(:exsss, {random, number, 0})
        there = run(operation, "BE_TREE_SEED=#{seed}, window #{window}, #{number}: #{operation}", domains, there)
        :rand.seed(kept)
        {domains, there}
      end)
    after
      Supervisor.stop(supervisor)
    end
  end

  defp server(domains), do: {Server, name: @name, schema: domains, max_restarts: 1_000_000_000}

  defp operation(percent) when percent <= 30, do: :insert
  defp operation(percent) when percent <= 40, do: :insert_all
  defp operation(percent) when percent <= 60, do: :delete
  defp operation(percent) when percent <= 80, do: :search
  defp operation(percent) when percent <= 85, do: :swap
  defp operation(percent) when percent <= 90, do: :kill
  defp operation(percent) when percent <= 95, do: :kill_searches
  defp operation(_percent), do: :refuse

  # Each returns the present expressions.
  defp run(:insert, where, domains, there) do
    id = :rand.uniform(200)
    expression = Random.expression(domains)

    case Server.insert(@name, id, Random.text(expression), constants: @constants) do
      :ok ->
        refute is_map_key(there, id), where
        Map.put(there, id, expression)

      {:error, %Error{kind: :duplicate_id}} ->
        assert is_map_key(there, id), where
        there
    end
  end

  defp run(:insert_all, where, domains, there) do
    many = for id <- Enum.take_random(1..200, Enum.random(1..20)), do: {id, Random.expression(domains)}

    case Server.insert_all(@name, texts(many)) do
      {:ok, count} ->
        assert count == length(many), where
        Map.merge(there, Map.new(many))

      {:error, %Error{kind: :duplicate_id}} ->
        assert Enum.any?(many, fn {id, _} -> is_map_key(there, id) end), where
        there
    end
  end

  defp run(:delete, where, _domains, there) do
    id = :rand.uniform(200)
    answer = Server.delete(@name, id)
    assert answer == :ok == is_map_key(there, id), where
    Map.delete(there, id)
  end

  defp run(:search, where, domains, there) do
    same(@name, domains, there, where)
    there
  end

  defp run(:swap, where, domains, there) do
    tree = BeTree.new!(domains)
    BeTree.insert_all!(tree, texts(there))
    index = BeTree.publish!(tree, replicas: 2)
    same(index, domains, there, where)
    :ok = Server.swap(@name, index)
    same(@name, domains, there, where)
    there
  end

  defp run(:kill, where, domains, there) do
    pid = Servers.process(@name)
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}
    eventually(fn -> Servers.process(@name) not in [nil, pid] and match?({:ok, _info}, Server.info(@name)) end)
    same(@name, domains, there, where)
    there
  end

  defp run(:kill_searches, where, domains, there) do
    event = Random.event(domains)
    expected = expected(there, event)

    workers = for _ <- 1..8, do: spawn_monitor(fn -> exit({:found, BeTree.search(@name, event, slice: 1_000)}) end)
    for {pid, _monitor} <- Enum.take_every(workers, 2), do: Process.exit(pid, :kill)

    for {{pid, monitor}, number} <- Enum.with_index(workers) do
      assert_receive {:DOWN, ^monitor, :process, ^pid, reason}
      assert reason == {:found, {:ok, expected}} or (reason == :killed and rem(number, 2) == 0), where
    end

    there
  end

  # A tree with little memory takes what fits and stays usable.
  defp run(:refuse, where, domains, there) do
    case BeTree.new(domains, memory: 65_536 * Enum.random(20..80)) do
      {:ok, tree} -> fill(tree, where, domains)
      {:error, %Error{kind: kind}} -> assert kind == :out_of_memory, where
    end

    there
  end

  defp fill(tree, where, domains) do
    answers =
      for id <- 1..300 do
        expression = Random.expression(domains)
        {id, expression, BeTree.insert(tree, id, Random.text(expression), constants: @constants)}
      end

    there = for {id, expression, :ok} <- answers, into: %{}, do: {id, expression}
    for {_id, _expression, {:error, error}} <- answers, do: assert(error.kind == :out_of_memory, where)
    same(tree, domains, there, where)
    {gone, kept} = there |> Enum.to_list() |> Enum.split(div(map_size(there), 2))
    for {id, _expression} <- gone, do: assert(BeTree.delete(tree, id) == :ok, where)
    same(tree, domains, Map.new(kept), where)
  end

  defp same(target, domains, there, where) do
    for _ <- 1..3 do
      event = Random.event(domains)
      answer = BeTree.search(target, Map.new(event))
      expected = {:ok, expected(there, event)}
      assert answer == expected, "#{where}: #{inspect(answer)} instead of #{inspect(expected)}"
    end
  end

  defp expected(there, event) do
    event = Map.new(event)
    Enum.sort(for {id, expression} <- there, Naive.eval(expression, event, @constants), do: id)
  end

  defp texts(expressions),
    do: for({id, expression} <- expressions, do: {id, Random.text(expression), constants: @constants})
end

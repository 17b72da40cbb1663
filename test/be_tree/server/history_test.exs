defmodule BeTree.Server.HistoryTest do
  # Random histories of concurrent changes and searches, while processes of the server are killed. Each history must be
  # linearizable: there is an order of its operations that agrees with the times of their calls and returns, and in which each
  # returned what a plain map returns.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Error, Server}
  alias BeTree.Test.{Attack, Linearizable, Servers}

  setup [:quiet, :folder]

  @integers Enum.to_list(1..6)
  @terms ["one", {:two, 2}, 3, :four, %{five: [5.0]}, {}]
  @values 1..3
  @clients 4
  @operations 12

  for {title, kills, durability, kind} <- [
        {"undisturbed", 0, nil, :integer},
        {"whose processes are killed", 2, nil, :integer},
        {"in a folder, whose processes are killed", 2, {:interval, 1}, :integer},
        {"in a folder with syncs, whose processes are killed", 2, :sync, :integer},
        {"whose ids are terms", 0, nil, :term},
        {"whose ids are terms, and whose processes are killed", 2, nil, :term},
        {"in a folder, whose ids are terms, and whose processes are killed", 2, :sync, :term}
      ] do
    @durability durability
    @kind kind
    @ids if kind == :term, do: @terms, else: @integers
    test "concurrent histories of a server are linearizable, #{title}", %{folder: folder} do
      name = :"history_#{System.unique_integer([:positive])}"
      durable = if @durability, do: [dir: folder, durability: @durability], else: []

      start_supervised!(
        {Server, [name: name, schema: [a: :integer], ids: @kind, replicas: 3, max_restarts: 1_000_000_000] ++ durable}
      )

      random = Attack.seed()

      Enum.reduce(1..Attack.size(30, 2_000), %{}, fn round, model ->
        where = "BE_TREE_SEED=#{random}, round #{round}"
        {history, searches} = run(name, @ids, {random, round}, unquote(kills))
        eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
        # All operations have ended.
        final = for value <- @values, do: operation(name, {:search, value}, history.clock)
        assert searches > 0
        assert Linearizable.check(model, history.operations ++ final, &apply_to/2), where
        present = for id <- Server.ids!(name), into: %{}, do: {id, value(Server.fetch!(name, id))}
        assert Enum.sort(Map.keys(present)) == final |> Enum.flat_map(&elem(&1.result, 1)) |> Enum.sort(), where
        present
      end)

      # Otherwise no history would include a new base.
      # The process may still start again after the last kill.
      eventually(fn -> Server.put(name, 100, "a = 9") == :ok end)
      for id <- 1..2_000, do: Server.put!(name, 100 + rem(id, 10), "a = #{id}")
      eventually(fn -> Server.info!(name).bases > 1 end)
    end
  end

  defp value("a = " <> value), do: String.to_integer(value)

  defp run(name, ids, seed, kills) do
    clock = :atomics.new(1, [])
    tasks = for client <- 1..@clients, do: Task.async(fn -> client(name, ids, seed, client, clock) end)
    # Searches killed at random, also while their replica applies the log.
    victims = for _ <- 1..4, do: spawn(fn -> for _ <- 1..20, do: BeTree.search(name, %{a: 1}, slice: 1_000) end)
    for _ <- 1..kills//1, do: kill(name)
    for pid <- victims, do: Process.exit(pid, :kill)
    operations = tasks |> Task.await_many(:infinity) |> Enum.concat()
    {%{operations: operations, clock: clock}, Enum.count(operations, &match?({:search, _value}, &1.operation))}
  end

  defp kill(name) do
    Process.sleep(:rand.uniform(3))
    process = Servers.process(name)

    victim =
      case process && :rand.uniform(4) do
        nil -> nil
        1 -> keeper(process)
        2 -> helper(process)
        _ -> process
      end

    if victim, do: Process.exit(victim, :kill)
  end

  defp keeper(process) do
    with {:dictionary, dictionary} <- Process.info(process, :dictionary),
         do: hd(dictionary[:"$ancestors"]),
         else: (nil -> nil)
  end

  # The maintainer, the builder, or the process that syncs the journal.
  defp helper(process) do
    case Process.info(process, [:links, :monitors]) do
      [links: links, monitors: monitors] ->
        links = Enum.filter(links, &(is_pid(&1) and &1 != keeper(process)))
        Enum.random(links ++ for({:process, pid} <- monitors, is_pid(pid), not named?(pid), do: pid))

      nil ->
        nil
    end
  rescue
    Enum.EmptyError -> nil
  end

  # A process that calls the VM's file server also monitors it, and killing that would end the VM.
  defp named?(pid), do: Process.info(pid, :registered_name) not in [nil, {:registered_name, []}]

  defp client(name, ids, {random, round}, client, clock) do
    :rand.seed(:exsss, {random, round, client})
    for _ <- 1..@operations, do: operation(name, random_operation(ids), clock)
  end

  defp random_operation(ids) do
    {id, value} = {Enum.random(ids), Enum.random(@values)}

    case :rand.uniform(10) do
      n when n <= 2 -> {:insert, id, value}
      3 -> {:put, id, value}
      n when n <= 5 -> {:delete, id}
      n when n <= 7 -> {:change, Map.new(Enum.take_random(ids, 2), &{&1, value}), []}
      8 -> exchange(Enum.take_random(ids, 2), value)
      _ -> {:search, value}
    end
  end

  defp exchange([one, other], value), do: {:change, %{one => value}, [other]}

  # Runs an operation, and records the times of its call and return.
  defp operation(name, operation, clock) do
    called = :atomics.add_get(clock, 1, 1)
    result = perform(name, operation)

    if result == :not_running,
      do: retry(name, operation, clock),
      else: recorded(operation, result, called, clock)
  end

  # Without a running process nothing was changed.
  defp retry(name, operation, clock) do
    eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
    operation(name, operation, clock)
  end

  defp recorded(operation, result, called, clock) do
    # If the result is unknown, the operation may take effect at any later moment.
    returned = if result == :unknown, do: :infinity, else: :atomics.add_get(clock, 1, 1)
    %{operation: operation, result: result, called: called, returned: returned}
  end

  defp perform(name, {:search, value}), do: BeTree.search(name, %{a: value})
  defp perform(name, {:insert, id, value}), do: changed(Server.insert(name, id, "a = #{value}"))
  defp perform(name, {:put, id, value}), do: changed(Server.put(name, id, "a = #{value}"))
  defp perform(name, {:delete, id}), do: changed(Server.delete(name, id))

  defp perform(name, {:change, put, ids}) do
    changed(Server.change(name, put: for({id, value} <- put, do: {id, "a = #{value}"}), delete: ids))
  end

  defp changed({:error, %Error{kind: :no_server, message: message}}) do
    if message =~ "does not run", do: :not_running, else: :unknown
  end

  defp changed({:error, %Error{kind: kind}}), do: kind
  defp changed(_ok), do: :ok

  # Applies an operation to a plain map. Returns the result and the new map.
  defp apply_to({:search, value}, model), do: {{:ok, Enum.sort(for {id, ^value} <- model, do: id)}, model}
  defp apply_to({:put, id, value}, model), do: {:ok, Map.put(model, id, value)}

  defp apply_to({:insert, id, value}, model) do
    if is_map_key(model, id), do: {:duplicate_id, model}, else: {:ok, Map.put(model, id, value)}
  end

  defp apply_to({:delete, id}, model) do
    if is_map_key(model, id), do: {:ok, Map.delete(model, id)}, else: {:not_found, model}
  end

  defp apply_to({:change, put, ids}, model) do
    if Enum.all?(ids, &is_map_key(model, &1)),
      do: {:ok, model |> Map.drop(ids) |> Map.merge(put)},
      else: {:not_found, model}
  end
end

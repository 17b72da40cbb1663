defmodule BeTree.Cluster.InsertionTest do
  # Atomic insertion into several shards, while shards stall, crash or are lost.
  # Makes this node a distributed one.
  use ExUnit.Case, async: false

  import BeTree.Test.{Eventually, Peers, Quiet}

  alias BeTree.{Cluster, Error, Server}
  alias BeTree.Test.{Peers, Servers}

  @moduletag timeout: :infinity
  @schema [age: :integer]
  @list for id <- 1..10, do: {id, "age >= #{id}"}

  setup_all :distribute
  setup :quiet

  defp server(options \\ []), do: Servers.start(Keyword.merge([schema: @schema], options))
  defp cluster(shards), do: Cluster.new(shards, shard: &rem(&1, length(shards)))

  defp process({name, node}), do: :erpc.call(node, Servers, :process, [name])
  defp count({name, node}), do: :erpc.call(node, Server, :count!, [name])
  defp version({name, node}), do: :erpc.call(node, Server, :version!, [name])

  # Two shards of this node, or one of this node and one of another.
  defp shards(nil), do: [{server(), node()}, {server(), node()}]
  defp shards(node), do: [{server(), node()}, Peers.start_shard(node, schema: @schema)]

  describe "insert_all/3" do
    test "is undone by a shard that replies after the timeout, and can be repeated" do
      {_peer, node} = Peers.start()

      for other <- [nil, node] do
        [first, second] = shards = shards(other)
        cluster = cluster(shards)
        process = process(second)
        :sys.suspend(process)
        assert {:error, %Error{kind: :timeout, message: message}} = Cluster.insert_all(cluster, @list, timeout: 500)
        assert message =~ "did not reply in time"
        assert message =~ "deletes its part then: "
        assert message =~ "#{inspect(elem(second, 0))} of #{elem(second, 1)} (5 subscriptions)"
        # The first shard has inserted its part and deleted it again.
        eventually(fn -> {count(first), version(first)} == {0, 2} end)
        :sys.resume(process)
        eventually(fn -> version(second) == 2 end)
        assert count(second) == 0
        assert Cluster.insert_all(cluster, @list) == {:ok, 10}
        assert Cluster.search(cluster, %{age: 10}) == {:ok, Enum.to_list(1..10)}
      end
    end

    test "is undone when the calling process is killed" do
      [first, second] = shards = shards(nil)
      process = process(second)
      :sys.suspend(process)
      caller = spawn(fn -> Cluster.insert_all(cluster(shards), @list) end)
      eventually(fn -> count(first) == 5 end)
      Process.exit(caller, :kill)
      eventually(fn -> count(first) == 0 end)
      :sys.resume(process)
      eventually(fn -> version(second) == 2 end)
      assert count(second) == 0
    end

    test "keeps a subscription that replaced an inserted one before the roll back" do
      [first, second] = shards = shards(nil)
      process = process(second)
      :sys.suspend(process)
      task = Task.async(fn -> Cluster.insert_all(cluster(shards), @list, timeout: 500) end)
      eventually(fn -> count(first) == 5 end)
      :ok = Server.put(elem(first, 0), 2, "age = 7")
      assert {:error, %Error{kind: :timeout}} = Task.await(task, :infinity)
      :sys.resume(process)
      assert {Server.ids(elem(first, 0)), Server.fetch(elem(first, 0), 2)} == {{:ok, [2]}, {:ok, "age = 7"}}
    end

    test "returns the first error and changes no shard" do
      [{first, _}, {second, _}] = shards = shards(nil)
      cluster = cluster(shards)
      :ok = Server.insert(first, 4, "age = 4")
      :ok = Server.insert(second, 7, "age = 7")
      assert {:error, %Error{kind: :duplicate_id, position: 3, message: message}} = Cluster.insert_all(cluster, @list)
      assert message =~ inspect(first)
      assert {Server.ids(first), Server.ids(second)} == {{:ok, [4]}, {:ok, [7]}}
      assert Cluster.insert_all(cluster, []) == {:ok, 0}
      twice = [{1, "age = 1"}, {2, "age = 1"}, {1, "age = 1"}]
      assert {:error, %Error{kind: :duplicate_id, position: 2}} = Cluster.insert_all(cluster, twice)
      assert Cluster.ids!(cluster) == [4, 7]
      follower = server(schema: nil, follow: {first, node()})
      {:ok, _version} = Server.await(follower, 1)

      assert_raise ArgumentError, ~r/follows/, fn ->
        Cluster.insert_all(cluster([{follower, node()}, {second, node()}]), @list -- [{7, "age >= 7"}])
      end

      eventually(fn -> Server.ids(second) == {:ok, [7]} end)
      refute_received {:DOWN, _, _, _, _}
    end

    test "inserts all or nothing while processes of shards are killed" do
      shards = shards(nil)
      cluster = cluster(shards)
      stop = :atomics.new(1, [])

      killer =
        Task.async(fn ->
          Stream.repeatedly(fn ->
            with pid when pid != nil <- process(Enum.random(shards)), do: Process.exit(pid, :kill)
            Process.sleep(Enum.random(20..300))
          end)
          |> Enum.find(fn _ -> :atomics.get(stop, 1) == 1 end)
        end)

      # Runs until many insertions have succeeded and many failed.
      inserted =
        Stream.iterate(1, &(&1 + 1))
        |> Enum.reduce_while({[], 0}, fn round, {inserted, failures} ->
          list = for id <- 1..200, do: {1_000 * round + id, "age >= 0"}

          outcome =
            case Cluster.insert_all(cluster, list) do
              {:ok, 200} -> {[Enum.map(list, &elem(&1, 0)) | inserted], failures}
              {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] -> {inserted, failures + 1}
            end

          if length(elem(outcome, 0)) >= 30 and elem(outcome, 1) >= 10, do: {:halt, outcome}, else: {:cont, outcome}
        end)
        |> elem(0)

      :atomics.put(stop, 1, 1)
      Task.await(killer, :infinity)
      expected = inserted |> Enum.reverse() |> Enum.concat()
      eventually(fn -> match?({:ok, _}, Cluster.ids(cluster)) end)
      assert Cluster.ids!(cluster) == expected
      eventually(fn -> Cluster.search(cluster, %{age: 1}) == {:ok, expected} end)
    end

    test "names a shard whose node ends, and rolls the other parts back" do
      {_peer, node} = Peers.start()
      [first, second] = shards = shards(node)
      :sys.suspend(process(second))
      task = Task.async(fn -> Cluster.insert_all(cluster(shards), @list) end)
      eventually(fn -> count(first) == 5 end)
      Peers.kill(node)
      assert {:error, %Error{kind: :no_server, message: message}} = Task.await(task, :infinity)
      assert message =~ "check that it has none of its part: #{inspect(elem(second, 0))} of #{node} (5 subscriptions)"
      assert count(first) == 0
    end

    test "notices the loss of a shard while it waits for another one" do
      {_peer, node} = Peers.start()
      [first, second] = shards = shards(node)
      process = process(first)
      :sys.suspend(process)
      task = Task.async(fn -> Cluster.insert_all(cluster(shards), @list) end)
      eventually(fn -> count(second) == 5 end)
      Peers.kill(node)
      :sys.resume(process)
      assert {:error, %Error{kind: :no_server, message: message}} = Task.await(task, :infinity)
      assert message =~ "#{node}"
      assert count(first) == 0
    end

    test "is undone when the connection to a shard is lost" do
      {_peer, node} = Peers.start_apart()
      [first, {name, ^node} = second] = shards = shards(node)
      process = process(second)
      :sys.suspend(process)
      task = Task.async(fn -> Cluster.insert_all(cluster(shards), @list) end)
      eventually(fn -> count(first) == 5 end)
      true = Node.disconnect(node)
      assert {:error, %Error{kind: :no_server}} = Task.await(task, :infinity)
      assert count(first) == 0
      :sys.resume(process)
      eventually(fn -> version(second) == 2 end)
      assert count(second) == 0
      assert :erpc.call(node, Server, :ids, [name]) == {:ok, []}
      assert Cluster.insert_all(cluster(shards), @list) == {:ok, 10}
    end
  end
end

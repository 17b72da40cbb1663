defmodule BeTree.Cluster.LostTest do
  # Nodes that die, stall or lose connections. Each test starts its own nodes.
  # Makes this node a distributed one.
  use ExUnit.Case, async: false

  import BeTree.Test.{Eventually, Peers, Quiet}

  alias BeTree.{Cluster, Error, Server}
  alias BeTree.Test.{Peers, Servers}

  @schema [age: :integer]

  setup_all :distribute
  setup :quiet

  defp server(options \\ []), do: Servers.start(Keyword.merge([schema: @schema], options))
  defp peer_server(node, options \\ []), do: Peers.start_shard(node, Keyword.merge([schema: @schema], options))

  describe "a cluster" do
    test "is a target of BeTree's functions" do
      {_peer, node} = Peers.start()
      cluster = Cluster.new([{server(), node()}, peer_server(node)])
      assert BeTree.insert_all(cluster, for(id <- 1..100, do: {id, "age >= #{id}"})) == {:ok, 100}
      assert BeTree.insert(cluster, 101, "age = 7") == :ok
      assert BeTree.put(cluster, 101, "age = 8") == :ok
      assert BeTree.put(cluster, 102, "age = 7") == :ok
      assert BeTree.delete(cluster, 3) == :ok
      found = fn age -> for(id <- 1..age, id != 3, do: id) ++ for {7, id} <- [{age, 102}], do: id end

      assert BeTree.search(cluster, %{age: 7}) == {:ok, found.(7)}
      assert BeTree.search!(cluster, %{age: 8}) == found.(8) ++ [101]
      assert {:done, [1, 2], %BeTree.Stats{}} = BeTree.Search.run(cluster, %{age: 2})
      assert BeTree.search_many(cluster, [%{age: 7}, %{age: 0}]) == {:ok, [found.(7), []]}
      assert BeTree.search_many(cluster, []) == {:ok, []}
      assert {:error, %Error{kind: :missing_attribute, position: 1}} = BeTree.search_many(cluster, [%{age: 7}, %{}])
      events = for n <- 1..600, do: if(n == 77, do: %{}, else: %{age: rem(n, 7)})

      for options <- [[], [timeout: 60_000], [fuel: 1_000_000]] do
        results = Enum.to_list(BeTree.stream(cluster, events, options))
        assert Enum.map(results, &elem(&1, 0)) == events

        for {event, result} <- results do
          case event do
            %{age: 0} -> assert result == {:ok, []}
            %{age: age} -> assert result == {:ok, found.(age)}
            %{} -> assert {:error, %Error{kind: :missing_attribute, position: nil}} = result
          end
        end
      end

      prepared = BeTree.Event.prepare!(cluster, %{age: 7})
      assert BeTree.search(cluster, prepared) == {:ok, found.(7)}
      for id <- [1, 2, 101], do: assert(BeTree.explain!(cluster, %{age: 1}, id).match == (id == 1))
      assert {:error, %Error{kind: :not_found}} = BeTree.explain(cluster, %{age: 1}, 3)
      assert {:ok, %{expressions: 101, shards: [{_, %{version: _}}, {_, _}], depth: _}} = BeTree.info(cluster)
      assert {Cluster.fetch(cluster, 101), Cluster.member?(cluster, 3)} == {{:ok, "age = 8"}, false}
      assert Cluster.ids!(cluster) == [1, 2] ++ Enum.to_list(4..102)
      assert Cluster.count!(cluster) == 101
      assert [%{name: "age"}] = Cluster.schema!(cluster)

      for call <- [&BeTree.Search.start(&1, %{}), &BeTree.profile(&1, []), &BeTree.publish/1, &BeTree.Image.to_binary/1] do
        assert_raise ArgumentError, fn -> call.(cluster) end
      end

      assert_raise ArgumentError, fn -> BeTree.stream(cluster, [], as: :binary) end
      Peers.kill(node)

      for result <- [
            BeTree.search_many(cluster, [%{age: 1}]),
            cluster |> BeTree.stream([%{age: 1}]) |> Enum.at(0) |> elem(1),
            BeTree.info(cluster),
            Cluster.ids(cluster)
          ] do
        assert {:error, %Error{kind: :no_server, message: message}} = result
        assert message =~ "#{node}"
      end
    end

    test "returns :timeout for a stopped node" do
      {_peer, node} = Peers.start()
      cluster = Cluster.new([{server(), node()}, peer_server(node)])
      pid = :erpc.call(node, System, :pid, [])
      signal = fn signal -> {_output, 0} = System.cmd("kill", ["-#{signal}", pid]) end
      signal.("STOP")
      on_exit(fn -> signal.("CONT") end)
      assert {:error, %Error{kind: :timeout, message: message}} = Cluster.search(cluster, %{age: 1}, timeout: 1)
      assert message =~ "of #{node}: "
      signal.("CONT")
      assert Cluster.search(cluster, %{age: 1}, timeout: 60_000) == {:ok, []}
    end

    test "never returns a list that lacks a shard" do
      {_peer, one} = Peers.start()
      {_peer, two} = Peers.start()
      shards = [{server(), node()}, peer_server(one), peer_server(two)]
      cluster = Cluster.new(shards)
      Cluster.insert_all!(cluster, for(id <- 1..300, do: {id, "true"}))
      all = Enum.to_list(1..300)
      assert Cluster.search(cluster, %{age: 1}) == {:ok, all}

      # Searches continue while the node dies. Each has all ids, or names the lost node.
      searched = :counters.new(1, [])

      searchers =
        for _ <- 1..4 do
          Task.async(fn ->
            Stream.repeatedly(fn -> Cluster.search(cluster, %{age: 1}) end)
            |> Enum.reduce_while([], fn
              {:ok, ids}, answers ->
                :counters.add(searched, 1, 1)
                {:cont, Enum.uniq([ids | answers])}

              {:error, error}, answers ->
                {:halt, {error, answers}}
            end)
          end)
        end

      eventually(fn -> :counters.get(searched, 1) > 50 end)
      Peers.kill(two)

      for {error, answers} <- Task.await_many(searchers, 60_000) do
        assert error.kind == :no_server
        assert error.message =~ "#{two}"
        assert answers in [[], [all]]
      end

      assert {:error, %Error{kind: :no_server, message: message}} = Cluster.search(cluster, %{age: 1})
      assert message =~ "#{two}"
      assert {:error, %Error{kind: :no_server}} = Cluster.insert_all(cluster, for(id <- 301..400, do: {id, "true"}))
      # The other shards rolled their parts back.
      assert {:ok, ids} = shards |> Enum.take(2) |> Cluster.new() |> Cluster.search(%{age: 1})
      assert Enum.max(ids) <= 300
    end
  end

  describe "a server that follows" do
    test "keeps searching when the leader's node dies, and reconnects" do
      {_peer, node} = Peers.start()
      {name, ^node} = leader = peer_server(node)
      :ok = :erpc.call(node, Server, :insert, [name, 1, "age >= 1"])
      follower = server(schema: nil, follow: leader)
      eventually(fn -> BeTree.search(follower, %{age: 1}) == {:ok, [1]} end)
      stop = :atomics.new(1, [])

      searcher =
        Task.async(fn ->
          Stream.repeatedly(fn -> {:ok, _ids} = BeTree.search(follower, %{age: 1}) end)
          |> Enum.find_index(fn _ -> :atomics.get(stop, 1) == 1 end)
        end)

      Peers.kill(node)
      eventually(fn -> match?(%{connected: false, error: %Error{kind: :no_server}}, Server.info!(follower)) end)
      assert Server.info!(follower).error.message =~ "#{node}"
      assert BeTree.search(follower, %{age: 1}) == {:ok, [1]}

      [short, _host] = node |> Atom.to_string() |> String.split("@")
      {_peer, ^node} = Peers.start(String.to_atom(short))
      Peers.start_server(node, name: name, schema: @schema)
      :ok = :erpc.call(node, Server, :insert, [name, 2, "age >= 1"])
      eventually(fn -> BeTree.search(follower, %{age: 1}) == {:ok, [2]} end)
      assert %{connected: true, error: nil} = Server.info!(follower)
      :atomics.put(stop, 1, 1)
      assert Task.await(searcher, 60_000) > 10
    end

    test "catches up after each of many lost connections" do
      {_peer, node} = Peers.start_apart()
      {name, ^node} = leader = peer_server(node)
      call = fn function, arguments -> :erpc.call(node, Server, function, [name | arguments]) end
      {:ok, _count} = call.(:insert_all, [for(id <- 1..100, do: {id, "age >= #{id}"})])
      follower = server(schema: nil, follow: leader)
      assert Server.await(follower, 1) == {:ok, 1}
      bases = Server.info!(follower).bases

      for round <- 1..4 do
        # The other node changes its index while it is disconnected.
        :erpc.cast(node, Peers, :disconnect_and_put, [node(), name, 1_000 * round])
        # Searches go on meanwhile.
        eventually(fn ->
          {:ok, ids} = BeTree.search(follower, %{age: 50})
          assert length(ids) >= 50
          Server.info!(follower).connected == false or length(ids) >= 50 + 20 * round
        end)

        assert {:ok, _version} = Server.await(follower, 1 + 20 * round, timeout: 60_000)
        assert length(BeTree.search!(follower, %{age: 50})) == 50 + 20 * round
        assert %{connected: true, error: nil} = Server.info!(follower)
      end

      # The log continued, so no base was sent.
      assert Server.info!(follower).bases == bases
    end

    test "notices a stopped node and reconnects when it continues" do
      {_peer, node} = Peers.start_apart()
      {name, ^node} = leader = peer_server(node)
      :ok = :erpc.call(node, Server, :insert, [name, 1, "age >= 1"])
      follower = server(schema: nil, follow: leader)
      assert Server.await(follower, 1) == {:ok, 1}
      cluster = Cluster.new([leader])
      os_pid = :erpc.call(node, System, :pid, [])
      signal = fn signal -> {_output, 0} = System.cmd("kill", ["-#{signal}", os_pid]) end
      on_exit(fn -> System.cmd("kill", ["-CONT", os_pid], stderr_to_stdout: true) end)
      # Seconds after which a silent node is detected.
      before = :net_kernel.get_net_ticktime()
      on_exit(fn -> :net_kernel.set_net_ticktime(before, 1) end)
      :net_kernel.set_net_ticktime(4, 1)
      :erpc.call(node, :net_kernel, :set_net_ticktime, [4, 1])
      signal.("STOP")
      eventually(fn -> match?(%{connected: false}, Server.info!(follower)) end)
      assert BeTree.search(follower, %{age: 1}) == {:ok, [1]}
      assert {:error, %Error{kind: kind}} = BeTree.search(cluster, %{age: 1}, timeout: 100)
      assert kind in [:timeout, :no_server]
      signal.("CONT")
      eventually(fn -> match?(%{connected: true}, Server.info!(follower)) end)
      eventually(fn -> BeTree.search(cluster, %{age: 1}) == {:ok, [1]} end)
      :ok = :erpc.call(node, Server, :insert, [name, 2, "age >= 1"])
      assert Server.await(follower, 2) == {:ok, 2}
      assert BeTree.search(follower, %{age: 1}) == {:ok, [1, 2]}
    end
  end
end

defmodule BeTree.ClusterTest do
  # Makes this node a distributed one.
  use ExUnit.Case, async: false

  import BeTree.Test.{Eventually, Peers, Quiet}

  alias BeTree.{Cluster, Error, Server}
  alias BeTree.Test.{Peers, Servers}

  doctest Cluster

  @schema [age: :integer]

  setup_all :distribute
  setup_all :peers
  setup :quiet

  # Starting a node and compiling the index takes seconds. So all tests here share two nodes; tests that end one or cut a
  # connection are in test/be_tree/cluster/lost_test.exs.
  defp peers(_context) do
    {_peer, one} = Peers.start()
    {_peer, two} = Peers.start()
    {:ok, one: one, two: two}
  end

  defp server(options \\ []), do: Servers.start(Keyword.merge([schema: @schema], options))
  defp peer_server(node, options \\ []), do: Peers.start_shard(node, Keyword.merge([schema: @schema], options))

  describe "a cluster" do
    test "divides ids among its shards and finds all", %{one: one, two: two} do
      shards = [{server(), node()}, peer_server(one), peer_server(two)]
      cluster = Cluster.new(shards)
      assert Cluster.insert_all(cluster, for(id <- 1..300, do: {id, "age >= #{id}"})) == {:ok, 300}
      assert Cluster.insert(cluster, 301, "age >= 1") == :ok
      assert Cluster.delete(cluster, 1) == :ok

      assert Cluster.search(cluster, %{age: 200}) == {:ok, Enum.to_list(2..200) ++ [301]}
      assert {:ok, [2, 301], %BeTree.Stats{visited: visited}} = Cluster.search(cluster, %{age: 2}, stats: true)
      assert visited >= 2
      assert Cluster.search(cluster, %{age: 200}, ids: [1, 2, 77, 400]) == {:ok, [2, 77]}

      for {name, node} = shard <- shards do
        ids = :erpc.call(node, BeTree, :search!, [name, %{age: 500}])
        assert length(ids) > 50
        for id <- ids, do: assert(Cluster.shard(cluster, id) == shard)
      end

      assert {:error, %Error{kind: :duplicate_id} = error} = Cluster.insert(cluster, 301, "age >= 1")
      assert error.message =~ inspect(elem(Cluster.shard(cluster, 301), 0))
      assert {:error, %Error{kind: :not_found}} = Cluster.delete(cluster, 1)
      assert {:error, %Error{kind: :out_of_bounds}} = Cluster.insert(cluster, -1, "age >= 1")
      assert {:error, %Error{kind: :missing_attribute}} = Cluster.search(cluster, %{})
      assert_raise ArgumentError, fn -> Cluster.search(cluster, %{age: 1}, slice: 0) end
    end

    test "inserts all or nothing", %{one: node} do
      shards = [{server(), node()}, peer_server(node)]
      cluster = Cluster.new(shards, shard: &rem(&1, 2))
      wrong = for(id <- 1..20, do: {id, "age >= #{id}"}) ++ [{21, "age >"}] ++ for(id <- 22..30, do: {id, "true"})
      assert {:error, %Error{kind: :syntax, position: 20, text: "age >"}} = Cluster.insert_all(cluster, wrong)
      assert {:error, %Error{kind: :type, position: 1}} = Cluster.insert_all(cluster, [{1, "true"}, {2, :no}])
      assert Cluster.search(cluster, %{age: 100}) == {:ok, []}
      assert Cluster.insert_all(cluster, List.delete_at(wrong, 20)) == {:ok, 29}
    end

    test "names a missing server, and one that does not reply in time", %{one: node} do
      shard = peer_server(node)
      cluster = Cluster.new([{:nobody, node()}, shard])
      assert {:error, %Error{kind: :no_server, message: message}} = Cluster.search(cluster, %{age: 1})
      assert message =~ ":nobody of #{node()}"

      slow = Cluster.new([shard])
      :ok = Cluster.insert(slow, 1, Enum.map_join(1..100_000, " or ", fn _ -> "age = 1" end))
      assert {:error, %Error{kind: :timeout, message: message}} = Cluster.search(slow, %{age: 0}, timeout: 0)
      assert message =~ "#{node}"
      assert Cluster.search(slow, %{age: 1}) == {:ok, [1]}
    end

    test "keeps the event out of the error when a shard's node cannot run the search" do
      {_peer, node} = Peers.start_bare()
      cluster = Cluster.new([{Ads, node}])
      assert {:error, %Error{kind: :no_server} = error} = Cluster.search(cluster, %{age: 987_654_321, name: "secret"})
      assert error.message == ~s(Ads of #{node}: it could not reply: error :undef in BeTree.Target.run/3)

      # Such a node cannot be followed either.
      follower = server(schema: nil, follow: {Ads, node})
      eventually(fn -> match?(%{error: %Error{kind: :no_server}}, Server.info!(follower)) end)

      assert Server.info!(follower).error.message =~
               "#{node} cannot be followed now: its node runs another version of BeTree"
    end

    test "abandons a change whose shard does not reply in time", %{one: node} do
      {name, ^node} = shard = peer_server(node)

      for {name, _node} = shard <- [{server(), node()}, shard] do
        cluster = Cluster.new([shard])
        process = :erpc.call(elem(shard, 1), Servers, :process, [name])
        :sys.suspend(process)

        for change <- [
              fn -> Cluster.insert(cluster, 1, "age >= 1", timeout: 0) end,
              fn -> Cluster.insert_all(cluster, [{2, "age >= 1"}], timeout: 0) end,
              fn -> Cluster.delete(cluster, 2, timeout: 0) end
            ] do
          assert {:error, %Error{kind: :timeout, message: message}} = change.()
          assert message =~ inspect(name)
        end

        :sys.resume(process)
        assert Cluster.insert(cluster, 3, "age >= 1") == :ok
      end

      assert %{expressions: expressions} = :erpc.call(node, Server, :info!, [name])
      # A change past its timeout may still be made, and in any order with others.
      assert expressions in 1..3
    end

    test "takes shards and a function of ids, or raises" do
      for {shards, options} <- [
            {[], []},
            {[:a], []},
            {[{"a", :b@c}], []},
            {[{:a, :b@c}], [shard: 1]},
            {[{:a, :b@c}], [x: 1]}
          ] do
        assert_raise ArgumentError, fn -> Cluster.new(shards, options) end
      end

      assert_raise ArgumentError, ~r/numbers from 0 to 0, but 1 for 7/, fn ->
        Cluster.insert(Cluster.new([{:a, node()}], shard: fn _id -> 1 end), 7, "true")
      end
    end
  end

  describe "a server that follows" do
    test "has the base, insertions and deletions of its leader", %{one: node} do
      {name, ^node} = leader = peer_server(node)
      follower = server(schema: nil, follow: leader)
      assert {:ok, _} = :erpc.call(node, Server, :insert_all, [name, for(id <- 1..100, do: {id, "age >= #{id}"})])
      eventually(fn -> BeTree.search(follower, %{age: 50}) == {:ok, Enum.to_list(1..50)} end)
      assert %{connected: true, follows: ^leader, error: nil} = Server.info!(follower)
      assert Server.count!(follower) == 100

      # A base, and changes of it.
      {:ok, _index} = :erpc.call(node, Server, :index, [name])
      for id <- 1..10, do: :ok = :erpc.call(node, Server, :delete, [name, id])
      :ok = :erpc.call(node, Server, :insert, [name, 5, "age >= 1"])
      eventually(fn -> BeTree.search(follower, %{age: 50}) == {:ok, [5 | Enum.to_list(11..50)]} end)
      assert BeTree.explain!(follower, %{age: 50}, 5).match
      assert {:error, %Error{kind: :not_found}} = BeTree.explain(follower, %{age: 50}, 6)
      assert BeTree.info!(follower).expressions == 91

      # Another index altogether.
      :ok = Peers.swap(node, name, [b: :string], [{7, "b = 'x'"}])
      eventually(fn -> BeTree.search(follower, %{b: "x"}) == {:ok, [7]} end)
    end

    test "has the texts of its leader, in every order of changes and bases", %{one: node} do
      {name, ^node} = leader = peer_server(node)
      call = fn function, arguments -> :erpc.call(node, Server, function, [name | arguments]) end
      {:ok, 2_500} = call.(:insert_all, [for(id <- 1..2_500, do: {id, "age >= #{id}"})])
      follower = server(schema: nil, follow: leader)
      assert Server.await(follower, 1) == {:ok, 1}
      assert Server.ids!(follower) == Enum.to_list(1..2_500)
      assert {Server.fetch(follower, 7), Server.count(follower)} == {{:ok, "age >= 7"}, {:ok, 2_500}}
      :ok = call.(:put, [7, "age = 7"])
      :ok = call.(:delete, [8])
      assert Server.await(follower, 3) == {:ok, 3}
      assert Server.fetch!(follower, 7) == "age = 7"
      refute Server.member?(follower, 8)
      assert BeTree.info!(follower).expressions == 2_499

      # A crash of the follower's process loses no change.
      Process.exit(Servers.process(follower), :kill)
      eventually(fn -> match?({:ok, 3}, Server.version(follower)) end)
      assert length(Server.ids!(follower)) == 2_499

      # A swapped index has no texts.
      :ok = Peers.swap(node, name, @schema, [{7, "age = 1"}])
      assert Server.await(follower, 4) == {:ok, 4}
      assert {:error, %Error{kind: :not_found}} = Server.fetch(follower, 7)
      :ok = call.(:insert, [9, "age = 2"])
      assert Server.await(follower, 5) == {:ok, 5}
      assert Server.ids(follower) == {:ok, [9]}
      assert Server.count(follower) == {:ok, 2}
    end

    test "continues when the process of its leader is killed" do
      leader = server()
      follower = server(schema: nil, follow: {leader, node()})
      Server.insert!(leader, 1, "age >= 1")
      eventually(fn -> BeTree.search(follower, %{age: 1}) == {:ok, [1]} end)
      Process.exit(Servers.process(leader), :kill)
      eventually(fn -> Server.insert(leader, 2, "age >= 1") == :ok end)
      eventually(fn -> BeTree.search(follower, %{age: 1}) == {:ok, [1, 2]} end)
    end

    test "waits for its leader, and refuses changes" do
      follower = server(schema: nil, follow: {:late, node()})
      assert {:error, %Error{kind: :not_ready, message: message}} = BeTree.search(follower, %{age: 1})
      assert message =~ "has no index yet"
      start_supervised!({Server, name: :late, schema: @schema})
      eventually(fn -> BeTree.search(follower, %{age: 1}) == {:ok, []} end)

      for change <- [
            fn -> Server.insert(follower, 1, "true") end,
            fn -> Server.delete(follower, 1) end,
            fn -> Server.put(follower, 1, "true") end,
            fn -> Server.change(follower, put: [{1, "true"}]) end,
            fn -> Server.swap(follower, BeTree.publish!(BeTree.new!([]))) end
          ] do
        assert_raise ArgumentError, ~r/follows :late/, change
      end
    end

    test "refuses a damaged image, keeps its index, and requests the image again" do
      leader = server()
      follower = server(schema: nil, follow: {leader, node()})
      Server.insert!(leader, 1, "age >= 1")
      assert {:ok, 1} = Server.await(follower, 1)

      # Before the next base.
      process = Servers.process(follower)
      courier = :sys.get_state(process).courier
      send(process, {:piece, courier, "damaged"})
      Server.swap!(leader, index([{1, "age >= 1"}, {2, "age >= 1"}]))
      eventually(fn -> match?(%{error: %Error{kind: :bad_module}}, Server.info!(follower)) end)
      assert BeTree.search(follower, %{age: 1}) == {:ok, [1]}
      assert {:ok, 2} = Server.await(follower, 2)
      assert BeTree.search(follower, %{age: 1}) == {:ok, [1, 2]}
      assert %{connected: true, error: nil} = Server.info!(follower)
    end

    defp index(subscriptions) do
      tree = BeTree.new!(@schema)
      BeTree.insert_all!(tree, subscriptions)
      BeTree.publish!(tree)
    end

    test "can be followed" do
      leader = server()
      follower = server(schema: nil, follow: {leader, node()})
      last = server(schema: nil, follow: {follower, node()})
      for id <- 1..50, do: Server.insert!(leader, id, "age >= 1")
      assert {:ok, 50} = Server.await(last, 50)
      assert BeTree.search(last, %{age: 1}) == {:ok, Enum.to_list(1..50)}
    end

    test "makes its own bases after thousands of changes" do
      leader = server()
      follower = server(schema: nil, follow: {leader, node()})
      assert {:ok, _version} = Server.await(follower, 0)
      for id <- 1..3_000, do: Server.put!(leader, rem(id, 200), "age >= #{rem(id, 49)}")
      assert {:ok, 3_000} = Server.await(follower, 3_000)
      eventually(fn -> match?(%{bases: bases} when bases > 1, Server.info!(follower)) end)
      for age <- [0, 17, 49], do: assert(BeTree.search(follower, %{age: age}) == BeTree.search(leader, %{age: age}))
    end

    test "continues at its position after its process is killed" do
      leader = server()
      follower = server(schema: nil, follow: {leader, node()})

      for id <- 1..200 do
        Server.insert!(leader, id, "age >= 1")
        if rem(id, 40) == 0, do: Process.exit(Servers.process(follower) || spawn(fn -> :ok end), :kill)
      end

      eventually(fn -> match?({:ok, 200}, Server.await(follower, 200, timeout: 1_000)) end)
      assert BeTree.search(follower, %{age: 1}) == {:ok, Enum.to_list(1..200)}
    end

    test "receives an index in many pieces", %{one: node} do
      {name, ^node} = leader = peer_server(node)
      {:ok, _} = :erpc.call(node, Server, :insert_all, [name, for(id <- 1..20_000, do: {id, "age in (#{id}, -1)"})])
      follower = server(schema: nil, follow: leader)
      eventually(fn -> BeTree.search(follower, %{age: 19_999}) == {:ok, [19_999]} end)
      assert length(BeTree.search!(follower, %{age: -1})) == 20_000
      assert Server.info!(follower).memory > 3_000_000
    end
  end
end

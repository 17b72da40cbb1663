defmodule BeTree.Server.FollowerTest do
  # Followers that cannot apply a change or an index.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Error, Server}
  alias BeTree.Test.Servers

  @moduletag timeout: :infinity
  @schema [age: :integer]

  setup [:quiet, :folder]

  # The built-in runtime without a log of replicas, as other runtimes are.
  defmodule Plain do
    use BeTree.Test.Delegating,
      except: [append: 2, lag: 1, catch_up: 3, snapshot_applied: 1, rebase: 2, settle: 1, renew: 3]
  end

  defp server(options \\ []), do: Servers.start(Keyword.merge([schema: @schema], options))

  describe "a follower with less memory than its server" do
    test "keeps its last version, reports the reason, and resumes when the index fits" do
      leader = server()
      follower = server(schema: nil, follow: {leader, node()}, memory: 2_000_000)
      :ok = Server.insert(leader, 1, "age >= 1")
      assert Server.await(follower, 1) == {:ok, 1}
      many = for id <- 1_000..60_000, do: {id, "age in (#{id}, #{id + 1}, #{id + 2})"}
      for part <- Enum.chunk_every(many, 1_000), do: {:ok, _count} = Server.insert_all(leader, part)
      eventually(fn -> match?(%{connected: false, error: %Error{kind: :out_of_memory}}, Server.info!(follower)) end)
      # Searches work on the changes that fitted.
      version = Server.version!(follower)
      assert version < Server.version!(leader)
      for _ <- 1..20, do: assert(BeTree.search(follower, %{age: 1}) == {:ok, [1]})
      assert Server.count!(follower) == 1 + 1_000 * (version - 1)

      # The error remains until the index fits, after further attempts and a restart of the process too.
      Process.exit(Servers.process(follower), :kill)

      eventually(fn ->
        match?({:ok, %{connected: false, error: %Error{kind: :out_of_memory}}}, Server.info(follower))
      end)

      assert BeTree.search(follower, %{age: 1}) == {:ok, [1]}
      {:ok, _count} = Server.delete_all(leader, for({id, _text} <- many, id > 1_100, do: id))
      :ok = Server.insert(leader, 2, "age >= 1")
      assert Server.await(follower, Server.position!(leader)) == {:ok, Server.version!(leader)}
      assert %{connected: true, error: nil} = Server.info!(follower)
      assert BeTree.search(follower, %{age: 1}) == {:ok, [1, 2]}
      assert Server.ids(follower) == Server.ids(leader)
      # It follows on.
      for id <- 10..60, do: :ok = Server.put(leader, id, "age >= 1")
      assert {:ok, _version} = Server.await(follower, Server.position!(leader))
      assert BeTree.search(follower, %{age: 1}) == BeTree.search(leader, %{age: 1})
    end
  end

  # Each list comes after version 2, which has the ids 1 and 2.
  @forged [
    wrong_expression: [{3, [], [{7, "age >=", []}]}],
    wrong_after_a_deletion: [{3, [1], [{7, "size = 1", []}]}],
    existing_id: [{3, [], [{1, "age >= 1", []}]}],
    gap: [{4, [], [{7, "age >= 1", []}]}],
    repetition: [{2, [], [{7, "age >= 1", []}]}],
    torn: [{3, [], [{7, "age >= 1"}]}],
    improper: [{3, [1 | 2], []}],
    other_ids: [{3, [:a], []}],
    other_constants: [{3, [], [{7, "age >= 1", [{"a", 1.5}]}]}],
    good_and_wrong: [{3, [], [{7, "age >= 1", []}]}, {4, [], [{8, :age, []}]}],
    no_rows: [:row],
    no_list: :rows
  ]

  test "a follower that cannot apply a row restarts from the server's index" do
    leader = server()
    for id <- 1..2, do: :ok = Server.insert(leader, id, "age >= 1")

    followers =
      for {how, rows} <- @forged do
        follower = server(schema: nil, follow: {leader, node()})
        assert Server.await(follower, 2) == {:ok, 2}
        process = Servers.process(follower)
        %{courier: courier, bases: %{count: bases}} = :sys.get_state(process)
        send(process, {:rows, courier, rows})
        assert {^how, %{error: %Error{}, connected: false}} = {how, Server.info!(follower)}
        # No search fails or sees a change after the wrong one.
        assert {:ok, ids} = BeTree.search(follower, %{age: 1})
        assert {how, ids -- [7]} == {how, [1, 2]}
        {how, follower, process, bases}
      end

    :ok = Server.insert(leader, 3, "age >= 1")

    for {how, follower, process, bases} <- followers do
      eventually(fn ->
        match?(%{error: nil, connected: true, bases: later} when later > bases, Server.info!(follower))
      end)

      assert Server.await(follower, Server.position!(leader)) == {:ok, 3}
      assert {how, BeTree.search(follower, %{age: 1})} == {how, {:ok, [1, 2, 3]}}
      assert {how, Server.ids(follower)} == {how, {:ok, [1, 2, 3]}}
      assert {how, Servers.process(follower)} == {how, process}
    end
  end

  test "a follower without a log of replicas shows each change and can be followed" do
    leader = server()
    middle = server(schema: nil, follow: {leader, node()}, runtime: Plain)
    last = server(schema: nil, follow: {middle, node()})
    for server <- [middle, last], do: assert({:ok, _} = Server.await(server, 0))
    process = Servers.process(middle)
    for id <- 1..30, do: :ok = Server.insert(leader, id, "age >= 1")
    {:ok, _counts} = Server.change(leader, put: [{2, "age >= 9"}], delete: [1])

    for server <- [middle, last] do
      assert Server.await(server, Server.position!(leader)) == {:ok, 31}
      assert BeTree.search(server, %{age: 1}) == {:ok, Enum.to_list(3..30)}
      assert %{connected: true, error: nil, lag: 0, expressions: 29} = Server.info!(server)
    end

    assert Servers.process(middle) == process
    Process.exit(process, :kill)
    eventually(fn -> match?({:ok, %{connected: true}}, Server.info(middle)) end)
    :ok = Server.insert(leader, 31, "age >= 1")
    assert Server.await(last, Server.position!(leader)) == {:ok, 32}
    assert BeTree.search(last, %{age: 1}) == {:ok, Enum.to_list(3..31)}
  end

  for {name, options} <- [in_memory: [], in_a_folder: [durability: {:interval, 20}]] do
    @options options
    test "followers see atomic changes and lose none while the server's process is killed: #{name}",
         %{folder: folder} do
      leader = server(if(@options == [], do: [], else: [dir: folder] ++ @options))
      middle = server(schema: nil, follow: {leader, node()})
      last = server(schema: nil, follow: {middle, node()})
      for server <- [middle, last], do: assert({:ok, _} = Server.await(server, 0))
      stop = :atomics.new(1, [])

      # Every change replaces or deletes a pair of subscriptions, so a search finds both or neither.
      searchers =
        for server <- [leader, middle, last] do
          Task.async(fn ->
            Stream.repeatedly(fn ->
              {:ok, ids} = BeTree.search(server, %{age: 1})
              assert Enum.all?(Enum.chunk_by(ids, &div(&1, 2)), &match?([_, _], &1)), inspect(ids)
            end)
            |> Enum.find_index(fn _ -> :atomics.get(stop, 1) == 1 end)
          end)
        end

      model =
        for round <- 1..400, reduce: %{} do
          model ->
            if rem(round, 40) == 20, do: kill_in(leader, Enum.random(0..300))
            pair = :rand.uniform(40)
            {present, change} = change(pair, model[pair])

            case Server.change(leader, change) do
              {:ok, _counts} ->
                Map.put(model, pair, present)

              {:error, %Error{kind: kind}} when kind in [:no_server, :not_ready] ->
                eventually(fn -> match?({:ok, _}, Server.version(leader)) end)
                Map.put(model, pair, Server.member?(leader, 2 * pair))
            end
        end

      eventually(fn -> match?({:ok, _}, Server.position(leader)) end)
      expected = for {pair, true} <- Enum.sort(model), id <- [2 * pair, 2 * pair + 1], do: id

      for server <- [leader, middle, last] do
        assert {:ok, _version} = Server.await(server, Server.position!(leader))
        assert BeTree.search(server, %{age: 1}) == {:ok, expected}
        assert Server.ids(server) == {:ok, expected}
      end

      :atomics.put(stop, 1, 1)
      for searches <- Task.await_many(searchers, :infinity), do: assert(searches > 0)
    end
  end

  defp change(pair, true) do
    if :rand.uniform(2) == 1,
      do: {false, delete: [2 * pair, 2 * pair + 1]},
      else: {true, put: [{2 * pair, "age <= #{pair}"}, {2 * pair + 1, "age >= 0"}]}
  end

  defp change(pair, _absent), do: {true, put: [{2 * pair, "age >= 1"}, {2 * pair + 1, "age >= 1"}]}

  # Kills the process in the middle of one of the next changes.
  defp kill_in(server, microseconds) do
    pid = Servers.process(server)

    spawn(fn ->
      from = System.monotonic_time(:microsecond)
      wait = fn wait -> if System.monotonic_time(:microsecond) - from < microseconds, do: wait.(wait) end
      wait.(wait)
      if pid, do: Process.exit(pid, :kill)
    end)
  end

  test "a follower whose replicas refuse the log builds a base of its tree" do
    leader = server()
    follower = server(schema: nil, follow: {leader, node()})
    for id <- 1..2, do: :ok = Server.insert(leader, id, "age >= 1")
    assert Server.await(follower, 2) == {:ok, 2}
    process = Servers.process(follower)
    %{bases: %{maintainer: maintainer, base: %{index: %{instance: instance}}}} = :sys.get_state(process)
    send(process, {:unfit, maintainer, instance, %Error{kind: :out_of_memory, message: "too little"}})
    eventually(fn -> match?(%{base: 2, connected: true, error: nil}, Server.info!(follower)) end)
    assert BeTree.search(follower, %{age: 1}) == {:ok, [1, 2]}
    :ok = Server.insert(leader, 3, "age >= 1")
    assert Server.await(follower, 3) == {:ok, 3}
    assert BeTree.search(follower, %{age: 1}) == {:ok, [1, 2, 3]}
  end
end

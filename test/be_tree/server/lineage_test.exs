defmodule BeTree.Server.LineageTest do
  # Servers with a new lineage or restored from an older folder, with followers of followers.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Domain, Error, Server}
  alias BeTree.Journal.Owner
  alias BeTree.Server.{Lineage, Store}
  alias BeTree.Test.Servers

  @moduletag timeout: 300_000
  @schema [age: :integer]

  setup [:quiet, :folder]

  defp start(name, options) do
    start_supervised!({Server, Keyword.merge([name: name, schema: @schema], options)}, id: name)
    name
  end

  # Returns the names of a leader, its follower, and the follower's follower.
  defp chain(options \\ []) do
    leader = start(Servers.new_name(), options)
    middle = Servers.start(follow: {leader, node()})
    last = Servers.start(follow: {middle, node()})
    {leader, middle, last}
  end

  defp insert(leader, ids), do: for(id <- ids, do: :ok = Server.insert(leader, id, "age >= 1"))

  # Replaces the folder `to`. The lock's socket is not copied.
  defp copy(from, to) do
    File.rm_rf!(to)
    File.mkdir_p!(to)

    for path <- Path.wildcard(Path.join(from, "*")),
        File.regular?(path),
        do: File.cp!(path, Path.join(to, Path.basename(path)))
  end

  # Waits until the last follower has the leader's position, and checks all of them.
  defp shows({leader, middle, last}, ids) do
    {lineage, version} = position = Server.position!(leader)

    for server <- [middle, last] do
      assert Server.await(server, position) == {:ok, version}
      assert BeTree.search(server, %{age: 1}) == {:ok, ids}
      assert Server.ids(server) == {:ok, ids}
      eventually(fn -> match?(%{lineage: ^lineage, connected: true, error: nil}, Server.info!(server)) end)
    end
  end

  describe "followers of a server with a new lineage" do
    test "show its subscriptions, with fewer versions or more" do
      {leader, _middle, _last} = chain = chain()
      insert(leader, 1..20)
      shows(chain, Enum.to_list(1..20))

      for ids <- [101..105, 201..240, 301..340] do
        {lineage, _version} = Server.position!(leader)
        stop_supervised!(leader)
        start(leader, [])
        insert(leader, ids)
        shows(chain, Enum.to_list(ids))
        assert Server.info!(leader).lineage != lineage
      end
    end

    test "wake callers that wait for its positions" do
      {leader, _middle, last} = chain = chain()
      insert(leader, 1..20)
      shows(chain, Enum.to_list(1..20))
      stop_supervised!(leader)
      start(leader, [])
      {lineage, 0} = Server.position!(leader)
      task = Task.async(fn -> Server.await(last, {lineage, 3}) end)
      insert(leader, 31..33)
      assert Task.await(task, :infinity) == {:ok, 3}
      assert BeTree.search(last, %{age: 1}) == {:ok, [31, 32, 33]}
    end
  end

  describe "followers of a server with a folder" do
    test "resume without an index after its restart, and know earlier positions", %{folder: folder} do
      {leader, middle, last} = chain = chain(dir: folder)
      insert(leader, 1..10)
      shows(chain, Enum.to_list(1..10))
      bases = for server <- [middle, last], do: Server.info!(server).bases
      positions = [Server.position!(leader)]

      positions =
        for start <- 1..3, reduce: positions do
          [{lineage, version} | _] = positions ->
            # It also restarts without changes in between.
            for _ <- 1..2 do
              stop_supervised!(leader)
              start(leader, dir: folder)
              assert Server.position!(leader) == {lineage, version}
              shows(chain, Enum.to_list(1..(9 + start)))
            end

            insert(leader, [10 + start])
            assert Server.info!(leader).lineage != lineage
            shows(chain, Enum.to_list(1..(10 + start)))
            [Server.position!(leader) | positions]
        end

      for {_lineage, version} = position <- positions, server <- [leader, middle, last] do
        assert {:ok, present} = Server.await(server, position)
        assert present >= version
      end

      assert bases == for(server <- [middle, last], do: Server.info!(server).bases)
    end

    test "show the state of a restored backup and report lost positions", %{folder: folder} do
      backup = folder <> "_backup"
      on_exit(fn -> File.rm_rf!(backup) end)

      # The restored server makes fewer changes than were lost, as many, or more.
      for {more, round} <- Enum.with_index([2, 5, 9]) do
        dir = Path.join(folder, "#{round}")
        {leader, middle, last} = chain = chain(dir: dir)
        insert(leader, 1..10)
        kept = Server.position!(leader)
        stop_supervised!(leader)
        copy(dir, backup)
        start(leader, dir: dir)
        insert(leader, 11..15)
        lost = Server.position!(leader)
        shows(chain, Enum.to_list(1..15))

        stop_supervised!(leader)
        copy(backup, dir)
        start(leader, dir: dir)
        insert(leader, 101..(100 + more))
        shows(chain, Enum.to_list(1..10) ++ Enum.to_list(101..(100 + more)))

        for server <- [leader, middle, last] do
          assert Server.await(server, kept) == {:ok, 10 + more}
          # The lineage of the lost changes began after the backup.
          assert {:error, %Error{kind: :timeout}} = Server.await(server, lost, timeout: 1)
        end

        for server <- [last, middle], do: stop_supervised!(server)
        stop_supervised!(leader)
      end
    end

    test "follow a restored server and refuse a lost position", %{folder: folder} do
      {leader, middle, last} = chain = chain(dir: folder)
      insert(leader, 1..10)
      backup = folder <> "_backup"
      on_exit(fn -> File.rm_rf!(backup) end)
      # Without a restart in between, lost and kept changes have the same lineage.
      copy(folder, backup)
      insert(leader, 11..15)
      shows(chain, Enum.to_list(1..15))
      lost = Server.position!(leader)
      stop_supervised!(leader)
      copy(backup, folder)
      start(leader, dir: folder)
      insert(leader, 101..105)
      shows(chain, Enum.to_list(1..10) ++ Enum.to_list(101..105))

      for server <- [leader, middle, last] do
        assert {:error, %Error{kind: :not_found, message: message}} = Server.await(server, lost)
        assert message =~ "version 15" and message =~ "after version 10"
      end
    end
  end

  test "a folder without lineages is recovered with a new one", %{folder: folder} do
    {:ok, schema} = Domain.parse(@schema)
    {:ok, journal, ^schema} = Store.open(folder, schema, [], :integer, :sync)
    rows = for version <- 1..3, do: {version, [], [{version, "age >= 1", []}]}
    {:ok, journal} = Owner.append(journal, Store.records(rows, nil))
    :ok = Owner.close(journal)
    server = start(Servers.new_name(), dir: folder)
    assert BeTree.search(server, %{age: 1}) == {:ok, [1, 2, 3]}
    assert {_lineage, 3} = position = Server.position!(server)
    :ok = Server.insert(server, 4, "age >= 1")
    stop_supervised!(server)
    start(server, dir: folder)
    assert Server.await(server, position) == {:ok, 4}
  end

  test "followers of a restored server show its state before its first change", %{folder: folder} do
    {leader, middle, last} = chain = chain(dir: folder)
    insert(leader, 1..10)
    backup = folder <> "_backup"
    on_exit(fn -> File.rm_rf!(backup) end)
    copy(folder, backup)
    insert(leader, 11..15)
    shows(chain, Enum.to_list(1..15))
    stop_supervised!(leader)
    copy(backup, folder)
    start(leader, dir: folder)

    for server <- [middle, last] do
      eventually(fn -> BeTree.search(server, %{age: 1}) == {:ok, Enum.to_list(1..10)} end)
      eventually(fn -> match?(%{connected: true, error: nil, version: 10}, Server.info!(server)) end)
    end

    :ok = Server.swap(leader, BeTree.publish!(BeTree.new!(@schema)))
    for server <- [middle, last], do: assert(Server.await(server, Server.position!(leader)) == {:ok, 11})
    insert(leader, 21..30)
    for server <- [middle, last], do: assert(Server.await(server, Server.position!(leader)) == {:ok, 21})
    for server <- [middle, last], do: assert(BeTree.search(server, %{age: 1}) == {:ok, Enum.to_list(21..30)})
  end

  describe "a lineage's history" do
    test "includes the positions that lead to it, and no others" do
      history =
        [] |> Lineage.append("a", 0) |> Lineage.append("b", 10) |> Lineage.append("b", 12) |> Lineage.append("c", 20)

      assert history == [{"c", 20}, {"b", 10}, {"a", 0}]

      for position <- [{"c", 99}, {"c", 3}, {"b", 20}, {"b", 11}, {"a", 10}, {"a", 0}],
          do: assert(Lineage.includes?(history, position))

      for position <- [{"b", 21}, {"a", 11}, {"d", 0}, nil], do: refute(Lineage.includes?(history, position))
      assert Lineage.find(history, {"a", 11}) == {:ended, 10}
      assert Lineage.find(history, {"d", 0}) == :unknown
      refute Lineage.id(Lineage.begin(history, 1)) == Lineage.id(Lineage.begin(history, 1))
    end

    test "keeps only the last lineages" do
      history = for start <- 1..1_000, reduce: [], do: (history -> Lineage.begin(history, start))
      assert length(history) < 100
      assert [{_id, 1_000} | _] = history
    end
  end
end

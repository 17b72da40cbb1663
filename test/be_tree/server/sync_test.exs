defmodule BeTree.Server.SyncTest do
  # Catalogues: equal puts, `sync/3`, and `on_error: :collect`.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Logs, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Error, Server}
  alias BeTree.Test.{Attack, Servers, Tmpfs}

  @moduletag timeout: :infinity
  @schema [a: :integer]

  setup [:quiet, :folder]

  defp start(options \\ []), do: Servers.start(Keyword.merge([schema: @schema, replicas: 2], options))

  defp texts(name), do: for(id <- Server.ids!(name), into: %{}, do: {id, Server.fetch!(name, id)})

  defp kinds(faults), do: for({id, error} <- faults, do: {id, error.kind})

  # The bytes of a folder, and the version: nothing was written if both are the same.
  defp written(name, folder) do
    bytes = folder |> Path.join("**") |> Path.wildcard() |> Enum.map(&File.stat!(&1).size) |> Enum.sum()
    {bytes, Server.version!(name)}
  end

  # An oracle of searches: the texts are `a = n`.
  defp matches(model, n), do: for({id, text} <- Enum.sort(model), text == "a = #{n}", do: id)

  describe "change/2" do
    test "writes nothing for subscriptions that are there already", %{folder: folder} do
      name = start(dir: folder)
      rows = for id <- 1..500, do: {id, "a = #{id}", constants: [limit: 1_000, other: id]}
      {:ok, 500} = Server.insert_all(name, rows)
      before = written(name, folder)
      assert Server.change(name, put: rows) == {:ok, %{put: 0, deleted: 0, unchanged: 500}}
      # The order and the form of constants do not matter.
      assert Server.put(name, 1, "a = 1", constants: %{"other" => 1, "limit" => 1_000}) == :ok
      assert Server.put_all(name, rows) == {:ok, 500}
      assert written(name, folder) == before

      assert Server.change(name, put: [{1, "a = 2"} | tl(rows)], delete: []) ==
               {:ok, %{put: 1, deleted: 0, unchanged: 499}}

      assert {_bytes, 2} = written(name, folder)
    end

    test "replaces a subscription whose constants differ" do
      name = start()
      :ok = Server.put(name, 1, "a = 1", constants: [limit: 10])
      :ok = Server.put(name, 1, "a = 1", constants: [limit: 20])
      :ok = Server.put(name, 1, "a = 1", constants: [limit: 20])
      :ok = Server.put(name, 1, "a = 1")
      assert Server.version!(name) == 3
    end

    test "compares with changes that wait for the same sync", %{folder: folder} do
      name = start(dir: folder)
      # All of them are in the mailbox before the first is made.
      :ok = :sys.suspend(Servers.process(name))
      puts = for n <- [1, 1, 2, 2, 1], do: queue(name, fn -> Server.put(name, 1, "a = #{n}") end)
      :ok = :sys.resume(Servers.process(name))
      assert Task.await_many(puts, :infinity) == [:ok, :ok, :ok, :ok, :ok]
      assert Server.version!(name) == 3
      assert texts(name) == %{1 => "a = 1"}
    end

    test "names the position of the first wrong subscription in the list" do
      name = start()
      {:ok, 2} = Server.insert_all(name, [{1, "a = 1"}, {2, "a = 2"}])
      {:error, error} = Server.change(name, put: [{1, "a = 1"}, {2, "a = 2"}, {3, "a = 3"}, {4, "a ="}])
      assert {error.kind, error.position} == {:syntax, 3}
      {:error, error} = Server.change(name, put: [{1, "a = 1"}, {2, "a = 9"}, {4, "a ="}])
      assert {error.kind, error.position} == {:syntax, 2}
      assert texts(name) == %{1 => "a = 1", 2 => "a = 2"}
    end

    for ids <- [:integer, :term] do
      test "with on_error: :collect leaves out what is wrong, with ids of #{ids}" do
        name = start(ids: unquote(ids))
        {:ok, 3} = Server.insert_all(name, for(id <- 1..3, do: {id, "a = #{id}"}))
        good = for id <- 10..250, do: {id, "a = #{id}"}
        put = [{1, "a = 1"}, {4, "a ="}, {5, "b = 5"}, {6, 7}, :none, {2, "a = 9"}, {2, "a = 8"} | good]

        {:ok, counts} = Server.change(name, put: put, delete: [3, 3, 9, 2], on_error: :collect)
        assert {counts.put, counts.deleted, counts.unchanged} == {242, 1, 1}

        assert Enum.sort(kinds(counts.faults)) ==
                 Enum.sort([
                   {4, :syntax},
                   {5, :unknown_attribute},
                   {6, :type},
                   {nil, :type},
                   {2, :duplicate_id},
                   {2, :duplicate_id},
                   {3, :duplicate_id},
                   {9, :not_found}
                 ])

        assert {nil, %Error{position: 4}} = List.keyfind(counts.faults, nil, 0)
        assert {4, %Error{text: "a =", column: 4, position: nil}} = List.keyfind(counts.faults, 4, 0)
        assert Map.drop(texts(name), Enum.to_list(10..250)) == %{1 => "a = 1", 2 => "a = 9"}
        assert Server.version!(name) == 2
      end
    end

    test "with on_error: :collect returns errors of the whole call" do
      name = start()
      assert {:error, %Error{kind: :type}} = Server.change(name, put: :none, on_error: :collect)
      assert {:error, %Error{kind: :type}} = Server.change(name, delete: 7, on_error: :collect)
      assert {:error, %Error{kind: :no_server}} = Server.change(:no_such_server, put: [], on_error: :collect)
    end
  end

  # Sends a call to a suspended server, and returns when its request is in the mailbox.
  defp queue(name, call) do
    process = Servers.process(name)
    {:message_queue_len, before} = Process.info(process, :message_queue_len)
    task = Task.async(call)
    eventually(fn -> Process.info(process, :message_queue_len) == {:message_queue_len, before + 1} end)
    task
  end

  describe "sync/3" do
    for ids <- [:integer, :term] do
      test "brings random catalogues to a folder that replays them, with ids of #{ids}", %{folder: folder} do
        seed = Attack.seed()
        options = [dir: folder, ids: unquote(ids)]
        name = start(options)

        model =
          Enum.reduce(1..Attack.size(20, 400), %{}, fn round, before ->
            :rand.seed(:exsss, {seed, round, 1})
            catalogue = for id <- 1..60, :rand.uniform(4) > 1, into: %{}, do: {id, "a = #{:rand.uniform(3)}"}
            put = Enum.count(catalogue, fn {id, text} -> before[id] != text end)
            deleted = Enum.count(before, fn {id, _text} -> not is_map_key(catalogue, id) end)
            version = Server.version!(name)
            counts = %{put: put, deleted: deleted, unchanged: map_size(catalogue) - put}
            rows = catalogue |> Enum.shuffle() |> Stream.map(& &1)
            assert Server.sync(name, rows) == {:ok, counts}, "BE_TREE_SEED=#{seed}, round #{round}"
            assert Server.version!(name) == version + if(put + deleted == 0, do: 0, else: 1)
            assert texts(name) == catalogue
            for n <- 1..3, do: assert(BeTree.search!(name, %{a: n}) == matches(catalogue, n))
            assert Server.sync(name, rows) == {:ok, %{put: 0, deleted: 0, unchanged: map_size(catalogue)}}
            catalogue
          end)

        stop_supervised!(name)
        again = start(options)
        assert texts(again) == model
        for n <- 1..3, do: assert(BeTree.search!(again, %{a: n}) == matches(model, n))
      end
    end

    test "writes only the difference", %{folder: folder} do
      name = start(dir: folder)
      rows = for id <- 1..2_000, do: {id, "a = #{id}"}
      {:ok, %{put: 2_000}} = Server.sync(name, rows)
      {bytes, 1} = before = written(name, folder)
      {:ok, %{unchanged: 2_000}} = Server.sync(name, rows)
      assert written(name, folder) == before
      {:ok, %{put: 1, deleted: 1}} = Server.sync(name, [{1, "a = 7"} | Enum.drop(rows, 2)])
      {more, 2} = written(name, folder)
      assert more - bytes < 500
    end

    test "leaves each id as it is that another call changes meanwhile" do
      name = start()
      {:ok, 6} = Server.insert_all(name, for(id <- 1..6, do: {id, "a = #{id}"}))

      # The list differs in 1 and 2, has 3 and 4 as they are, lacks 5 and 6, and has the new 7 and 8.
      rows = [{1, "a = 10"}, {2, "a = 20"}, {3, "a = 3"}, {4, "a = 4"}, {7, "a = 7"}, {8, "a = 8"}]

      meanwhile = fn ->
        :ok = Server.put(name, 1, "a = 100")
        :ok = Server.delete(name, 2)
        :ok = Server.delete(name, 3)
        :ok = Server.put(name, 5, "a = 500")
        :ok = Server.insert(name, 7, "a = 700")
        :ok = Server.insert(name, 9, "a = 900")
      end

      for at <- [1, 3, 8] do
        {:ok, _counts} = Server.sync(name, for(id <- 1..6, do: {id, "a = #{id}"}))

        rows =
          Stream.map(rows, fn {id, _text} = row ->
            if id == at, do: Task.await(Task.async(meanwhile), :infinity)
            row
          end)

        assert {:ok, _counts} = Server.sync(name, rows)

        assert texts(name) == %{
                 1 => "a = 100",
                 4 => "a = 4",
                 5 => "a = 500",
                 7 => "a = 700",
                 8 => "a = 8",
                 9 => "a = 900"
               }
      end
    end

    test "with on_error: :collect keeps a subscription whose row is wrong, and lists it in faults/2" do
      name = start()
      {:ok, 4} = Server.insert_all(name, for(id <- 1..4, do: {id, "a = #{id}"}))
      rows = [{1, "a ="}, {2, 7}, {3, "a = 30"}, {5, "b = 5"}, {3, "a = 31"}]
      {:ok, %{faults: faults} = counts} = Server.sync(name, rows, on_error: :collect)
      assert Map.delete(counts, :faults) == %{put: 1, deleted: 1, unchanged: 0}

      assert Enum.sort(kinds(faults)) ==
               Enum.sort([{1, :syntax}, {2, :type}, {5, :unknown_attribute}, {3, :duplicate_id}])

      assert texts(name) == %{1 => "a = 1", 2 => "a = 2", 3 => "a = 30"}
      assert Server.faults(name) == {:ok, faults}
      {:ok, %{faults: []}} = Server.sync(name, [{1, "a = 1"}], on_error: :collect)
      assert Server.faults(name) == {:ok, []}
    end

    test "with on_error: :collect deletes nothing when a row has a wrong id or none", %{folder: folder} do
      terms = [ids: :term, dir: folder]

      for {options, wrong, id} <- [{[], {"4", "a = 4"}, "4"}, {[], :none, nil}, {terms, {self(), "a = 4"}, self()}] do
        name = start(options)
        {:ok, 4} = Server.insert_all(name, for(id <- 1..4, do: {id, "a = #{id}"}))
        {:ok, %{faults: [{^id, error}]} = counts} = Server.sync(name, [{1, "a = 10"}, wrong], on_error: :collect)
        assert error.kind == :type
        assert Map.delete(counts, :faults) == %{put: 1, deleted: 0, unchanged: 0}
        assert texts(name) == %{1 => "a = 10", 2 => "a = 2", 3 => "a = 3", 4 => "a = 4"}
      end
    end

    test "changes nothing after an error, and names the position of the row" do
      name = start()
      {:ok, 2} = Server.insert_all(name, [{1, "a = 1"}, {2, "a = 2"}])
      tables = length(:ets.all())

      for {rows, kind} <- [
            {[{1, "a = 1"}, {3, "a = 3"}, {4, "a ="}], :syntax},
            {[{1, "a = 9"}, {3, "a = 3"}, :none], :type},
            {[{1, "a = 9"}, {3, "a = 3"}, {1, "a = 1"}], :duplicate_id}
          ] do
        assert {:error, %Error{kind: ^kind, position: 2}} = Server.sync(name, rows)
      end

      assert {:error, %Error{kind: :type}} = Server.sync(name, :none)

      assert {:error, %Error{kind: :timeout}} =
               Server.sync(name, Stream.cycle([{1, "a = 1"}]) |> with_ids(), timeout: 50)

      raising = Stream.map([{1, "a = 9"}, nil], fn {id, text} -> {id, text} end)
      assert_raise FunctionClauseError, fn -> Server.sync(name, raising) end
      assert texts(name) == %{1 => "a = 1", 2 => "a = 2"}
      assert Server.version!(name) == 1
      eventually(fn -> length(:ets.all()) <= tables + 20 end)
    end

    # A stream without an end.
    defp with_ids(rows), do: rows |> Stream.with_index() |> Stream.map(fn {{_id, text}, id} -> {id, text} end)

    test "returns an error when the server ends or begins anew while the rows are read" do
      name = Servers.new_name()
      spec = {Server, name: name, schema: @schema, load: {__MODULE__, :right_rules, []}}

      for again <- [false, true], at <- [1, 2] do
        start_supervised!(spec)

        end_server = fn row ->
          if elem(row, 0) == at do
            stop_supervised!({Server, name})
            if again, do: start_supervised!(spec)
          end

          row
        end

        rows = Stream.map([{1, "a = 3"}, {2, "a = 2"}], end_server)
        assert {:error, %Error{kind: :no_server}} = Server.sync(name, rows)
        if again, do: assert(texts(name) == %{1 => "a = 1"})
        if again, do: stop_supervised!({Server, name})
      end
    end

    test "refuses a server without texts, and one that follows" do
      name = start()
      tree = BeTree.new!(@schema)
      BeTree.insert!(tree, 1, "a = 1")
      :ok = Server.swap(name, BeTree.publish!(tree))
      assert {:error, %Error{kind: :not_found}} = Server.sync(name, [])
      follower = Servers.new_name()
      start_supervised!({Server, name: follower, follow: {name, node()}})
      assert_raise ArgumentError, ~r/follows/, fn -> Server.sync(follower, []) end
      assert {:error, %Error{kind: :no_server}} = Server.sync(:no_such_server, [])
    end

    test "makes all or nothing when the server's process is killed", %{folder: folder} do
      options = [dir: folder, max_restarts: 1_000_000_000]
      name = start(options)
      seed = Attack.seed()

      Enum.reduce(1..Attack.size(15, 500), %{}, fn round, before ->
        :rand.seed(:exsss, {seed, round, 2})
        catalogue = for id <- 1..400, :rand.uniform(3) > 1, into: %{}, do: {id, "a = #{:rand.uniform(3)}"}
        process = Servers.process(name)
        {:reductions, reductions} = Process.info(process, :reductions)
        # Up to about the reductions of a sync.
        wait = :rand.uniform(400_000)
        killer = Task.async(fn -> kill_after(process, reductions + wait) end)
        outcome = Server.sync(name, catalogue)
        Task.shutdown(killer, :brutal_kill)
        eventually(fn -> match?({:ok, _info}, Server.info(name)) end)
        present = texts(name)
        where = "BE_TREE_SEED=#{seed}, round #{round}"

        case outcome do
          {:ok, _counts} -> assert present == catalogue, where
          {:error, %Error{kind: :no_server}} -> assert present in [before, catalogue], where
        end

        for n <- 1..3, do: assert(BeTree.search!(name, %{a: n}) == matches(present, n), where)
        # The folder has the same.
        if rem(round, 5) == 0 do
          stop_supervised!(name)
          start_supervised!({Server, [name: name, schema: @schema, replicas: 2] ++ options}, id: name)
          assert texts(name) == present, where
        end

        present
      end)
    end

    # Kills a process when it has used this number of reductions.
    defp kill_after(process, reductions) do
      case Process.info(process, :reductions) do
        {:reductions, used} when used < reductions -> kill_after(process, reductions)
        nil -> :ok
        _reached -> Process.exit(process, :kill)
      end
    end

    test "changes nothing on a full disk, and succeeds where nothing differs", %{folder: folder} do
      Tmpfs.with_room(folder, "256k", fn folder ->
        options = [schema: @schema, dir: folder]
        {:ok, _pid} = Server.start_link([name: name = Servers.new_name()] ++ options)
        rows = for id <- 1..20, do: {id, "a = #{id}"}
        {:ok, %{put: 20}} = Server.sync(name, rows)
        File.write!(Path.join(folder, "ballast"), :binary.copy("x", 150_000))
        large = for id <- 1..40, do: {id, "a = 1 or a = #{String.duplicate("0", 5_000)}#{id}"}
        assert {:error, %Error{kind: :file}} = Server.sync(name, large)
        assert texts(name) == Map.new(rows)
        assert {:ok, %{unchanged: 20}} = Server.sync(name, rows)

        # The second put equals a change that waits for the disk, and fails with it.
        :ok = :sys.suspend(Servers.process(name))
        text = "a = 1 or a = #{String.duplicate("0", 200_000)}1"
        puts = for _ <- 1..2, do: queue(name, fn -> Server.put(name, 1, text) end)
        :ok = :sys.resume(Servers.process(name))
        for outcome <- Task.await_many(puts, :infinity), do: assert({:error, %Error{kind: :file}} = outcome)

        assert texts(name) == Map.new(rows)
        for id <- 1..20, do: assert(BeTree.search!(name, %{a: id}) == [id])
        :ok = Server.stop(name)
        {:ok, _pid} = Server.start_link([name: name] ++ options)
        assert texts(name) == Map.new(rows)
        :ok = Server.stop(name)
      end)
    end

    test "holds no row of a stream that it has compared" do
      name = start()
      constants = for n <- 1..20, do: {"constant_#{n}", n}
      row = fn id -> {id, "a = #{id}", constants: Enum.map(constants, fn {name, n} -> {name <> "#{id}", n} end)} end
      size = 5_000
      {:ok, ^size} = Server.insert_all(name, Enum.map(1..size, row))
      all = 1..size |> Enum.map(row) |> :erts_debug.flat_size() |> Kernel.*(:erlang.system_info(:wordsize))
      tester = self()

      rows =
        Stream.map(1..size, fn id ->
          if rem(id, 1_000) == 0 do
            :erlang.garbage_collect()
            send(tester, Process.info(self(), :memory))
          end

          row.(id)
        end)

      task = Task.async(fn -> Server.sync(name, rows) end)
      assert Task.await(task, :infinity) == {:ok, %{put: 0, deleted: 0, unchanged: size}}

      for _ <- 1..5 do
        assert_received {:memory, bytes}
        assert bytes < div(all, 5)
      end
    end
  end

  @doc false
  def rules, do: [{1, "a = 1"}, {2, "a ="}, {3, "b = 3"}, {4, "a = 4"}, {1, "a = 9"}, {5, :no_text}]
  @doc false
  def rules_in_ok, do: {:ok, Stream.map(rules(), & &1)}
  @doc false
  def strings, do: [{1, "s = 'a'"}, {2, "s = 'b'"}, {3, "s = 'c'"}, {4, "s = 'a'"}]
  @doc false
  def right_rules, do: [{1, "a = 1"}]

  describe "start_link/1 with a load: and on_error: :collect" do
    for function <- [:rules, :rules_in_ok], ids <- [:integer, :term] do
      test "starts without the wrong subscriptions of #{function}/0, with ids of #{ids}" do
        name = Servers.new_name()
        options = [name: name, schema: @schema, ids: unquote(ids), load: {__MODULE__, unquote(function), []}]

        {_pid, lines} =
          with_log(inspect(name), fn -> start_supervised!({Server, options ++ [on_error: :collect]}, id: name) end)

        assert [line] = lines
        assert line =~ "has left out 4 wrong subscriptions; BeTree.Server.faults(#{inspect(name)}) returns them"
        assert texts(name) == %{1 => "a = 1", 4 => "a = 4"}
        {:ok, faults} = Server.faults(name)
        assert Enum.sort(kinds(faults)) == [{1, :duplicate_id}, {2, :syntax}, {3, :unknown_attribute}, {5, :type}]
        # They stay when the server's process starts again.
        name |> Servers.process() |> Process.exit(:kill)
        eventually(fn -> match?({:ok, %{expressions: 2}}, Server.info(name)) end)
        assert Server.faults(name) == {:ok, faults}
        {:ok, %{faults: []}} = Server.sync(name, [{1, "a = 1"}, {2, "a = 2"}], on_error: :collect)
        assert Server.faults(name) == {:ok, []}
      end
    end

    test "leaves out a subscription that the index refuses because of those before it" do
      schema = [s: {:string, count: 2}]
      options = [schema: schema, load: {__MODULE__, :strings, []}, on_error: :collect]
      name = Servers.start(options)
      assert Server.ids!(name) == [1, 2, 4]
      {:ok, [{3, error}]} = Server.faults(name)
      assert error.text == "s = 'c'" and error.position == nil
      # A change of a server is refused as a whole.
      assert {:error, %Error{position: 0}} = Server.change(name, put: [{5, "s = 'd'"}], on_error: :collect)
    end

    test "has no faults where all subscriptions are right" do
      name = start(load: {__MODULE__, :right_rules, []}, on_error: :collect)
      assert Server.faults(name) == {:ok, []}
      assert texts(name) == %{1 => "a = 1"}
    end

    test "fails without it" do
      Process.flag(:trap_exit, true)
      options = [name: Servers.new_name(), schema: @schema, load: {__MODULE__, :rules, []}]
      assert {:error, %Error{kind: :type, position: 5}} = Server.start_link(options)
    end
  end
end

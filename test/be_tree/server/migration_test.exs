defmodule BeTree.Server.MigrationTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Domain, Error, Server}
  alias BeTree.Server.{Migration, Table}
  alias BeTree.Test.{Attack, Kill, Random, Servers, Tmpfs}

  @moduletag timeout: :infinity
  @old [a: {:integer, min: 0, max: 9}, s: {:string, optional: true}]
  @new [b: {:integer, optional: true}, a: {:integer, min: 0, max: 99}, s: {:string, optional: true}]
  @texts [{1, "a = 1"}, {2, "a > 0 and s = 'x'"}, {3, "not (a = 1)"}]

  setup [:quiet, :folder]

  defp start(options), do: Servers.start(Keyword.merge([schema: @old], options))
  defp stop(name), do: stop_supervised!(name)

  defp filled(options) do
    name = start(options)
    Server.insert_all!(name, @texts)
    name
  end

  defp texts(name), do: for(id <- Server.ids!(name), do: {id, Server.fetch!(name, id)})

  defp schema?(name, schema) do
    {:ok, schema} = Domain.parse(schema)
    Server.schema!(name) == schema
  end

  defp files(folder), do: for(name <- File.ls!(folder), into: %{}, do: {name, File.read!(Path.join(folder, name))})

  # A supervisor ends with the process that started it.
  defp refused(options) do
    Process.flag(:trap_exit, true)
    {:error, %Error{} = error} = Server.start_link([name: Servers.new_name()] ++ options)
    error
  end

  # The age of the journal changes with time.
  defp info(name), do: update_in(Server.info!(name).journal, &Map.delete(&1, :age))

  describe "migrate/3" do
    test "adds an attribute and widens bounds" do
      name = filled([])
      assert {:error, %Error{kind: :out_of_bounds}} = Server.insert(name, 4, "a = 50")
      assert Server.migrate(name, @new) == :ok
      assert schema?(name, @new)
      :ok = Server.insert(name, 4, "a = 50 and b = 7")
      assert BeTree.search(name, %{a: 50, b: 7, s: "x"}) == {:ok, [2, 3, 4]}
      assert texts(name) == @texts ++ [{4, "a = 50 and b = 7"}]
      assert Server.version!(name) == 3
    end

    test "removes an attribute that no expression uses, and changes a type that all expressions allow" do
      name = start(schema: [a: :integer, b: :integer, c: :boolean])
      Server.insert_all!(name, [{1, "a > 0"}, {2, "a in (1, 2)"}])
      assert Server.migrate(name, [c: :boolean] ++ [a: :float]) == {:error, migrate_error(name, c: :boolean, a: :float)}
      Server.delete!(name, 2)
      assert Server.migrate(name, c: :boolean, a: :float) == :ok
      assert BeTree.search(name, %{a: 0.5, c: true}) == {:ok, [1]}
    end

    defp migrate_error(name, schema) do
      {:error, error} = Server.migrate(name, schema)
      error
    end

    test "lists all subscriptions that do not fit, names five of them, and changes nothing", %{folder: folder} do
      name = start(dir: folder)

      Server.insert_all!(
        name,
        for(id <- 1..250, do: {id, if(rem(id, 2) == 0, do: "a = #{rem(id, 10)}", else: "s = 'x'")})
      )

      before = {texts(name), Server.position!(name), info(name), files(folder)}

      assert {:error, %Error{kind: :schema_change, message: message, faults: faults}} =
               Server.migrate(name, a: :integer)

      assert message =~ "125 subscriptions do not fit" and message =~ "change or delete them first"
      assert message =~ "1, 3, 5, 7, 9: the schema has no attribute `s`" and message =~ "; and 120 more"

      assert for({id, error} <- faults, do: {id, error.kind, error.text, error.column}) ==
               for(id <- 1..250//2, do: {id, :unknown_attribute, "s = 'x'", 1})

      assert {texts(name), Server.position!(name), info(name), files(folder)} == before
      assert schema?(name, @old)
      assert {:ok, [_ | _]} = BeTree.search(name, %{a: 1, s: "x"})
    end

    test "lists faults by ids that are terms, in their order" do
      name = start(ids: :term)
      Server.insert_all!(name, [{{:rule, "b"}, "s = 'b'"}, {"c", "s = 'c'"}, {:a, "s = 'a'"}, {:d, "a = 1"}])
      assert {:error, %Error{faults: faults, message: message}} = Server.migrate(name, a: :integer)
      assert Enum.map(faults, &elem(&1, 0)) == [:a, {:rule, "b"}, "c"]
      assert message =~ ~s(:a, {:rule, "b"}, "c": the schema)
      Server.delete_all!(name, [:a, {:rule, "b"}])
      Server.put!(name, "c", "a = 2")
      assert Server.migrate(name, a: :integer) == :ok
      assert {BeTree.search(name, %{a: 1}), BeTree.search(name, %{a: 2})} == {{:ok, [:d]}, {:ok, ["c"]}}
    end

    test "to the present schema is no change" do
      name = filled([])
      position = Server.position!(name)
      assert Server.migrate(name, @old) == :ok
      assert Server.position!(name) == position
    end

    test "refuses a wrong schema, a follower, and an index that was swapped in without texts" do
      name = filled([])
      assert {:error, %Error{kind: :type}} = Server.migrate(name, a: :number)
      follower = Servers.start(follow: {name, node()})
      assert {:ok, _version} = Server.await(follower, Server.position!(name))
      assert_raise ArgumentError, ~r/follows/, fn -> Server.migrate(follower, @new) end
      assert_raise ArgumentError, fn -> Server.migrate(name, @new, wrong: 1) end
      Server.swap!(name, BeTree.publish!(BeTree.new!(@old)))
      assert {:error, %Error{kind: :not_found}} = Server.migrate(name, @new)
      assert Server.migrate(name, @old) == :ok
      assert {:error, %Error{kind: :no_server}} = Server.migrate(:no_such_server, @new)
    end

    test "keeps constants" do
      schema = [now: :integer, frequency_caps: :frequency_caps, a: {:integer, optional: true}]
      name = start(schema: schema)
      text = "within_frequency_cap('flight', 'ns', 1, 0)"
      :ok = Server.insert(name, 1, text, constants: [flight_id: 10])
      assert Server.migrate(name, schema ++ [b: {:integer, optional: true}]) == :ok
      event = %{now: 0, frequency_caps: []}
      tree = BeTree.new!(schema)
      BeTree.insert!(tree, 1, text, constants: [flight_id: 10])
      assert BeTree.search(name, event) == BeTree.search(tree, event)
    end

    test "a prepared event of the old schema is refused" do
      name = filled([])
      {:ok, event} = BeTree.Event.prepare(name, %{a: 1})
      assert BeTree.search(name, event) == {:ok, [1]}
      :ok = Server.migrate(name, @new)
      assert {:error, %Error{}} = BeTree.search(name, event)
    end

    test "another migration ends one that runs" do
      name = filled([])
      pid = Servers.process(name)
      :sys.suspend(pid)
      # Both requests are in the mailbox before the first is handled.
      tasks =
        for schema <- [@new, [c: {:float, optional: true}] ++ @new], do: Task.async(Server, :migrate, [name, schema])

      eventually(fn -> pid |> Process.info(:message_queue_len) |> elem(1) >= 2 end)
      :sys.resume(pid)
      results = Task.await_many(tasks, :infinity)
      assert Enum.count(results, &(&1 == :ok)) == 1
      assert Enum.count(results, &match?({:error, %Error{kind: :overloaded}}, &1)) == 1
    end
  end

  describe "searches and changes during a migration" do
    test "see the old schema or the new one, and lose nothing" do
      name = start([])
      Server.insert_all!(name, for(id <- 1..2_000, do: {id, "a = #{rem(id, 10)}"}))
      stop = :atomics.new(1, [])
      changes = Task.async(fn -> change(name, 10_000, stop) end)

      searches =
        for a <- 1..2 do
          expected = Enum.filter(1..2_000, &(rem(&1, 10) == a))
          Task.async(fn -> search(name, %{a: a}, expected, stop, 0) end)
        end

      for number <- 1..4 do
        assert Server.migrate(name, if(rem(number, 2) == 1, do: @new, else: @old)) == :ok
      end

      :atomics.put(stop, 1, 1)
      assert searches |> Task.await_many(:infinity) |> Enum.all?(&(&1 > 0))
      last = Task.await(changes, :infinity)
      assert Server.count!(name) == 2_000 + last - 10_000
      assert BeTree.search!(name, %{a: 0}) == Enum.to_list(10..2_000//10) ++ Enum.to_list(10_000..(last - 1)//1)
    end

    defp change(name, id, stop) do
      :ok = Server.insert(name, id, "a = 0")
      if :atomics.get(stop, 1) == 1, do: id + 1, else: change(name, id + 1, stop)
    end

    defp search(name, event, expected, stop, count) do
      assert BeTree.search(name, event) == {:ok, expected}
      if :atomics.get(stop, 1) == 1, do: count + 1, else: search(name, event, expected, stop, count + 1)
    end

    # The server's process calls the same functions, with the changes that came while the builder worked.
    test "are checked under the new schema before the swap" do
      name = filled([])
      {:ok, table} = Table.fetch(name)
      %{options: options, replication: %{version: version}} = :sys.get_state(Servers.process(name))
      {:ok, narrow} = Domain.parse(a: {:integer, max: 5}, s: {:string, optional: true})
      build = fn -> Migration.build(narrow, Table.base(table).index, table, Server.version!(name), options) end
      assert {:ok, made} = build.()
      assert {:ok, index, _primary} = Migration.complete(made, table, version, options)
      assert index.schema == narrow

      {:ok, made} = build.()
      :ok = Server.insert(name, 4, "a = 9")
      {:ok, _counts} = Server.change(name, put: [{1, "a = 8"}, {5, "a = 2"}], delete: [3])
      assert {:error, %Error{faults: [{1, _}, {4, _}]}} = Migration.complete(made, table, version + 2, options)

      # Later changes remove the faults.
      assert {:error, %Error{faults: [{1, _}, {4, _}]}} = build.()
      {:ok, _counts} = Server.change(name, put: [{1, "a = 3"}], delete: [4])
      {:ok, made} = build.()
      :ok = Server.insert(name, 6, "a = 9")
      {:ok, _counts} = Server.change(name, put: [{5, "a = 9"}], delete: [])
      {:ok, _counts} = Server.change(name, put: [{5, "a = 1"}], delete: [6])
      assert {:ok, index, _primary} = Migration.complete(made, table, version + 6, options)
      assert index.info.expressions == 3
    end
  end

  describe "a folder" do
    for durability <- [:sync, {:interval, 5}, :none] do
      test "has the new schema after migrate/3, with #{inspect(durability)}", %{folder: folder} do
        options = [dir: folder, durability: unquote(Macro.escape(durability))]
        name = filled(options)
        :ok = Server.migrate(name, @new)
        :ok = Server.insert(name, 4, "b = 7")
        {lineage, 3} = Server.position!(name)
        stop(name)

        error = refused([schema: @old] ++ options)
        assert error.kind == :other_schema and error.message =~ "schema_change: :migrate"
        name = start([schema: @new] ++ options)
        assert {^lineage, 3} = Server.position!(name)
        assert texts(name) == @texts ++ [{4, "b = 7"}]
        assert BeTree.search(name, %{a: 50, b: 7}) == {:ok, [3, 4]}
        :ok = Server.delete(name, 4)
        :ok = Server.migrate(name, @old)
        stop(name)
        name = start([schema: @old] ++ options)
        assert texts(name) == @texts
      end
    end

    test "moves to the schema of the start with schema_change: :migrate", %{folder: folder} do
      options = [dir: folder, schema_change: :migrate]
      name = filled(options)
      stop(name)
      name = start([schema: @new] ++ options)
      assert schema?(name, @new) and texts(name) == @texts and Server.version!(name) == 2
      assert BeTree.search(name, %{a: 50, s: "x"}) == {:ok, [2, 3]}
      :ok = Server.insert(name, 4, "b = 7")
      # Its process starts again with the schema of the folder.
      Kill.kill(Servers.process(name))
      eventually(fn -> match?({:ok, 3}, Server.version(name)) end)
      stop(name)
      name = start(schema: @new, dir: folder)
      assert texts(name) == @texts ++ [{4, "b = 7"}]
    end

    test "with ids that are terms moves too", %{folder: folder} do
      name = start(dir: folder, ids: :term)
      :ok = Server.insert(name, {:rule, 1}, "a = 1")
      stop(name)
      assert refused(schema: @new, dir: folder, schema_change: :migrate).message =~ "ids: :term"
      name = start(schema: @new, dir: folder, ids: :term, schema_change: :migrate)
      assert BeTree.search(name, %{a: 1}) == {:ok, [{:rule, 1}]}
    end

    test "is unchanged when a start refuses its subscriptions", %{folder: folder} do
      name = start(dir: folder)
      Server.insert_all!(name, for(id <- 1..150, do: {id, "s = 'x'"}))
      :ok = Server.insert(name, 151, "a = 1")
      stop(name)
      before = files(folder)
      error = refused(schema: [a: :integer], dir: folder, schema_change: :migrate)
      assert error.kind == :schema_change and error.message =~ "150 subscriptions do not fit"
      assert error.message =~ "start the server with the schema of the folder, change or delete them"
      assert Enum.map(error.faults, &elem(&1, 0)) == Enum.to_list(1..100)
      assert files(folder) == before
      name = start(dir: folder)
      assert length(texts(name)) == 151
    end

    test "of an index that was swapped in does not move", %{folder: folder} do
      name = start(dir: folder)
      tree = BeTree.new!(@old)
      BeTree.insert!(tree, 7, "a = 1")
      :ok = Server.swap(name, BeTree.publish!(tree))
      stop(name)
      assert refused(schema: @new, dir: folder, schema_change: :migrate).kind == :not_found
      name = start(dir: folder)
      assert BeTree.search(name, %{a: 1}) == {:ok, [7]}
    end

    test "that is full keeps the old schema, and takes the new one when there is room", %{folder: folder} do
      Tmpfs.with_room(folder, "16m", fn folder ->
        name = start(dir: folder)
        Server.insert_all!(name, @texts)
        filler = Path.join(folder, "filler")
        {_output, _status} = System.cmd("dd", ["if=/dev/zero", "of=#{filler}", "bs=4k"], stderr_to_stdout: true)
        assert {:error, %Error{kind: :file}} = Server.migrate(name, @new)
        assert schema?(name, @old)
        assert BeTree.search(name, %{a: 1}) == {:ok, [1]}
        File.rm!(filler)
        :ok = Server.insert(name, 4, "a = 1")
        assert Server.migrate(name, @new) == :ok
        stop(name)
        name = start(schema: @new, dir: folder)
        assert texts(name) == @texts ++ [{4, "a = 1"}]
        stop(name)
      end)
    end
  end

  describe "a server's process that is killed" do
    test "during migrations has the old schema or the new one, and all changes", %{folder: folder} do
      :rand.seed(:exsss, {Attack.seed(), 41, 0})

      for options <- [[dir: folder, durability: :none], []] do
        name = start(options)
        Server.insert_all!(name, for(id <- 1..500, do: {id, "a = #{rem(id, 10)}"}))

        for number <- 1..Attack.size(8, 150) do
          target = if schema?(name, @old), do: @new, else: @old
          eventually(fn -> Servers.process(name) != nil end)
          pid = Servers.process(name)
          task = Task.async(Server, :migrate, [name, target])

          # A random number of reductions later, or as soon as the folder has the new schema and the table still has the old one.
          if rem(number, 3) == 0 and options != [],
            do: spin_until(folder, Path.wildcard(Path.join(folder, "*.base"))),
            else: spin(:rand.uniform(200_000))

          Kill.kill(pid)
          result = Task.await(task, :infinity)
          eventually(fn -> match?({:ok, _version}, Server.version(name)) end)
          if result == :ok, do: assert(schema?(name, target)), else: assert({:error, %Error{kind: :no_server}} = result)
          assert schema?(name, @old) or schema?(name, @new)
          assert BeTree.search(name, %{a: 3}) == {:ok, Enum.to_list(3..500//10)}
          assert Server.insert(name, 1_000, "b = 1") == if(schema?(name, @new), do: :ok, else: unknown(name))
          if schema?(name, @new), do: :ok = Server.delete(name, 1_000)
        end

        present = Server.schema!(name)
        stop(name)
        if options != [], do: assert(length(texts(start([schema: present] ++ options))) == 500)
      end
    end

    defp spin(0), do: :ok
    defp spin(count), do: spin(count - 1)

    defp spin_until(folder, bases),
      do: if(Path.wildcard(Path.join(folder, "*.base")) == bases, do: spin_until(folder, bases))

    defp unknown(name), do: Server.validate(name, "b = 1")
  end

  describe "followers" do
    test "receive the new schema, also those of a follower" do
      leader = filled([])
      middle = Servers.start(follow: {leader, node()})
      last = Servers.start(follow: {middle, node()})
      for name <- [middle, last], do: assert({:ok, _} = Server.await(name, Server.position!(leader), timeout: 300_000))
      :ok = Server.migrate(leader, @new)
      :ok = Server.insert(leader, 4, "b = 7")

      for name <- [middle, last] do
        assert {:ok, 3} = Server.await(name, Server.position!(leader), timeout: 300_000)
        assert schema?(name, @new) and texts(name) == @texts ++ [{4, "b = 7"}]
        assert BeTree.search(name, %{a: 50, b: 7}) == {:ok, [3, 4]}
      end
    end
  end

  # Results are compared with those of trees with the old or the new schema, in which the texts are inserted one by one.
  test "random migrations have the results of a new server, or change nothing", %{folder: folder} do
    outcomes = for seed <- 1..Attack.size(40, 1_000), do: migrate_at_random(seed, Path.join(folder, "#{seed}"))
    assert :ok in outcomes and :error in outcomes
  end

  defp migrate_at_random(seed, folder) do
    :rand.seed(:exsss, {Attack.seed(), 42, seed})
    old = Random.schema()
    expressions = for id <- 1..Enum.random(1..30), do: {id, Random.expression(old)}
    subscriptions = Random.subscriptions(expressions)
    new = mutate(old)
    at_start = Enum.random([true, false])
    name = start(schema: old, dir: folder, durability: :none)
    Server.insert_all!(name, subscriptions)
    tree = BeTree.new!(new)

    faults =
      for {id, _, _} = one <- subscriptions, {:error, error} <- [BeTree.insert_all(tree, [one])], do: {id, error.kind}

    result =
      if at_start do
        stop(name)
        Process.flag(:trap_exit, true)
        options = [name: Servers.new_name(), schema: new, dir: folder, schema_change: :migrate]
        with {:ok, pid} <- Server.start_link(options), do: {:ok, options[:name], pid}
      else
        with :ok <- Server.migrate(name, new), do: {:ok, name, nil}
      end

    case result do
      {:ok, name, pid} ->
        assert faults == [], "seed #{seed}"
        same(name, tree, new, seed)
        if pid, do: Server.stop(name), else: stop(name)
        # The folder has it.
        name = start(schema: new, dir: folder)
        same(name, tree, new, seed)
        stop(name)
        :ok

      {:error, %Error{kind: :schema_change, faults: found}} ->
        assert for({id, error} <- found, do: {id, error.kind}) == faults, "seed #{seed}"
        name = if at_start, do: start(schema: old, dir: folder), else: name
        tree = BeTree.new!(old)
        BeTree.insert_all!(tree, subscriptions)
        same(name, tree, old, seed)
        stop(name)
        :error
    end
  end

  defp same(name, tree, schema, seed) do
    assert schema?(name, schema)

    for _ <- 1..10 do
      event = Map.new(Random.event(schema))
      assert BeTree.search(name, event) == BeTree.search(tree, event), "seed #{seed}: #{inspect(event)}"
    end
  end

  # Adds, removes, reorders and changes some attributes.
  defp mutate(schema) do
    added =
      for number <- 1..Enum.random(1..3), do: {"added_#{number}", {Enum.random([:integer, :string]), [optional: true]}}

    schema = if Enum.random(1..3) == 1, do: List.delete(schema, Enum.random(schema)), else: schema

    changed =
      for {name, {type, options}} <- schema do
        case Enum.random(1..20) do
          1 when type in [:integer, :float] ->
            {name, {Enum.random([:integer, :float]), Keyword.delete(options, :count)}}

          2 when type == :integer ->
            {name, {type, options |> Keyword.drop([:min, :max]) |> Keyword.put(:max, 5)}}

          3 ->
            {name, {type, Keyword.drop(options, [:min, :max, :count])}}

          4 ->
            {name, {type, Keyword.update!(options, :optional, &(not &1))}}

          _other ->
            {name, {type, options}}
        end
      end

    Enum.shuffle(added ++ changed)
  end
end

defmodule BeTree.ServerTest do
  # Counts what is alive in the whole VM.
  use ExUnit.Case, async: false

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Index, Search, Server}
  alias BeTree.Runtime.Native
  alias BeTree.Test.{Language, Naive, Random, Servers}

  doctest Server

  setup :quiet

  # The built-in runtime without a log of replicas, as other runtimes are.
  defmodule Plain do
    use BeTree.Test.Delegating,
      except: [append: 2, lag: 1, catch_up: 3, snapshot_applied: 1, rebase: 2, settle: 1, renew: 3]
  end

  @schema [age: :integer, country: {:string, optional: true}]

  defp server(options \\ []), do: Servers.start(Keyword.merge([schema: @schema], options))

  defp counts, do: Native.counts()

  # Waits until no more instances are alive than before.
  defp settle({_modules, instances, suspended}) do
    eventually(fn ->
      :erlang.garbage_collect()
      {_, now, calls} = counts()
      now <= instances and calls <= suspended
    end)
  end

  describe "a server's name" do
    test "works in every kind of search" do
      name = server(schema: Language.schema())
      tree = BeTree.new!(Language.schema())
      {first, second} = Enum.split(Language.subscriptions(), 100)
      BeTree.insert_all!(tree, first ++ second)
      # Some changes in the base, some in the log, some in both.
      Server.insert_all!(name, first)
      {:ok, %Index{}} = Server.index(name)
      for {id, _, _} <- Enum.take(first, 20), do: Server.delete!(name, id)
      for {id, text, options} <- Enum.take(first, 20) ++ second, do: Server.insert!(name, id, text, options)
      assert %{log: log} = Server.info!(name)
      assert log >= 40
      events = for {_expression, event, _holds} <- Language.rows(), do: event

      for event <- events do
        {:ok, ids} = BeTree.search(tree, event)
        assert BeTree.search(name, event) == {:ok, ids}
        assert BeTree.search!(name, event, slice: 1_000) == ids
        assert {:ok, ^ids, %{slices: slices, fuel: fuel}} = BeTree.search(name, event, stats: true)
        assert slices >= 1
        assert {:ok, ^ids, %{fuel: ^fuel}} = BeTree.search(name, event, stats: true, slice: 1_000)
        some = Enum.take_random(0..length(events), 20)
        assert BeTree.search(name, event, ids: some) == BeTree.search(tree, event, ids: some)
        assert {:done, ^ids, _stats} = BeTree.Search.run(name, event, slice: 1_000)
        {:ok, prepared} = BeTree.Event.prepare(name, event)

        for form <- [:binary, :bitmap] do
          assert BeTree.search(name, prepared, as: form) == BeTree.search(tree, event, as: form)
        end
      end

      for options <- [[], [as: :binary], [as: :bitmap], [ids: Enum.to_list(0..150)], [slice: 2_000], [timeout: 60_000]] do
        assert BeTree.search_many(name, events, options) == BeTree.search_many(tree, events, options)
        streamed = Keyword.delete(options, :timeout)

        assert name |> BeTree.stream(events, streamed) |> Enum.to_list() ==
                 tree |> BeTree.stream(events, streamed) |> Enum.to_list()
      end

      {:ok, image} = BeTree.Image.to_binary(name)
      assert BeTree.search_many(BeTree.Image.read!({:binary, image}), events) == BeTree.search_many(tree, events)

      for {{_expression, event, _holds}, id} <- Enum.with_index(Language.rows()) do
        assert BeTree.explain(name, event, id) == BeTree.explain(tree, event, id)
      end

      assert BeTree.info!(name).expressions == BeTree.info!(tree).expressions
    end

    test "works with budgets and deadlines" do
      name = server()
      Server.insert_all!(name, for(id <- 1..2_000, do: {id, "not (age > #{id})"}))
      {:ok, _index} = Server.index(name)
      Server.insert_all!(name, for(id <- 2_001..2_500, do: {id, "not (age > #{id})"}))
      event = %{age: 1_000}
      {:ok, ids, %{fuel: fuel}} = BeTree.search(name, event, stats: true)
      assert ids == Enum.to_list(1_000..2_500)
      assert BeTree.search(name, event, fuel: fuel) == {:ok, ids}

      for budget <- [1, div(fuel, 2), fuel - 1_000] do
        assert {:error, %Error{kind: :out_of_fuel}} = BeTree.search(name, event, fuel: budget)
      end

      {:yield, search} = Search.start(name, event, slice: 1_000, timeout: 0)
      assert {:error, %Error{kind: :timeout}} = Search.resume(search)
      assert {:error, %Error{kind: :missing_attribute}} = BeTree.search(name, %{})
      assert {:error, %Error{kind: :syntax, column: 2, text: nil}} = BeTree.search(name, {:json, "{"})

      assert BeTree.search_many(name, [event, event], fuel: 3 * fuel) == {:ok, [ids, ids]}
      assert {:error, %Error{kind: :out_of_fuel}} = BeTree.search_many(name, [event, event], fuel: fuel)
      assert {:error, %Error{kind: :timeout}} = BeTree.search_many(name, [event, event], timeout: 0)
      wrong = [event, {:json, "{"}, event, %{}]
      assert {:error, %Error{kind: :syntax, position: 1, column: 2, text: nil}} = BeTree.search_many(name, wrong)
      results = name |> BeTree.stream(wrong) |> Enum.map(&elem(&1, 1))
      assert [{:ok, ^ids}, {:error, _}, {:ok, ^ids}, {:error, _}] = results
    end

    test "has room in a bitmap for the ids of its expressions" do
      name = server()
      Server.insert!(name, 1_048_575, "age = 1")
      {:ok, _index} = Server.index(name)
      Server.insert!(name, 0, "age = 1")
      Server.insert!(name, 70, "age = 1")
      {:ok, bitmap} = BeTree.search(name, %{age: 1}, as: :bitmap)
      assert byte_size(bitmap) == 131_072
      assert :binary.decode_unsigned(bitmap, :little) == Enum.sum(for id <- [0, 70, 1_048_575], do: Bitwise.bsl(1, id))
      assert BeTree.search(name, %{age: 2}, as: :bitmap) == {:ok, ""}
      Server.insert!(name, 1_048_576, "age = 1")
      assert {:error, %Error{kind: :out_of_bounds}} = BeTree.search(name, %{age: 1}, as: :bitmap)
      assert {:error, %Error{position: 1}} = BeTree.search_many(name, [%{age: 2}, %{age: 1}], as: :bitmap)

      assert [{_, {:ok, ""}}, {_, {:error, %Error{kind: :out_of_bounds}}}] =
               Enum.to_list(BeTree.stream(name, [%{age: 2}, %{age: 1}], as: :bitmap))
    end

    test "of no server is an error" do
      for answer <- [
            BeTree.search(:nobody, %{age: 1}),
            BeTree.search_many(:nobody, [%{age: 1}]),
            :nobody |> BeTree.stream([%{age: 1}]) |> Enum.to_list() |> hd() |> elem(1),
            BeTree.Event.prepare(:nobody, %{age: 1}),
            BeTree.Image.to_binary(:nobody),
            BeTree.explain(:nobody, %{age: 1}, 1),
            BeTree.info(:nobody),
            Search.start(:nobody, %{age: 1}),
            Server.insert(:nobody, 1, "true"),
            Server.insert_all(:nobody, [{1, "true"}]),
            Server.delete(:nobody, 1),
            Server.put(:nobody, 1, "true"),
            Server.delete_all(:nobody, [1]),
            Server.change(:nobody, put: [{1, "true"}]),
            Server.validate(:nobody, "true"),
            Server.fetch(:nobody, 1),
            Server.ids(:nobody),
            Server.count(:nobody),
            Server.schema(:nobody),
            Server.index(:nobody),
            Server.version(:nobody),
            Server.await(:nobody, 1),
            Server.stop(:nobody),
            BeTree.insert(:nobody, 1, "true"),
            BeTree.insert_all(:nobody, [{1, "true"}]),
            BeTree.put(:nobody, 1, "true"),
            BeTree.delete(:nobody, 1),
            Server.info(:nobody)
          ] do
        assert {:error, %Error{kind: :no_server, message: message}} = answer
        assert message =~ ":nobody"
      end

      assert_raise ArgumentError, ~r/a server's name or a cluster, got: a string of 3 bytes/, fn ->
        BeTree.search("Ads", %{age: 1})
      end
    end
  end

  describe "start_link/1" do
    test "takes its options, or raises" do
      for {options, message} <- [
            {[schema: @schema], ~r/:name is missing; it takes an atom/},
            {[name: :some], ~r/:schema is missing, or :follow/},
            {[name: :some, schema: @schema, follow: {:other, node()}], ~r/exclude each other/},
            {[name: :some, follow: :other], ~r/:follow takes {name, node}/},
            {[name: "some", schema: @schema], ~r/:name takes an atom/},
            {[name: true, schema: @schema], ~r/:name takes an atom/},
            {[name: :some, schema: @schema, replicas: 0], ~r/:replicas takes/},
            {[name: :some, schema: @schema, what: 1], ~r/unknown keys/}
          ] do
        assert_raise ArgumentError, message, fn -> Server.start_link(options) end
      end
    end

    test "returns errors of the domains or the guest and leaves nothing" do
      Process.flag(:trap_exit, true)

      assert {:error, %Error{kind: :type, attribute: "age"}} = Server.start_link(name: :some, schema: [age: :int])
      assert {:error, %Error{kind: :bad_module}} = Server.start_link(name: :some, schema: @schema, guest: "no module")
      assert Process.whereis(:some) == nil
      assert :ets.whereis(:some) == :undefined
    end

    test "refuses a name in use" do
      name = server()
      pid = Process.whereis(name)
      assert Server.start_link(name: name, schema: @schema) == {:error, {:already_started, pid}}
      assert BeTree.search(name, %{age: 1}) == {:ok, []}
    end

    test "of concurrent callers starts one server, whose supervisor all get" do
      for _ <- 1..100, do: start_at_once(:"server_#{System.unique_integer([:positive])}")
    end

    defp start_at_once(name) do
      test = self()

      starters =
        for _ <- 1..20 do
          spawn_monitor(fn ->
            Process.flag(:trap_exit, true)
            send(test, {:outcome, self(), Server.start_link(name: name, schema: @schema)})
            receive(do: (:end -> :ok))
          end)
        end

      outcomes =
        for {pid, _monitor} <- starters, do: receive(do: ({:outcome, ^pid, outcome} -> outcome), after: (60_000 -> nil))

      assert [supervisor] = for({:ok, pid} <- outcomes, do: pid)
      assert outcomes -- [{:ok, supervisor}] == List.duplicate({:error, {:already_started, supervisor}}, 19)
      assert BeTree.search(name, %{age: 1}) == {:ok, []}
      assert Server.stop(name) == :ok
      for {pid, _monitor} <- starters, do: send(pid, :end)
      for {pid, monitor} <- starters, do: assert_receive({:DOWN, ^monitor, :process, ^pid, :normal}, 30_000)
    end

    test "takes a name that an ETS table has" do
      :ets.new(:some_other_table, [:named_table])
      assert {:error, %Error{kind: :overloaded}} = Server.start_link(name: :some_other_table, schema: @schema)
    end

    test "is undone by stop/1" do
      name = :"server_#{System.unique_integer([:positive])}"
      {:ok, pid} = Server.start_link(name: name, schema: @schema)
      monitor = Process.monitor(pid)
      assert Server.stop(name) == :ok
      assert_receive {:DOWN, ^monitor, :process, ^pid, :normal}
      assert {:error, %Error{kind: :no_server}} = BeTree.search(name, %{age: 1})
      assert {:error, %Error{kind: :no_server}} = Server.stop(name)
      {:ok, _pid} = Server.start_link(name: name, schema: @schema)
      assert Server.stop(name) == :ok
    end
  end

  describe "changes" do
    test "are acknowledged in order, refused like a tree's, and visible at once" do
      name = server()
      assert Server.insert(name, 1, "age >= 21") == :ok
      assert BeTree.search(name, %{age: 30}) == {:ok, [1]}
      assert {:error, %Error{kind: :duplicate_id, position: nil}} = Server.insert(name, 1, "true")
      assert {:error, %Error{kind: :syntax, column: 7, text: "age >== 3"}} = Server.insert(name, 2, "age >== 3")
      assert {:error, %Error{kind: :out_of_bounds}} = Server.insert(name, -1, "true")
      assert {:error, %Error{position: 1}} = Server.insert_all(name, [{2, "true"}, {3, "nobody"}])
      assert Server.insert_all(name, [{2, "country = 'CA'"}, {3, "age = 1", []}]) == {:ok, 2}
      assert Server.insert_all(name, []) == {:ok, 0}
      assert {:error, %Error{kind: :not_found}} = Server.delete(name, 4)
      assert Server.delete(name, 3) == :ok
      assert BeTree.search(name, %{age: 30, country: "CA"}) == {:ok, [1, 2]}
      assert %{expressions: 2, version: 3} = Server.info!(name)
    end

    test "are made by the functions of trees" do
      name = server()
      assert BeTree.insert(name, 1, "age = 1") == :ok
      assert BeTree.insert_all(name, [{2, "age = 1"}]) == {:ok, 1}
      assert BeTree.insert!(name, 3, "age = 1") == :ok
      assert BeTree.delete(name, 1) == :ok
      assert BeTree.search(name, %{age: 1}) == {:ok, [2, 3]}
      assert_raise ArgumentError, ~r"Server.index/2", fn -> BeTree.publish(name) end
    end

    test "of several subscriptions are atomic" do
      name = server()
      Server.insert_all!(name, [{1, "age = 1"}, {2, "age = 2"}, {3, "age = 3"}])

      assert Server.change(name, put: [{1, "age = 9"}, {4, "age = 9"}], delete: [2]) ==
               {:ok, %{put: 2, deleted: 1, unchanged: 0}}

      assert BeTree.search(name, %{age: 9}) == {:ok, [1, 4]}
      assert Server.ids(name) == {:ok, [1, 3, 4]}
      assert Server.change(name, []) == {:ok, %{put: 0, deleted: 0, unchanged: 0}}
      %{version: version} = Server.info!(name)

      for {change, kind, position} <- [
            {[put: [{5, "age = 5"}, {1, "age >"}], delete: [3]], :syntax, 1},
            {[put: [{5, "age = 5"}], delete: [3, 2]], :not_found, nil},
            {[put: [{5, "age = 5"}, {5, "age = 6"}]], :duplicate_id, nil},
            {[put: [{5, "age = 5"}], delete: [5]], :duplicate_id, nil},
            {[delete: [3, 3]], :duplicate_id, nil},
            {[delete: [3, -1]], :out_of_bounds, 1},
            {[put: [{5, "age = 5"}, {6, :no}]], :type, 1},
            {[put: 5], :type, nil},
            {[delete: 5], :type, nil}
          ] do
        assert {:error, %Error{kind: ^kind, position: ^position}} = Server.change(name, change)
      end

      assert Server.ids(name) == {:ok, [1, 3, 4]}
      assert %{version: ^version, expressions: 3} = Server.info!(name)
      assert Server.delete_all(name, [1, 3, 4]) == {:ok, 3}
      assert {:error, %Error{kind: :not_found}} = Server.delete_all(name, [1])
      assert BeTree.search(name, %{age: 9}) == {:ok, []}
      assert_raise ArgumentError, ~r/unknown keys/, fn -> Server.change(name, puts: []) end
    end

    test "replace a subscription or change nothing" do
      name = server()
      assert Server.put(name, 1, "age = 1") == :ok
      assert Server.put(name, 1, "age = 2") == :ok
      assert {:error, %Error{kind: :syntax, position: nil, column: 7, text: "age = "}} = Server.put(name, 1, "age = ")
      assert BeTree.search(name, %{age: 1}) == {:ok, []}
      assert BeTree.search(name, %{age: 2}) == {:ok, [1]}
      assert Server.fetch(name, 1) == {:ok, "age = 2"}
    end

    test "can be checked without making them" do
      name = server()
      assert Server.validate(name, "age = 1 and country = 'CA'") == :ok
      assert {:error, %Error{kind: :unknown_attribute, attribute: "size"}} = Server.validate(name, "size = 1")
      assert {:error, %Error{kind: :syntax, column: 7, text: "age = ", position: nil}} = Server.validate(name, "age = ")
      assert {:error, %Error{kind: :type}} = Server.validate(name, :no)
      assert %{version: 0} = Server.info!(name)
    end

    test "report all faults of an import and then change nothing" do
      name = server()
      Server.insert!(name, 1, "age = 1")
      wrong = [{2, "age = 2"}, {3, "age ="}, {2, "age = 3"}, {-1, "true"}, {4, "size = 1"}, {1, "true"}, :no]
      assert {:error, errors} = Server.insert_all(name, wrong, on_error: :collect)

      assert for(error <- errors, do: {error.position, error.kind}) ==
               [
                 {1, :syntax},
                 {2, :duplicate_id},
                 {3, :out_of_bounds},
                 {4, :unknown_attribute},
                 {5, :duplicate_id},
                 {6, :type}
               ]

      assert Enum.at(errors, 0).text == "age =" and Enum.at(errors, 0).message =~ "subscription 3: "
      assert_raise Error, fn -> Server.insert_all!(name, wrong, on_error: :collect) end
      assert Server.insert_all(name, [{2, "age = 2"}], on_error: :collect) == {:ok, 1}
      assert Server.ids(name) == {:ok, [1, 2]}
    end

    test "have readable texts" do
      name = server()
      Server.insert_all!(name, [{1, "age = 1"}, {2, "age = 2"}])
      assert Server.fetch(name, 1) == {:ok, "age = 1"}
      assert {:error, %Error{kind: :not_found}} = Server.fetch(name, 3)
      assert {:error, %Error{kind: :type}} = Server.fetch(name, "1")
      assert {Server.member?(name, 2), Server.member?(name, 3)} == {true, false}
      assert_raise Error, fn -> Server.member?(:nobody, 3) end
      assert Server.ids!(name) == [1, 2]
      assert Server.count!(name) == 2
      assert [%BeTree.Domain{name: "age"}, %BeTree.Domain{name: "country"}] = Server.schema!(name)
    end

    test "have versions to wait for" do
      name = server()
      assert Server.version(name) == {:ok, 0}
      waiting = Task.async(fn -> Server.await(name, 2) end)
      assert {:error, %Error{kind: :timeout}} = Server.await(name, 2, timeout: 1)
      Server.insert!(name, 1, "true")
      assert Server.await(name, 1) == {:ok, 1}
      Server.delete!(name, 1)
      assert Task.await(waiting, 30_000) == {:ok, 2}
      assert_raise ArgumentError, fn -> Server.await(name, -1) end
    end

    # Covers all sources of a base: a replica, a separate build, and a whole tree.
    test "equal a model's at every version" do
      :rand.seed(:exsss, 5)
      domains = Random.schema()
      name = server(schema: domains)
      events = for _ <- 1..5, do: Random.event(domains)
      expressions = for id <- 1..4_000, do: {id, Random.expression(domains)}

      Enum.reduce(1..60, %{}, fn round, present ->
        present =
          case :rand.uniform(10) do
            n when n <= 6 -> one_by_one(name, expressions, present, 200)
            n when n <= 8 -> many(name, expressions, present, 400)
            9 -> many(name, expressions, present, 4_000)
            10 -> delete_half(name, present)
          end

        if rem(round, 13) == 0, do: {:ok, %Index{}} = Server.index(name)
        assert Server.info!(name).expressions == map_size(present)

        for event <- events do
          holds = fn {_id, expression} -> Naive.eval(expression, Map.new(event), Random.constants()) end
          expected = present |> Enum.filter(holds) |> Enum.map(&elem(&1, 0)) |> Enum.sort()
          assert {round, BeTree.search(name, event)} == {round, {:ok, expected}}
        end

        present
      end)

      eventually(fn -> Server.info!(name).building == false end)
      assert Server.info!(name).bases > 3
    end

    test "free the previous base, in a process that collects no garbage too" do
      name = server(memory: 100_000_000)
      # A base of 8,000 subscriptions is kept as a file in memory, which takes a descriptor.
      Server.insert_all!(name, for(id <- 1..8_000, do: {id, "age = #{id} or country = 'c#{id}'"}))
      {_mappings, descriptors} = Native.taken()

      %{bases: before} = Server.info!(name)

      Enum.find(Stream.cycle(1..8_000), fn id ->
        Server.put!(name, id, "age = #{id + 1}")
        Server.info!(name).bases > before + 4
      end)

      eventually(fn -> not Server.info!(name).building and elem(Native.taken(), 1) <= descriptors end)
    end

    defp one_by_one(name, expressions, present, count) do
      Enum.reduce(1..count, present, fn _, present ->
        {id, expression} = Enum.random(expressions)

        if is_map_key(present, id) do
          Server.delete!(name, id)
          Map.delete(present, id)
        else
          Server.insert!(name, id, Random.text(expression), constants: Random.constants())
          Map.put(present, id, expression)
        end
      end)
    end

    defp many(name, expressions, present, count) do
      new = expressions |> Enum.take_random(count) |> Enum.reject(fn {id, _} -> is_map_key(present, id) end)
      texts = Random.subscriptions(new)
      Server.insert_all!(name, texts)
      Map.merge(present, Map.new(new))
    end

    defp delete_half(name, present) do
      ids = present |> Map.keys() |> Enum.take_random(div(map_size(present), 2))
      for id <- ids, do: Server.delete!(name, id)
      Map.drop(present, ids)
    end

    test "are visible at once with a runtime without a log of replicas" do
      name = server(runtime: Plain)
      for id <- 1..30, do: :ok = Server.insert(name, id, "age = #{rem(id, 3)}")
      assert BeTree.search(name, %{age: 1}) == {:ok, Enum.to_list(1..30//3)}
      assert Server.change(name, put: [{31, "age = 1"}], delete: [1, 4]) == {:ok, %{put: 1, deleted: 2, unchanged: 0}}
      assert BeTree.search(name, %{age: 1}) == {:ok, Enum.to_list(7..31//3)}
      Process.exit(Servers.process(name), :kill)
      eventually(fn -> Server.delete(name, 7) == :ok end)
      assert BeTree.search(name, %{age: 1}) == {:ok, Enum.to_list(10..31//3)}
      {:ok, index} = Server.index(name)
      assert BeTree.search(index, %{age: 1}) == {:ok, Enum.to_list(10..31//3)}
    end

    test "over the memory limit are refused and lose nothing" do
      name = server(memory: 10_000_000)
      Server.insert_all!(name, for(id <- 1..1_000, do: {id, "age = #{id}"}))
      long = Enum.map_join(1..200_000, " or ", &"age = #{&1}")

      for id <- 1_001..1_020 do
        assert {:error, %Error{kind: :out_of_memory}} = Server.insert(name, 2_000, long)
        assert Server.insert(name, id, "age = #{id}") == :ok
      end

      for id <- [1, 1_000, 1_020], do: assert(BeTree.search(name, %{age: id}) == {:ok, [id]})
      assert Server.info!(name).expressions == 1_020
    end

    test "count distinct values over all present expressions" do
      name = server(schema: [country: {:string, count: 2}])
      Server.insert_all!(name, [{1, "country = 'CA'"}, {2, "country = 'US'"}])
      {:ok, _index} = Server.index(name)
      assert {:error, %Error{kind: :out_of_bounds}} = Server.insert(name, 3, "country = 'MX'")
      Server.delete!(name, 1)
      assert Server.insert(name, 3, "country = 'MX'") == :ok
      assert BeTree.search(name, %{country: "MX"}) == {:ok, [3]}
    end
  end

  describe "a search of a server" do
    test "ends on the version where it began, which is freed afterwards" do
      before = counts()
      name = server()
      Server.insert_all!(name, for(id <- 1..1_000, do: {id, "not (age > #{id})"}))
      Server.delete!(name, 1_000)
      Server.insert!(name, 1_001, "true")
      {:yield, search} = Search.start(name, %{age: 0}, slice: 1_000)

      for id <- 1..900, do: Server.delete!(name, id)
      Server.insert_all!(name, for(id <- 2_000..9_000, do: {id, "true"}))
      {:ok, _index} = Server.index(name)
      Server.swap!(name, BeTree.publish!(BeTree.new!(age: :integer)))
      assert BeTree.search(name, %{age: 0}) == {:ok, []}

      assert finish(Search.resume(search)) == Enum.to_list(1..999) ++ [1_001]
      stop_supervised!(name)
      settle(before)
    end

    defp finish({:yield, search}), do: finish(Search.resume(search))
    defp finish({:done, ids, _stats}), do: ids

    test "succeeds while its server takes no changes" do
      name = server()
      Server.insert!(name, 1, "age = 1")
      :sys.suspend(Servers.process(name))
      assert BeTree.search(name, %{age: 1}) == {:ok, [1]}
      :sys.resume(Servers.process(name))
    end

    test "is refused if all replicas and the queue are full" do
      name = server(replicas: 1, queue: 1)
      Server.insert_all!(name, for(id <- 1..1_000, do: {id, "not (age > #{id})"}))
      {:ok, _index} = Server.index(name)
      {:yield, search} = Search.start(name, %{age: 0}, slice: 1_000)
      waiting = Task.async(fn -> BeTree.search(name, %{age: 1_000}) end)

      eventually(fn ->
        match?(
          {:error, %Error{kind: :overloaded}},
          Task.await(Task.async(fn -> BeTree.search(name, %{age: 0}) end), :infinity)
        )
      end)

      assert length(finish(Search.resume(search))) == 1_000
      assert Task.await(waiting, 60_000) == {:ok, [1_000]}
      assert BeTree.search(name, %{age: 1_000}) == {:ok, [1_000]}
    end

    test "of concurrent processes succeeds and returns an existing version" do
      name = server()
      Server.insert_all!(name, for(id <- 1..500, do: {id, "true"}))

      # Matching ids are contiguous: each change removes the first or appends some.
      searchers = for _ <- 1..4, do: Task.async(fn -> search_on(name, 0, 0, 0) end)

      for round <- 1..60 do
        first = 10 * (round - 1) + 1
        last = 500 + 50 * (round - 1)
        Server.insert_all!(name, for(id <- (last + 1)..(last + 50), do: {id, "true"}))
        for id <- first..(first + 9), do: Server.delete!(name, id)
        # Enough changes for another base, even if building is slow.
        if round == 55, do: eventually(fn -> Server.info!(name).bases > 1 end)
      end

      for found <- Task.await_many(searchers, 60_000), do: assert(found > 1)
      eventually(fn -> Server.info!(name).bases > 1 end)
    end

    # Runs until the last round is visible. Returns the number of searches.
    defp search_on(name, first, last, count) do
      {:ok, ids} = BeTree.search(name, %{age: 1})
      [now_first | _] = ids
      now_last = List.last(ids)
      assert ids == Enum.to_list(now_first..now_last)
      assert now_first >= first and now_last >= last
      if {now_first, now_last} == {601, 3_500}, do: count + 1, else: search_on(name, now_first, now_last, count + 1)
    end
  end
end

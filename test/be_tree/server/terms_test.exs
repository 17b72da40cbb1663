Code.require_file("examples/scan/scan.ex")

defmodule BeTree.Server.TermsTest do
  # Servers whose ids are terms.
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}
  import BeTree.Test.Disk, only: [folder: 1]

  alias BeTree.{Cluster, Error, Search, Server}
  alias BeTree.Server.Table
  alias BeTree.Test.{Attack, Servers}

  @moduletag timeout: :infinity
  @schema [a: :integer, s: {:string, optional: true}]

  setup [:quiet, :folder]

  defp start!(options \\ []) do
    name = :"terms_#{System.unique_integer([:positive])}"
    start_supervised!({Server, [name: name, schema: @schema, ids: :term] ++ options}, id: name)
    name
  end

  # Removes the rows of deleted ids now instead of after some seconds.
  defp age(name) do
    {:ok, %{ids: %{released: released}}} = Table.fetch(name)

    for {{milliseconds, number}, bytes} <- :ets.tab2list(released) do
      :ets.insert(released, {{milliseconds - 1_000_000, number}, bytes})
      :ets.delete(released, {milliseconds, number})
    end

    send(Servers.process(name), :drop)
  end

  defp count(name), do: Server.info!(name).ids.count

  defp aged_count(name) do
    age(name)
    count(name)
  end

  @terms [
    0,
    1,
    -1,
    2.5,
    18_446_744_073_709_551_616,
    :atom,
    nil,
    "text",
    <<1::3>>,
    {},
    {:user, 7, "rule"},
    [],
    [1 | 2],
    ~c"list",
    %{a: %{b: [1]}},
    1..3,
    String.duplicate("long", 1_000)
  ]

  test "every function takes and returns terms, in term order" do
    name = start!()
    assert {:ok, 17} = Server.insert_all(name, for(term <- @terms, do: {term, "a = 1"}))
    sorted = Enum.sort(@terms)
    assert BeTree.search(name, %{a: 1}) == {:ok, sorted}
    assert BeTree.search(name, %{a: 2}) == {:ok, []}
    assert Server.ids(name) == {:ok, sorted}
    assert Server.count(name) == {:ok, 17}
    assert {:ok, ^sorted, %{fuel: fuel}} = BeTree.search(name, %{a: 1}, stats: true)
    assert fuel > 0
    assert BeTree.search_many(name, [%{a: 1}, %{a: 2}]) == {:ok, [sorted, []]}
    assert BeTree.search_many(name, [%{a: 1}]) == {:ok, [sorted]}
    assert [{%{a: 1}, {:ok, ^sorted}}, {%{}, {:error, _}}] = name |> BeTree.stream([%{a: 1}, %{}]) |> Enum.to_list()
    assert [{%{a: 1}, {:ok, ^sorted}}] = name |> BeTree.stream([%{a: 1}], timeout: 60_000) |> Enum.to_list()
    assert {:done, ^sorted, _stats} = Search.start(name, %{a: 1})

    for term <- @terms do
      assert BeTree.search(name, %{a: 1}, ids: [term, :unknown, "no id"]) == {:ok, [term]}
      assert BeTree.search_many(name, [%{a: 1}, %{a: 1}], ids: [term]) == {:ok, [[term], [term]]}
      assert Server.fetch(name, term) == {:ok, "a = 1"}
      assert Server.member?(name, term)
      assert {:ok, %{id: ^term, match: false}} = BeTree.explain(name, %{a: 3}, term)
      assert {:error, %Error{kind: :duplicate_id}} = BeTree.insert(name, term, "a = 2")
      assert BeTree.put(name, term, "a = 2") == :ok
    end

    assert BeTree.search(name, %{a: 1}) == {:ok, []}
    assert BeTree.search(name, %{a: 2}) == {:ok, sorted}
    for term <- @terms, do: assert(Server.delete(name, term) == :ok)
    assert BeTree.search(name, %{a: 2}) == {:ok, []}
    assert Server.ids(name) == {:ok, []}
  end

  test "an integer and an equal float are two ids" do
    name = start!()
    assert {:ok, 2} = Server.insert_all(name, [{1, "a = 1"}, {1.0, "a = 1"}])
    # Equal terms have no order among each other.
    assert [1, 1] == name |> BeTree.search!(%{a: 1}) |> Enum.map(&trunc/1)
    assert Server.delete(name, 1) == :ok
    assert [found] = BeTree.search!(name, %{a: 1})
    assert is_float(found)
  end

  test "errors name the term and change nothing" do
    name = start!()
    :ok = Server.insert(name, {:rule, 1}, "a = 1")

    for call <- [&Server.delete/2, &Server.fetch/2, &BeTree.explain(&1, %{a: 1}, &2), &Server.delete_all(&1, [&2])] do
      assert {:error, %Error{kind: :not_found, message: message}} = call.(name, {:rule, 2})
      assert message =~ "{:rule, 2}"
    end

    refute Server.member?(name, {:rule, 2})
    assert {:error, %Error{kind: :duplicate_id, message: message}} = Server.insert(name, {:rule, 1}, "a = 1")
    assert message == "a subscription with the id {:rule, 1} exists; `put` replaces it"
    wrong = [{:x, "a = 1"}, {{:rule, 1}, "a = 1"}]
    assert {:error, %Error{kind: :duplicate_id, position: 1, message: message}} = Server.insert_all(name, wrong)
    assert message =~ "subscription {:rule, 1}: a subscription with the id {:rule, 1} exists"
    assert {:error, %Error{kind: :syntax, message: message}} = Server.insert(name, "y", "a =")
    refute message =~ "subscription"

    import = [{"ok", "a = 1"}, {"y", "a ="}, {{:rule, 1}, "a = 1"}, {"ok", "a = 2"}, {"z", "b = 1"}]
    assert {:error, errors} = Server.insert_all(name, import, on_error: :collect)

    assert for(error <- errors, do: {error.position, error.kind}) ==
             [{1, :syntax}, {2, :duplicate_id}, {3, :duplicate_id}, {4, :unknown_attribute}]

    assert {:ok, 2} = Server.insert_all(name, [{"p", "a = 1"}, {"q", "a = 1"}], on_error: :collect)
    assert {:ok, %{put: 2, deleted: 1}} = Server.change(name, put: [{"p", "a = 3"}, {"r", "a = 3"}], delete: ["q"])
    assert {:error, %Error{kind: :not_found}} = Server.change(name, put: [{"s", "a = 3"}], delete: ["q"])
    assert {:error, %Error{kind: :duplicate_id}} = Server.change(name, put: [{"s", "a = 3"}], delete: ["s"])
    assert {:error, %Error{kind: :syntax}} = Server.change(name, put: [{"s", "a ="}], delete: ["p"])
    assert BeTree.search(name, %{a: 3}) == {:ok, ["p", "r"]}
    assert Server.ids(name) == {:ok, [{:rule, 1}, "p", "r"]}
    # Refused ids leave nothing.
    eventually(fn -> aged_count(name) == 3 end)

    for as <- [:binary, :bitmap] do
      assert {:error, %Error{kind: :type}} = BeTree.search(name, %{a: 1}, as: as)
      assert {:error, %Error{kind: :type}} = BeTree.search_many(name, [%{a: 1}, %{a: 1}], as: as)
      assert [{_event, {:error, %Error{kind: :type}}}] = name |> BeTree.stream([%{a: 1}], as: as) |> Enum.to_list()
    end

    index = BeTree.publish!(BeTree.new!(@schema))
    assert {:error, %Error{kind: :type}} = Server.swap(name, index)
    assert {:error, %Error{kind: :type}} = Server.index(name)
    assert {:error, %Error{kind: :type}} = BeTree.Image.to_binary(name)
    assert {:error, %Error{kind: :type}} = BeTree.profile(name, [%{a: 1}])
    assert :ok = Server.swap(name, Scan.wasm!())
    assert BeTree.search(name, %{a: 3}) == {:ok, ["p", "r"]}
    image = {:binary, BeTree.Image.to_binary!(index)}
    options = [name: :terms_of_image, schema: @schema, ids: :term, image: image]
    assert_raise ArgumentError, ~r/exclude each other/, fn -> Server.start_link(options) end
    assert {:error, %Error{kind: :type}} = BeTree.insert(BeTree.new!(@schema), "a", "a = 1")
  end

  test "hostile terms are refused quickly or work" do
    name = start!()
    doubled = Enum.reduce(1..80, [:x], fn _level, term -> [term | term] end)
    nested = Enum.reduce(1..1_000_000, [], fn _level, term -> [term] end)
    big = Bitwise.bsl(1, 4_000_000)
    closure = fn -> doubled end

    hostile = [
      doubled,
      nested,
      big,
      -big,
      {big},
      closure,
      Enum.to_list(1..100_000),
      Tuple.duplicate(0, 100_000),
      Map.new(1..100_000, &{&1, &1}),
      :binary.copy("x", 100_000),
      <<0::800_001>>
    ]

    for term <- hostile do
      for call <- [
            &Server.insert(name, &1, "a = 1"),
            &BeTree.put(name, &1, "a = 1"),
            &Server.insert_all(name, [{&1, "a = 1"}]),
            &Server.change(name, put: [{&1, "a = 1"}]),
            &Server.delete(name, &1),
            &Server.delete_all(name, [&1]),
            &Server.fetch(name, &1),
            &BeTree.explain(name, %{a: 1}, &1),
            &BeTree.search(name, %{a: 1}, ids: [&1]),
            &BeTree.search_many(name, [%{a: 1}], ids: [&1])
          ] do
        assert {:error, %Error{kind: :out_of_bounds, message: message}} = call.(term)
        assert message =~ "65536 bytes"
      end
    end

    # A closure is as large as its environment.
    assert {:error, %Error{kind: :out_of_bounds}} = Server.insert(name, fn -> hostile end, "a = 1")
    small = [make_ref(), self(), &is_atom/1, fn -> 1 end, hd(Port.list()), Bitwise.bsl(1, 400_000)]
    for term <- small, do: assert(Server.insert(name, term, "a = 1") == :ok)
    assert BeTree.search(name, %{a: 1}) == {:ok, Enum.sort(small)}
    for term <- small, do: assert(Server.delete(name, term) == :ok)
    assert BeTree.search(name, %{a: 1}) == {:ok, []}
  end

  test "an id does not retain the binary that it is a part of" do
    name = start!()
    whole = :binary.copy("x", 1_000_000)
    parts = [binary_part(whole, 10, 100), {binary_part(whole, 20, 100)}, %{k: [binary_part(whole, 30, 200)]}]
    {:ok, 3} = Server.insert_all(name, for(part <- parts, do: {part, "a = 1"}))
    {:ok, [found | _]} = BeTree.search(name, %{a: 1}, ids: [hd(parts)])
    assert :binary.referenced_byte_size(found) == 100
    {:ok, %{ids: ids, texts: texts}} = Table.fetch(name)

    for table <- [ids.terms, ids.numbers, texts], row <- :ets.tab2list(table), binary <- binaries(row) do
      assert :binary.referenced_byte_size(binary) <= 200
    end
  end

  defp binaries(binary) when is_binary(binary), do: [binary]
  defp binaries(tuple) when is_tuple(tuple), do: tuple |> Tuple.to_list() |> binaries()
  defp binaries([head | tail]), do: binaries(head) ++ binaries(tail)
  defp binaries(map) when is_map(map), do: map |> Map.to_list() |> binaries()
  defp binaries(_other), do: []

  test "a search overtaken by a deletion starts over and sees it" do
    name = start!()
    {:ok, 200} = Server.insert_all(name, for(id <- 1..200, do: {{:id, id}, "a > #{id} or a < -#{id}"}))
    :ok = Server.put(name, :other, "a = 500")
    {:yield, search} = Search.start(name, %{a: 500}, slice: 1_000)
    {:yield, listed} = Search.start(name, %{a: 500}, slice: 1_000, ids: for(id <- 1..200, do: {:id, id}))
    {:ok, _counts} = Server.change(name, delete: [{:id, 7}], put: [{:later, "a = 500"}, {{:id, 8}, "false"}])
    eventually(fn -> aged_count(name) == 201 end)
    expected = Enum.sort([:other, :later] ++ for(id <- 1..200, id not in [7, 8], do: {:id, id}))
    assert {:done, ^expected, _stats} = finish(search)
    # The id now has another number.
    :ok = Server.insert(name, {:id, 7}, "a = 500")
    expected = Enum.sort(for(id <- 1..200, id != 8, do: {:id, id}))
    assert {:done, ^expected, _stats} = finish(listed)

    # While the row exists, the search ends on its version.
    {:yield, search} = Search.start(name, %{a: 500}, slice: 1_000)
    :ok = Server.delete(name, :later)
    expected = Enum.sort([:other, :later | expected])
    assert {:done, ^expected, _stats} = finish(search)
    {:yield, search} = Search.start(name, %{a: 500}, slice: 1_000, timeout: 1)
    :ok = stop_supervised(name)
    assert {:error, %Error{kind: kind}} = finish(search)
    assert kind in [:timeout, :no_server]
  end

  defp finish({:yield, search}), do: finish(search)
  defp finish(%Search{} = search), do: with({:yield, search} <- Search.resume(search), do: finish(search))
  defp finish(ended), do: ended

  test "searches see atomic changes while rows of deleted ids are removed" do
    name = start!(replicas: 3)
    {:ok, _counts} = Server.change(name, put: [{{:version, 0}, "true"}, {{:pair, 0}, "a = 1"}])
    done = :atomics.new(1, [])

    changer =
      Task.async(fn ->
        for n <- 1..Attack.size(300, 20_000) do
          put = [{{:version, n}, "true"}, {{:pair, n}, "a = 1"}]
          {:ok, _counts} = Server.change(name, put: put, delete: [{:version, n - 1}, {:pair, n - 1}])
          age(name)
          # Read your writes.
          assert {:ok, [{:pair, ^n}, {:version, ^n}]} = BeTree.search(name, %{a: 1})
          assert {:ok, [{:pair, ^n}]} = BeTree.search(name, %{a: 1}, ids: [{:pair, n}, {:pair, n - 1}])
        end

        :atomics.put(done, 1, 1)
      end)

    searchers =
      for kind <- [:one, :many, :stream, :slices] do
        Task.async(fn -> search_until(done, fn -> search(kind, name) end, 0) end)
      end

    Task.await(changer, :infinity)
    assert Enum.all?(Task.await_many(searchers, :infinity), &(&1 > 0))
    eventually(fn -> aged_count(name) == 2 end)
  end

  defp search_until(done, search, count) do
    for lists <- search.() do
      assert [{:pair, n}, {:version, n}] = lists
    end

    if :atomics.get(done, 1) == 1, do: count + 1, else: search_until(done, search, count + 1)
  end

  defp search(:one, name), do: [BeTree.search!(name, %{a: 1})]
  defp search(:many, name), do: BeTree.search_many!(name, [%{a: 1}, %{a: 1}, %{a: 1}])

  defp search(:stream, name),
    do: for({_event, {:ok, found}} <- BeTree.stream(name, List.duplicate(%{a: 1}, 5)), do: found)

  defp search(:slices, name) do
    {:done, found, _stats} = name |> Search.start(%{a: 1}, slice: 500) |> finish()
    [found]
  end

  for durability <- [:sync, {:interval, 5}, :none] do
    @durability durability
    test "terms survive a stop and a kill, with #{inspect(durability)}", %{folder: folder} do
      options = [dir: folder, durability: @durability]
      one = start!(options)
      {:ok, 3} = Server.insert_all(one, [{{:user, 1}, "a = 1"}, {"two", "a = 1"}, {3.0, "a = 1"}])
      :ok = Server.delete(one, "two")
      :ok = Server.put(one, {:user, 1}, "a = 2")
      :ok = stop_supervised(one)

      two = start!(options)
      assert Server.ids(two) == {:ok, [3.0, {:user, 1}]}
      assert BeTree.search(two, %{a: 2}) == {:ok, [{:user, 1}]}
      :ok = Server.insert(two, "two", "a = 2")
      two |> Servers.process() |> Process.exit(:kill)
      eventually(fn -> match?({:ok, %{expressions: 3}}, Server.info(two)) end)
      assert BeTree.search(two, %{a: 2}) == {:ok, [{:user, 1}, "two"]}
      :ok = Server.delete(two, {:user, 1})
      :ok = stop_supervised(two)

      three = start!(options)
      assert BeTree.search(three, %{a: 2}) == {:ok, ["two"]}
      eventually(fn -> aged_count(three) == 2 end)
      :ok = stop_supervised(three)
    end
  end

  test "bases keep the terms, and a folder is for one kind of ids", %{folder: folder} do
    Process.flag(:trap_exit, true)
    name = start!(dir: folder, durability: :none)
    long = String.duplicate("x", 20_000)
    for id <- 1..900, do: :ok = Server.insert(name, {:id, id}, "a = #{rem(id, 7)} and s <> '#{long}'")
    eventually(fn -> Path.wildcard(Path.join(folder, "*.base")) != [] end)
    for id <- 1..50, do: :ok = Server.delete(name, {:id, id})
    found = BeTree.search!(name, %{a: 3, s: "y"})
    assert length(found) > 100
    :ok = stop_supervised(name)
    name = start!(dir: folder, durability: :none)
    assert BeTree.search!(name, %{a: 3, s: "y"}) == found
    eventually(fn -> aged_count(name) == 850 end)

    for id <- [self(), {make_ref()}, [fn -> 1 end], %{p: hd(Port.list())}] do
      assert {:error, %Error{kind: :type, message: message}} = Server.insert(name, id, "a = 1")
      assert message =~ "after a restart"
    end

    :ok = stop_supervised(name)
    assert {:error, error} = Server.start_link(name: :terms_wrong, schema: @schema, dir: folder)
    assert error.kind == :other_schema and error.message =~ "ids: :term"
    assert {:error, error} = Server.start_link(name: :terms_wrong, schema: [b: :integer], dir: folder, ids: :term)
    assert error.kind == :other_schema and error.message =~ "attribute"
    integers = Path.join(folder, "integers")
    {:ok, pid} = Server.start_link(name: :terms_integers, schema: @schema, dir: integers)
    :ok = Server.insert(:terms_integers, 1, "a = 1")
    :ok = Supervisor.stop(pid)
    assert {:error, error} = Server.start_link(name: :terms_wrong, schema: @schema, dir: integers, ids: :term)
    assert error.kind == :other_schema and error.message =~ "integers"
  end

  def rules, do: [{"one", "a = 1"}, {:two, "a = 1"}]
  def wrong_rules, do: [{"one", "a = 1"}, {String.duplicate("x", 70_000), "a = 1"}]

  test "a server is filled with terms" do
    Process.flag(:trap_exit, true)
    name = start!(load: {__MODULE__, :rules, []})
    assert BeTree.search(name, %{a: 1}) == {:ok, [:two, "one"]}
    options = [name: :terms_wrong_load, schema: @schema, ids: :term, load: {__MODULE__, :wrong_rules, []}]
    assert {:error, %Error{kind: :out_of_bounds, position: 1}} = Server.start_link(options)
  end

  test "a follower has its server's terms, after a new lineage too" do
    leader = start!()
    {:ok, 2} = Server.insert_all(leader, [{"one", "a = 1"}, {:two, "a = 1"}])
    follower = :"#{leader}_follower"
    start_supervised!({Server, name: follower, follow: {leader, node()}}, id: follower)
    eventually(fn -> Server.await!(follower, 1) >= 1 and match?({:ok, [_, _]}, BeTree.search(follower, %{a: 1})) end)
    assert BeTree.search(follower, %{a: 1}) == {:ok, [:two, "one"]}
    :ok = Server.insert(leader, {3}, "a = 1")
    :ok = Server.delete(leader, "one")
    Server.await!(follower, Server.version!(leader))
    assert BeTree.search(follower, %{a: 1}) == {:ok, [:two, {3}]}
    assert Server.fetch(follower, {3}) == {:ok, "a = 1"}
    assert Server.ids(follower) == {:ok, [:two, {3}]}
    refute Server.member?(follower, "one")
    follower |> Servers.process() |> Process.exit(:kill)
    eventually(fn -> match?({:ok, %{connected: true}}, Server.info(follower)) end)
    assert BeTree.search(follower, %{a: 1}) == {:ok, [:two, {3}]}
    :ok = stop_supervised(leader)
    start_supervised!({Server, name: leader, schema: @schema, ids: :term}, id: leader)
    :ok = Server.insert(leader, "new", "a = 1")
    eventually(fn -> BeTree.search(follower, %{a: 1}) == {:ok, ["new"]} end)
    eventually(fn -> aged_count(follower) == 1 end)
  end

  test "a cluster with ids: :term takes terms" do
    shards = for _shard <- 1..3, do: {start!(), node()}
    cluster = Cluster.new(shards, ids: :term)
    assert {:ok, 100} = BeTree.insert_all(cluster, for(id <- 1..100, do: {{:rule, id}, "a = #{rem(id, 10)}"}))
    assert BeTree.search(cluster, %{a: 3}) == {:ok, for(id <- 3..93//10, do: {:rule, id})}
    assert Cluster.fetch(cluster, {:rule, 3}) == {:ok, "a = 3"}
    assert {:ok, %{match: true}} = BeTree.explain(cluster, %{a: 3}, {:rule, 3})
    assert BeTree.put(cluster, {:rule, 3}, "a = 4") == :ok
    assert BeTree.delete(cluster, {:rule, 4}) == :ok
    assert Cluster.count(cluster) == {:ok, 99}
    assert BeTree.search_many(cluster, [%{a: 4}]) == {:ok, [[{:rule, 3} | for(id <- 14..94//10, do: {:rule, id})]]}
    assert {:error, %Error{kind: :type}} = shards |> Cluster.new() |> BeTree.insert({:rule, 1}, "a = 1")
  end

  test "a stopped server leaves no table" do
    name = start!()
    :ok = Server.insert(name, "one", "a = 1")
    {:ok, %{ids: ids}} = Table.fetch(name)
    assert Server.info!(name).ids.bytes > 0
    :ok = stop_supervised(name)
    for table <- [ids.terms, ids.numbers, ids.released], do: assert(:ets.info(table) == :undefined)
    assert {:error, %Error{kind: :no_server}} = BeTree.search(name, %{a: 1})
    assert {:error, %Error{kind: :no_server}} = BeTree.insert(name, "one", "a = 1")
  end

  test "searches burn the same fuel with term ids as with integer ids" do
    [terms, integers] = for options <- [[ids: :term], [ids: :integer]], do: start!(options)
    for name <- [terms, integers], do: Server.insert_all!(name, for(id <- 1..100, do: {id, "a > #{id}"}))

    for a <- [-1, 1, 50, 200] do
      assert {:ok, ids, %{fuel: fuel}} = BeTree.search(terms, %{a: a}, stats: true)
      assert {:ok, ^ids, %{fuel: ^fuel}} = BeTree.search(integers, %{a: a}, stats: true)
    end
  end
end

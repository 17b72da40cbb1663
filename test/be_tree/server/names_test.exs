defmodule BeTree.Server.NamesTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Eventually, Quiet}

  alias BeTree.{Error, Server}
  alias BeTree.Server.{Names, Table}

  setup :quiet

  setup %{test: test} do
    registry = :"registry of #{test}"
    start_supervised!({Registry, keys: :unique, name: registry})
    {:ok, registry: registry, name: {:via, Registry, {registry, {"tenant", 7}}}}
  end

  defp start!(options) do
    options = Keyword.put_new(options, :schema, age: :integer)
    start_supervised!({Server, options}, id: options[:name])
  end

  test "a server in a registry is searched and changed by its name", %{name: name, registry: registry} do
    pid = start!(name: name)
    assert [{^pid, _value}] = Registry.lookup(registry, {"tenant", 7})
    assert Server.insert_all(name, [{1, "age > 1"}, {2, "age > 2"}]) == {:ok, 2}
    assert BeTree.insert(name, 3, "age > 3") == :ok
    assert BeTree.put(name, 3, "age > 4") == :ok
    assert BeTree.delete(name, 2) == :ok
    assert BeTree.search(name, %{age: 4}) == {:ok, [1]}
    assert BeTree.search_many(name, [%{age: 5}, %{age: 1}]) == {:ok, [[1, 3], []]}
    assert [{%{age: 5}, {:ok, [1, 3]}}] = Enum.to_list(BeTree.stream(name, [%{age: 5}]))
    assert BeTree.explain!(name, %{age: 5}, 3).match
    assert {:ok, %{expressions: 2, version: 4}} = BeTree.info(name)
    assert Server.fetch(name, 3) == {:ok, "age > 4"}
    assert Server.ids(name) == {:ok, [1, 3]}
    assert Server.count(name) == {:ok, 2}
    assert Server.version(name) == {:ok, 4}
    assert {:ok, [%{name: "age"}]} = Server.schema(name)
    assert BeTree.search(Server.index!(name), %{age: 5}) == {:ok, [1, 3]}
    assert BeTree.search(name, BeTree.Event.prepare!(name, %{age: 5})) == {:ok, [1, 3]}
    assert BeTree.profile!(name, [%{age: 5}]).searches == 1
    assert {:error, [%Error{kind: :duplicate_id}]} = Server.insert_all(name, [{1, "true"}], on_error: :collect)
    assert Server.validate(name, "age = 1") == :ok
    tree = BeTree.new!(age: :integer)
    BeTree.insert!(tree, 9, "true")
    assert Server.swap(name, BeTree.publish!(tree)) == :ok
    assert BeTree.search(name, %{age: 5}) == {:ok, [9]}
  end

  test "a server in a registry is followed and used as a shard by its name", %{name: name} do
    start!(name: name)
    follower = {:via, :global, {__MODULE__, :follower}}
    start!(name: follower, schema: nil, follow: {name, node()})
    Server.insert!(name, 1, "age > 1")
    assert Server.await(follower, 1) == {:ok, 1}
    assert BeTree.search(follower, %{age: 2}) == {:ok, [1]}
    assert_raise ArgumentError, ~r/follows {:via, Registry/, fn -> Server.insert(follower, 2, "true") end
    cluster = BeTree.Cluster.new([{name, node()}])
    assert BeTree.insert(cluster, 2, "age > 1") == :ok
    assert BeTree.search(cluster, %{age: 2}) == {:ok, [1, 2]}
  end

  test "an unused name is an error of kind :no_server", %{name: name} do
    for result <- [BeTree.search(name, %{age: 1}), Server.insert(name, 1, "true"), Server.stop(name), Server.ids(name)] do
      assert {:error, %Error{kind: :no_server, message: message}} = result
      assert message =~ "{:via, Registry"
    end

    # A process that is no server.
    {:ok, _agent} = Agent.start_link(fn -> nil end, name: name)
    assert {:error, %Error{kind: :no_server}} = BeTree.search(name, %{age: 1})
    assert {:error, {:already_started, _agent}} = Server.start_link(name: name, schema: [])
    assert {:error, %Error{kind: :no_server}} = Server.stop(name)
  end

  test "a stopped server frees its name and its row", %{name: name} do
    {:ok, table} = with(pid = start!(name: name), do: {pid, Names.table(name)}) |> elem(1)
    assert Table.server?(table)
    rows = :ets.info(Names, :size)
    :ok = stop_supervised(name)
    eventually(fn -> :ets.info(Names, :size) < rows or :ets.match(Names, {:_, table}) == [] end)
    assert {:error, %Error{kind: :no_server}} = BeTree.search(name, %{age: 1})
    start!(name: name)
    assert BeTree.search(name, %{age: 1}) == {:ok, []}
    assert Server.stop(name) == :ok
  end

  test "names survive the end of the process that removes them", %{name: name} do
    pid = start!(name: name)
    monitor = Process.monitor(Process.whereis(Names))
    Process.exit(Process.whereis(Names), :kill)
    assert_receive {:DOWN, ^monitor, :process, _names, :killed}, 30_000
    assert BeTree.search(name, %{age: 1}) == {:ok, []}
    eventually(fn -> Process.whereis(Names) != nil end)
    send(Names, :unknown)
    GenServer.cast(Names, :unknown)
    assert {:error, %Error{kind: :type}} = GenServer.call(Names, :unknown, :infinity)
    :ok = stop_supervised(name)
    eventually(fn -> :ets.lookup(Names, pid) == [] end)
  end

  test "concurrent starts make one server", %{name: name} do
    test = self()

    starters =
      for _ <- 1..20 do
        spawn_monitor(fn ->
          Process.flag(:trap_exit, true)
          send(test, {:outcome, Server.start_link(name: name, schema: [age: :integer])})
          receive(do: (:end -> :ok))
        end)
      end

    outcomes = for _ <- starters, do: receive(do: ({:outcome, outcome} -> outcome), after: (60_000 -> nil))
    assert [pid] = for({:ok, pid} <- outcomes, do: pid)
    assert Enum.count(outcomes, &(&1 == {:error, {:already_started, pid}})) == 19
    assert Server.insert(name, 1, "true") == :ok
    assert Server.stop(name) == :ok
    for {starter, _monitor} <- starters, do: send(starter, :end)
    for {starter, monitor} <- starters, do: assert_receive({:DOWN, ^monitor, :process, ^starter, :normal}, 30_000)
  end

  test "wrong names raise" do
    for name <- ["a", {:via, "Registry", 1}, {:via, Registry}, {:global, :a}, nil, make_ref()] do
      assert_raise ArgumentError, ~r/:name takes an atom or {:via, module, term}/, fn ->
        Server.start_link(name: name, schema: [])
      end
    end

    for call <- [&Server.insert(&1, 1, "true"), &BeTree.search(&1, %{}), &Server.ids/1] do
      assert_raise ArgumentError, ~r/server's name/, fn -> call.({:via, "Registry", 1}) end
    end
  end

  defmodule Half do
    @moduledoc false
    def register_name(_term, _pid), do: :yes
    def unregister_name(_term), do: :ok
  end

  test "modules that cannot register and find processes raise" do
    for {module, fault} <- [
          {Missing, "there is no module Missing; give Registry, :global or one like them"},
          {Half, "the module #{inspect(Half)} lacks send/2, whereis_name/1; give Registry"}
        ] do
      name = {:via, module, 7}
      text = "the name #{inspect(name)} is of no use: #{fault}"

      for call <- [
            &Server.start_link(name: &1, schema: [age: :integer]),
            &Server.insert(&1, 1, "true"),
            &Server.insert_all(&1, [{1, "true"}]),
            &Server.ids/1,
            &Server.info/1,
            &Server.index/1,
            &Server.stop/1,
            &BeTree.search(&1, %{age: 1}),
            &BeTree.explain(&1, %{age: 1}, 1)
          ] do
        error = assert_raise ArgumentError, fn -> call.(name) end
        assert Exception.message(error) =~ text
      end
    end
  end

  test "a follower of a name whose module is missing says so" do
    follower = :"follower_#{System.unique_integer([:positive])}"
    start!(name: follower, schema: nil, follow: {{:via, Missing, 7}, node()})

    eventually(fn ->
      {:ok, info} = Server.info(follower)
      info.error != nil and info.error.message =~ "cannot be followed now: the name {:via, Missing, 7} is of no use"
    end)
  end

  test "an error of the module itself is raised as it is" do
    name = {:via, Registry, {:"a registry that does not run", 7}}

    for call <- [&Server.start_link(name: &1, schema: []), &BeTree.search(&1, %{}), &Server.insert(&1, 1, "true")],
        do: assert_raise(ArgumentError, ~r/unknown registry/, fn -> call.(name) end)
  end
end

# Stands in for the package phoenix_live_dashboard: the behaviour, and a sigil that keeps the template as text.
defmodule Phoenix.LiveDashboard.PageBuilder do
  @callback menu_link(term, map) :: {:ok, String.t()}
  @callback mount(map, map, term) :: {:ok, term}
  @callback handle_event(String.t(), map, term) :: {:noreply, term}
  @callback render(map) :: term

  defmacro __using__(_options) do
    quote do
      @behaviour Phoenix.LiveDashboard.PageBuilder
      import Phoenix.LiveDashboard.PageBuilder, only: [sigil_H: 2, assign: 2]
    end
  end

  def assign(socket, values), do: %{socket | assigns: Map.merge(socket.assigns, Map.new(values))}

  # Like the package's, it needs a variable `assigns`.
  defmacro sigil_H({:<<>>, _meta, [template]}, []) do
    true = Macro.Env.has_var?(__CALLER__, {:assigns, nil})
    quote do: {var!(assigns), unquote(template)}
  end
end

# Stands in for the package telemetry: `execute/3` calls the handlers in the process that emits the event.
defmodule BeTree.LiveDashboardTest.Telemetry do
  def attach(id, name, handler, config), do: change(&Map.put(&1, id, {name, handler, config}))
  def detach(id), do: change(&Map.delete(&1, id))
  def handlers, do: :persistent_term.get(__MODULE__, %{})

  def execute(name, measurements, metadata) do
    for {_id, {^name, handler, config}} <- handlers(), do: handler.(name, measurements, metadata, config)
    :ok
  end

  defp change(change), do: :persistent_term.put(__MODULE__, change.(handlers()))
end

defmodule BeTree.LiveDashboardTest do
  # Servers of other tests would take a part of the time for gauges.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  alias BeTree.{Output, PubSub, Rules, Server, Tenants}
  alias BeTree.LiveDashboard.{Rows, Sampler}
  alias BeTree.LiveDashboardTest.Telemetry
  alias BeTree.Test.Servers

  defmodule Page do
    use BeTree.LiveDashboard
  end

  defp params(more \\ %{}), do: Map.merge(%{search: nil, sort_by: :name, sort_dir: :asc, limit: 50}, more)

  # Returns the tables of gauges of the page: the function that fetches the rows, and the columns with the order in which each is sorted.
  defp tables do
    {%{page: :page}, template} = Page.render(%{page: :page})

    for [table] <- Regex.scan(~r/<\.live_table.*?<\/\.live_table>/s, template), table =~ "Rows.gauges" do
      [[_all, fetch]] = Regex.scan(~r/row_fetcher=\{(.*?)\}\n/, table)
      {fetch, _bindings} = Code.eval_string(fetch)
      columns = Regex.scan(~r/<:col field=\{:(\w+)\}.* sortable=\{:(asc|desc)\} \/>/, table, capture: :all_but_first)
      assert length(columns) == length(Regex.scan(~r/<:col /, table))
      {fetch, for([column, order] <- columns, do: {String.to_atom(column), String.to_atom(order)})}
    end
  end

  test "a page has a link in the menu" do
    assert Page.menu_link(%{}, %{}) == {:ok, "BeTree"}
  end

  @tag :tmp_dir
  test "the tables of a page show existing gauges, sorted by each column", %{tmp_dir: folder} do
    [server, rules, output, pubsub, tenants] = names = for _name <- 1..5, do: Servers.new_name()
    start_supervised!({Server, name: server, schema: [a: :integer], dir: Path.join(folder, "server")})
    follower = Servers.start(schema: nil, follow: {server, node()})
    start_supervised!({Rules.Server, name: rules, rules: "fact m(n: integer)"})
    start_supervised!({Output, name: output, sink: {:process, self()}})
    start_supervised!({PubSub, name: pubsub, schema: [a: :integer]})
    start_supervised!({Tenants, name: tenants, schema: [a: :integer], dir: Path.join(folder, "tenants")})
    tables = tables()
    assert length(tables) == 5

    for {{fetch, columns}, name} <- Enum.zip(tables, names) do
      shown = if name == server, do: [server, follower], else: [name]
      wanted = for {column, _order} <- columns, uniq: true, do: column

      # On a busy machine a process may reply too late.
      eventually(fn ->
        {rows, _total} = fetch.(params(), node())
        rows = for name <- shown, row <- rows, row.name == inspect(name), do: row
        wanted -- Enum.flat_map(rows, &Map.keys/1) == []
      end)

      for {column, order} <- columns do
        {rows, total} = fetch.(params(%{sort_by: column, sort_dir: order}), node())
        assert total == length(rows)
        {known, unknown} = Enum.split_while(rows, &is_map_key(&1, column))
        values = for row <- known, do: row[column]
        assert values == Enum.sort(values, order)
        refute Enum.any?(unknown, &is_map_key(&1, column))
      end
    end
  end

  test "gauges/3 searches names, and returns at most as many rows as the limit" do
    names = for _name <- 1..3, do: Servers.start(schema: [a: :integer])
    [first | _others] = names
    fetch = fn more -> Rows.gauges(:server, params(more), node()) end

    eventually(fn ->
      {rows, _total} = fetch.(%{search: inspect(first)})
      Enum.any?(rows, &match?(%{expressions: 0}, &1)) and Enum.all?(rows, &(&1.name =~ inspect(first)))
    end)

    eventually(fn -> match?({[_row, _other], total} when total >= 3, fetch.(%{limit: 2})) end)

    assert fetch.(%{search: "no such name"}) == {[], 0}
  end

  test "gauges/3 returns none of a node that is not connected" do
    assert Rows.gauges(:server, params(), :"no_such@127.0.0.1") == {[], 0}
  end

  # Replaces the sink of the node, and returns a process that views a page until the test ends it.
  defp sampled(_context) do
    before = BeTree.Telemetry.sink()
    BeTree.Telemetry.put_sink(Telemetry)
    on_exit(fn -> BeTree.Telemetry.put_sink(before) end)
    {:ok, server: Servers.start(schema: [a: :integer])}
  end

  # Returns the row of a server in a table of searches.
  defp row(fetch, server) do
    {rows, _total} = fetch.(params(%{search: inspect(server)}), node())
    Enum.find(rows, &(&1.name == inspect(server)))
  end

  defp wait_until_ended do
    with sampler when is_pid(sampler) <- Process.whereis(Sampler) do
      monitor = Process.monitor(sampler)
      assert_receive {:DOWN, ^monitor, :process, ^sampler, _reason}, 300_000
    end
  end

  describe "searches/2 and slow/2" do
    setup :sampled

    test "sample searches while a process views them", %{server: server} do
      Server.insert_all!(server, [{1, "a = 1"}, {2, "a > 0"}])
      {:ok, _ids} = BeTree.search(server, %{a: 1})
      assert Telemetry.handlers() == %{}

      page =
        Task.async(fn ->
          assert row(&Rows.searches/2, server) == nil
          assert map_size(Telemetry.handlers()) == 1
          {:ok, [1, 2], %{fuel: first}} = BeTree.search(server, %{a: 1}, stats: true)
          {:ok, [2], %{fuel: second}} = BeTree.search(server, %{a: 5}, stats: true)
          mean = div(first + second, 2)
          assert %{searches: 2, errors: 0, fuel: ^mean, matches: 1.5} = row(&Rows.searches/2, server)
          assert %{result: :ok, slices: 1, fuel: fuel} = row(&Rows.slow/2, server)
          assert fuel in [first, second]

          {:error, _error} = BeTree.search(server, %{})
          assert %{searches: 3, errors: 1} = row(&Rows.searches/2, server)
        end)

      Task.await(page, 300_000)
      wait_until_ended()
      assert Telemetry.handlers() == %{}
    end

    test "share a sampler, which ends with the last viewer", %{server: server} do
      test = self()

      [first, second] =
        for _page <- 1..2 do
          spawn(fn ->
            _row = row(&Rows.slow/2, server)
            send(test, :viewing)
            Process.sleep(:infinity)
          end)
        end

      for _page <- 1..2, do: assert_receive(:viewing, 300_000)
      sampler = Process.whereis(Sampler)
      assert Map.keys(Telemetry.handlers()) == [{Sampler, sampler}]
      Process.exit(first, :kill)
      eventually(fn -> map_size(:sys.get_state(sampler).viewers) == 1 end)
      Process.exit(second, :kill)
      wait_until_ended()
      assert Telemetry.handlers() == %{}
    end

    test "have no rows without the package telemetry", %{server: server} do
      BeTree.Telemetry.put_sink(false)
      {:ok, _ids} = BeTree.search(server, %{a: 1})
      assert Rows.searches(params(), node()) == {[], 0}
      assert Rows.slow(params(), node()) == {[], 0}
    end
  end

  describe "the profile of a page" do
    defp submit(server, events) do
      {:ok, socket} = Page.mount(%{}, %{}, %{assigns: %{page: %{node: node()}}})
      assert socket.assigns.be_tree_profile == nil
      {:noreply, socket} = Page.handle_event("be-tree-profile", %{"server" => server, "events" => events}, socket)
      socket.assigns.be_tree_profile
    end

    test "shows the tested expressions of a server" do
      server = Servers.start(schema: [a: :integer, b: :string])
      Server.insert_all!(server, for(id <- 1..50, do: {id, "a = 1 and b <> 'x' and not (b = 'y#{id}')"}))
      assert inspect(server) in Rows.servers(node())
      assert {:ok, profile} = submit(inspect(server), ~s({"a": 1, "b": "y7"}\r\n\n{"a": 2, "b": "z"}\n))
      assert profile.summary =~ ~r/^2 events, [0-9,]+ fuel a search: /
      assert Enum.all?(profile.advice, &is_binary/1)

      assert {[%{name: name, tests: tests} | _rows], total} =
               Rows.expressions(profile, params(%{sort_by: :tests, sort_dir: :desc}), node())

      assert total == length(profile.expressions) and tests > 0
      assert String.to_integer(name) in 1..50

      assert {[%{name: "7"}], _total} =
               Rows.expressions(profile, params(%{search: "7", sort_by: :failed, sort_dir: :desc, limit: 1}), node())
    end

    test "shows an error for wrong events and servers" do
      server = inspect(Servers.start(schema: [a: :integer]))
      assert {:error, "event 2: " <> _message} = submit(server, ~s({"a": 1}\n{"a": x}))
      assert {:error, "there is no event" <> _message} = submit(server, "\n")
      assert {:error, "there are 1001 events" <> _message} = submit(server, String.duplicate("{}\n", 1_001))
      assert {:error, "no server has the name NoSuchServer" <> _message} = submit("NoSuchServer", "{}")
      terms = Servers.start(schema: [a: :integer], ids: :term)
      assert {:error, "an index, an image and a profile" <> _message} = submit(inspect(terms), "{}")

      assert {:error, "the node no_such@127.0.0.1 did not reply" <> _message} =
               Rows.profile(:"no_such@127.0.0.1", server, "{}")
    end
  end

  test "the page shows the module of servers, and whether it is another one" do
    wasm = :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read!()
    digits = fn wasm -> :sha256 |> :crypto.hash(wasm) |> binary_part(0, 6) |> Base.encode16(case: :lower) end
    # A custom section at the end changes the bytes, and nothing else.
    other = wasm <> <<0, 2, 1, ?x>>
    server = Servers.start(schema: [a: :integer])
    foreign = Servers.start(schema: [a: :integer], guest: other)
    modules = BeTree.Gauges.Modules.of(:server)
    assert modules[server] == digits.(wasm)
    assert modules[foreign] == digits.(other) <> " (not built in)"
  end
end

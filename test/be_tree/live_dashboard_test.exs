# Stands in for the package phoenix_live_dashboard: the behaviour, and a sigil that keeps the template as text.
defmodule Phoenix.LiveDashboard.PageBuilder do
  @callback menu_link(term, map) :: {:ok, String.t()}
  @callback render(map) :: term

  defmacro __using__(_options) do
    quote do
      @behaviour Phoenix.LiveDashboard.PageBuilder
      import Phoenix.LiveDashboard.PageBuilder, only: [sigil_H: 2]
    end
  end

  # Like the package's, it needs a variable `assigns`.
  defmacro sigil_H({:<<>>, _meta, [template]}, []) do
    true = Macro.Env.has_var?(__CALLER__, {:assigns, nil})
    quote do: {var!(assigns), unquote(template)}
  end
end

defmodule BeTree.LiveDashboardTest do
  # Servers of other tests would take a part of the time for gauges.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  alias BeTree.{LiveDashboard, Output, PubSub, Rules, Server, Tenants}
  alias BeTree.Test.Servers

  defmodule Page do
    use BeTree.LiveDashboard
  end

  defp params(more \\ %{}), do: Map.merge(%{search: nil, sort_by: :name, sort_dir: :asc, limit: 50}, more)

  # Returns the tables of the page: the function that fetches the rows, and the columns with the order in which each is sorted.
  defp tables do
    {%{page: :page}, template} = Page.render(%{page: :page})

    for [table] <- Regex.scan(~r/<\.live_table.*?<\/\.live_table>/s, template) do
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

  test "rows/3 searches names, and returns at most as many rows as the limit" do
    names = for _name <- 1..3, do: Servers.start(schema: [a: :integer])
    [first | _others] = names
    fetch = fn more -> LiveDashboard.rows(:server, params(more), node()) end

    eventually(fn ->
      {rows, _total} = fetch.(%{search: inspect(first)})
      Enum.any?(rows, &match?(%{expressions: 0}, &1)) and Enum.all?(rows, &(&1.name =~ inspect(first)))
    end)

    eventually(fn -> match?({[_row, _other], total} when total >= 3, fetch.(%{limit: 2})) end)

    assert fetch.(%{search: "no such name"}) == {[], 0}
  end

  test "rows/3 returns none of a node that is not connected" do
    assert LiveDashboard.rows(:server, params(), :"no_such@127.0.0.1") == {[], 0}
  end
end

defmodule BeTree.LiveDashboard do
  @moduledoc """
  A page for Phoenix LiveDashboard (0.8) that shows the gauges of a node: servers, servers of rules, outputs, pubsubs and tenants.

  Make a module of your application the page, and add it to the router:

      defmodule MyAppWeb.BeTreePage do
        use BeTree.LiveDashboard
      end

      live_dashboard "/dashboard", metrics: MyApp.Metrics, additional_pages: [be_tree: MyAppWeb.BeTreePage]

  The page is compiled in your application, so BeTree does not depend on Phoenix. It has a tab for each kind, with a table that can be
  searched and sorted, and follows the node and the refresh interval that are chosen in the dashboard. The cells of a server that does not
  reply are empty, except for `busy` and `queue`. `BeTree.Telemetry` tells what the columns mean. The tab Metrics of the dashboard
  shows searches: their rates, durations and fuel (`BeTree.Telemetry.metrics/0`).
  """

  alias BeTree.Gauges
  alias BeTree.Input.Describe

  # Milliseconds for the gauges of a node. `BeTree.Gauges.read/0` waits for processes of a node for a second.
  @timeout 5_000

  @doc false
  defmacro __using__(_options) do
    quote do
      use Phoenix.LiveDashboard.PageBuilder

      @impl true
      def menu_link(_session, _capabilities), do: {:ok, "BeTree"}

      # The tables are outside of the navigation bar: within its items LiveDashboard 0.8.7 renders no search and no order anew.
      @impl true
      def render(var!(assigns)) do
        ~H"""
        <.live_nav_bar id="be-tree-nav" page={@page}>
          <:item name="servers" label="Servers"></:item>
          <:item name="rules" label="Rules"></:item>
          <:item name="outputs" label="Outputs"></:item>
          <:item name="pub_subs" label="Publish/subscribe"></:item>
          <:item name="tenants" label="Tenants"></:item>
        </.live_nav_bar>
        <.live_table
          :if={@page.params["nav"] in [nil, "servers"]}
          id="be-tree-servers"
          dom_id="be-tree-servers"
          page={@page}
          title="Servers"
          rows_name="servers"
          row_fetcher={&BeTree.LiveDashboard.rows(:server, &1, &2)}
        >
          <:col field={:name} sortable={:asc} />
          <:col field={:busy} text_align="right" sortable={:desc} />
          <:col field={:failed} text_align="right" sortable={:desc} />
          <:col field={:connected} text_align="right" sortable={:asc} />
          <:col field={:expressions} header="Subscriptions" text_align="right" sortable={:desc} />
          <:col field={:memory} header="Base, bytes" text_align="right" sortable={:desc} />
          <:col field={:replicas} text_align="right" sortable={:desc} />
          <:col field={:replica_bytes} header="Replicas, bytes" text_align="right" sortable={:desc} />
          <:col field={:version} text_align="right" sortable={:desc} />
          <:col field={:lag} text_align="right" sortable={:desc} />
          <:col field={:unwritten} text_align="right" sortable={:desc} />
          <:col field={:journal_bytes} header="Journal, bytes" text_align="right" sortable={:desc} />
          <:col field={:journal_age} header="Journal, age in µs" text_align="right" sortable={:desc} />
          <:col field={:queue} text_align="right" sortable={:desc} />
        </.live_table>
        <.live_table
          :if={@page.params["nav"] == "rules"}
          id="be-tree-rules"
          dom_id="be-tree-rules"
          page={@page}
          title="Servers of rules"
          rows_name="servers"
          row_fetcher={&BeTree.LiveDashboard.rows(:rules, &1, &2)}
        >
          <:col field={:name} sortable={:asc} />
          <:col field={:busy} text_align="right" sortable={:desc} />
          <:col field={:rules} text_align="right" sortable={:desc} />
          <:col field={:facts} text_align="right" sortable={:desc} />
          <:col field={:waiting} text_align="right" sortable={:desc} />
          <:col field={:due} text_align="right" sortable={:desc} />
          <:col field={:held} text_align="right" sortable={:desc} />
          <:col field={:behind} header="Behind, ms" text_align="right" sortable={:desc} />
          <:col field={:memory_bytes} header="Memory, bytes" text_align="right" sortable={:desc} />
          <:col field={:journal_bytes} header="Journal, bytes" text_align="right" sortable={:desc} />
          <:col field={:journal_age} header="Journal, age in µs" text_align="right" sortable={:desc} />
          <:col field={:queue} text_align="right" sortable={:desc} />
        </.live_table>
        <.live_table
          :if={@page.params["nav"] == "outputs"}
          id="be-tree-outputs"
          dom_id="be-tree-outputs"
          page={@page}
          title="Outputs"
          rows_name="outputs"
          row_fetcher={&BeTree.LiveDashboard.rows(:output, &1, &2)}
        >
          <:col field={:name} sortable={:asc} />
          <:col field={:pending} text_align="right" sortable={:desc} />
          <:col field={:pending_bytes} header="Pending, bytes" text_align="right" sortable={:desc} />
          <:col field={:lateness} header="Lateness, µs" text_align="right" sortable={:desc} />
          <:col field={:senders} text_align="right" sortable={:desc} />
          <:col field={:memory} header="Memory, bytes" text_align="right" sortable={:desc} />
          <:col field={:overloaded} text_align="right" sortable={:desc} />
          <:col field={:closed} text_align="right" sortable={:desc} />
        </.live_table>
        <.live_table
          :if={@page.params["nav"] == "pub_subs"}
          id="be-tree-pub-subs"
          dom_id="be-tree-pub-subs"
          page={@page}
          title="Publish/subscribe"
          rows_name="pubsubs"
          row_fetcher={&BeTree.LiveDashboard.rows(:pub_sub, &1, &2)}
        >
          <:col field={:name} sortable={:asc} />
          <:col field={:subscriptions} text_align="right" sortable={:desc} />
          <:col field={:subscribers} text_align="right" sortable={:desc} />
          <:col field={:full} text_align="right" sortable={:desc} />
        </.live_table>
        <.live_table
          :if={@page.params["nav"] == "tenants"}
          id="be-tree-tenants"
          dom_id="be-tree-tenants"
          page={@page}
          title="Tenants"
          rows_name="tenants"
          row_fetcher={&BeTree.LiveDashboard.rows(:tenants, &1, &2)}
        >
          <:col field={:name} sortable={:asc} />
          <:col field={:hot} header="In memory" text_align="right" sortable={:desc} />
          <:col field={:bytes} text_align="right" sortable={:desc} />
          <:col field={:shards} text_align="right" sortable={:desc} />
          <:col field={:shard_bytes} header="Shards, bytes" text_align="right" sortable={:desc} />
          <:col field={:round} header="Round, ms" text_align="right" sortable={:desc} />
          <:col field={:journal_bytes} header="Journal, bytes" text_align="right" sortable={:desc} />
          <:col field={:journal_age} header="Journal, age in µs" text_align="right" sortable={:desc} />
        </.live_table>
        """
      end
    end
  end

  @doc false
  # Fetches the rows of a table, as `live_table` of LiveDashboard asks for them, and their number before the limit. There are none of a node
  # that is lost, or that has no BeTree.
  @spec rows(Gauges.kind(), map, node) :: {[map], non_neg_integer}
  def rows(kind, %{search: search, sort_by: column, sort_dir: direction, limit: limit}, node) do
    rows =
      for %{kind: ^kind, name: name, measurements: measurements} <- gauges(node),
          row = Map.put(measurements, :name, Describe.value(name)),
          String.contains?(row.name, search || ""),
          do: row

    # A server that does not reply has no value, and one that follows none is neither connected nor not. Such rows come last.
    {known, unknown} = Enum.split_with(rows, &is_map_key(&1, column))
    sorted = Enum.sort_by(known, & &1[column], direction) ++ unknown
    {Enum.take(sorted, limit), length(rows)}
  end

  defp gauges(node) do
    :erpc.call(node, Gauges, :read, [], @timeout)
  catch
    # A failure of that node, or of the connection.
    _kind, _reason -> []
  end
end

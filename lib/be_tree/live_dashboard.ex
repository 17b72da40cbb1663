defmodule BeTree.LiveDashboard do
  @moduledoc """
  A page for Phoenix LiveDashboard (0.8) that shows what BeTree does on a node: the gauges of servers, servers of rules, outputs, pubsubs and
  tenants, the searches and their fuel, and the expressions that cost most.

  Make a module of your application the page, and add it to the router:

      defmodule MyAppWeb.BeTreePage do
        use BeTree.LiveDashboard
      end

      live_dashboard "/dashboard", metrics: MyApp.Metrics, additional_pages: [be_tree: MyAppWeb.BeTreePage]

  The page is compiled in your application, so BeTree does not depend on Phoenix. It follows the node and the refresh interval that are chosen
  in the dashboard. All tables can be searched by name and sorted.

  ## Gauges

  The tabs *Servers*, *Rules*, *Outputs*, *Publish/subscribe* and *Tenants* show the gauges; `BeTree.Telemetry` tells what they mean. The
  cells of a server that does not reply are empty, except for `busy` and `queue`. *Module* has the first digits of the SHA-256 of the index
  module that a server or tenants run, which tell nodes with different versions apart. A module other than that of this version of BeTree is
  marked `(not built in)`.

  ## Searches

  The tab *Searches* shows for each server how many searches ended since sampling began, and the mean of their fuel, duration and matches.
  *Slow searches* shows the slowest search of each server in each of the last 300 seconds, the newest first: its time, duration, fuel, slices,
  matches and the kind of its error. Both count searches for one event, as the events `[:be_tree, :search, :stop]` do. They have no value of
  an event and no id, because an event may be private.

  A node samples searches from the moment at which one of these tabs is opened, until the last page that has opened them is left or loses its
  connection. Otherwise the page costs a search nothing. The tables are empty without the package `:telemetry`.

  ## Expensive expressions

  The tab *Profile* tells which expressions cost most: choose a server, enter events, one JSON object a line, and submit. `BeTree.profile/3`
  runs the searches in a copy of the server's index on the chosen node, for at most 5 seconds and 1,000 events. It counts fuel and tests, changes
  nothing, and keeps no event. A server with terms for ids has no profile.

  The tab Metrics of the dashboard shows searches over time: their rates, durations and fuel (`BeTree.Telemetry.metrics/0`).
  """

  @doc false
  defmacro __using__(_options) do
    quote do
      use Phoenix.LiveDashboard.PageBuilder

      @impl true
      def menu_link(_session, _capabilities), do: {:ok, "BeTree"}

      @impl true
      def mount(_params, _session, socket), do: {:ok, assign(socket, be_tree_profile: nil)}

      @impl true
      def handle_event("be-tree-profile", %{"server" => server, "events" => events}, socket) do
        profile = BeTree.LiveDashboard.Rows.profile(socket.assigns.page.node, server, events)
        {:noreply, assign(socket, be_tree_profile: profile)}
      end

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
          <:item name="searches" label="Searches"></:item>
          <:item name="slow" label="Slow searches"></:item>
          <:item name="profile" label="Profile"></:item>
        </.live_nav_bar>
        <.live_table
          :if={@page.params["nav"] in [nil, "servers"]}
          id="be-tree-servers"
          dom_id="be-tree-servers"
          page={@page}
          title="Servers"
          rows_name="servers"
          row_fetcher={&BeTree.LiveDashboard.Rows.gauges(:server, &1, &2)}
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
          <:col field={:module} sortable={:asc} />
        </.live_table>
        <.live_table
          :if={@page.params["nav"] == "rules"}
          id="be-tree-rules"
          dom_id="be-tree-rules"
          page={@page}
          title="Servers of rules"
          rows_name="servers"
          row_fetcher={&BeTree.LiveDashboard.Rows.gauges(:rules, &1, &2)}
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
          row_fetcher={&BeTree.LiveDashboard.Rows.gauges(:output, &1, &2)}
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
          row_fetcher={&BeTree.LiveDashboard.Rows.gauges(:pub_sub, &1, &2)}
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
          row_fetcher={&BeTree.LiveDashboard.Rows.gauges(:tenants, &1, &2)}
        >
          <:col field={:name} sortable={:asc} />
          <:col field={:hot} header="In memory" text_align="right" sortable={:desc} />
          <:col field={:bytes} text_align="right" sortable={:desc} />
          <:col field={:shards} text_align="right" sortable={:desc} />
          <:col field={:shard_bytes} header="Shards, bytes" text_align="right" sortable={:desc} />
          <:col field={:round} header="Round, ms" text_align="right" sortable={:desc} />
          <:col field={:journal_bytes} header="Journal, bytes" text_align="right" sortable={:desc} />
          <:col field={:journal_age} header="Journal, age in µs" text_align="right" sortable={:desc} />
          <:col field={:module} sortable={:asc} />
        </.live_table>
        <.live_table
          :if={@page.params["nav"] == "searches"}
          id="be-tree-searches"
          dom_id="be-tree-searches"
          page={@page}
          title="Searches for one event, since sampling began"
          rows_name="servers"
          row_fetcher={&BeTree.LiveDashboard.Rows.searches/2}
        >
          <:col field={:searches} text_align="right" sortable={:desc} />
          <:col field={:name} header="Server" sortable={:asc} />
          <:col field={:per_second} header="Per second" text_align="right" sortable={:desc} />
          <:col field={:fuel} header="Fuel, mean" text_align="right" sortable={:desc} />
          <:col field={:duration} header="Duration, mean in µs" text_align="right" sortable={:desc} />
          <:col field={:matches} header="Matches, mean" text_align="right" sortable={:desc} />
          <:col field={:errors} text_align="right" sortable={:desc} />
        </.live_table>
        <.live_table
          :if={@page.params["nav"] == "slow"}
          id="be-tree-slow"
          dom_id="be-tree-slow"
          page={@page}
          title="The slowest search of each server in each second"
          rows_name="searches"
          row_fetcher={&BeTree.LiveDashboard.Rows.slow/2}
        >
          <:col field={:time} header="Time, UTC" sortable={:desc} />
          <:col field={:name} header="Server" sortable={:asc} />
          <:col field={:duration} header="Duration, µs" text_align="right" sortable={:desc} />
          <:col field={:fuel} text_align="right" sortable={:desc} />
          <:col field={:slices} text_align="right" sortable={:desc} />
          <:col field={:matches} text_align="right" sortable={:desc} />
          <:col field={:result} sortable={:asc} />
        </.live_table>
        <div :if={@page.params["nav"] == "profile"}>
          <%!-- A refresh must not empty the fields. --%>
          <form id="be-tree-profile" phx-submit="be-tree-profile" phx-update="ignore" class="mb-4">
            <h5 class="card-title">Profile</h5>
            <label for="be-tree-profile-server">Server</label>
            <select id="be-tree-profile-server" name="server" class="custom-select custom-select-sm mb-2">
              <option :for={name <- BeTree.LiveDashboard.Rows.servers(@page.node)} value={name}><%= name %></option>
            </select>
            <label for="be-tree-profile-events">Events, a JSON object a line</label>
            <textarea id="be-tree-profile-events" name="events" rows="4" class="form-control mb-2"></textarea>
            <button type="submit" class="btn btn-primary btn-sm" phx-disable-with="Searching...">Profile</button>
          </form>
          <%= case @be_tree_profile do %>
            <% nil -> %>
            <% {:error, text} -> %>
              <pre id="be-tree-profile-error"><%= text %></pre>
            <% {:ok, profile} -> %>
              <p id="be-tree-profile-summary"><%= profile.summary %></p>
              <ul>
                <li :for={sentence <- profile.advice}><%= sentence %>.</li>
              </ul>
              <.live_table
                id="be-tree-expressions"
                dom_id="be-tree-expressions"
                page={@page}
                title="Expressions that were tested"
                rows_name="expressions"
                row_fetcher={&BeTree.LiveDashboard.Rows.expressions(profile, &1, &2)}
              >
                <:col field={:tests} text_align="right" sortable={:desc} />
                <:col field={:name} header="Id" sortable={:asc} />
                <:col field={:candidate} header="Candidate" text_align="right" sortable={:desc} />
                <:col field={:matched} text_align="right" sortable={:desc} />
                <:col field={:failed} text_align="right" sortable={:desc} />
                <:col field={:decided_by} header="Decided by" sortable={:asc} />
              </.live_table>
          <% end %>
        </div>
        """
      end
    end
  end
end

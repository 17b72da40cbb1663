defmodule BeTree.Tenants.DashboardPageTest do
  # The page of a folder with tenants, in a real browser.
  use ExUnit.Case

  import BeTree.Test.Tenants

  alias BeTree.Tenants
  alias BeTree.Tenants.Dashboard

  @moduletag :tmp_dir
  @moduletag :browser

  # Events of three days: the present day of the clock, and the two days before.
  @days 3
  @events 40
  @seconds_of_day 86_400

  test "the page shows what tenants cost and what matched, and leads to each", %{tmp_dir: folder} do
    schema = [platform: :string, price: :float, user: :integer, error: :integer]

    stats = [
      users: {:uniques, :user},
      revenue: {:sum, :price},
      prices: {:quantiles, :price},
      platforms: {:top, :platform},
      errors: {:members, :error}
    ]

    clocks = clocks()
    name = start([schema: schema, stats: stats, dir: folder, retention: 365], %{clock: clock(clocks)})
    tenants = ["acme", "<b id=injected>x</b>", {:customer, 17} | for(number <- 1..4, do: "customer #{number}")]

    for tenant <- tenants do
      Tenants.change!(name, tenant,
        put: [{1, "platform = 'ios'"}, {2, "price > 0.0"}, {3, "platform = '</script><b id=injected>' or error = 1"}]
      )
    end

    for day <- 1..@days do
      if day > 1, do: jump(clocks, @seconds_of_day)

      for {tenant, place} <- Enum.with_index(tenants), number <- 1..div(@events, place + 1) do
        event = %{platform: "ios", price: number * 1.0, user: number, error: 500 + rem(number, 5)}
        {:ok, [1, 2]} = Tenants.match(name, tenant, event)
      end
    end

    dashboard = start_supervised!({Dashboard, tenants: name, port: 0})

    {output, status} =
      System.cmd("node", ["--test-reporter=spec", "test/browser/tenants.mjs"],
        env: [{"BE_TREE_PAGE", Dashboard.address(dashboard)}],
        stderr_to_stdout: true
      )

    assert status == 0, output
    assert output =~ ~r/^ℹ pass 10$/m
  end
end

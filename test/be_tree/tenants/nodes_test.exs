defmodule BeTree.Tenants.NodesTest do
  @moduledoc "Tenants on several nodes: moves between them, and counts of both sides after a netsplit."
  use ExUnit.Case, async: false

  import BeTree.Test.{Peers, Quiet}

  alias BeTree.Tenants
  alias BeTree.Test.Peers

  @options [
    name: __MODULE__.Tenants,
    schema: [a: :integer],
    stats: [users: {:uniques, :a}],
    durability: {:interval, 1_000_000}
  ]
  @name @options[:name]

  setup_all :distribute
  setup :quiet

  defp on(node, function, arguments), do: :erpc.call(node, Tenants, function, [@name | arguments])
  defp match(node, values), do: for(a <- values, do: on(node, :match!, ["t", %{a: a}]))

  defp counts(node) do
    [[total]] = on(node, :report!, [[tenants: ["t"]]])
    {:ok, usage} = on(node, :usage, ["t"])
    [users] = total.stats
    {total.events, users.count, usage.days |> Map.values() |> Enum.map(& &1.events) |> Enum.sum()}
  end

  test "a tenant moves between nodes with an atom that the other node does not know" do
    [one, two] = for _node <- 1..2, do: elem(Peers.start(), 1)
    for node <- [one, two], do: Peers.start_tenants(node, @options)
    tenant = {:t, :"tenant_#{System.unique_integer([:positive])}"}
    on(one, :change!, [tenant, [put: [{1, "a > 0"}]]])
    for a <- 1..3, do: on(one, :match!, [tenant, %{a: a}])
    assert {:ok, %{tenant: ^tenant, expressions: 1, days: 1}} = on(one, :move, [tenant, two])
    assert {{:ok, []}, {:ok, [^tenant]}} = {on(one, :tenants, []), on(two, :tenants, [])}
    assert on(two, :match, [tenant, %{a: 4}]) == {:ok, [1]}
    assert {:ok, _counts} = on(two, :move, [tenant, {@name, one}])
    assert [[%{events: 4}]] = on(one, :report!, [[tenants: [tenant]]])
  end

  test "a tenant stays when the other node is gone, or goes" do
    [one, two] = for _node <- 1..2, do: elem(Peers.start(), 1)
    Peers.start_tenants(one, @options)
    on(one, :change!, ["t", [put: [{1, "a > 0"}]]])
    match(one, 1..3)
    assert {:error, %{kind: :no_server, message: message}} = on(one, :move, ["t", two])
    assert message =~ "#{two}"
    Peers.start_tenants(two, @options)
    mover = Task.async(fn -> on(one, :move, ["t", two]) end)
    Peers.kill(two)

    # The move may have been made before the node ended.
    case Task.await(mover, 300_000) do
      {:error, %{kind: :no_server}} -> assert counts(one) == {3, 3, 3}
      {:ok, _counts} -> assert on(one, :tenants, []) == {:ok, []}
    end
  end

  test "after a netsplit a dump of one node brings the counts of both together on the other" do
    [one, two] = for _node <- 1..2, do: elem(Peers.start_apart(), 1)
    for node <- [one, two], do: Peers.start_tenants(node, @options)
    on(one, :change!, ["t", [put: [{1, "a > 0"}]]])
    match(one, 1..10)
    # Both nodes have the tenant, because they no longer see each other.
    on(two, :restore!, [on(one, :dump!, ["t"])])
    match(one, 11..20)
    match(two, 16..40)
    assert counts(one) == {20, 20, 20}
    assert counts(two) == {35, 35, 35}
    dump = on(two, :dump!, ["t"])
    for _time <- 1..2, do: on(one, :restore!, [dump, [existing: :keep]])
    assert counts(one) == {45, 40, 45}
    # The other node counts until it knows that it lost the tenant.
    match(two, 1..5)
    on(two, :move!, ["t", one])
    assert counts(one) == {50, 40, 50}
    assert on(two, :tenants, []) == {:ok, []}
  end
end

defmodule BeTree.Test.Stores do
  @moduledoc "Stores of tenants, for their tests."

  import ExUnit.Assertions

  alias BeTree.Tenants.Store

  @wait_ms 300_000

  @doc "Starts a store with a folder or `nil`. Returns its tables and its process. `:table` has the tables of an earlier process."
  def start(dir, options) do
    store = options[:table] || Store.table()
    defaults = %{table: store, dir: dir, durability: :sync, retention: 30}
    {:ok, pid} = Store.start_link(Map.merge(defaults, options |> Keyword.delete(:table) |> Map.new()))
    {store, pid}
  end

  @doc "Kills the process of a store, and waits for its end. The caller traps exits."
  def kill(pid) do
    monitor = Process.monitor(pid)
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, _reason}, @wait_ms
    assert_receive {:EXIT, ^pid, _reason}, @wait_ms
    :ok
  end

  @doc "Appends a change and waits for the reply, as a client of a partition does."
  def append(store, tenant, change), do: ask(fn from -> Store.append(store, tenant, change, from) end)

  @doc "Stores a body and days together, and waits for the reply."
  def put_all(store, tenant, body, days), do: ask(fn from -> Store.put_all(store, tenant, body, days, from) end)

  @doc "Drops a tenant, and waits for the reply."
  def drop(store, tenant), do: ask(fn from -> Store.drop(store, tenant, from) end)

  defp ask(request) do
    tag = [:alias | :erlang.alias([:reply])]
    :ok = request.({self(), tag})
    assert_receive {^tag, reply}, @wait_ms
    reply
  end

  @doc "Returns what a store has of a tenant, or `nil`."
  def found(store, tenant) do
    case Store.read(store, tenant) do
      {:ok, found} -> found
      {:error, %{kind: :not_found}} -> nil
    end
  end

  @doc "Returns all that a store has: what `BeTree.Tenants.Store.read/2` returns of each tenant, and its days."
  def content(store) do
    for tenant <- Store.tenants(store), into: %{} do
      {:ok, found} = Store.read(store, tenant)
      {:ok, days} = Store.days(store, tenant, -1_000_000..1_000_000)
      {tenant, Map.put(found, :days, days)}
    end
  end

  @doc "Waits until a store neither compacts nor writes a base."
  def settle(pid) do
    BeTree.Test.Eventually.eventually(fn ->
      state = :sys.get_state(pid, :infinity)
      state.compactor == nil and (state.journal == nil or state.journal.writer == nil)
    end)
  end
end

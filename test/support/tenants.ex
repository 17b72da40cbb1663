defmodule BeTree.Test.Tenants do
  @moduledoc "Starts tenants with clocks that the test moves, and finds their processes and tables."

  alias BeTree.Tenants
  alias BeTree.Tenants.Directory

  # Some day in 2033, in seconds since 1970.
  @start 2_000_000_000

  @doc "Starts tenants under a new name for the duration of the test, and returns the name. Any number of kills does not end them."
  def start(options \\ [], internal \\ %{}) do
    name = Keyword.get_lazy(options, :name, fn -> :"tenants_#{System.unique_integer([:positive])}" end)
    options = Keyword.merge([name: name, schema: [a: :integer]], options)
    start = {Tenants, :start_link, [options, Map.put(internal, :max_restarts, 1_000_000)]}
    ExUnit.Callbacks.start_supervised!(%{id: name, start: start, type: :supervisor, restart: :temporary})
    name
  end

  @doc "Stops tenants, as an application does."
  def stop(name), do: ExUnit.Callbacks.stop_supervised!(name)

  @doc "Returns clocks that stand still: seconds since 1970, and monotonic microseconds."
  def clocks do
    clocks = :atomics.new(2, [])
    :atomics.put(clocks, 1, @start)
    clocks
  end

  @doc "Returns the clock of the tenants."
  def clock(clocks), do: {fn -> :atomics.get(clocks, 1) end, fn -> :atomics.get(clocks, 2) end}

  @doc "Lets seconds pass."
  def pass(clocks, seconds) do
    :atomics.add(clocks, 1, seconds)
    :atomics.add(clocks, 2, round(1_000_000 * seconds))
  end

  @doc "Lets microseconds of the monotonic clock pass."
  def pass_microseconds(clocks, count), do: :atomics.add(clocks, 2, count)

  @doc "Sets the clock of the day forward, or back."
  def jump(clocks, seconds), do: :atomics.add(clocks, 1, seconds)

  @doc "Returns the present date."
  def today(clocks), do: clocks |> :atomics.get(1) |> DateTime.from_unix!() |> DateTime.to_date()

  def directory(name) do
    {:ok, directory} = Directory.fetch(name)
    directory
  end

  @doc "Returns the processes of the partitions."
  def partitions(name) do
    directory = directory(name)
    for number <- 0..(directory.options.partitions - 1), do: Directory.partition_process(directory, number)
  end

  @doc "Returns the process of a tenant's partition."
  def partition(name, tenant) do
    directory = directory(name)
    Directory.partition_process(directory, Directory.partition(directory, tenant))
  end

  @doc "Writes the statistics that changed, as the partitions do at times."
  def write(name) do
    for pid <- partitions(name) do
      send(pid, :round)
      # `settle/1` asks again until the round and the answers of the store are handled.
      settle(pid)
    end
  end

  defp settle(pid) do
    %{unsaved: unsaved, pending: pending} = :sys.get_state(pid)
    if unsaved != [] or pending != %{}, do: settle(pid)
  end

  @doc "Waits until the partition of a tenant is another process."
  def await_partition(name, tenant, former) do
    BeTree.Test.Eventually.eventually(fn -> partition(name, tenant) != former end)
  end

  @doc "Returns the sizes of all tables: rows of tenants, bills, intents, and what the store has."
  def sizes(name) do
    directory = directory(name)
    rows = Enum.count(:ets.tab2list(name), &match?({_tenant}, elem(&1, 0)))
    store = directory.store

    %{
      rows: rows,
      usage: :ets.info(directory.usage, :size),
      intents: :ets.info(directory.intents, :size),
      tails: :ets.info(store.tails, :size),
      blobs: :ets.info(store.blobs, :size)
    }
  end
end

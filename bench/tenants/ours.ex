defmodule BeTree.Bench.Tenants.Ours do
  @moduledoc false
  # `BeTree.Tenants` with the tenants of the workload.

  import BeTree.Bench.Run

  alias BeTree.Bench.Tenants.{Turns, Workload}
  alias BeTree.Tenants

  @name __MODULE__.Measured
  # Room for all tenants of a benchmark.
  @memory 8_000_000_000

  # Exact up to 500 values, then 1.7 % in the mean square. Of some thousand estimates one may be wrong by 4.5 times as much.
  def bounds, do: %{exact: 500, rms: 0.017, worst: 4.5 * 0.017}

  def name, do: @name

  def start(options \\ []) do
    defaults = [name: @name, schema: Workload.schema(), stats: Workload.stats(), hot: 100_000, memory: @memory]
    {:ok, pid} = Tenants.start_link(Keyword.merge(defaults, options))
    pid
  end

  def stop(pid), do: Supervisor.stop(pid, :normal, :infinity)

  @doc "Gives each tenant its expressions."
  def fill(tenants) do
    Turns.share(tenants, fn tenants ->
      for tenant <- tenants, do: {:ok, _counts} = Tenants.change(@name, tenant, put: Workload.expressions(tenant))
    end)
  end

  ## Loops

  @doc "Counts events one by one, in two processes."
  def one_by_one(run, events, number), do: Turns.share(run, &one_by_one_loop(&1, events, Workload.shift(number)))

  @doc "Counts batches, in two processes."
  def batches(batches, events, number), do: Turns.share(batches, &batch_loop(&1, events, Workload.shift(number)))

  @doc "Counts events one by one in this process."
  def one_by_one_loop([], _events, _shift), do: :ok

  def one_by_one_loop([{tenant, event, device} | run], events, shift) do
    {:ok, [_, _, _, _, _, _, _, _, _, _]} = Tenants.match(@name, tenant, event(events, event, device, shift))
    one_by_one_loop(run, events, shift)
  end

  defp batch_loop([], _events, _shift), do: :ok

  defp batch_loop([batch | batches], events, shift) do
    {:ok, results} =
      Tenants.match_many(
        @name,
        for({tenant, event, device} <- batch, do: {tenant, event(events, event, device, shift)})
      )

    check(results)
    batch_loop(batches, events, shift)
  end

  defp check([]), do: :ok
  defp check([{:ok, [_, _, _, _, _, _, _, _, _, _]} | results]), do: check(results)
  defp check([other | _results]), do: Mix.raise("an event of a batch did not match ten expressions: #{inspect(other)}")

  defp event(events, number, device, shift), do: %{elem(events, number) | device: device + shift}

  ## Figures

  @doc "Returns the matches and the unique devices by id of a tenant."
  def figures(tenant) do
    {:ok, [entries]} = Tenants.report(@name, tenants: [tenant], sections: [[:id]])

    for entry <- entries, into: %{} do
      uniques = for %{name: "devices", count: count} <- entry.stats, do: count
      {entry.id, {entry.matches, Enum.sum(uniques)}}
    end
  end

  @doc "Returns the number of tenants."
  def known, do: Tenants.info!(@name).tenants

  @doc "Returns the fuel of all searches in a bill."
  def searched(usage), do: Enum.sum(for {_day, totals} <- usage.days, do: totals.search)

  def check!(way, runs, ids, sampled), do: Turns.check!(way, &figures/1, runs, ids, sampled, bounds())

  @doc "Returns the bytes of all files in a folder."
  def folder_bytes(folder) do
    folder
    |> Path.join("**")
    |> Path.wildcard(match_dot: true)
    |> Enum.map(&File.stat!/1)
    |> Enum.filter(&(&1.type == :regular))
    |> Enum.map(& &1.size)
    |> Enum.sum()
  end

  @doc "Returns an empty folder of the benchmark."
  def new_folder(name) do
    path = Path.join(folder(), name)
    File.rm_rf!(path)
    path
  end
end

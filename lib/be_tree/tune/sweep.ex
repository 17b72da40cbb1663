defmodule BeTree.Tune.Sweep do
  @moduledoc false
  # The configurations to measure, and their figures.
  #
  # Slice and fuel per reduction are measured in all combinations, because both decide when a search yields. The other
  # settings vary one at a time around the defaults. `BeTree.Tune.Choice` measures the best configuration again beside the
  # defaults: the maximum of many noisy figures is biased upwards, so its first figure is not promised.

  alias BeTree.Input.Limits
  alias BeTree.Fuel
  alias BeTree.Tune.{Histogram, Rounds, Statistics, Turn}

  @slices [50_000, 100_000, 300_000, 1_000_000, :infinity]
  @fuel_per_reduction_values [25, 75, 250]
  @batches [1, 8, 64, 256]

  @latency_quantiles [p50: 0.5, p90: 0.9, p99: 0.99, "p99.9": 0.999]

  @doc "Returns the configuration of a search without options on this machine, with this application's environment."
  @spec default() :: Turn.setting()
  def default do
    %{
      slice: Fuel.default_slice(),
      fuel_per_reduction: Fuel.per_reduction(),
      batch: 1,
      replicas: Limits.default_replicas(),
      max_concurrency: System.schedulers_online()
    }
  end

  @doc "Returns the numbers of searching processes beside the sleeper: 1, S and 4S on S schedulers."
  @spec crowds() :: [pos_integer]
  def crowds do
    schedulers = System.schedulers_online()
    Enum.uniq([1, schedulers, 4 * schedulers])
  end

  @doc """
  Returns the loads to measure, grouped by chart. `most` is the fuel of the most expensive search. Slices above `most` never
  yield, so only the first of them is measured.
  """
  @spec charts(Fuel.t()) :: [{chart :: atom, [Turn.load()]}]
  def charts(most) do
    default = default()
    crowd = List.last(crowds())
    crowded = %{default | max_concurrency: crowd}
    with_default = fn values, value -> Enum.uniq(values ++ [value]) end

    [
      grid:
        for slice <- slices(with_default.(@slices, default.slice), most),
            ratio <- with_default.(@fuel_per_reduction_values, default.fuel_per_reduction) do
          {:search, %{crowded | slice: slice, fuel_per_reduction: ratio}}
        end,
      beside:
        [:nothing] ++
          for count <- crowds(),
              load <- [{:plain, count}, {:search, %{default | max_concurrency: count}}] do
            load
          end,
      concurrency: for(count <- numbers(), do: {:search, %{default | max_concurrency: count}}),
      batch: for(batch <- @batches, do: {:search, %{default | batch: batch}}),
      replicas: for(count <- numbers(), do: {:search, %{crowded | replicas: count}})
    ]
  end

  defp numbers do
    schedulers = System.schedulers_online()
    Enum.uniq([1, schedulers, 2 * schedulers, 4 * schedulers])
  end

  # The default slice stays even if no search is that long, as the baseline of the chart.
  defp slices(slices, most) do
    {shorter, longer} = slices |> Enum.sort() |> Enum.split_while(&(&1 < most))
    Enum.uniq(shorter ++ Enum.take(longer, 1) ++ [Fuel.default_slice()]) |> Enum.sort()
  end

  @doc "Returns the figures of each load."
  @spec figures(Rounds.t()) :: %{term => map}
  def figures(rounds), do: Map.new(rounds.turns, fn {name, turns} -> {name, figures_of(turns)} end)

  defp figures_of(turns) do
    rates = Enum.map(turns, & &1.rate)

    %{
      rate: Statistics.of_median(rates),
      latency: quantiles(turns, :latency),
      late: quantiles(turns, :late),
      turns: %{
        rate: Enum.map(rates, &round/1),
        late_p99: Enum.map(turns, &round(Histogram.quantile(&1.late, 0.99)))
      }
    }
  end

  # Returns estimates in microseconds, by the name of the quantile.
  defp quantiles(turns, what) do
    {names, shares} = Enum.unzip(@latency_quantiles)
    estimates = turns |> Enum.map(&Map.fetch!(&1, what)) |> Statistics.of_quantiles(shares)
    for {name, %{} = estimate} <- Enum.zip(names, estimates), into: %{}, do: {name, microseconds(estimate)}
  end

  defp microseconds(estimate),
    do: Map.new(estimate, fn {key, nanoseconds} -> {key, Float.round(nanoseconds / 1_000, 2)} end)

  @doc """
  Returns the Pareto front: loads that no other load surpasses in rate, p99 latency and the sleeper's p99 lateness at once.
  """
  @spec front(%{Turn.load() => map}) :: [Turn.load()]
  def front(figures) do
    searches = for {{:search, _setting} = load, figures} <- figures, do: {load, goals(figures)}

    for {load, its_goals} <- searches,
        not Enum.any?(searches, fn {_other, goals} -> surpasses?(goals, its_goals) end),
        do: load
  end

  # Negated where higher is better, so that lower is better in each.
  defp goals(figures), do: [-figures.rate.value, figures.latency[:p99].value, figures.late[:p99].value]

  defp surpasses?(goals, other_goals) do
    pairs = Enum.zip(goals, other_goals)
    Enum.all?(pairs, fn {one, other} -> one <= other end) and Enum.any?(pairs, fn {one, other} -> one < other end)
  end
end

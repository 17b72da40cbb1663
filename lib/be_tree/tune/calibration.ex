defmodule BeTree.Tune.Calibration do
  @moduledoc """
  Measures how long fuel and reductions take on this machine, for `mix be_tree.tune --calibrate`.

  The measurement searches two small trees repeatedly: 5,000 dense boolean expressions (`W1`) and 10,000 ad-targeting
  expressions (`W3`). Searches with and without slices take turns, so that other work of the machine affects all alike. Each
  figure is a median.
  """

  alias BeTree.Fuel
  alias BeTree.Tune.Calibration.{AdTargeting, Dense}

  @enforce_keys [:workloads, :fuel_per_microsecond, :nanoseconds_per_reduction, :fuel_per_reduction]
  defstruct @enforce_keys

  @typedoc """
  The results of a measurement:

    * `workloads` - by name: the mean `fuel` of a search, its `fuel_per_microsecond` without slices, and `slices`: for each
      slice the percentage by which searches took longer, or `nil` if no search is that long;
    * `fuel_per_microsecond` - the mean of the workloads;
    * `nanoseconds_per_reduction` - of a loop in plain Elixir;
    * `fuel_per_reduction` - the value to configure, `BeTree.Fuel.ratio/2` of these two.
  """
  @type t :: %__MODULE__{
          workloads: [{String.t(), workload}],
          fuel_per_microsecond: float,
          nanoseconds_per_reduction: float,
          fuel_per_reduction: pos_integer
        }

  @type workload :: %{fuel: float, fuel_per_microsecond: float, slices: [{pos_integer, percent :: float | nil}]}

  # Name, module, number of expressions, and events in a round. A round takes some milliseconds.
  @workloads [{"W1", Dense, 5_000, 10}, {"W3", AdTargeting, 10_000, 50}]

  @slices [10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 10_000_000]
  @rounds 100

  @loop_count 20
  @loop_length 1_000_000

  @doc """
  Measures in the calling process, for about ten seconds. Nothing else should run meanwhile.

  Raises a `BeTree.Error` if a tree cannot be made.
  """
  @spec measure() :: t
  def measure do
    workloads =
      for {name, workload, expressions, events} <- @workloads, do: {name, measure(workload, expressions, events)}

    rate = mean(for {_name, measured} <- workloads, do: measured.fuel_per_microsecond)

    nanoseconds = median(for _ <- 1..@loop_count, do: reduction())

    %__MODULE__{
      workloads: workloads,
      fuel_per_microsecond: rate,
      nanoseconds_per_reduction: nanoseconds,
      fuel_per_reduction: Fuel.ratio(rate, nanoseconds)
    }
  end

  defp measure(workload, expressions, events) do
    parameters = Map.merge(workload.defaults(), %{expressions: expressions, events: events})
    tree = BeTree.new!(workload.schema(parameters))
    BeTree.insert_all!(tree, parameters |> workload.expressions() |> Enum.with_index(&{&2 + 1, &1}))
    events = Enum.to_list(workload.events(parameters))
    fuels = search(tree, events, :infinity)
    times = times(tree, events)

    %{
      fuel: mean(fuels),
      fuel_per_microsecond: 1_000 * Enum.sum(fuels) / times.infinity,
      slices: for(slice <- @slices, do: {slice, slowdown(times[slice], times.infinity, slice < Enum.max(fuels))})
    }
  end

  defp slowdown(_sliced, _unsliced, false), do: nil
  defp slowdown(sliced, unsliced, true), do: 100 * (sliced / unsliced - 1)

  # Returns the time of all events in nanoseconds, by slice.
  defp times(tree, events) do
    for(
      _ <- 1..@rounds,
      slice <- [:infinity | @slices],
      do: {slice, nanoseconds(fn -> search(tree, events, slice) end)}
    )
    |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))
    |> Map.new(fn {slice, times} -> {slice, median(times)} end)
  end

  # Returns the fuel of each search.
  defp search(tree, events, slice) do
    for event <- events do
      {:ok, _ids, stats} = BeTree.search(tree, event, slice: slice, stats: true)
      stats.fuel
    end
  end

  # Returns the nanoseconds of a reduction. The count is read from the VM, which decides how many reductions a loop takes.
  defp reduction do
    {:reductions, before} = Process.info(self(), :reductions)
    nanoseconds = nanoseconds(fn -> sum(@loop_length, 0) end)
    {:reductions, later} = Process.info(self(), :reductions)
    nanoseconds / (later - before)
  end

  defp sum(0, sum), do: sum
  defp sum(number, sum), do: sum(number - 1, sum + rem(number, 7))

  defp nanoseconds(work) do
    started = System.monotonic_time(:nanosecond)
    work.()
    System.monotonic_time(:nanosecond) - started
  end

  defp mean(numbers), do: Enum.sum(numbers) / length(numbers)
  defp median(numbers), do: numbers |> Enum.sort() |> Enum.at(div(length(numbers), 2))
end

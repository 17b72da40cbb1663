# Measures the workloads with Benchee: single searches, a call for many events, and prepared events.
#
#     mix run bench/benchee/workloads.exs [--quick]

defmodule BeTree.Bench.Benchee do
  @moduledoc false
  # The workloads, and a run with the formatter for fuel.

  alias BeTree.Workload

  @compile {:no_warn_undefined, Benchee}

  # Events of one call of a job, so that a job costs more than Benchee's own call.
  @events 50

  @sizes %{"W1" => 5_000, "W2" => 10_000, "W3" => 100_000, "W4" => 100_000, "W5" => 20_000}

  @doc "Returns `{index, events}` of a workload, in which fuel and reductions are equal."
  @spec workload(String.t(), boolean) :: {BeTree.Index.t(), [BeTree.Event.t()]}
  def workload(name, quick) do
    workload = Map.fetch!(Workload.all(), name)
    expressions = if quick, do: div(@sizes[name], 10), else: @sizes[name]
    parameters = Map.merge(workload.defaults(), %{expressions: expressions, events: @events})
    tree = BeTree.new!(workload.schema(parameters), fuel_per_reduction: 1)
    BeTree.insert_all!(tree, parameters |> workload.expressions() |> Enum.with_index(&{&2 + 1, &1}))
    {BeTree.publish!(tree), Enum.to_list(workload.events(parameters))}
  end

  @doc "Returns the fuel of the searches for `events`."
  @spec fuel(BeTree.target(), [BeTree.Event.t()]) :: non_neg_integer
  def fuel(target, events) do
    Enum.sum(
      for event <- events do
        {:ok, _ids, stats} = BeTree.search(target, event, stats: true)
        stats.fuel
      end
    )
  end

  @doc """
  Runs jobs in Benchee. Each is `{name, function, searches, fuel}`, with the number and the fuel of the searches of a call.
  """
  @spec run([{String.t(), (... -> term), pos_integer, non_neg_integer}], boolean) :: term
  def run(jobs, quick) do
    costs = for {name, _function, searches, fuel} <- jobs, into: %{}, do: {name, %{searches: searches, fuel: fuel}}

    Benchee.run(
      for({name, function, _searches, _fuel} <- jobs, into: %{}, do: {name, function}),
      warmup: if(quick, do: 0.1, else: 1),
      time: if(quick, do: 0.5, else: 5),
      reduction_time: if(quick, do: 0.1, else: 0.5),
      print: [fast_warning: false],
      formatters: [Benchee.Formatters.Console, {BeTree.Bench.FuelFormatter, costs}]
    )
  end

  @doc "Returns whether `--quick` is given. Raises for other arguments, and where Benchee is missing."
  @spec quick!([String.t()]) :: boolean
  def quick!(arguments) do
    {options, rest} = Mix.BeTree.Command.parse!(arguments, quick: :boolean)
    if rest != [], do: Mix.raise("#{inspect(hd(rest))} belongs to no option, only --quick does")

    unless Code.ensure_loaded?(Benchee) do
      Mix.raise("""
      Benchee is missing. With Hex, `mix deps.get` fetches it for MIX_ENV=dev. Without Hex, compile benchee, deep_merge and \
      statistex from their sources, and name the folder that holds the three in ERL_LIBS.
      """)
    end

    options[:quick] || false
  end
end

if Code.ensure_loaded?(Benchee.Formatter) do
  defmodule BeTree.Bench.FuelFormatter do
    @moduledoc false
    # A formatter for Benchee that adds the fuel of a search beside its reductions. Its option is the number of searches and the
    # fuel of a call of each job. Where a reduction is one unit of fuel, the reductions are the fuel and those of the Elixir code
    # around the searches.

    @behaviour Benchee.Formatter

    @impl Benchee.Formatter
    def format(suite, costs) do
      rows =
        for scenario <- suite.scenarios, cost = costs[scenario.job_name] do
          reductions = scenario.reductions_data.statistics.median / cost.searches
          fuel = cost.fuel / cost.searches
          nanoseconds = scenario.run_time_data.statistics.median / cost.searches
          [scenario.name, number(nanoseconds / 1_000), number(reductions), number(fuel), number(reductions - fuel)]
        end

      header = ["Fuel of a search", "median us", "reductions", "fuel", "of Elixir"]
      widths = [header | rows] |> Enum.zip_with(fn column -> column |> Enum.map(&String.length/1) |> Enum.max() end)
      for row <- [header | rows], do: [justify(row, widths), "\n"]
    end

    defp justify([name | numbers], [width | widths]) do
      padded = for {number, width} <- Enum.zip(numbers, widths), do: String.pad_leading(number, width)
      Enum.join([String.pad_trailing(name, width) | padded], "   ")
    end

    defp number(number), do: :erlang.float_to_binary(number / 1, decimals: 1)

    @impl Benchee.Formatter
    def write(table, _costs), do: IO.write(["\n", table])
  end
end

alias BeTree.Bench.Benchee, as: Support

quick = Support.quick!(System.argv())

jobs =
  for name <- BeTree.Workload.all() |> Map.keys() |> Enum.sort(),
      {index, events} = Support.workload(name, quick),
      prepared = Enum.map(events, &BeTree.Event.prepare!(index, &1)),
      {way, searched, call} <- [
        {"search", events, fn -> Enum.each(events, &BeTree.search!(index, &1)) end},
        {"search_many", events, fn -> BeTree.search_many!(index, events) end},
        {"search, prepared", prepared, fn -> Enum.each(prepared, &BeTree.search!(index, &1)) end}
      ] do
    {"#{name} #{way}", call, length(events), Support.fuel(index, searched)}
  end

Support.run(jobs, quick)

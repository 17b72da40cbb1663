defmodule BeTree.Fuel do
  @moduledoc """
  Fuel, what a search costs, and reductions, what the BEAM's schedulers count in.

  Fuel is counted by the WebAssembly runtime: about one unit an instruction, the same for the same input on every
  machine. How fast it burns is the machine's affair. The BEAM lets a process run for 4,000 reductions before another
  gets its turn, and those should take no longer than about a millisecond of wasm. The default is one reduction for
  1,250 fuel: a millisecond at 5,000 fuel a microsecond, and less on what runs faster. On a core of an AMD EPYC (Zen 4)
  searches burn from 10,000 (`BeTree.Workload.W3`) to 15,000 (`BeTree.Workload.W1`) fuel a microsecond, so that 4,000
  reductions take about 0.4 ms: others get their turn sooner.

  A smaller ratio favours the processes beside a search, a larger one the search. A loop of plain Elixir does 4,000
  reductions in 10 microseconds on that core, as long as 30 fuel for each: a process that waits behind ten searches
  waits longer than behind ten such loops, unless the ratio is as small.

  `mix be_tree.tune --calibrate` measures a machine and prints what to configure, `config :be_tree, fuel_per_reduction:
  3000` on that one. The environment is read when a tree is made; the option `:fuel_per_reduction` of `BeTree.new/2`
  comes before it. With 1, fuel and reductions are equal.
  """

  @default_per_reduction 1_250
  @default_slice 500_000

  # Reductions that the BEAM lets a process run for, and the microseconds that they should take.
  @time_slice 4_000
  @millisecond 1_000

  @typedoc "An amount of fuel: about as many wasm instructions."
  @type t :: non_neg_integer

  @typedoc "How much fuel may burn: an amount of at least one, or no bound."
  @type budget :: pos_integer | :infinity

  @doc """
  The fuel of one reduction: what the application's environment says, or 1,250.

  Raises an `ArgumentError` where the environment holds anything but a positive integer.

      iex> BeTree.Fuel.per_reduction()
      1250
  """
  @spec per_reduction() :: pos_integer
  def per_reduction do
    case Application.get_env(:be_tree, :fuel_per_reduction, @default_per_reduction) do
      fuel when is_integer(fuel) and fuel > 0 ->
        fuel

      other ->
        raise ArgumentError,
              "config :be_tree, :fuel_per_reduction is a positive integer, got: #{inspect(other)}"
    end
  end

  @doc """
  The fuel of a slice where a search names none: 400 reductions at the default ratio, a tenth of the BEAM's own time slice,
  which take from 30 to 100 microseconds.

      iex> BeTree.Fuel.default_slice()
      500_000
  """
  @spec default_slice() :: pos_integer
  def default_slice, do: @default_slice

  @doc """
  The whole reductions in `fuel`.

      iex> BeTree.Fuel.to_reductions(5_000_000, 1_250)
      4000
      iex> BeTree.Fuel.to_reductions(1_249, 1_250)
      0
  """
  @spec to_reductions(t, pos_integer) :: non_neg_integer
  def to_reductions(fuel, per_reduction \\ per_reduction()), do: div(fuel, per_reduction)

  @doc """
  The fuel of `reductions`, such as a slice as long as the BEAM's own.

      iex> BeTree.Fuel.from_reductions(4_000, 1_250)
      5_000_000
  """
  @spec from_reductions(non_neg_integer, pos_integer) :: t
  def from_reductions(reductions, per_reduction \\ per_reduction()), do: reductions * per_reduction

  @doc """
  The fuel of one reduction where wasm runs at `fuel_per_microsecond`: the 4,000 reductions of a time slice then take a
  millisecond. Rounded to tens. `mix be_tree.tune --calibrate` measures that rate.

      iex> BeTree.Fuel.ratio(5_000.0)
      1250
      iex> BeTree.Fuel.ratio(3_271.4)
      820
  """
  @spec ratio(float) :: pos_integer
  def ratio(fuel_per_microsecond) do
    max(1, 10 * round(fuel_per_microsecond * @millisecond / @time_slice / 10))
  end
end

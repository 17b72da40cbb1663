defmodule BeTree.Fuel do
  @moduledoc """
  Fuel, what a search costs, and reductions, what the BEAM's schedulers count in.

  Fuel is counted by the WebAssembly runtime: about one unit an instruction, the same for the same input on every
  machine. Wasm runs at about 5,000 fuel a microsecond. The BEAM lets a process run for 4,000 reductions before another
  gets its turn, and those should take about one millisecond, which is 5,000,000 fuel; so one reduction is 1,250 fuel.

  The ratio is `config :be_tree, fuel_per_reduction: 1_250` and is read when a tree is made; the option
  `:fuel_per_reduction` of `BeTree.new/2` comes before it. On a machine twice as fast, twice the ratio keeps the
  millisecond. With 1, fuel and reductions are equal.
  """

  @default_per_reduction 1_250
  @default_slice 500_000

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
  The fuel of a slice where a search names none: about 100 microseconds, a tenth of the BEAM's own time slice.

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
end

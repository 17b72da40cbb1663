defmodule BeTree.Fuel do
  @moduledoc """
  Fuel, what a search costs, and reductions, what the BEAM's schedulers count in.

  Fuel is counted by the WebAssembly runtime: about one unit an instruction, the same for the same input on every
  machine. How fast it burns is the machine's affair. The BEAM lets a process run for 4,000 reductions before another
  gets its turn. The default is one reduction for 75 fuel, so that such a time slice is just one default slice of a
  search, 300,000 fuel: whoever waits behind searches waits about as long as behind Erlang code.

  On a core of an AMD EPYC (Zen 4) searches burn from 10,000 (ad targeting) to 18,000 (dense boolean expressions)
  fuel a microsecond, so a time slice of searching takes from 17 to 30 microseconds there, and one of a loop in plain
  Elixir 11. A larger ratio favours the searches, which then change places less often, a smaller one the processes
  beside them.

  `mix be_tree.tune --calibrate` measures a machine and prints what to configure there, such as
  `config :be_tree, fuel_per_reduction: 30`. The environment is read when a tree is made; the option
  `:fuel_per_reduction` of `BeTree.new/2` comes before it. With 1, fuel and reductions are equal.
  """

  @default_per_reduction 75
  @default_slice 300_000

  # How much longer the fuel of a reduction may take than a reduction of plain Elixir. With five searches of an index on
  # each scheduler a process that sleeps a millisecond is then late by no more than 1.2 times what it is beside plain Elixir
  # (docs/scheduling.md). The fewer slices a search has, the less it pays for them.
  @longer 2.2

  # Far more than any machine has of either rate.
  @fastest 1.0e15

  alias BeTree.Engine.{Check, Describe}

  @typedoc "An amount of fuel: about as many wasm instructions."
  @type t :: non_neg_integer

  @typedoc "How much fuel may burn: an amount of at least one, or no bound."
  @type budget :: pos_integer | :infinity

  @doc """
  The fuel of one reduction: what the application's environment says, or 75.

  Raises an `ArgumentError` where the environment holds anything but a positive integer.

      iex> BeTree.Fuel.per_reduction()
      75
  """
  @spec per_reduction() :: pos_integer
  def per_reduction do
    case Application.get_env(:be_tree, :fuel_per_reduction, @default_per_reduction) do
      fuel when is_integer(fuel) and fuel > 0 ->
        fuel

      other ->
        raise ArgumentError,
              "config :be_tree, :fuel_per_reduction is a positive integer, got: #{Describe.value(other)}"
    end
  end

  @doc """
  The fuel of a slice where a search names none: at the default ratio the BEAM's own time slice, which takes from 15 to 60
  microseconds.

      iex> BeTree.Fuel.default_slice()
      300_000
      iex> BeTree.Fuel.from_reductions(4_000)
      300_000
  """
  @spec default_slice() :: pos_integer
  def default_slice, do: @default_slice

  @doc """
  What `fuel` is worth in reductions. One that has begun counts, so that no search is free, however short.

      iex> BeTree.Fuel.to_reductions(300_000, 75)
      4000
      iex> BeTree.Fuel.to_reductions(76, 75)
      2
  """
  @spec to_reductions(t, pos_integer) :: non_neg_integer
  def to_reductions(fuel, per_reduction \\ per_reduction()) do
    check_amount("fuel", fuel, 0)
    check_amount("the fuel of a reduction", per_reduction, 1)
    div(fuel + per_reduction - 1, per_reduction)
  end

  @doc """
  The fuel of `reductions`, such as a slice as long as the BEAM's own.

      iex> BeTree.Fuel.from_reductions(4_000, 75)
      300_000
  """
  @spec from_reductions(non_neg_integer, pos_integer) :: t
  def from_reductions(reductions, per_reduction \\ per_reduction()) do
    check_amount("reductions", reductions, 0)
    check_amount("the fuel of a reduction", per_reduction, 1)
    reductions * per_reduction
  end

  defp check_amount(what, amount, least) do
    unless is_integer(amount) and amount >= least do
      Check.expected!("#{what}, an integer of at least #{least}", amount)
    end
  end

  @doc """
  The fuel of one reduction where wasm runs at `fuel_per_microsecond`, and plain Elixir takes `nanoseconds` for a
  reduction: as much as burns in 2.2 times as long. `mix be_tree.tune --calibrate` measures both.

      iex> BeTree.Fuel.ratio(12_500.0, 2.7)
      74
      iex> BeTree.Fuel.ratio(5_000.0, 4.0)
      44
  """
  @spec ratio(float, float) :: pos_integer
  def ratio(fuel_per_microsecond, nanoseconds) do
    for rate <- [fuel_per_microsecond, nanoseconds], not (is_number(rate) and rate >= 0 and rate <= @fastest) do
      Check.expected!("a rate, a number from 0 to #{@fastest}", rate)
    end

    max(1, round(@longer * nanoseconds * fuel_per_microsecond / 1_000))
  end
end

defmodule BeTree.Fuel do
  @moduledoc """
  Fuel measures the work of a search, and reductions measure the time slices of the BEAM. This module converts them.

  The WebAssembly runtime counts fuel: about one unit an instruction, the same for the same input on every machine. The time
  that fuel takes depends on the machine. The BEAM lets a process run for 4,000 reductions before another process gets its
  turn. The default is 75 fuel a reduction. A time slice is then one default slice of a search, 300,000 fuel, so a process
  that waits for searches waits about as long as it waits for Erlang code.

  On a core of an AMD EPYC (Zen 4), wasm code of this index burns 10,000 (ad targeting) to 18,000 (dense boolean
  expressions) fuel a microsecond. A time slice of searching therefore takes 17 to 30 microseconds there, and a time slice
  of a loop in plain Elixir takes 11. Simple loops in another module burn more fuel in the same time, and code that misses
  the caches burns less (`docs/scheduling.md`). A larger ratio favors the searches, which then yield less often. A smaller
  ratio favors the other processes.

  `mix be_tree.tune --calibrate` measures a machine and prints the configuration for it, such as
  `config :be_tree, fuel_per_reduction: 30`. A tree reads the configuration when it is made. The option
  `:fuel_per_reduction` of `BeTree.new/2` overrides it. With 1, fuel and reductions are equal.
  """

  @default_per_reduction 75
  @default_slice 300_000

  # The fuel of a reduction may take this many times as long as a reduction of plain Elixir. With five searches of an index
  # on each scheduler, a process that sleeps a millisecond is then late by at most 1.2 times its delay beside plain Elixir
  # (docs/scheduling.md). A search with fewer slices pays less for them.
  @longer 2.2

  # Far above either rate of any machine.
  @fastest 1.0e15

  alias BeTree.Engine.{Check, Describe}

  @typedoc "An amount of fuel, about as many WebAssembly instructions."
  @type t :: non_neg_integer

  @typedoc "The fuel that a call may burn: an amount of at least one, or no bound."
  @type budget :: pos_integer | :infinity

  @doc """
  Returns the fuel of one reduction: the `:fuel_per_reduction` in the application's environment, or 75.

  Raises an `ArgumentError` if the environment holds anything but a positive integer.

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
  Returns the default fuel of a slice. At the default ratio it equals a time slice of the BEAM, and takes 17 to 30
  microseconds of searching on our machine.

      iex> BeTree.Fuel.default_slice()
      300_000
      iex> BeTree.Fuel.from_reductions(4_000)
      300_000
  """
  @spec default_slice() :: pos_integer
  def default_slice, do: @default_slice

  @doc """
  Returns the reductions of `fuel`, rounded up: a begun reduction counts, so no search is free, however short.

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
  Returns the fuel of `reductions`, such as that of a time slice of the BEAM.

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
  Returns the fuel that takes 2.2 times as long as a reduction of plain Elixir.

  Wasm burns `fuel_per_microsecond` on the machine, and a reduction takes `nanoseconds`. `mix be_tree.tune --calibrate`
  measures both.

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

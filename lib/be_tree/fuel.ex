defmodule BeTree.Fuel do
  @moduledoc """
  Fuel is the cost of a search, and reductions are the unit in which the BEAM's schedulers count.

  The WebAssembly runtime counts fuel: about one unit per instruction, the same for the same input on every machine. The time
  per unit depends on the machine. The BEAM lets a process run for 4,000 reductions before another gets its turn. By default
  75 fuel are one reduction, so that such a time slice is one default slice of a search, 300,000 fuel. A process that waits
  behind searches then waits about as long as behind Erlang code.

  On a core of an AMD EPYC (Zen 4), searches burn from 10,000 (ad targeting) to 18,000 (dense boolean expressions) fuel per
  microsecond. So a time slice of a search takes 17 to 30 microseconds there, and a time slice of a loop in plain Elixir 11.
  A larger ratio favours searches, which then yield less often; a smaller one favours other processes.

  `mix be_tree.tune --calibrate` measures a machine and prints a line of configuration, such as
  `config :be_tree, fuel_per_reduction: 30`. `BeTree.new/2` reads the application's environment; its option
  `:fuel_per_reduction` takes precedence. With 1, fuel and reductions are equal.
  """

  @default_per_reduction 75
  @default_slice 300_000

  # The fuel of a reduction takes this multiple of the time of a reduction of plain Elixir. With five searches of an index on
  # each scheduler, a process that sleeps a millisecond then wakes at most 1.2 times as late as beside plain Elixir
  # (docs/scheduling.md). A search with fewer slices pays less for them.
  @longer 2.2

  # Far above either rate of any machine.
  @fastest 1.0e15

  alias BeTree.Input.{Check, Describe}

  @typedoc "An amount of fuel: about as many wasm instructions."
  @type t :: non_neg_integer

  @typedoc "A budget of fuel: an amount of at least 1, or no bound."
  @type budget :: pos_integer | :infinity

  @doc """
  Returns the fuel of one reduction: the value in the application's environment, or 75.

  Raises an `ArgumentError` when the environment holds anything but a positive integer.

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
  Returns the default fuel of a slice of the built-in runtime. At the default ratio it equals the BEAM's time slice, and takes
  15 to 60 microseconds.

      iex> BeTree.Fuel.default_slice()
      300_000
      iex> BeTree.Fuel.from_reductions(4_000)
      300_000
  """
  @spec default_slice() :: pos_integer
  def default_slice, do: @default_slice

  @doc """
  Returns the reductions of `fuel`, rounded up, so that no search is free, however short.

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
  Returns the fuel of `reductions`, such as that of a slice as long as the BEAM's.

      iex> BeTree.Fuel.from_reductions(4_000, 75)
      300_000
  """
  @spec from_reductions(non_neg_integer, pos_integer) :: t
  def from_reductions(reductions, per_reduction \\ per_reduction()) do
    check_amount("reductions", reductions, 0)
    check_amount("the fuel of a reduction", per_reduction, 1)
    reductions * per_reduction
  end

  defp check_amount(name, amount, least) do
    unless is_integer(amount) and amount >= least do
      Check.expected!("#{name}, an integer of at least #{least}", amount)
    end
  end

  @doc """
  Returns the fuel per reduction to configure, from two rates that `mix be_tree.tune --calibrate` measures.

  wasm burns `fuel_per_microsecond`, and plain Elixir takes `nanoseconds` for a reduction. The result is the fuel that burns
  in 2.2 times as long.

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

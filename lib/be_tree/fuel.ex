defmodule BeTree.Fuel do
  @moduledoc """
  Converts fuel, the cost of a search, to reductions, the unit of the BEAM's schedulers.

  The WebAssembly runtime counts fuel, about one unit per instruction. The same input burns the same fuel on every machine;
  the time per unit differs. The BEAM lets a process run for 4,000 reductions before it switches to another. By default 75
  fuel are one reduction, so the BEAM's time slice equals the default slice of a search, 300,000 fuel. A process then waits
  about as long for searches as for Erlang code.

  On a core of an AMD EPYC (Zen 4), searches burn from 10,000 (ad targeting) to 18,000 (dense boolean expressions) fuel per
  microsecond. So a time slice of a search takes 17 to 30 microseconds there, and a time slice of a loop in plain Elixir 11.
  A larger ratio favours searches, which then yield less often; a smaller one favours other processes.

  `mix be_tree.tune --calibrate` measures a machine and prints a line of configuration, such as
  `config :be_tree, fuel_per_reduction: 30`. `BeTree.new/2` reads the application's environment; its option
  `:fuel_per_reduction` takes precedence. With 1, fuel and reductions are equal.
  """

  @default_per_reduction 75
  @default_slice 300_000

  # A reduction's worth of fuel takes this multiple of the time of a reduction of plain Elixir. It is the largest multiple
  # at which a process that sleeps a millisecond wakes at most 1.2 times as late as beside plain Elixir, with five searches
  # on each scheduler (docs/scheduling.md). Larger slices make searches cheaper.
  @slowdown 2.2

  # Bounds measured rates: far above those of any machine.
  @max_rate 1.0e15

  alias BeTree.Input.{Check, Describe}

  @typedoc "An amount of fuel, about one unit per wasm instruction."
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
  Returns the default slice of the built-in runtime. It takes 15 to 60 microseconds, and equals the BEAM's time slice at the
  default ratio.

      iex> BeTree.Fuel.default_slice()
      300_000
      iex> BeTree.Fuel.from_reductions(4_000)
      300_000
  """
  @spec default_slice() :: pos_integer
  def default_slice, do: @default_slice

  @doc """
  Returns the reductions of `fuel`, rounded up: even the shortest search costs one.

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
  Returns the fuel of `reductions`.

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

  wasm burns `fuel_per_microsecond`, and a reduction of plain Elixir takes `nanoseconds`. The result is the fuel that wasm
  burns in 2.2 reductions' time.

      iex> BeTree.Fuel.ratio(12_500.0, 2.7)
      74
      iex> BeTree.Fuel.ratio(5_000.0, 4.0)
      44
  """
  @spec ratio(float, float) :: pos_integer
  def ratio(fuel_per_microsecond, nanoseconds) do
    for rate <- [fuel_per_microsecond, nanoseconds], not (is_number(rate) and rate >= 0 and rate <= @max_rate) do
      Check.expected!("a rate, a number from 0 to #{@max_rate}", rate)
    end

    max(1, round(@slowdown * nanoseconds * fuel_per_microsecond / 1_000))
  end
end

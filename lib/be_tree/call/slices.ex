defmodule BeTree.Call.Slices do
  @moduledoc false
  # A call that runs slice by slice. The process that runs a slice is charged for its fuel, and the deadline is compared
  # between slices. The owner of the call (BeTree.Search, BeTree.Sandbox) knows the function and the meaning of its results.

  alias BeTree.{Error, Fuel, Runtime}
  alias BeTree.Processes.Deadline
  alias BeTree.Runtime.Native

  @derive {Inspect, only: [:fuel, :count]}
  @enforce_keys [:runtime, :resume, :budget, :deadline, :per_reduction]
  defstruct @enforce_keys ++ [:suspended, fuel: 0, count: 0]

  @typedoc """
  `resume` runs the next slice of `suspended`. `fuel` and `count` are the fuel and the number of the slices so far.
  """
  @type t :: %__MODULE__{
          runtime: module,
          resume: (Runtime.suspended() -> outcome),
          budget: Fuel.budget(),
          deadline: Deadline.t(),
          per_reduction: pos_integer,
          suspended: Runtime.suspended() | nil,
          fuel: Fuel.t(),
          count: non_neg_integer
        }

  @typedoc "The outcome of a slice, as a runtime returns it. The type of `results` depends on the runtime's function."
  @type outcome ::
          {:done, results :: term, output :: term, Fuel.t()}
          | {:yield, Runtime.suspended(), Fuel.t()}
          | {:error, Error.t()}

  @typedoc "The outcome of a slice that the process was charged for."
  @type settled :: {:done, results :: term, output :: term, t} | {:yield, t} | {:error, Error.t()}

  @typedoc "The options of a call, all of them."
  @type options :: %{
          required(:fuel) => Fuel.budget(),
          required(:slice) => Fuel.budget() | :default,
          required(:timeout) => timeout,
          optional(atom) => term
        }

  @reductions_per_charge Native.step()

  @doc "Returns the default options."
  @spec defaults() :: options
  def defaults, do: %{fuel: :infinity, slice: :default, timeout: :infinity}

  @doc "Returns the fuel of a slice of a call with these options."
  @spec fuel_of_slice(options, module) :: Fuel.budget()
  def fuel_of_slice(%{slice: :default}, runtime), do: runtime.default_slice()
  def fuel_of_slice(%{slice: slice}, _runtime), do: slice

  @doc "Returns a call that has not begun. The owner runs the first slice and passes its outcome to `settle/2`."
  @spec new(module, (Runtime.suspended() -> outcome), pos_integer, options) :: t
  def new(runtime, resume, per_reduction, options) do
    %__MODULE__{
      runtime: runtime,
      resume: resume,
      budget: options.fuel,
      deadline: Deadline.new(options.timeout),
      per_reduction: per_reduction
    }
  end

  @doc "Runs the next slice, unless the deadline has passed."
  @spec resume(t) :: settled
  def resume(%__MODULE__{resume: resume, suspended: suspended} = slices) do
    if Deadline.passed?(slices.deadline) do
      cancel(slices)
      {:error, %Error{kind: :timeout, message: "the call passed its timeout after #{count(slices)}"}}
    else
      settle(resume.(suspended), slices)
    end
  end

  @doc "Cancels the call."
  @spec cancel(t) :: :ok
  def cancel(%__MODULE__{runtime: runtime, suspended: suspended}), do: runtime.cancel(suspended)

  @doc "Charges the calling process for a slice that it ran."
  @spec settle(outcome, t) :: settled
  def settle({:done, results, output, fuel}, slices) do
    charge(slices, fuel)
    {:done, results, output, %{slices | suspended: nil, fuel: fuel, count: slices.count + 1}}
  end

  def settle({:yield, suspended, fuel}, slices) do
    charge(slices, fuel)
    {:yield, %{slices | suspended: suspended, fuel: fuel, count: slices.count + 1}}
  end

  # A call without a budget can run out of fuel only in a function that the runtime calls, such as the inbox. Its fuel is
  # unknown.
  def settle({:error, %Error{kind: :out_of_fuel} = error}, %{budget: budget} = slices) when is_integer(budget) do
    charge(slices, budget)
    {:error, error}
  end

  def settle({:error, error}, _slices), do: {:error, error}

  @doc "Charges the calling process for a call that ended in its first slice."
  @spec charge_whole(Fuel.t(), pos_integer) :: true
  def charge_whole(fuel, per_reduction), do: fuel |> reductions(per_reduction) |> bump()

  @doc "Returns what is left of a budget for the next of several calls."
  @spec left(Fuel.budget(), Fuel.t()) :: Fuel.budget() | 0
  def left(:infinity, _used), do: :infinity
  def left(budget, used), do: max(budget - used, 0)

  @doc "Returns `:ok` if the next of several calls has fuel and time left, or an error."
  @spec check_left(Fuel.budget() | 0, Deadline.t()) :: :ok | {:error, Error.t()}
  def check_left(0, _deadline) do
    {:error, %Error{kind: :out_of_fuel, message: "the call used all of its fuel; give it a larger budget"}}
  end

  def check_left(_budget, deadline) do
    if Deadline.passed?(deadline),
      do: {:error, %Error{kind: :timeout, message: "the call passed its timeout"}},
      else: :ok
  end

  @doc "Returns the number of slices so far, as `3 slices`."
  @spec count(t) :: String.t()
  def count(%__MODULE__{count: 1}), do: "1 slice"
  def count(%__MODULE__{count: count}), do: "#{count} slices"

  # Charges for the fuel since the last charge. Both amounts count from the call's start and are rounded up, as in
  # BeTree.Fuel.to_reductions/2, so no fuel is lost between slices and none is charged twice.
  defp charge(%{fuel: before, per_reduction: ratio}, fuel) do
    bump(reductions(fuel, ratio) - reductions(before, ratio))
  end

  # Inlined, since each call is a reduction itself.
  @compile {:inline, reductions: 2}
  defp reductions(fuel, ratio), do: div(fuel + ratio - 1, ratio)

  # When the time slice ends before all reductions are charged, the rest is charged in the next time slice.
  defp bump(reductions) when reductions >= @reductions_per_charge, do: reductions |> Native.charge() |> bump()
  defp bump(reductions) when reductions > 0, do: :erlang.bump_reductions(reductions)
  defp bump(_none), do: true
end

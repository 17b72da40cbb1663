defmodule BeTree.Engine.Slices do
  @moduledoc false
  # A call that runs slice by slice. The process that runs a slice is charged for its fuel, and the deadline is checked
  # between slices. The owner of a call interprets its results: BeTree.Search for an index, BeTree.Sandbox for any module.

  alias BeTree.{Error, Fuel, Runtime}
  alias BeTree.Engine.{Deadline, Native}

  @enforce_keys [:runtime, :resume, :budget, :deadline, :per_reduction]
  defstruct @enforce_keys ++ [:suspended, before: 0, fuel: 0, count: 0]

  @typedoc """
  `resume` runs the next slice of `suspended`. `fuel` and `count` are those of the slices so far. The fuel `before`
  belongs to earlier calls.
  """
  @type t :: %__MODULE__{
          runtime: module,
          resume: (Runtime.suspended() -> outcome),
          budget: Fuel.budget(),
          deadline: Deadline.t(),
          per_reduction: pos_integer,
          suspended: Runtime.suspended() | nil,
          before: Fuel.t(),
          fuel: Fuel.t(),
          count: non_neg_integer
        }

  @typedoc "The outcome of a slice from a runtime. `results` is the value of the runtime's function in that place."
  @type outcome ::
          {:done, results :: term, output :: term, Fuel.t()}
          | {:yield, Runtime.suspended(), Fuel.t()}
          | {:error, Error.t()}

  @typedoc "An outcome that has been charged for."
  @type answer :: {:done, results :: term, output :: term, t} | {:yield, t} | {:error, Error.t()}

  @typedoc "The options of a call, all of them."
  @type options :: %{
          required(:fuel) => Fuel.budget(),
          required(:slice) => Fuel.budget(),
          required(:timeout) => timeout,
          optional(atom) => term
        }

  @step Native.step()

  @doc "Returns the default options of a call."
  @spec defaults() :: options
  def defaults, do: %{fuel: :infinity, slice: Fuel.default_slice(), timeout: :infinity}

  @doc "Returns a new call. Its owner runs the first slice, and passes the outcome to `settle/2`."
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
  @spec resume(t) :: answer
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

  @doc """
  Prepares one more call after a finished one, with the rest of the budget and the same deadline. Returns also the `:fuel`
  and the `:timeout` of the next request.
  """
  @spec again(t) :: {:ok, t, Fuel.budget(), timeout} | {:error, Error.t()}
  def again(%__MODULE__{fuel: fuel, budget: budget, deadline: deadline} = slices) do
    if is_integer(budget) and fuel >= budget do
      {:error, %Error{kind: :out_of_fuel, message: "the call used its whole budget of #{budget} fuel"}}
    else
      left = if is_integer(budget), do: budget - fuel, else: budget
      {:ok, %{slices | before: fuel}, left, Deadline.left(deadline)}
    end
  end

  @doc "Charges the calling process for a slice that it ran."
  @spec settle(outcome, t) :: answer
  def settle({:done, results, output, fuel}, slices) do
    fuel = slices.before + fuel
    charge(slices, fuel)
    {:done, results, output, %{slices | suspended: nil, fuel: fuel, count: slices.count + 1}}
  end

  def settle({:yield, suspended, fuel}, slices) do
    fuel = slices.before + fuel
    charge(slices, fuel)
    {:yield, %{slices | suspended: suspended, fuel: fuel, count: slices.count + 1}}
  end

  # Without a budget, an internal limit of the runtime was exceeded.
  def settle({:error, %Error{kind: :out_of_fuel} = error}, %{budget: budget} = slices) when is_integer(budget) do
    charge(slices, budget)
    {:error, error}
  end

  def settle({:error, error}, _slices), do: {:error, error}

  @doc "Returns the number of slices so far as text, such as `3 slices`."
  @spec count(t) :: String.t()
  def count(%__MODULE__{count: 1}), do: "1 slice"
  def count(%__MODULE__{count: count}), do: "#{count} slices"

  # Charges for the fuel since the last charge. Both amounts are counted from the start of the call and rounded up as in
  # BeTree.Fuel.to_reductions/2, so nothing is lost between slices and nothing is charged twice.
  defp charge(%{fuel: before, per_reduction: ratio}, fuel) do
    bump(div(fuel + ratio - 1, ratio) - div(before + ratio - 1, ratio))
  end

  # If a time slice ends before all reductions are charged, the rest is charged in the next one.
  defp bump(reductions) when reductions >= @step, do: reductions |> Native.charge() |> bump()
  defp bump(reductions) when reductions > 0, do: :erlang.bump_reductions(reductions)
  defp bump(_none), do: true
end

defmodule BeTree.Rules.Module do
  @moduledoc false
  # The WebAssembly module of rules.

  alias BeTree.{Error, Fuel, Guest}
  alias BeTree.Call.{Instance, Slices}
  alias BeTree.Processes.Deadline
  alias BeTree.Rules.Reply
  alias BeTree.Runtime.Wasmtime

  @doc "Returns the module. It is read and compiled once for each runtime and kept for the life of the VM."
  @spec built_in(module) :: {:ok, Guest.t()} | {:error, Error.t()}
  def built_in(runtime), do: Instance.built_in(runtime, "be_tree_rules.wasm", &load/2)

  @doc "Returns a module of rules in these bytes."
  @spec load(binary, module) :: {:ok, Guest.t()} | {:error, Error.t()}
  def load(wasm, runtime) do
    with {:ok, compiled} <- runtime.load(wasm), do: {:ok, %Guest{runtime: runtime, compiled: compiled}}
  end

  # Compilation mostly writes new memory, which takes longer than the fuel suggests, so slices are smaller.
  @slice 100_000

  @typedoc "How long a compilation may take, and the fuel of a reduction."
  @type budget :: %{
          required(:fuel) => Fuel.budget(),
          required(:timeout) => timeout,
          required(:fuel_per_reduction) => pos_integer,
          optional(atom) => term
        }

  @doc """
  Compiles the rules of `input` (docs/contributing/abi.md) in slices. Returns an instance with the rules, and the warnings. An instance
  is dropped if its compilation ends early.
  """
  @spec compile(Guest.t(), pos_integer, binary, budget) ::
          {:ok, BeTree.Runtime.instance(), [String.t()]} | {:error, Error.t()}
  def compile(%Guest{runtime: runtime} = guest, memory, input, budget) do
    slice = if runtime == Wasmtime, do: @slice, else: runtime.default_slice()
    options = %{fuel: budget.fuel, slice: slice, timeout: budget.timeout}
    slices = Slices.new(runtime, &runtime.resume/1, budget.fuel_per_reduction, options)
    timeout = Deadline.left(slices.deadline)
    request = %{input: input, output: :binary, fuel: budget.fuel, slice: slice, scheduler: :normal, timeout: timeout}

    with {:ok, instance} <- Instance.instantiate(guest, memory),
         {:ok, output} <- instance |> runtime.call("be_tree_rules", [byte_size(input)], request) |> finish(slices),
         {:ok, warnings} <- Reply.warnings(output),
         do: {:ok, instance, warnings}
  end

  defp finish(outcome, slices), do: outcome |> Slices.settle(slices) |> finish()

  defp finish({:yield, slices}), do: slices |> Slices.resume() |> finish()
  defp finish({:done, 0, output, _slices}), do: {:ok, output}
  defp finish({:done, 1, refusal, _slices}), do: {:error, BeTree.Call.Reply.refusal(refusal)}

  defp finish({:done, status, _output, _slices}),
    do: {:error, BeTree.Call.Reply.bad("be_tree_rules with status #{status}")}

  defp finish({:error, error}), do: {:error, error}
end

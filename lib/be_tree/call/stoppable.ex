defmodule BeTree.Call.Stoppable do
  @moduledoc false
  # Runs a call that must not be cut off, in slices on the scheduler of the calling process. When its fuel or its time is used up, the
  # module is asked to stop (the stop word of docs/contributing/abi.md). The module then ends the call with an error, and has changed
  # nothing, or completes it. If the process is killed, the host runs the call to its end in the same way.
  #
  # A runtime that cannot suspend such a call runs it on a dirty scheduler. Its timeout then only limits the wait for the instance, and
  # its budget is not compared.

  alias BeTree.{Error, Fuel, Runtime}
  alias BeTree.Call.{Instance, Reply, Slices}
  alias BeTree.Processes.Deadline
  alias BeTree.Runtime.Wasmtime

  @typedoc "The budget and the timeout of a call, and the fuel of a slice, by default that of the runtime."
  @type limits :: %{
          required(:fuel) => Fuel.budget(),
          required(:timeout) => timeout,
          optional(:slice) => pos_integer | :default,
          optional(atom) => term
        }

  @typedoc "A call: the export, its arguments, the bytes for the inbox, and the form of the output."
  @type call :: {String.t(), [integer], binary | nil, :binary | :u64s | :u64_lists}

  @doc """
  Runs a call to its end. Returns its output and its fuel, or an error with the fuel until then. The calling process is charged for
  each slice, at `per_reduction`.
  """
  @spec run(module, Runtime.instance(), call, pos_integer, limits) ::
          {:ok, term, Fuel.t()} | {:error, Error.t(), Fuel.t()}
  def run(runtime, instance, {export, arguments, _input, _output} = call, per_reduction, limits) do
    deadline = Deadline.new(limits.timeout)

    case runtime.call(instance, export, arguments, request(runtime, call, limits)) do
      {:done, 0, output, fuel} ->
        Slices.charge_whole(fuel, per_reduction)
        {:ok, output, fuel}

      outcome ->
        slices = %{Slices.new(runtime, &runtime.resume/1, per_reduction, limits) | deadline: deadline}
        outcome |> Slices.settle(slices) |> to_end(slices, call)
    end
  end

  defp request(Wasmtime = runtime, {_export, _arguments, input, output}, %{fuel: budget, timeout: timeout} = limits) do
    # The host would cut off a call that exceeds its fuel.
    %{
      input: input,
      output: output,
      fuel: :infinity,
      slice: even(slice(limits, runtime), budget),
      scheduler: :whole,
      timeout: timeout
    }
  end

  defp request(_runtime, {_export, _arguments, input, output}, %{timeout: timeout}) do
    %{
      input: input,
      output: output,
      fuel: Instance.max_fuel(input),
      slice: :infinity,
      scheduler: :dirty,
      timeout: timeout
    }
  end

  defp slice(%{slice: slice}, _runtime) when is_integer(slice), do: slice
  defp slice(_limits, runtime), do: runtime.default_slice()

  # Rounds the slice down to a divisor of the budget, so that the budget ends with a slice.
  defp even(slice, :infinity), do: slice

  defp even(slice, budget) do
    slices = div(budget + slice - 1, slice)
    div(budget + slices - 1, slices)
  end

  defp to_end({:yield, slices}, _before, call) do
    case Slices.check_left(Slices.left(slices.budget, slices.fuel), slices.deadline) do
      :ok -> slices.suspended |> slices.resume.() |> Slices.settle(slices) |> to_end(slices, call)
      {:error, error} -> stop(slices, error, slices.fuel + grace(call), call)
    end
  end

  defp to_end(ended, before, call), do: ended(ended, before, call)

  defp stop(%{fuel: fuel} = slices, error, last, _call) when fuel > last do
    # The host ends it.
    Slices.cancel(slices)
    {:error, %{error | message: "#{error.message}, and the module did not stop when it was asked to"}, fuel}
  end

  defp stop(slices, error, last, call) do
    case slices.suspended |> Wasmtime.stop(error.kind) |> Slices.settle(slices) do
      {:yield, slices} -> stop(slices, error, last, call)
      ended -> ended(ended, slices, call)
    end
  end

  defp grace({_export, _arguments, input, _output}), do: Wasmtime.grace(byte_size(input || ""))

  defp ended({:done, 0, output, slices}, _before, _call), do: {:ok, output, slices.fuel}

  defp ended({:done, 1, refusal, slices}, _before, _call) when is_binary(refusal),
    do: {:error, Reply.refusal(refusal), slices.fuel}

  defp ended({:done, status, _output, slices}, _before, {export, _arguments, _input, _format}),
    do: {:error, Reply.bad("#{export} with status #{status}"), slices.fuel}

  defp ended({:error, error}, before, _call), do: {:error, error, before.fuel}
end

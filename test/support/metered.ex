defmodule BeTree.Test.Metered do
  @moduledoc """
  A runtime that counts the fuel of calls in this process. Fuel is exact, so tests can compare costs.
  """

  use BeTree.Test.Delegating, except: [call: 4, resume: 1]

  alias BeTree.Runtime.Wasmtime

  @doc "Returns the result of `run`, and the fuel of the calls completed in it."
  @spec measure((... -> result)) :: {result, non_neg_integer} when result: term
  def measure(run) do
    Process.put(__MODULE__, 0)
    result = run.()
    {result, Process.get(__MODULE__)}
  end

  def call(instance, export, arguments, request), do: count(Wasmtime.call(instance, export, arguments, request))

  def resume(suspended), do: count(Wasmtime.resume(suspended))

  # A call that yielded counts from its start.
  defp count({:done, _status, _output, fuel} = outcome) do
    Process.put(__MODULE__, Process.get(__MODULE__, 0) + fuel)
    outcome
  end

  defp count(outcome), do: outcome
end

defmodule BeTree.Test.Metered do
  @moduledoc """
  A runtime that counts the fuel of the calls of this process. Fuel is exact, so a test may compare costs.
  """

  use BeTree.Test.Delegating, except: [call: 4]

  alias BeTree.Runtime.Wasmtime

  @doc "Returns the result of `run`, and the fuel of the calls in it, which must not yield."
  @spec measure((-> result)) :: {result, non_neg_integer} when result: term
  def measure(run) do
    Process.put(__MODULE__, 0)
    result = run.()
    {result, Process.get(__MODULE__)}
  end

  def call(instance, export, arguments, request) do
    outcome = Wasmtime.call(instance, export, arguments, request)
    with {:done, _status, _output, fuel} <- outcome, do: Process.put(__MODULE__, Process.get(__MODULE__, 0) + fuel)
    outcome
  end
end

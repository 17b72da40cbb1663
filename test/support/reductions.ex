defmodule BeTree.Test.Reductions do
  @moduledoc """
  What work costs a process.
  """

  @doc "The reductions that a process of its own does for `work`."
  def reductions(work) do
    Task.async(fn ->
      {:reductions, before} = Process.info(self(), :reductions)
      work.()
      {:reductions, later} = Process.info(self(), :reductions)
      later - before
    end)
    |> Task.await(60_000)
  end
end

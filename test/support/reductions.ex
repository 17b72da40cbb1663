defmodule BeTree.Test.Reductions do
  @moduledoc """
  Counts the reductions of work.
  """

  @doc "Returns the reductions that a process of its own is charged for `work`."
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

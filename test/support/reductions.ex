defmodule BeTree.Test.Reductions do
  @moduledoc """
  Counts the reductions of a function.
  """

  # Garbage collections cost reductions too, and depend on the sizes of terms. So the heap has room for all garbage of the
  # work. The system allocates a page of it only when it is written.
  @words 32_000_000

  @doc "Returns the reductions of `work` in a new process."
  def reductions(work) do
    parent = self()

    count = fn ->
      {:reductions, before} = Process.info(self(), :reductions)
      work.()
      {:reductions, later} = Process.info(self(), :reductions)
      send(parent, {self(), later - before})
    end

    {counting, monitor} = :erlang.spawn_opt(count, [:monitor, min_heap_size: @words])

    receive do
      {^counting, reductions} ->
        Process.demonitor(monitor, [:flush])
        reductions

      {:DOWN, ^monitor, :process, ^counting, reason} ->
        exit(reason)
    end
  end
end

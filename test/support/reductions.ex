defmodule BeTree.Test.Reductions do
  @moduledoc """
  Counts the reductions of work.
  """

  # A garbage collection costs reductions too, and the sizes of terms decide when one is due. So the heap has room for all the garbage
  # of the work. The system gives a page of it only when the work writes there.
  @words 32_000_000

  @doc "Returns the reductions that a process of its own is charged for `work`."
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

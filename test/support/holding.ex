defmodule BeTree.Test.Holding do
  @moduledoc """
  Suspends a search between two slices, so that it holds its tree, or a replica of its index.
  """

  import ExUnit.Assertions

  @doc "Starts a search for `event`, of more than 10,000 fuel, in a process that holds it until `release/1`."
  def hold(target, event) do
    parent = self()

    task =
      Task.async(fn ->
        {:yield, search} = BeTree.Search.start(target, event, slice: 10_000)
        send(parent, {:held, self()})
        receive(do: (:go -> BeTree.Search.cancel(search)))
      end)

    assert_receive {:held, pid}
    assert pid == task.pid
    task
  end

  @doc "Cancels the search, and waits for its process to end."
  def release(task) do
    send(task.pid, :go)
    Task.await(task, 60_000)
  end
end

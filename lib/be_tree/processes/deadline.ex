defmodule BeTree.Processes.Deadline do
  @moduledoc false
  # The end of a timeout in monotonic time, for calls with several waits.

  @type t :: integer | :infinity

  @doc "Returns the moment `timeout` milliseconds from now."
  @spec new(timeout) :: t
  def new(:infinity), do: :infinity
  def new(timeout), do: System.monotonic_time(:millisecond) + timeout

  @doc "Returns the milliseconds until the deadline, 0 after it."
  @spec left(t) :: timeout
  def left(:infinity), do: :infinity
  def left(deadline), do: max(deadline - System.monotonic_time(:millisecond), 0)

  @spec passed?(t) :: boolean
  def passed?(deadline), do: left(deadline) == 0
end

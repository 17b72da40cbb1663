defmodule ErlBetree.Clock do
  @moduledoc false
  # The clocks that elapsed times are read from, by their number in erl-be-tree.
  #
  # Process time is that of the whole VM, in whole milliseconds, as the BEAM knows no other. It has none of a thread
  # either: a call may go on on another scheduler. So that clock counts as monotonic.

  @realtime 0
  @process 2

  @doc "What `work` answers, and how many microseconds it took."
  @spec time(integer, (() -> answer)) :: {answer, non_neg_integer} when answer: term
  def time(clock, work) do
    started = now(clock)
    answer = work.()
    # The wall clock may have been put back.
    {answer, max(now(clock) - started, 0)}
  end

  defp now(@realtime), do: :os.system_time(:microsecond)
  defp now(@process), do: 1_000 * elem(:erlang.statistics(:runtime), 0)
  defp now(_monotonic), do: :erlang.monotonic_time(:microsecond)
end

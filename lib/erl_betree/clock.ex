defmodule ErlBetree.Clock do
  @moduledoc false
  # The clocks for elapsed times, by their number in erl-be-tree.
  #
  # Process time is that of the whole VM, in whole milliseconds, because the BEAM has no other. The BEAM has no clock of a
  # thread either: a call may move to another scheduler. That clock type is monotonic time.

  @realtime 0
  @process 2

  @doc "Returns the result of `work`, and the microseconds that it took."
  @spec time(integer, (... -> result)) :: {result, non_neg_integer} when result: term
  def time(clock, work) do
    started = now(clock)
    result = work.()
    # The wall clock may have been set back.
    {result, max(now(clock) - started, 0)}
  end

  defp now(@realtime), do: :os.system_time(:microsecond)
  defp now(@process), do: 1_000 * elem(:erlang.statistics(:runtime), 0)
  defp now(_monotonic), do: :erlang.monotonic_time(:microsecond)
end

defmodule ErlBetree.Clock do
  @moduledoc false
  # The clocks for elapsed times, by their number in erl-be-tree.
  #
  # Process time is that of the whole VM in milliseconds, the BEAM's only one. The BEAM has no thread clock either, because
  # a call may move to another scheduler; that clock type is monotonic time.

  @realtime 0
  @process 2

  @doc "Returns the result of `work`, and its microseconds."
  @spec time(integer, (... -> result)) :: {result, non_neg_integer} when result: term
  def time(clock, work) do
    started = now(clock)
    result = work.()
    # The wall clock may be set back meanwhile.
    {result, max(now(clock) - started, 0)}
  end

  defp now(@realtime), do: :os.system_time(:microsecond)
  defp now(@process), do: 1_000 * elem(:erlang.statistics(:runtime), 0)
  defp now(_monotonic), do: :erlang.monotonic_time(:microsecond)
end

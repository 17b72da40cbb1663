defmodule BeTree.Tenants.Clock do
  @moduledoc false
  # The time of tenants: the day in UTC, for statistics and bills, and a monotonic clock, for quotas and the order of use.

  @seconds_of_day 86_400
  @microseconds 1_000_000
  # Days by which the clock may go back, or that of another node be ahead.
  @max_days_ahead 3_650

  @typedoc """
  `nil` for the clocks of the system. Tests pass functions: the first returns the seconds since 1970, the second microseconds that never
  decrease.
  """
  @type t :: nil | {(... -> non_neg_integer), (... -> integer)}

  @typedoc "Days since 1970 in UTC."
  @type day :: integer

  @doc "Returns the present day. It follows the clock of the operating system, so it may go back."
  @spec day(t) :: day
  def day(clock), do: div(seconds(clock), @seconds_of_day)

  @doc "Returns the days that can have figures: those of the retention, the present one, and days of a clock that was ahead."
  @spec kept_days(t, retention :: pos_integer) :: Range.t()
  def kept_days(clock, retention) do
    today = day(clock)
    (today - retention)..(today + @max_days_ahead)
  end

  @doc "Returns the seconds since 1970."
  @spec seconds(t) :: non_neg_integer
  def seconds(nil), do: :os.system_time(:second)
  def seconds({seconds, _monotonic}), do: seconds.()

  @doc "Returns microseconds of the monotonic clock."
  @spec now(t) :: integer
  def now(nil), do: :erlang.monotonic_time(@microseconds)
  def now({_seconds, monotonic}), do: monotonic.()

  @doc "Returns the number of a day."
  @spec number(Date.t()) :: day
  def number(%Date{} = date), do: Date.diff(date, ~D[1970-01-01])

  @doc "Returns the date of a day."
  @spec date(day) :: Date.t()
  def date(day), do: Date.add(~D[1970-01-01], day)
end

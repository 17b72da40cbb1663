defmodule BeTree.Tenants.Usage do
  @moduledoc false
  # The bill of a tenant: fuel and events by day and kind of call.
  #
  # Callers add to counters without locks. A day has counters of its own, and the row of a tenant in the directory has those of its
  # present day. The table of usages, which outlives every process below the supervisor, keeps the counters until their totals are
  # stored with the statistics of the day. A caller that read the row before midnight adds to the counters of the day on which
  # its call began, also if the tenant has left memory meanwhile.

  alias BeTree.Input.{Check, Limits}
  alias BeTree.Tenants.Clock

  # The first three are fuel.
  @kinds [:search, :change, :load, :events, :skipped, :refused]

  @typedoc "Fuel by kind of call, and counts: events that were matched, skipped by `overflow: :sample`, and refused for the quota."
  @type totals :: %{
          search: non_neg_integer,
          change: non_neg_integer,
          load: non_neg_integer,
          events: non_neg_integer,
          skipped: non_neg_integer,
          refused: non_neg_integer
        }

  @type kind :: :search | :change | :load | :events | :skipped | :refused

  @typedoc "The days of a tenant that have counters, the latest one first, each with the totals that are stored with its statistics."
  @type days :: [{Clock.day(), :counters.counters_ref(), stored :: totals | nil}]

  @doc "Returns totals of zero."
  @spec zero() :: totals
  def zero, do: Map.new(@kinds, &{&1, 0})

  @doc "Returns counters that begin with these totals."
  @spec counters(totals) :: :counters.counters_ref()
  def counters(totals) do
    counters = :counters.new(length(@kinds), [])
    for kind <- @kinds, do: add(counters, kind, Map.get(totals, kind, 0))
    counters
  end

  @doc "Adds to the counter of a kind."
  @spec add(:counters.counters_ref(), kind, non_neg_integer) :: :ok
  for {kind, position} <- Enum.with_index(@kinds, 1) do
    def add(counters, unquote(kind), count), do: :counters.add(counters, unquote(position), count)
  end

  @doc "Returns the totals of counters."
  @spec totals(:counters.counters_ref()) :: totals
  def totals(counters) do
    for {kind, position} <- Enum.with_index(@kinds, 1), into: %{}, do: {kind, :counters.get(counters, position)}
  end

  @doc "Returns the fuel of all kinds of call."
  @spec fuel(:counters.counters_ref()) :: non_neg_integer
  def fuel(counters), do: Enum.reduce(1..3, 0, fn position, sum -> sum + :counters.get(counters, position) end)

  @doc "Returns the sum of two totals."
  @spec sum(totals, totals) :: totals
  def sum(one, other), do: Map.merge(one, other, fn _kind, count, more -> count + more end)

  @doc "Returns a number by which the totals of the same counters are in the order of time."
  @spec size(totals) :: non_neg_integer
  def size(totals), do: totals |> Map.values() |> Enum.sum()

  @doc "Returns the counts of totals in a fixed order."
  @spec to_list(totals) :: [non_neg_integer]
  def to_list(totals), do: for(kind <- @kinds, do: Map.fetch!(totals, kind))

  @doc "Returns the totals of counts in the order of `to_list/1`, or `:error`."
  @spec from_list(term) :: {:ok, totals} | :error
  def from_list(counts) do
    if Check.proper_list?(counts) and length(counts) == length(@kinds) and Enum.all?(counts, &count?/1),
      do: {:ok, @kinds |> Enum.zip(counts) |> Map.new()},
      else: :error
  end

  defp count?(count), do: is_integer(count) and count >= 0 and count <= Limits.max_u64()

  @doc "Returns the later one of two totals of the same counters."
  @spec later(totals, totals) :: totals
  def later(one, other), do: Map.merge(one, other, fn _kind, count, more -> max(count, more) end)

  @doc "Returns a number that changes with each addition."
  @spec mark(:counters.counters_ref()) :: non_neg_integer
  def mark(counters),
    do: Enum.reduce(1..length(@kinds), 0, fn position, sum -> sum + :counters.get(counters, position) end)

  @doc "Returns days with these totals."
  @spec days([{Clock.day(), totals}]) :: days
  def days(by_day) do
    by_day |> Enum.map(fn {day, totals} -> {day, counters(totals), nil} end) |> Enum.sort_by(&elem(&1, 0), :desc)
  end

  @doc "Returns the days with counters for `day`, and the latest of them, which is later than `day` if the clock went back."
  @spec open(days, Clock.day()) :: {Clock.day(), :counters.counters_ref(), days}
  def open([{latest, counters, _stored} | _earlier] = days, day) when latest >= day, do: {latest, counters, days}

  def open(days, day) do
    counters = counters(zero())
    {day, counters, [{day, counters, nil} | days]}
  end

  @doc "Returns the counters of a day, or `nil`."
  @spec find(days, Clock.day()) :: :counters.counters_ref() | nil
  def find(days, day) do
    case List.keyfind(days, day, 0) do
      {_day, counters, _stored} -> counters
      nil -> nil
    end
  end

  @doc "Returns the totals of the days that are not stored, in order."
  @spec not_stored(days) :: [{Clock.day(), totals}]
  def not_stored(days) do
    for {day, counters, stored} <- Enum.reverse(days), totals = totals(counters), totals != stored, do: {day, totals}
  end
end

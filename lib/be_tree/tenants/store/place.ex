defmodule BeTree.Tenants.Store.Place do
  @moduledoc false
  # The place of a record: the number of its segment, the byte at which it begins, and its bytes. In memory the first two are the
  # upper and the lower half of the record's number.
  #
  # The places of a tenant's sealed days are one binary of entries of 15 bytes, in the order of days, because a cold tenant has a
  # day for each day of the retention. A day is signed and has 24 bits, the other integers have 32.

  @entry 15
  @max_day 0x7F_FFFF

  @type t :: {segment :: non_neg_integer, at :: non_neg_integer, size :: pos_integer}

  @typedoc "Days with their places, as one binary."
  @type days :: binary

  @doc "Returns whether a day has a place in `t:days/0`."
  defguard is_day(day) when is_integer(day) and day >= -@max_day and day <= @max_day

  @doc "Returns the days and their places, in order."
  @spec list(days) :: [{integer, t}]
  def list(days) do
    for <<day::signed-24, segment::32, at::32, size::32 <- days>>, do: {day, {segment, at, size}}
  end

  @doc "Returns the days with another one, or with another place of it."
  @spec put(days, integer, t) :: days
  def put(days, day, {segment, at, size}) do
    {before, from} = split(days, day, 0)
    # Iodata, because a binary that grows keeps spare bytes in a table.
    IO.iodata_to_binary([before, <<day::signed-24, segment::32, at::32, size::32>>, without_first(from, day)])
  end

  @doc "Returns the place of a day, or `nil`."
  @spec get(days, integer) :: t | nil
  def get(days, day) do
    case split(days, day, 0) do
      {_before, <<^day::signed-24, segment::32, at::32, size::32, _later::binary>>} -> {segment, at, size}
      _other -> nil
    end
  end

  @doc "Returns the last day, or `nil`."
  @spec last(days) :: integer | nil
  def last(""), do: nil

  def last(days) do
    <<day::signed-24, _place::binary>> = binary_part(days, byte_size(days), -@entry)
    day
  end

  @doc "Returns the days from `first` on."
  @spec from(days, integer) :: days
  def from(days, first), do: days |> split(first, 0) |> elem(1)

  # Most new days are later than all others, but a tenant has few enough days to begin with the first.
  defp split(days, day, at) do
    case days do
      <<_before::binary-size(at), other::signed-24, _rest::binary>> when other < day -> split(days, day, at + @entry)
      _end_or_later_day -> :erlang.split_binary(days, at)
    end
  end

  defp without_first(<<day::signed-24, _place::binary-size(12), later::binary>>, day), do: later
  defp without_first(later, _day), do: later
end

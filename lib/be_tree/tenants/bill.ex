defmodule BeTree.Tenants.Bill do
  @moduledoc false
  # The bill of a tenant by day: its counters in memory, and what the store has, of this copy and of other origins.

  alias BeTree.Error
  alias BeTree.Tenants.{Clock, Copy, Day, Directory, Quota, Usage}

  @doc "Returns the bill of a tenant, as `BeTree.Tenants.usage/2` does."
  @spec usage(Directory.t(), term) :: {:ok, map} | {:error, Error.t()}
  def usage(%{options: %{clock: clock, retention: retention}} = directory, tenant) do
    # First, because what leaves the counters is in the store.
    present = for {day, counters, _stored} <- Directory.usage(directory, tenant), do: {day, Usage.totals(counters)}

    with {:ok, body} <- Copy.read(directory, tenant),
         {:ok, records} <- Copy.days(directory, tenant, Clock.kept_days(clock, retention)) do
      own = own(records, body, present)

      bills =
        for {day, record} <- records, {_blob, totals, _digest} <- Day.foreign(record, body.origin), do: {day, totals}

      days =
        Enum.reduce(bills, own, fn {day, totals}, days -> Map.update(days, day, totals, &Usage.sum(&1, totals)) end)

      {:ok,
       %{
         days: Map.new(days, fn {day, totals} -> {Clock.date(day), totals} end),
         module: directory.digest,
         modules: modules(records, directory.digest),
         quota: quota_left(directory, tenant, body.quota)
       }}
    end
  end

  # The same counters are in several places.
  defp own(records, %{origin: origin, usage: usage}, present) do
    settled = for {day, %{^origin => {_blob, totals, _digest}}} <- records, do: {day, totals}
    later = fn _day, one, other -> Usage.later(one, other) end
    Enum.reduce([settled, usage, present], %{}, &Map.merge(&2, Map.new(&1), later))
  end

  defp modules(records, digest) do
    for {day, record} <- records,
        {_origin, {_blob, _totals, other}} <- record,
        other != digest,
        into: %{},
        do: {Clock.date(day), other}
  end

  defp quota_left(%{options: %{quota: default}} = directory, tenant, quota) do
    with %Quota{} = quota <- if(quota == :default, do: default, else: quota) do
      left =
        with {_key, _shard, _id, _number, _day, _counters, slots, bucket, clock} <-
               Directory.row(directory.name, tenant),
             left when is_integer(left) <- Quota.left(bucket, slots, Clock.now(clock)),
             do: left,
             else: (_none -> nil)

      quota |> Map.take([:rate, :burst, :memory]) |> Map.put(:left, left)
    end
  end
end

defmodule BeTree.Tenants.Victims do
  @moduledoc false
  # The least recently used tenants of a partition, which are evicted first.
  #
  # A look at all tenants sorts them by their last use, and keeps the first ones with that time. Each is a victim later only if it was
  # not used since. So the cost of a look is shared by many evictions, and a match only stores its time.

  alias BeTree.Tenants.{Copy, Quota}

  # How many tenants a look keeps: a part of all, and at most a number.
  @kept_part 32
  @max_kept 512

  @typedoc "Tenants with their last use when it was read, the least recently used first."
  @type t :: [{last_use :: integer, tenant :: term}]

  @spec new() :: t
  def new, do: []

  @doc "Returns the copy of the least recently used tenant that may be evicted, or `nil`."
  @spec next(t, %{term => Copy.t()}, (tenant :: term -> boolean)) :: {Copy.t() | nil, t}
  def next([{used, tenant} | victims], copies, may_leave?) do
    with %{^tenant => copy} <- copies, true <- may_leave?.(tenant) and Quota.last_use(copy.slots) == used do
      {copy, victims}
    else
      _gone -> next(victims, copies, may_leave?)
    end
  end

  def next([], copies, may_leave?) do
    candidates = for {tenant, copy} <- copies, may_leave?.(tenant), do: {Quota.last_use(copy.slots), tenant}
    kept = copies |> map_size() |> div(@kept_part) |> max(1) |> min(@max_kept)

    case candidates |> Enum.sort() |> Enum.take(kept) do
      [] -> {nil, []}
      [{_used, tenant} | victims] -> {Map.fetch!(copies, tenant), victims}
    end
  end
end

defmodule BeTree.Tenants.Dashboard.Totals do
  @moduledoc false
  # The figures of a tenant or of all, of a day or of several.

  @fields [:events, :matched, :matches, :search, :change, :load, :skipped, :refused]

  @typedoc "`:search`, `:change` and `:load` are fuel, the others are numbers of events and matches."
  @type t :: %{
          events: non_neg_integer,
          matched: non_neg_integer,
          matches: non_neg_integer,
          search: non_neg_integer,
          change: non_neg_integer,
          load: non_neg_integer,
          skipped: non_neg_integer,
          refused: non_neg_integer
        }

  @zero Map.new(@fields, &{&1, 0})

  @doc "Returns totals of zero."
  @spec zero() :: t
  def zero, do: @zero

  @doc "Returns the totals of a bill and of an entry of a report. Without a bill or an entry, its totals are zero."
  @spec new(map | nil, map | nil) :: t
  def new(bill, entry) do
    @zero
    |> Map.merge(Map.take(bill || %{}, [:search, :change, :load, :skipped, :refused]))
    |> Map.merge(Map.take(entry || %{}, [:events, :matched, :matches]))
  end

  @doc "Returns the sum."
  @spec sum(t, t) :: t
  def sum(one, other), do: Map.merge(one, other, fn _field, count, more -> count + more end)

  @doc "Returns the fuel of all kinds of calls."
  @spec fuel(t) :: non_neg_integer
  def fuel(%{search: search, change: change, load: load}), do: search + change + load
end

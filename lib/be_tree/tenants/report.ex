defmodule BeTree.Tenants.Report do
  @moduledoc false
  # Reports over the statistics of tenants: which blobs a query needs, the query in the form of the guest, and its result as maps. The
  # guest merges the blobs, so nothing here interprets them.

  alias BeTree.Error
  alias BeTree.Error.Attempt
  alias BeTree.Input.{Check, Describe, Json, Options, Subscription}
  alias BeTree.Tenants.{Clock, Copy, Directory, Request, Shard, Store}

  @max_sections 8
  @max_quantiles 100
  @dimensions [:tenant, :day, :id]

  @definitions [
    tenants: [
      type: {:check, ":all or a list of tenants", &__MODULE__.tenants?/1},
      required: true,
      doc: "a list of tenants, or `:all`. The report merges them"
    ],
    days: [
      type: {:check, ":all or a Date.Range", &__MODULE__.days?/1},
      default: :all,
      doc: "a `Date.Range`, or `:all` for the present day and all days that are kept"
    ],
    ids: [
      type: {:check, ":all or a list of ids", &__MODULE__.ids?/1},
      default: :all,
      doc: "the ids of the expressions that count, or `:all`. Expressions that were deleted count on their days"
    ],
    sections: [
      type: {:check, "a list of at most #{@max_sections} lists of :tenant, :day and :id", &__MODULE__.sections?/1},
      default: [[]],
      doc:
        "what each section groups by: a list of lists of `:tenant`, `:day` and `:id`. `[]` has one entry with the totals"
    ],
    quantiles: [
      type: {:check, "a list of at most #{@max_quantiles} numbers from 0 to 1", &__MODULE__.quantiles?/1},
      default: [0.5, 0.9, 0.99],
      doc: "the quantiles of figures of that kind"
    ]
  ]

  @type query :: %{
          tenants: :all | [term],
          days: :all | Date.Range.t(),
          ids: :all | [BeTree.id()],
          sections: [[:tenant | :day | :id]],
          quantiles: [number]
        }

  @doc "Returns the documentation of the parts of a query."
  @spec docs() :: String.t()
  def docs, do: Options.docs(@definitions)

  @doc "Returns a query. Raises an `ArgumentError` for unknown or wrong parts."
  @spec query!(term) :: query
  def query!(parts), do: parts |> Options.validate!(@definitions) |> Map.new()

  @doc false
  def tenants?(tenants), do: tenants == :all or Check.proper_list?(tenants)

  @doc false
  def days?(days), do: days == :all or match?(%Date.Range{}, days)

  @doc false
  def ids?(ids), do: ids == :all or (Check.proper_list?(ids) and match?({:ok, _ids}, Subscription.ids(ids, :integer)))

  @doc false
  def sections?(sections) do
    Check.proper_list?(sections) and length(sections) <= @max_sections and
      Enum.all?(sections, &(Check.proper_list?(&1) and &1 == Enum.uniq(&1) and &1 -- @dimensions == []))
  end

  @doc false
  def quantiles?(quantiles) do
    Check.proper_list?(quantiles) and length(quantiles) <= @max_quantiles and
      Enum.all?(quantiles, &(is_number(&1) and &1 >= 0 and &1 <= 1))
  end

  ## Making a report

  @doc "Returns the sections of a query."
  @spec run(Directory.t(), query, timeout) :: {:ok, [[map]]} | {:error, Error.t()}
  def run(directory, query, timeout) do
    tenants = if query.tenants == :all, do: Enum.to_list(Store.tenants(directory.store)), else: Enum.uniq(query.tenants)
    days = days(query.days, directory)

    with {:ok, blobs} <- blobs(Enum.with_index(tenants), query.tenants == :all, days, directory, timeout),
         {:ok, sections} <- Shard.report(directory.guest, wire(query, days), blobs) do
      names = List.to_tuple(tenants)

      {:ok,
       Enum.zip_with(query.sections, sections, fn dimensions, entries ->
         Enum.map(entries, &entry(&1, dimensions, names))
       end)}
    end
  end

  defp wire(query, first..last//_step), do: {{first, last}, query.ids, query.sections, query.quantiles}

  # The clock may have gone back, so the latest day may be later than today.
  defp days(:all, directory) do
    %{retention: retention, clock: clock} = directory.options
    today = Clock.day(clock)
    (today - retention)..(today + retention)//1
  end

  defp days(%Date.Range{first: first, last: last}, _directory) do
    {first, last} = {Clock.number(first), Clock.number(last)}
    min(first, last)..max(first, last)//1
  end

  defp blobs(tenants, all?, days, directory, timeout) do
    with {:ok, lists} <- Attempt.map(tenants, &blobs_of(&1, all?, days, directory, timeout)),
         do: {:ok, Enum.concat(lists)}
  end

  defp blobs_of({tenant, number}, all?, days, directory, timeout) do
    with {:ok, body} <- present(directory, tenant, timeout),
         {:ok, records} <- Copy.days(directory, tenant, days) do
      settled = for {_day, record} <- records, {_origin, {blob, _totals, _digest}} <- record, blob != nil, do: blob
      {:ok, for(blob <- open(body, records, days) ++ settled, do: {number, blob})}
    else
      # It was dropped since it was listed.
      {:error, %Error{kind: :not_found}} when all? -> {:ok, []}
      {:error, error} -> {:error, error}
    end
  end

  # The statistics in the body. A day may have its bill alone in the store, and its statistics still in the body. A day with both in the
  # store may be in the body too, if the shard was lost since.
  defp open(%{statistics: {day, blob}, origin: origin}, records, days) do
    case records do
      %{^day => %{^origin => {settled, _totals, _digest}}} when settled != nil -> []
      _open -> if day in days, do: [blob], else: []
    end
  end

  defp open(_no_statistics, _records, _days), do: []

  defp present(directory, tenant, timeout) do
    with :cold <- Request.statistics(directory, tenant, timeout), do: Copy.read(directory, tenant)
  end

  ## Results

  defp entry({key, events, matched, matches, figures}, dimensions, tenants) do
    counts = %{matches: matches, stats: Enum.map(figures, &figure/1)}
    counts = if events == nil, do: counts, else: Map.merge(counts, %{events: events, matched: matched})
    dimensions |> Enum.zip_with(key, &dimension(&1, &2, tenants)) |> Map.new() |> Map.merge(counts)
  end

  defp dimension(:day, day, _tenants), do: {:day, Clock.date(day)}
  defp dimension(:id, id, _tenants), do: {:id, id}
  defp dimension(:tenant, number, tenants), do: {:tenant, elem(tenants, number)}

  defp figure({name, kind, attribute, value}),
    do: Map.merge(%{name: name, kind: kind, attribute: attribute}, value(kind, value))

  defp value(:uniques, {count, exact}), do: %{count: count, exact: exact}
  defp value(:sum, {count, sum, min, max}), do: %{count: count, sum: sum, min: min, max: max}

  defp value(:top, {total, values}),
    do: %{count: total, values: for({value, count, error} <- values, do: %{value: value, count: count, error: error})}

  defp value(:quantiles, {count, min, max, values}) do
    quantiles = for {quantile, value} <- values, do: %{quantile: quantile, value: value}
    %{count: count, min: min, max: max, quantiles: quantiles}
  end

  defp value(:members, {values, more}), do: %{values: values, more: more}

  ## JSON

  @doc "Returns sections as JSON. A tenant that is no string, atom or number is written as Elixir prints it."
  @spec json([[map]]) :: String.t()
  def json(sections), do: Json.encode(for(section <- sections, do: Enum.map(section, &json_entry/1)))

  defp json_entry(entry), do: Map.new(entry, &json_pair/1)

  defp json_pair({:day, date}), do: {:day, Date.to_iso8601(date)}

  defp json_pair({:tenant, tenant}) when is_binary(tenant) or is_atom(tenant) or is_number(tenant),
    do: {:tenant, tenant}

  defp json_pair({:tenant, tenant}), do: {:tenant, Describe.value(tenant)}
  defp json_pair(pair), do: pair
end

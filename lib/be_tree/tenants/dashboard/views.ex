defmodule BeTree.Tenants.Dashboard.Views do
  @moduledoc false
  # The replies to the page's requests. A path or a parameter that is not one of these is refused, and every list has a limit.

  alias BeTree.{Error, Tenants}
  alias BeTree.Tenants.{Clock, Copy, Directory}
  alias BeTree.Tenants.Dashboard.{Http, Label, Overview, Totals}

  @max_tenants 100
  # The expressions that matched most are looked for among this many tenants with the most matches.
  @searched_tenants 20
  @max_expressions 20
  @max_expressions_of_tenant 200
  @max_search 200
  # Days of the charts, also of a shorter range.
  @min_chart_days 7
  # Values of a figure.
  @max_values 20

  @page "priv/tenants.html"
  @nonce "the nonce goes here"

  @doc "Returns the page with a place for the nonce of its script."
  @spec page() :: {:ok, {iodata, iodata}} | {:error, Error.t()}
  def page do
    with {:ok, page} <- :be_tree |> Application.app_dir(@page) |> File.read(),
         [before, behind] <- String.split(page, @nonce) do
      {:ok, {before, behind}}
    else
      _missing_or_other ->
        message =
          "the page's program is missing (#{@page}). Released packages have it. In a checkout, install npm, then run: " <>
            "make report && mix compile"

        {:error, %Error{kind: :file, message: message}}
    end
  end

  @doc "Replies to a request for the tenants `name`."
  @spec reply(String.t(), map, atom, pid, {iodata, iodata}) :: Http.reply()
  def reply("/", _query, _name, _overview, {before, behind}), do: {:page, &[before, &1, behind]}

  def reply("/api/overview", query, name, overview, _page) do
    with {:ok, days} <- days(query),
         search = query |> Map.get("search", "") |> String.slice(0, @max_search),
         {:ok, info} <- Tenants.info(name),
         {:ok, directory} <- Directory.fetch(name),
         {:ok, summary} <- Overview.fetch(overview, days) do
      {:json, 200, overview(summary, search, days, info, directory)}
    else
      {:error, error} -> failed(error)
    end
  end

  def reply("/api/tenant", query, name, overview, _page) do
    with {:ok, days} <- days(query),
         {:ok, tenant} <- find(query, overview),
         {:ok, directory} <- Directory.fetch(name),
         {:ok, map} <- tenant(tenant, days, directory) do
      {:json, 200, map}
    else
      {:error, error} -> failed(error)
    end
  end

  def reply("/api/report", query, name, overview, _page) do
    with {:ok, days} <- days(query),
         {:ok, tenant} <- find(query, overview),
         {:ok, directory} <- Directory.fetch(name),
         query = [tenants: [tenant], days: range(directory, days), sections: [[], [:day], [:id]]],
         {:ok, json} <- Tenants.to_json(name, query) do
      {:json_text, json}
    else
      {:error, error} -> failed(error)
    end
  end

  def reply("/api/usage", query, name, overview, _page) do
    with {:ok, tenant} <- find(query, overview),
         {:ok, usage} <- Tenants.usage(name, tenant) do
      days = fn by_date -> Map.new(by_date, fn {date, value} -> {Date.to_iso8601(date), value} end) end
      {:json, 200, %{usage | days: days.(usage.days), modules: days.(usage.modules)}}
    else
      {:error, error} -> failed(error)
    end
  end

  def reply("/api/info", _query, name, _overview, _page) do
    case Tenants.info(name) do
      {:ok, info} ->
        dearest =
          for {tenant, fuel} <- info.dearest, do: %{key: Overview.key(tenant), name: Label.tenant(tenant), fuel: fuel}

        error = info.store[:error]
        {:json, 200, %{info | dearest: dearest, store: Map.put(info.store, :error, error && Exception.message(error))}}

      {:error, error} ->
        failed(error)
    end
  end

  def reply(_path, _query, _name, _overview, _page), do: Http.error(404, "there is nothing here")

  defp failed(%Error{kind: :not_found} = error), do: Http.error(404, Exception.message(error))
  defp failed(%Error{kind: :type} = error), do: Http.error(400, Exception.message(error))
  defp failed(error), do: Http.error(500, Exception.message(error))

  defp days(query) do
    text = Map.get(query, "days", "1")

    case Enum.find(Overview.ranges(), &(Integer.to_string(&1) == text)) do
      nil -> {:error, %Error{kind: :type, message: "days is one of #{Enum.join(Overview.ranges(), ", ")}"}}
      days -> {:ok, days}
    end
  end

  defp find(%{"key" => key}, overview), do: Overview.find(overview, key)
  defp find(_query, _overview), do: {:error, %Error{kind: :type, message: "the parameter key is missing"}}

  defp range(directory, days) do
    today = today(directory)
    Date.range(Date.add(today, 1 - days), today)
  end

  defp today(directory), do: Clock.date(Clock.day(directory.options.clock))
  defp hot?(directory, tenant), do: is_tuple(Directory.row(directory.name, tenant))

  ## All tenants

  defp overview(summary, search, days, info, directory) do
    found =
      if search == "", do: summary.tenants, else: Enum.filter(summary.tenants, &named?(&1, String.downcase(search)))

    dearest = Enum.sort_by(found, fn {_key, _tenant, name, totals} -> {-Totals.fuel(totals), name} end)

    %{
      today: Date.to_iso8601(today(directory)),
      progress: with({done, total} <- summary.progress, do: %{done: done, of: total}),
      fault: summary.error && Exception.message(summary.error),
      info: %{
        tenants: info.tenants,
        hot: info.hot,
        bytes: info.bytes,
        shards: info.shards,
        disk_bytes: info.store.journal_bytes + info.store.bodies_bytes + info.store.days_bytes
      },
      by_day: by_day(directory, days, fn date -> summary.by_day[Clock.number(date)] || Totals.zero() end),
      total: total(Enum.map(summary.tenants, &elem(&1, 3))),
      found: length(found),
      tenants:
        for {key, tenant, name, totals} <- Enum.take(dearest, @max_tenants) do
          totals |> with_fuel() |> Map.merge(%{key: key, name: name, hot: hot?(directory, tenant)})
        end,
      expressions: expressions(found, days, directory)
    }
  end

  defp named?({_key, _tenant, name, _totals}, search), do: name |> String.downcase() |> String.contains?(search)

  defp total(totals) do
    sum = totals |> Enum.reduce(Totals.zero(), &Totals.sum/2) |> with_fuel()
    Map.put(sum, :tenants, Enum.count(totals, &(&1.events > 0)))
  end

  defp with_fuel(totals), do: Map.put(totals, :fuel, Totals.fuel(totals))

  defp by_day(directory, days, totals) do
    for date <- range(directory, max(days, @min_chart_days)) do
      date |> totals.() |> with_fuel() |> Map.put(:day, Date.to_iso8601(date))
    end
  end

  # A tenant that was dropped since the scan has none.
  defp expressions(rows, days, directory) do
    busy =
      rows
      |> Enum.sort_by(fn {_key, _tenant, _name, totals} -> -totals.matches end)
      |> Enum.take(@searched_tenants)
      |> Enum.filter(fn {_key, _tenant, _name, totals} -> totals.matches > 0 end)

    found =
      for {key, tenant, name, _totals} <- busy,
          entry <- entries(tenant, days, directory),
          do: {entry.matches, key, tenant, name, entry.id}

    found =
      found
      |> Enum.sort_by(fn {matches, key, _tenant, _name, id} -> {-matches, key, id} end)
      |> Enum.take(@max_expressions)

    texts =
      for {_matches, _key, tenant, _name, _id} <- found, uniq: true, into: %{}, do: {tenant, texts(directory, tenant)}

    for {matches, key, tenant, name, id} <- found,
        do: %{key: key, name: name, id: Integer.to_string(id), text: text(texts[tenant], id), matches: matches}
  end

  defp entries(tenant, days, directory) do
    case Tenants.report(directory.name, tenants: [tenant], days: range(directory, days), sections: [[:id]]) do
      {:ok, [entries]} -> entries
      {:error, _error} -> []
    end
  end

  defp texts(directory, tenant) do
    case Copy.read(directory, tenant) do
      {:ok, body} -> body.expressions
      {:error, _error} -> %{}
    end
  end

  # The text of an expression, `nil` for one that was deleted.
  defp text(texts, id) do
    with {text, _constants, _declaration} <- Map.get(texts, id), do: Label.text(text)
  end

  ## One tenant

  defp tenant(tenant, days, directory) do
    name = directory.name
    query = [tenants: [tenant], days: range(directory, days), sections: [[], [:id]]]
    chart = [tenants: [tenant], days: range(directory, max(days, @min_chart_days)), sections: [[:day]]]

    with {:ok, [totals, entries]} <- Tenants.report(name, query),
         {:ok, [by_day]} <- Tenants.report(name, chart),
         {:ok, usage} <- Tenants.usage(name, tenant),
         {:ok, body} <- Copy.read(directory, tenant) do
      by_day = Map.new(by_day, &{&1.day, &1})
      of_day = fn date -> Totals.new(usage.days[date], by_day[date]) end
      sum = directory |> range(days) |> Enum.map(of_day) |> Enum.reduce(Totals.zero(), &Totals.sum/2)

      {:ok,
       %{
         key: Overview.key(tenant),
         name: Label.tenant(tenant),
         hot: hot?(directory, tenant),
         today: Date.to_iso8601(today(directory)),
         by_day: by_day(directory, days, of_day),
         total: with_fuel(sum),
         stats: totals |> Enum.flat_map(& &1.stats) |> Enum.map(&figure/1),
         expressions: expressions_of(entries, body.expressions),
         expressions_count: map_size(body.expressions),
         quota: quota(usage.quota),
         module: usage.module
       }}
    end
  end

  # Expressions that matched, most matches first, and then others.
  defp expressions_of(entries, texts) do
    matched = Enum.sort_by(entries, &{-&1.matches, &1.id})
    ids = MapSet.new(entries, & &1.id)
    others = for id <- texts |> Map.keys() |> Enum.sort(), id not in ids, do: %{id: id, matches: 0, stats: []}

    for entry <- Enum.take(matched ++ others, @max_expressions_of_tenant) do
      %{
        id: Integer.to_string(entry.id),
        text: text(texts, entry.id),
        matches: entry.matches,
        stats: Enum.map(entry.stats, &figure/1)
      }
    end
  end

  defp figure(%{kind: kind} = figure) do
    value =
      figure
      |> Map.drop([:name, :kind, :attribute])
      |> Map.new(fn
        {:values, values} -> {:values, values |> Enum.take(@max_values) |> Enum.map(&value/1)}
        pair -> pair
      end)

    value =
      if kind == :members, do: Map.put(value, :more, figure.more or length(figure.values) > @max_values), else: value

    %{name: Label.text(figure.name), kind: kind, attribute: Label.text(figure.attribute), value: value}
  end

  defp value(%{value: value} = counted), do: %{counted | value: Label.value(value)}
  defp value(value), do: Label.value(value)

  defp quota(nil), do: nil
  defp quota(quota), do: Map.take(quota, [:rate, :burst, :memory, :left])
end

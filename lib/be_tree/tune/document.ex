defmodule BeTree.Tune.Document do
  @moduledoc false
  # The JSON of a run, for the report and for later comparisons. `docs/operating/tuning.md` describes the format.

  alias BeTree.{Error, Profile}
  alias BeTree.Input.{Describe, Json}
  alias BeTree.Tune.Histogram

  @format "be_tree tune 1"
  @max_named 30
  @max_text_length 300

  # The least share of the fuel at which a frame of the flame graph is shown.
  @min_frame_share 0.0005

  @doc "Returns the run as a map for the JSON encoder."
  @spec of(BeTree.Tune.t()) :: map
  def of(run) do
    named = named(run)

    %{
      format: @format,
      made_at: DateTime.utc_now() |> DateTime.truncate(:second) |> DateTime.to_iso8601(),
      machine: run.machine,
      input: run.input |> Map.take([:expressions, :events]) |> Map.put(:module, %{sha256: module_digest()}),
      fuel: Enum.map(run.costs, & &1.fuel),
      budget: budget(run),
      profile: profile(run),
      subscriptions: for({id, text} <- named, do: %{id: id, text: text}),
      default: setting(run.default),
      sweep: run.sweep && sweep(run.sweep),
      turns: run.sweep && turns(run.sweep.confirmation.turns),
      verdict: run.verdict && verdict(run.verdict),
      comparison: run.comparison && comparison(run)
    }
  end

  @doc "Returns the run in `json` as a map with string keys."
  @spec read(String.t()) :: {:ok, map} | {:error, Error.t()}
  def read(json) do
    case Json.decode(json) do
      {:ok, %{"format" => @format} = document} ->
        {:ok, document}

      {:ok, _other} ->
        {:error,
         %Error{kind: :syntax, message: "not a run of mix be_tree.tune: expected the format #{inspect(@format)}"}}

      {:error, {:twice, name, offset}} ->
        {:error,
         %Error{kind: :syntax, message: "an object has the name #{Describe.value(name)} twice, at byte #{offset}"}}

      {:error, offset} ->
        {:error, %Error{kind: :syntax, message: "invalid JSON at byte #{offset}"}}
    end
  end

  # The digest of the built-in module shows a comparison that the module changed.
  defp module_digest do
    case :be_tree |> Application.app_dir("priv/be_tree.wasm") |> File.read() do
      {:ok, bytes} -> :sha256 |> :crypto.hash(bytes) |> Base.encode16(case: :lower)
      {:error, _reason} -> nil
    end
  end

  defp budget(run) do
    %{
      run.budget
      | events: for(cost <- run.budget.events, do: event(cost, run)),
        stops:
          for(stop <- run.budget.stops, do: Map.update!(stop, :most, &(&1 && Enum.map(&1, fn most -> ids(most) end))))
    }
  end

  # Ids become strings, because JavaScript's numbers have 53 bits.
  defp ids(%{id: id} = map), do: %{map | id: to_string(id)}

  defp event(cost, run) do
    cost
    |> Map.put(:name, name(cost.position, run.input.lines))
    |> Map.put(:text, elem(run.input.event_texts, cost.position))
    |> Map.put(:reason, reason(cost.position, run.profile))
  end

  defp name(position, lines) when position < tuple_size(lines), do: "line #{elem(lines, position)}"
  defp name(position, _lines), do: "event #{position}"

  defp reason(position, profile), do: Enum.find_value(profile.events, &(&1.position == position && &1.reason))

  # The texts of the subscriptions that the report names.
  defp named(run) do
    lost = for stop <- run.budget.stops, most <- stop.most || [], do: most.id
    tested = run.profile.expressions |> Enum.take(@max_named) |> Enum.map(& &1.id)

    for id <- Enum.uniq(tested ++ lost), text = run.input.texts[id] do
      {to_string(id),
       if(String.length(text) > @max_text_length, do: String.slice(text, 0, @max_text_length) <> "…", else: text)}
    end
  end

  defp profile(%{profile: profile}) do
    %{
      searches: profile.searches,
      fuel: profile.fuel,
      phases: for({phase, fuel} <- profile.phases, do: %{phase: phase, fuel: fuel}),
      attributes: profile.attributes |> Enum.take(@max_named) |> Enum.map(&named_times(&1, :failed_by)),
      expressions: profile.expressions |> Enum.take(@max_named) |> Enum.map(&(&1 |> named_times(:decided_by) |> ids())),
      folded: folded(profile),
      advice: Profile.advice(profile)
    }
  end

  defp named_times(map, key) do
    case map do
      %{^key => pairs} -> %{map | key => for({name, times} <- pairs, do: %{name: name, times: times})}
      _other -> map
    end
  end

  # Frames too narrow to be seen are summed in one frame "…" beside them.
  defp folded(profile) do
    least = profile.fuel * @min_frame_share

    profile
    |> Profile.folded()
    |> IO.iodata_to_binary()
    |> String.split("\n", trim: true)
    |> Enum.map(fn line ->
      [fuel, stack] = line |> String.reverse() |> String.split(" ", parts: 2) |> Enum.map(&String.reverse/1)
      {stack, String.to_integer(fuel)}
    end)
    |> Enum.map(fn {stack, fuel} -> if fuel >= least, do: {stack, fuel}, else: {narrow(stack), fuel} end)
    |> Enum.group_by(&elem(&1, 0), &elem(&1, 1))
    |> Enum.sort()
    |> Enum.map(fn {stack, fuels} -> %{stack: String.split(stack, ";"), fuel: Enum.sum(fuels)} end)
  end

  defp narrow(stack) do
    case String.split(stack, ";") do
      [only] -> only
      frames -> frames |> List.replace_at(-1, "…") |> Enum.join(";")
    end
  end

  defp comparison(run) do
    named = for event <- run.comparison.events, do: Map.put(event, :name, name(event.position, run.input.lines))
    %{run.comparison | events: named}
  end

  defp setting(setting), do: %{setting | slice: slice(setting.slice)}

  defp slice(:infinity), do: nil
  defp slice(slice), do: slice

  defp sweep(sweep) do
    loads = Map.keys(sweep.figures) |> Enum.sort()
    numbers = loads |> Enum.with_index() |> Map.new()

    %{
      cells: for(load <- loads, do: load |> cell() |> Map.merge(sweep.figures[load])),
      charts: Map.new(sweep.charts, fn {chart, loads} -> {chart, Enum.map(loads, &numbers[&1])} end),
      front: Enum.map(sweep.front, &numbers[&1]),
      rounds: sweep.rounds,
      confirmation: sweep.confirmation.rounds
    }
  end

  defp cell(:nothing), do: %{kind: "nothing", processes: 0}
  defp cell({:plain, count}), do: %{kind: "plain", processes: count}

  defp cell({:search, setting}),
    do: %{kind: "search", processes: setting.max_concurrency, setting: setting(setting)}

  # The figures of each turn of the confirmation, for comparisons.
  defp turns(turns) do
    Map.new(turns, fn {name, list} ->
      {name,
       %{
         rate: Enum.map(list, &round(&1.rate)),
         latency_p50_us: latency(list, 0.5),
         latency_p99_us: latency(list, 0.99),
         late_p99_us: Enum.map(list, &Float.round(Histogram.quantile(&1.late, 0.99) / 1_000, 1))
       }}
    end)
  end

  defp latency(turns, share) do
    for turn <- turns,
        nanoseconds = Histogram.quantile(turn.latency, share),
        do: Float.round(nanoseconds / 1_000, 2)
  end

  defp verdict(verdict), do: Map.update!(verdict, :setting, &(&1 && setting(&1)))
end

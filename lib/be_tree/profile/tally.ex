defmodule BeTree.Profile.Tally do
  @moduledoc false
  # Sums up the recorded searches of one profile.

  alias BeTree.Profile
  alias BeTree.Profile.Recorder

  # `names`: the attributes by position. `sums`, by attribute: `{lookups, nodes, entries, proven}`. `runs` counts runs of
  # programs by `{id, leading attribute, outcome, deciding attribute}`.
  @enforce_keys [:names]
  defstruct @enforce_keys ++ [sums: %{}, runs: %{}, phases: %{}, events: []]

  @type t :: %__MODULE__{}

  # The phases in the order of a search.
  @phases [:decode, :walk, :scan, :verify, :dense, :unindexed, :collect, :sort, :call]

  @spec new([BeTree.Domain.t()]) :: t
  # Behind the schema's attributes the index has one of its own, for prefixes, suffixes and parts of strings.
  def new(schema), do: %__MODULE__{names: List.to_tuple(Enum.map(schema, & &1.name) ++ ["(patterns)"])}

  @doc "Adds the search of one event."
  @spec add(t, Recorder.recorded()) :: t
  def add(tally, %{stats: stats, matches: matches, parts: parts}) do
    phases = sum_phases(parts, %{})

    # The scan precedes the runs and tells which attribute led to each candidate.
    {tally, _leads} = Enum.reduce(parts, {tally, %{}}, &add_part/2)

    event = %{
      position: length_of(tally.events),
      fuel: stats.fuel,
      phases: in_order(phases),
      visited: stats.visited,
      evaluated: stats.evaluated,
      matches: matches,
      reason: ""
    }

    event = %{event | reason: reason(event, parts)}
    %{tally | phases: sum_phases(parts, tally.phases), events: [event | tally.events]}
  end

  defp length_of([]), do: 0
  defp length_of([%{position: last} | _]), do: last + 1

  defp sum_phases(parts, sums) do
    Enum.reduce(parts, sums, fn {phase, fuel, _counts}, sums -> Map.update(sums, phase, fuel, &(&1 + fuel)) end)
  end

  defp add_part({:walk, _fuel, levels}, {tally, leads}) do
    sums =
      Enum.reduce(levels, tally.sums, fn {at, lookups, nodes}, sums -> add_sums(sums, at, {lookups, nodes, 0, 0}) end)

    {%{tally | sums: sums}, leads}
  end

  defp add_part({:scan, _fuel, lists}, {tally, leads}) do
    Enum.reduce(lists, {tally, leads}, fn {at, entries, proven, candidates}, {tally, leads} ->
      sums = add_sums(tally.sums, at, {0, 0, entries, proven})
      {%{tally | sums: sums}, Enum.reduce(candidates, leads, &Map.put(&2, &1, at))}
    end)
  end

  # Dense expressions whose bits left the result open. No attribute leads to them.
  defp add_part({:dense, _fuel, lists}, {tally, leads}) do
    {tally, for({nil, _expressions, _proven, open} <- lists, id <- open, into: leads, do: {id, nil})}
  end

  defp add_part({:verify, _fuel, runs}, {tally, leads}), do: {add_runs(tally, runs, &leads[&1]), leads}
  defp add_part({:unindexed, _fuel, runs}, {tally, leads}), do: {add_runs(tally, runs, fn _id -> :unindexed end), leads}

  defp add_part(_part, tally_and_leads), do: tally_and_leads

  defp add_runs(tally, runs, lead) do
    runs =
      Enum.reduce(runs, tally.runs, fn {id, tests, holds, decided_by}, runs ->
        Map.update(runs, {id, lead.(id), holds, decided_by}, {1, tests}, fn {times, sum} -> {times + 1, sum + tests} end)
      end)

    %{tally | runs: runs}
  end

  defp add_sums(sums, at, {a, b, c, d} = more) do
    Map.update(sums, at, more, fn {lookups, nodes, entries, proven} ->
      {lookups + a, nodes + b, entries + c, proven + d}
    end)
  end

  @doc "Returns the profile of all searches so far."
  @spec profile(t) :: Profile.t()
  def profile(tally) do
    runs =
      for {{id, lead, holds, decided_by}, {times, tests}} <- tally.runs do
        %{
          id: id,
          lead: lead,
          holds: holds,
          decided_by: decided_by && elem(tally.names, decided_by),
          times: times,
          tests: tests
        }
      end

    %Profile{
      searches: length_of(tally.events),
      fuel: tally.events |> Enum.map(& &1.fuel) |> Enum.sum(),
      phases: in_order(tally.phases),
      attributes: attributes(tally, runs |> Enum.group_by(& &1.lead) |> Map.delete(:unindexed)),
      expressions: expressions(runs),
      events: Enum.sort_by(tally.events, &{-&1.fuel, &1.position})
    }
  end

  defp in_order(phases), do: for(phase <- @phases, fuel = phases[phase], fuel != 0, do: {phase, fuel})

  defp attributes(tally, runs) do
    [tally.sums, runs]
    |> Enum.flat_map(&Map.keys/1)
    |> Enum.uniq()
    |> Enum.map(fn at ->
      {lookups, nodes, entries, proven} = Map.get(tally.sums, at, {0, 0, 0, 0})
      runs = Map.get(runs, at, [])
      failed = Enum.reject(runs, & &1.holds)

      %{
        name: at && elem(tally.names, at),
        lookups: lookups,
        nodes: nodes,
        entries: entries,
        proven: proven,
        candidates: times(runs),
        failed: times(failed),
        failed_by: by_times(failed)
      }
    end)
    |> Enum.sort_by(&{-&1.candidates, -&1.entries, -&1.lookups, &1.name})
  end

  defp expressions(runs) do
    runs
    |> Enum.group_by(& &1.id)
    |> Enum.map(fn {id, runs} ->
      {matched, failed} = Enum.split_with(runs, & &1.holds)

      %{
        id: id,
        candidate: times(runs),
        tests: runs |> Enum.map(& &1.tests) |> Enum.sum(),
        matched: times(matched),
        failed: times(failed),
        decided_by: by_times(runs)
      }
    end)
    |> Enum.sort_by(&{-&1.tests, &1.id})
  end

  defp times(runs), do: runs |> Enum.map(& &1.times) |> Enum.sum()

  # Returns how often each attribute decided, in descending order.
  defp by_times(runs) do
    runs
    |> Enum.reduce(%{}, fn run, sums -> Map.update(sums, run.decided_by, run.times, &(&1 + run.times)) end)
    |> Enum.sort_by(fn {name, times} -> {-times, name} end)
  end

  # Returns a sentence on the most expensive phase of an event.
  defp reason(%{fuel: 0}, _parts), do: "no fuel was burnt"

  defp reason(event, parts) do
    {phase, fuel} = Enum.max_by(event.phases, fn {_phase, fuel} -> fuel end)
    "#{round(100 * fuel / event.fuel)} % in #{phase}: #{work(phase, event, parts)}"
  end

  defp work(:decode, _event, _parts), do: "decoding the event"

  defp work(:walk, _event, parts),
    do: "#{count(parts, :walk, &elem(&1, 1))} lookups, #{count(parts, :walk, &elem(&1, 2))} nodes"

  defp work(:scan, _event, parts), do: "#{count(parts, :scan, &elem(&1, 1))} entries"
  defp work(:dense, _event, parts), do: "#{count(parts, :dense, &elem(&1, 1))} boolean expressions"
  defp work(:call, _event, _parts), do: "starting and ending the call"
  defp work(phase, event, _parts) when phase in [:collect, :sort], do: "#{event.matches} matches"

  defp work(phase, _event, parts) do
    runs = count(parts, phase, fn _run -> 1 end)
    failed = count(parts, phase, fn {_id, _tests, holds, _decided_by} -> if holds, do: 0, else: 1 end)
    "#{runs} #{if phase == :verify, do: "candidates", else: "unindexed expressions"}, #{failed} of them false"
  end

  defp count(parts, phase, count) do
    Enum.sum(for {^phase, _fuel, counts} <- parts, row <- counts, do: count.(row))
  end
end

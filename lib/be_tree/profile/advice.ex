defmodule BeTree.Profile.Advice do
  @moduledoc false
  # Says where the fuel of a profile goes, and how a user can reduce it.

  import BeTree.Input.Describe, only: [grouped: 1, quoted: 1]

  # Percentages: smaller shares get no advice.
  @min_share 25
  @min_major_share 50

  @spec of(BeTree.Profile.t()) :: [String.t()]
  def of(%{searches: 0}), do: []

  def of(profile) do
    advice =
      Enum.flat_map(
        [&candidates/1, &scan/1, &unindexed/1, &decode/1, &dense/1, &results/1, &outliers/1],
        & &1.(profile)
      )

    if advice == [], do: [no_cause(profile)], else: advice
  end

  defp candidates(profile) do
    all = sum(profile.attributes, :candidates)

    for %{name: name, candidates: candidates, failed: failed} = row when name != nil <- profile.attributes,
        share(fuel(profile, :verify), profile.fuel) >= @min_share,
        share(candidates, all) >= @min_share and share(failed, candidates) >= @min_major_share do
      [{by, times} | _] = row.failed_by

      "#{quoted(name)} leads to #{share(candidates, all)} % of candidates; #{share(times, candidates)} % of them fail on " <>
        "#{named(by)}. Running candidates takes #{share(fuel(profile, :verify), profile.fuel)} % of the fuel: a more selective " <>
        "test of #{named(by)}, such as `=` or `in`, would lead to fewer"
    end
  end

  defp scan(profile) do
    entries = sum(profile.attributes, :entries)

    with true <- share(fuel(profile, :scan), profile.fuel) >= @min_major_share,
         %{entries: most} = row when most > 0 <- Enum.max_by(profile.attributes, & &1.entries, fn -> nil end) do
      [
        "#{share(fuel(profile, :scan), profile.fuel)} % of the fuel scans entries, #{grouped(div(entries, profile.searches))} " <>
          "a search; #{share(most, entries)} % of them lie #{below(row.name)}"
      ]
    else
      _little -> []
    end
  end

  defp below(nil), do: "where every search looks, as no test of theirs is selective"
  defp below(name), do: "below #{quoted(name)}"

  defp named(nil), do: "no attribute"
  defp named(name), do: quoted(name)

  defp unindexed(profile) do
    if share(fuel(profile, :unindexed), profile.fuel) >= @min_share do
      [
        "#{share(fuel(profile, :unindexed), profile.fuel)} % of the fuel runs expressions that no attribute leads to, in " <>
          "every search, such as #{ids(profile)}. Expressions that begin with `not`, or that are mostly true, have no test to be found by"
      ]
    else
      []
    end
  end

  defp ids(profile), do: profile.expressions |> Enum.take(3) |> Enum.map_join(", ", &to_string(&1.id))

  defp decode(profile) do
    if share(fuel(profile, :decode), profile.fuel) >= @min_share do
      [
        "#{share(fuel(profile, :decode), profile.fuel)} % of the fuel decodes events. Leave out what no expression reads, and " <>
          "prepare an event that is searched more than once (`BeTree.Event.prepare/2`)"
      ]
    else
      []
    end
  end

  defp dense(profile) do
    if share(fuel(profile, :dense), profile.fuel) >= @min_major_share do
      [
        "#{share(fuel(profile, :dense), profile.fuel)} % of the fuel decides boolean expressions that no attribute leads to. " <>
          "`BeTree.search_many/3` decides them for many events at once, for less fuel an event"
      ]
    else
      []
    end
  end

  defp results(profile) do
    fuel = fuel(profile, :collect) + fuel(profile, :sort)

    if share(fuel, profile.fuel) >= @min_share do
      [
        "#{share(fuel, profile.fuel)} % of the fuel makes the lists of ids, #{grouped(div(sum(profile.events, :matches), profile.searches))} " <>
          "an event. `as: :binary` and `as: :bitmap` make no list"
      ]
    else
      []
    end
  end

  # The most expensive 1 % of the events, if they take more than ten times their share.
  defp outliers(%{searches: searches} = profile) when searches >= 100 do
    few = Enum.take(profile.events, div(searches, 100))
    fuel = sum(few, :fuel)

    if share(fuel, profile.fuel) >= 10 do
      first = hd(few)

      [
        "1 % of the events take #{share(fuel, profile.fuel)} % of the fuel. The most expensive is event #{first.position} with " <>
          "#{grouped(first.fuel)} fuel: #{first.reason}"
      ]
    else
      []
    end
  end

  defp outliers(_profile), do: []

  defp no_cause(profile) do
    phases = profile.phases |> Enum.sort_by(fn {_phase, fuel} -> -fuel end) |> Enum.take(2)
    parts = Enum.map_join(phases, " and ", fn {phase, fuel} -> "#{share(fuel, profile.fuel)} % in #{phase}" end)
    "No cause stands out. A search takes #{grouped(div(profile.fuel, profile.searches))} fuel, #{parts}"
  end

  defp fuel(profile, phase), do: Keyword.get(profile.phases, phase, 0)
  defp sum(rows, key), do: rows |> Enum.map(&Map.fetch!(&1, key)) |> Enum.sum()

  defp share(_part, 0), do: 0
  defp share(part, total), do: round(100 * part / total)
end

defmodule BeTree.Bench.Structures do
  @moduledoc false
  # Each index structure with rules of one predicate that uses it, and an adversary: rules that share as much as possible,
  # and events for which the structure finds nearly all of them. Insertions and deletions are compared with those of
  # equality rules. A search among the ids of all rules runs every program: this is the oracle, and the baseline of the
  # adversary.

  alias BeTree.Bench.{Bars, Timing}

  @name "structures"
  @rules 20_000
  @all Enum.to_list(1..@rules)
  @events 20

  @schema [
    s: :string,
    a: {:ip, optional: true},
    latitude: {:float, optional: true},
    longitude: {:float, optional: true},
    items: {:list, [sku: :string, qty: :integer], optional: true}
  ]

  @spec run(keyword) :: {String.t(), [map], [Bars.t()]}
  def run(limits) do
    :rand.seed(:exsss, {1, 2, 3})
    [equality | others] = for {name, rule, event} <- structures(), do: row(name, rule, event, limits)
    adversaries = for {name, rule, event} <- adversaries(), do: row("#{name}, adversary", rule, event, limits)

    bars =
      for row <- others,
          {what, key} <- [insertion: :insertion, deletion: :deletion],
          do: Bars.line(@name, "#{row.engine}: #{what} / equality", "x", row[key] / equality[key], {:below, 2})

    scans =
      for row <- adversaries,
          line <- [
            Bars.line(@name, row.engine, "ns a rule", row.total_p50 / @rules, nil),
            Bars.line(@name, "#{row.engine} / scan", "x", row.total_p50 / row.scan_p50, {:below, 1})
          ],
          do: line

    {"#{@name}: #{@rules} rules", [equality | others] ++ adversaries, bars ++ scans}
  end

  # Returns the structures, the equality first: a name, the rule by number, and an event.
  defp structures do
    [
      {"equality", &~s|s = "#{word(&1)}"|, fn -> %{s: word(any())} end},
      {"start", &~s|starts_with(s, "#{word(&1)}")|, fn -> %{s: word(any()) <> message()} end},
      {"end", &~s|ends_with(s, "#{word(&1)}")|, fn -> %{s: message() <> word(any())} end},
      {"part", &~s|contains(s, "#{word(&1)}")|, fn -> %{s: message() <> word(any()) <> message()} end},
      {"like", &~s|s like "*#{word(&1)}?*x"|, fn -> %{s: message() <> word(any()) <> message() <> "x"} end},
      {"lower", &~s|lower(s) = "#{word(&1)}"|, fn -> %{s: String.upcase(word(any()))} end},
      {"network", &~s|a in ("#{network(&1)}.0/24")|, fn -> %{s: "", a: "#{network(any())}.7"} end},
      {"circle", &circle(rem(&1, 141) - 70, div(&1, 141) - 71, 20), fn -> place(120, 130) end},
      {"regex", &~s|s matches ".*#{word(&1)}[0-9]+"|, fn -> %{s: message() <> word(any()) <> "7"} end},
      {"objects", &~s|any items (sku = "#{word(&1)}" and qty > 2)|, fn -> cart(5) end}
    ]
  end

  defp adversaries do
    same = String.duplicate("a", 40)
    long = fn -> %{s: String.duplicate("a", 400)} end

    [
      {"start", &~s|starts_with(s, "#{same}#{word(&1)}")|, long},
      {"end", &~s|ends_with(s, "#{word(&1)}#{same}")|, long},
      {"part", &~s|contains(s, "#{same}#{word(&1)}")|, long},
      {"one letter", &~s|contains(s, "a") and s <> "#{word(&1)}"|, long},
      {"like", &~s|s like "*a?a*#{word(&1)}"|, long},
      {"network", &~s|a in ("10.0.0.0/8", "#{network(&1)}.0/24") and s <> "#{word(&1)}"|,
       fn -> %{s: "", a: "10.200.0.1"} end},
      {"circle", &circle(48.85 + &1 / 1.0e7, 2.35, 5), fn -> place(48.85, 2.35, 0.2) end},
      {"regex", &~s<s matches "(a|b|aa)*#{word(&1)}">, fn -> %{s: String.duplicate("a", 20)} end},
      {"objects", &~s|any items (sku = "same" and qty > #{&1})|,
       fn -> %{s: "", items: for(qty <- 1..100, do: %{sku: "same", qty: qty})} end}
    ]
  end

  defp any, do: :rand.uniform(@rules)
  defp word(number), do: number |> :erlang.phash2(1_000_000_007) |> Integer.to_string(36)
  defp message, do: Enum.map_join(1..3, " ", fn _ -> word(:rand.uniform(1_000_000_000)) end)
  defp network(number), do: "#{10 + div(number, 65_536)}.#{rem(div(number, 256), 256)}.#{rem(number, 256)}"

  defp circle(latitude, longitude, kilometres),
    do: "geo_within_radius(#{latitude * 1.0}, #{longitude * 1.0}, #{kilometres})"

  defp place(height, width),
    do: place(-height / 2 + :rand.uniform() * height, -width / 2 + :rand.uniform() * width, 0.0)

  defp place(latitude, longitude, spread),
    do: %{s: "", latitude: latitude + spread * :rand.uniform(), longitude: longitude + spread * :rand.uniform()}

  defp cart(count), do: %{s: "", items: for(_ <- 1..count, do: %{sku: word(any()), qty: :rand.uniform(5)})}

  defp row(name, rule, event, limits) do
    tree = BeTree.new!(@schema)
    texts = for number <- 1..@rules, do: {number, rule.(number)}
    {build, _count} = :timer.tc(fn -> BeTree.insert_all!(tree, texts) end)
    memory = BeTree.info!(tree).memory_bytes
    events = for _ <- 1..@events, do: event.()
    matches = for event <- events, do: check!(name, tree, event)
    engines = [search: &BeTree.search(tree, &1), scan: &BeTree.search(tree, &1, ids: @all)]
    [search: times, scan: scan] = Timing.in_turns(events, engines, limits[:seconds])
    gone = Enum.take_every(1..@rules, 2)
    {deleting, _all} = :timer.tc(fn -> for id <- gone, do: BeTree.delete!(tree, id) end)
    {inserting, _count} = :timer.tc(fn -> for id <- gone, do: BeTree.insert!(tree, id, rule.(id)) end)
    for event <- events, do: check!(name, tree, event)

    Map.merge(
      %{
        case: @name,
        engine: name,
        format: "term",
        build: build,
        insertion: inserting / length(gone),
        deletion: deleting / length(gone),
        scan_p50: scan.total_p50,
        verified: length(events),
        matches: Enum.sum(matches),
        memory_bytes: memory
      },
      times
    )
  end

  defp check!(name, tree, event) do
    expected = BeTree.search!(tree, event, ids: @all)

    case BeTree.search!(tree, event) do
      ^expected -> length(expected)
      found -> Mix.raise("#{name}: a search finds #{length(found)} ids, expected #{length(expected)}")
    end
  end
end

defmodule BeTree.Workload.W4 do
  @moduledoc """
  This workload is alert routing: very many rules of one shape. An event matches ten of them.

  Rule i, at the default of 100,000 one of ten with its number, is

      env = "prod" and number = 4711 and tags all of ("team-11", "tier-2") and region <> "moon"
        and type in ("app", "database")

  The number is i modulo 10,000, the team depends on the number and the seed, and the tier is one of three. The last of
  each ten also requires a part of the name, `contains(name, "web")`.

  An event has one of the numbers, and all tags and the name that the rules with that number require, so that all of them
  match. In the near-miss variant none matches: each event has the number of its rules, but has the wrong region or the
  wrong type, or lacks the team.

  ## Parameters

    * `:near_miss` - `true` for the variant in which nothing matches. Defaults to `false`;
    * `:expressions` - defaults to 100,000;
    * `:events` - defaults to 1,000;
    * `:seed` - defaults to 1.

  The files are in be-tree's lines: `betree_defs`, `betree_exprs` and `betree_events`. Generating takes less than a
  microsecond an expression.
  """

  @behaviour BeTree.Workload

  alias BeTree.Domain
  alias BeTree.Tune.Calibration.Random
  alias BeTree.Workload.Lines

  @numbers 10_000
  @teams 50
  @tiers 3
  @parts {"web", "api", "mail", "queue", "cache", "index", "login", "cart", "feed", "batch"}
  @regions {"north", "south", "east", "west"}
  @types {"app", "database"}

  @impl true
  def defaults, do: %{seed: 1, expressions: 100_000, events: 1_000, near_miss: false}

  @impl true
  def schema(_parameters) do
    [
      %Domain{name: "env", type: :string},
      %Domain{name: "name", type: :string},
      %Domain{name: "number", type: :integer, min: 0, max: @numbers - 1},
      %Domain{name: "region", type: :string},
      %Domain{name: "tags", type: :string_list},
      %Domain{name: "type", type: :string}
    ]
  end

  @impl true
  def expressions(%{expressions: 0}), do: []
  def expressions(%{expressions: count, seed: seed}), do: Stream.map(0..(count - 1), &rule(&1, seed))

  defp rule(index, seed) do
    number = rem(index, @numbers)
    turn = div(index, @numbers)

    rule =
      ~s(env = "prod" and number = #{number} and tags all of \("#{team(number, seed)}", "#{tier(rem(turn, @tiers))}"\) ) <>
        ~s(and region <> "moon" and type in \("app", "database"\))

    if rem(turn, 10) == 9, do: ~s(#{rule} and contains\(name, "#{part(number)}"\)), else: rule
  end

  defp team(number, seed), do: "team-#{rem(number + seed, @teams)}"
  defp tier(tier), do: "tier-#{tier}"
  defp part(number), do: elem(@parts, rem(number, tuple_size(@parts)))

  @impl true
  def events(%{events: 0}), do: []

  def events(%{events: count, seed: seed, near_miss: near_miss}) do
    Stream.map(1..count, &{:json, seed |> Random.new(7, &1) |> event(seed, near_miss)})
  end

  defp event(random, seed, near_miss) do
    {number, random} = Random.below(random, @numbers)
    {region, random} = Random.pick(random, @regions)
    {type, random} = Random.pick(random, @types)
    {fault, random} = if near_miss, do: Random.pick(random, {:region, :type, :tags}), else: {nil, random}
    {serial, _random} = Random.below(random, 1_000)

    tiers = for tier <- 0..(@tiers - 1), do: tier(tier)
    team = if fault == :tags, do: team(number + 1, seed), else: team(number, seed)
    region = if fault == :region, do: "moon", else: region
    type = if fault == :type, do: "cable", else: type

    ~s({"env": "prod", "name": "#{region}-#{part(number)}-#{serial}", "number": #{number}, "region": "#{region}", ) <>
      ~s("tags": [#{Enum.map_join([team | tiers], ", ", &~s("#{&1}"))}], "type": "#{type}"})
  end

  @impl true
  def files(parameters), do: Lines.files(__MODULE__, parameters)
end

defmodule BeTree.Bench.Tenants.Workload do
  @moduledoc false
  # The expressions and events of the tenants, and the figures that they must have.
  #
  # A tenant has 100 expressions of three predicates, in 50 pairs. A pair has a plan, and an event of that plan matches one of the two. An
  # event has one of five plans, so it meets 20 candidates and matches exactly ten. Constants differ between 16 kinds of tenants. `matching/2` decides by
  # the numbers behind the texts, not by the library, so the ids that a search returns are checked against it.
  #
  # A run is a list of `{tenant, event, device}`: the number of an event in the pool, and the value whose unique values are
  # counted. Runs shift their devices by a number of their own, so no run repeats the devices of another one.

  @kinds 16
  @plans 5
  @pairs 10
  @matches 10
  @pool 1_000
  @devices 100_000
  # The shift of the devices between runs.
  @shift 1_000_000

  def schema do
    [
      country: :string,
      plan: :integer,
      age: :integer,
      price: :float,
      tags: :string_list,
      device: :integer
    ]
  end

  @doc "The statistics that are declared: the unique devices of each expression."
  def stats, do: [devices: {:uniques, :device}]

  def matches, do: @matches
  def expressions, do: 2 * @plans * @pairs
  def kind(tenant), do: rem(tenant, @kinds)
  def tenants(count), do: Enum.to_list(1..count)

  ## Expressions

  @doc "Returns the expressions of a tenant, `{id, text}`."
  def expressions(tenant) do
    kind = kind(tenant)

    for plan <- 0..(@plans - 1), pair <- 0..(@pairs - 1), {side, text} <- pair(kind, plan, pair) do
      {id(plan, pair, side), text}
    end
  end

  defp id(plan, pair, side), do: 1 + 2 * (@pairs * plan + pair) + side

  defp pair(kind, plan, pair) do
    case rem(pair, 4) do
      0 ->
        age = age(kind, pair)

        [
          {0, "plan = #{plan} and age >= #{age} and price < 1000.0"},
          {1, "plan = #{plan} and age < #{age} and price < 1000.0"}
        ]

      1 ->
        price = price(kind, pair)

        [
          {0, "plan = #{plan} and price >= #{price} and age >= 0"},
          {1, "plan = #{plan} and price < #{price} and age >= 0"}
        ]

      2 ->
        countries = Enum.map_join(countries(kind, pair), ", ", &"'c#{&1}'")

        [
          {0, "plan = #{plan} and country in (#{countries}) and age <= 120"},
          {1, "plan = #{plan} and country not in (#{countries}) and age <= 120"}
        ]

      3 ->
        tag = tag(kind, pair)

        [
          {0, "'t#{tag}' in tags and plan = #{plan} and price >= 0.0"},
          {1, "'t#{tag}' not in tags and plan = #{plan} and price >= 0.0"}
        ]
    end
  end

  defp age(kind, pair), do: 18 + rem(7 * kind + 11 * pair, 50)
  defp price(kind, pair), do: rem(3 * kind + 17 * pair, 90) + 0.5
  defp countries(kind, pair), do: for(step <- 0..3, do: rem(kind + 3 * pair + 5 * step, 20))
  defp tag(kind, pair), do: rem(kind + 2 * pair, 12)

  ## Events

  @doc "Returns the pool of events, without the device of a run."
  def events, do: List.to_tuple(for number <- 0..(@pool - 1), do: number |> numbers() |> event())

  defp numbers(number) do
    %{
      country: rem(number, 20),
      plan: rem(div(number, 20), @plans),
      age: rem(37 * number, 101),
      price: rem(13 * number, 97) * 1.0,
      tags: [rem(number, 12), rem(div(number, 12) + 5, 12)]
    }
  end

  defp event(numbers) do
    %{numbers | country: "c#{numbers.country}", tags: Enum.map(numbers.tags, &"t#{&1}")} |> Map.put(:device, 0)
  end

  @doc "Returns, by kind of tenant and event of the pool, the sorted ids that match."
  def ids do
    List.to_tuple(
      for kind <- 0..(@kinds - 1),
          do: List.to_tuple(for number <- 0..(@pool - 1), do: matching(kind, numbers(number)))
    )
  end

  defp matching(kind, event) do
    ids = for pair <- 0..(@pairs - 1), do: id(event.plan, pair, if(first?(kind, pair, event), do: 0, else: 1))
    Enum.sort(ids)
  end

  defp first?(kind, pair, event) do
    case rem(pair, 4) do
      0 -> event.age >= age(kind, pair)
      1 -> event.price >= price(kind, pair)
      2 -> event.country in countries(kind, pair)
      3 -> tag(kind, pair) in event.tags
    end
  end

  ## Runs

  @doc "Returns a run in which each tenant has `each` events, shuffled."
  def uniform(tenants, each) do
    seed()
    for(tenant <- tenants, _event <- 1..each, do: drawn(tenant)) |> Enum.shuffle()
  end

  @doc "Returns a run of `count` events whose tenants follow Zipf's law with the exponent 1."
  def zipf(tenants, count) do
    seed()
    weights = tenants |> Enum.scan({0, 0.0}, fn tenant, {_last, sum} -> {tenant, sum + 1 / tenant} end)
    {_last, total} = List.last(weights)
    cumulated = weights |> Enum.map(&elem(&1, 1)) |> List.to_tuple()
    # Ranks are shuffled, so that busy tenants are spread over the shards.
    ranked = tenants |> Enum.shuffle() |> List.to_tuple()

    for _event <- 1..count do
      rank = rank(cumulated, :rand.uniform() * total, 0, tuple_size(cumulated) - 1)
      drawn(elem(ranked, rank))
    end
  end

  defp rank(_cumulated, _weight, low, low), do: low

  defp rank(cumulated, weight, low, high) do
    middle = div(low + high, 2)

    if elem(cumulated, middle) >= weight,
      do: rank(cumulated, weight, low, middle),
      else: rank(cumulated, weight, middle + 1, high)
  end

  defp seed, do: :rand.seed(:exsss, {1, 2, 3})
  defp drawn(tenant), do: {tenant, :rand.uniform(@pool) - 1, :rand.uniform(@devices)}

  @doc "Returns a run with the events of each tenant together, and as many of each batch of `size` as it has."
  def by_tenant(run, size) do
    run |> Enum.group_by(&elem(&1, 0)) |> Enum.flat_map(fn {_tenant, events} -> Enum.chunk_every(events, size) end)
  end

  @doc "Returns the shift of the devices of the run with this number."
  def shift(number), do: number * @shift

  ## Figures

  @doc "Returns the matches by tenant and id after runs, `[{run, times}]`."
  def counts(runs, ids) do
    for {run, times} <- runs, {{tenant, event}, count} <- Enum.frequencies_by(run, &{elem(&1, 0), elem(&1, 1)}) do
      {tenant, event, times * count}
    end
    |> Enum.group_by(&elem(&1, 0))
    |> Map.new(fn {tenant, events} ->
      of_kind = elem(ids, kind(tenant))

      {tenant,
       for {_tenant, event, count} <- events, id <- elem(of_kind, event), reduce: %{} do
         counts -> Map.update(counts, id, count, &(&1 + count))
       end}
    end)
  end

  @doc """
  Returns the unique devices by id of one tenant after runs, `[{run, times}]`.

  Runs of the same list shift their devices, so each adds as many. Lists with devices in common must not be mixed.
  """
  def uniques(runs, ids, tenant) do
    of_kind = elem(ids, kind(tenant))

    for {run, times} <- runs, reduce: %{} do
      all ->
        sets =
          for {^tenant, event, device} <- run, id <- elem(of_kind, event), reduce: %{} do
            sets -> Map.update(sets, id, MapSet.new([device]), &MapSet.put(&1, device))
          end

        Map.merge(all, Map.new(sets, fn {id, set} -> {id, times * MapSet.size(set)} end), fn _id, one, other ->
          one + other
        end)
    end
  end
end

defmodule BeTree.Tenants.Store.PlaceTest do
  use ExUnit.Case, async: true

  alias BeTree.Tenants.Store.Place

  test "put/3, get/2, last/1 and from/2 agree with a map" do
    :rand.seed(:exsss, {1, 2, 3})

    for _run <- 1..200 do
      puts =
        for _ <- 1..:rand.uniform(40), do: {:rand.uniform(60) - 30, {:rand.uniform(9), :rand.uniform(0xFFFF_FFFF), 7}}

      days = Enum.reduce(puts, "", fn {day, place}, days -> Place.put(days, day, place) end)
      model = Map.new(puts)
      assert Place.list(days) == Enum.sort(model)
      assert Place.last(days) == model |> Map.keys() |> Enum.max()
      for day <- -31..31, do: assert(Place.get(days, day) == model[day])

      for day <- -31..31,
          do: assert(Place.list(Place.from(days, day)) == for({d, p} <- Enum.sort(model), d >= day, do: {d, p}))
    end
  end

  test "the days of a month take 450 bytes" do
    days = Enum.reduce(20_000..20_029, "", &Place.put(&2, &1, {1_000, 60_000_000, 4_000}))
    assert byte_size(days) == 450
    assert Place.last("") == nil and Place.get("", 1) == nil
  end
end

defmodule BeTree.Workload.W9 do
  @moduledoc """
  This workload is circles on the earth's surface: each expression is one

      geo_within_radius(45.50884, -73.58781, 312.6)

  The centers are spread evenly over the sphere, and radii go from 10 to 560 kilometres, so that some 50 of 100,000 circles
  contain a place. With `city: true` all centers and places lie within some 20 kilometres, and radii are those of
  neighborhoods.

  ## Parameters

    * `:city` - `true` for circles around one city. Defaults to `false`;
    * `:expressions` - defaults to 100,000;
    * `:events` - defaults to 1,000;
    * `:seed` - defaults to 1.

  The files are in be-tree's lines: `betree_defs`, `betree_exprs` and `betree_events`.
  """

  @behaviour BeTree.Workload

  alias BeTree.Domain
  alias BeTree.Tune.Calibration.Random
  alias BeTree.Workload.Lines

  # Random integers are millionths.
  @unit 1_000_000

  @impl true
  def defaults, do: %{seed: 1, expressions: 100_000, events: 1_000, city: false}

  @impl true
  def schema(_parameters), do: [%Domain{name: "latitude", type: :float}, %Domain{name: "longitude", type: :float}]

  @impl true
  def expressions(%{expressions: 0}), do: []

  def expressions(%{expressions: count, seed: seed, city: city}) do
    Stream.map(1..count, fn index ->
      {latitude, longitude, random} = seed |> Random.new(1, index) |> place(city)
      {share, _random} = share(random)
      radius = if city, do: 0.05 + 0.5 * share, else: 10 + 550 * share
      "geo_within_radius(#{decimal(latitude)}, #{decimal(longitude)}, #{decimal(radius)})"
    end)
  end

  @impl true
  def events(%{events: 0}), do: []

  def events(%{events: count, seed: seed, city: city}) do
    Stream.map(1..count, fn index ->
      {latitude, longitude, _random} = seed |> Random.new(2, index) |> place(city)
      {:json, ~s({"latitude": #{decimal(latitude)}, "longitude": #{decimal(longitude)}})}
    end)
  end

  defp place(random, city) do
    {one, random} = share(random)
    {other, random} = share(random)

    if city do
      {45.3 + 0.4 * one, -73.9 + 0.6 * other, random}
    else
      # Equal steps of the sine are equal areas.
      {:math.asin(2 * one - 1) * 180 / :math.pi(), 360 * other - 180, random}
    end
  end

  defp share(random) do
    {millionths, random} = Random.below(random, @unit)
    {millionths / @unit, random}
  end

  defp decimal(number), do: :erlang.float_to_binary(number / 1, decimals: 5)

  @impl true
  def files(parameters), do: Lines.files(__MODULE__, parameters)
end

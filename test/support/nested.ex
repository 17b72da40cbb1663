defmodule BeTree.Test.Nested do
  @moduledoc "Turns values under paths into nested maps, the form of callers' events."

  alias BeTree.Domain.Path

  @doc """
  Returns pairs of names and values. Each map of `{path, value}` pairs becomes a map, or at random a list of pairs. Names
  are strings.
  """
  def nest(pairs) do
    split = for {path, value} <- pairs, do: {elem({:ok, _} = Path.fields(path), 1), value}
    group(split)
  end

  defp group(split) do
    split
    |> Enum.group_by(fn {[name | _rest], _value} -> name end, fn {[_name | rest], value} -> {rest, value} end)
    |> Enum.map(fn
      {name, [{[], value}]} -> {name, value}
      {name, inner} -> {name, inner |> group() |> Map.new()}
    end)
  end

  @doc "Returns a nested value with some of its maps as lists of pairs, and some of its names as atoms."
  def loosen(map) when is_map(map) do
    pairs = for {name, value} <- map, do: {name(name), loosen(value)}
    if :rand.uniform(2) == 1, do: Map.new(pairs), else: Enum.shuffle(pairs)
  end

  def loosen(value), do: value

  defp name(name), do: if(:rand.uniform(3) == 1, do: String.to_atom(name), else: name)
end

defmodule BeTree.Bench.Tiny do
  @moduledoc false
  # Measures the minimum cost of a search from Elixir, with three expressions and two attributes.

  alias BeTree.Bench.{Bars, Timing}

  @name "tiny"

  @spec run(keyword) :: {String.t(), [map], [Bars.t()]}
  def run(limits) do
    tree = BeTree.new!(age: :integer, country: {:string, optional: true})
    BeTree.insert_all!(tree, [{1, "age >= 21 and country in ('CA', 'US')"}, {2, "age = 3"}, {3, "not (age < 65)"}])
    event = %{age: 30, country: "CA"}
    [1] = BeTree.search!(tree, event)

    measured = Timing.run([event], fn event -> BeTree.search(tree, event) end, limits[:seconds])
    row = Map.merge(%{case: @name, engine: "search", format: "term", matches: 1}, measured)
    {@name, [row], Bars.of(%{name: @name}, [row])}
  end
end

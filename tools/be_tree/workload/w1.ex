defmodule BeTree.Workload.W1 do
  @moduledoc """
  This workload has dense boolean trees: it is erl-be-tree's own benchmark.

  Each expression is one random binary tree over a random permutation of all attributes, each used once. `and` and `or` are
  equally likely, and each node and leaf is negated with probability 0.12. A node of n leaves has 1 to n - 1 of them on its
  left, each number equally likely. Trees have the same distribution as if random pairs were joined until one tree is left.

  An event is a list of fair bits. By symmetry half of the expressions match on average, at any number of attributes. With
  the default parameters 2,476 of 5,000 match on average.

  ## Parameters

    * `:attributes` - 64, 96 or 128, named `par1`, `par2` and so on. Defaults to 128;
    * `:expressions` - defaults to 5,000;
    * `:events` - defaults to 1,000;
    * `:seed` - defaults to 1.

  The files are in Erlang terms: `expressions.txt` and `events.txt`. Generating takes about 100 microseconds an expression.
  """

  use BeTree.Workload, generator: BeTree.Tune.Calibration.Dense

  @impl true
  def files(parameters) do
    domains = parameters |> schema() |> Enum.map_intersperse(",\n ", &"{#{&1.name},bool,disallow_undefined}")
    expressions = parameters |> expressions() |> Stream.map(&["<<\"", &1, "\">>.\n"])

    events =
      parameters
      |> events()
      |> Stream.map(fn {:record, bits} -> [?[, Enum.map_intersperse(bits, ?,, &(?0 + &1)), "].\n"] end)

    [
      {:expressions, "expressions.txt", Stream.concat([["[", domains, "].\n"]], expressions)},
      {:events, "events.txt", events}
    ]
  end
end

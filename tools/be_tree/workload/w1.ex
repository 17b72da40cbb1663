defmodule BeTree.Workload.W1 do
  @moduledoc """
  Dense boolean trees: erl-be-tree's own benchmark.

  Each expression is one random binary tree over a random permutation of all attributes, each used once. `and` and
  `or` are equally likely, and each node and leaf is negated with probability 0.12. Trees are as likely as where two
  random ones of the attributes are joined until one tree is left: a node of n leaves has from 1 to n - 1 of them, each
  as likely, to its left.

  An event is a list of fair bits. By symmetry half of the expressions match, at any number of attributes; where no
  parameters are given, 2,476 of 5,000 do on average.

  ## Parameters

    * `:attributes` - 64, 96 or 128, called `par1`, `par2` and so on; 128 by default;
    * `:expressions` - 5,000 by default;
    * `:events` - 1,000 by default;
    * `:seed` - 1 by default.

  In Erlang terms: `expressions.txt` and `events.txt`. Generating takes about
  100 microseconds an expression.
  """

  @behaviour BeTree.Workload

  alias BeTree.Fuel.Calibration.Dense

  @impl true
  defdelegate defaults(), to: Dense

  @impl true
  defdelegate schema(parameters), to: Dense

  @impl true
  defdelegate expressions(parameters), to: Dense

  @impl true
  defdelegate events(parameters), to: Dense

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

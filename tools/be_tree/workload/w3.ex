defmodule BeTree.Workload.W3 do
  @moduledoc """
  This workload is ad targeting: long-tailed attributes of all plain types, few predicates each, few matches.

  There are 122 optional attributes (`schema/1`): booleans, integers, floats, strings and lists of both. Zipf's law with
  exponent 1 draws the attributes of an expression or an event, each at most once. The first attribute has a tenth of all
  predicates, and the first twenty more than half.

  An expression has from 1 to 56 predicates, 8 on average, in a tree of `and` and `or` up to 9 deep that nearly always
  begins with `and`; now and then a part is negated. Predicates are equalities, ranges, `in` and `not in` lists of up to
  180 values, `one of`, `none of` and `all of`.

  An event names 20 attributes, and 10 to 30 % of these are `null`.

  Of 100,000 expressions 530 match an event on average, 0.53 %; over 1,000 events from 0.20 to 0.97 %.

  ## Parameters

    * `:expressions` - defaults to 100,000;
    * `:events` - defaults to 1,000;
    * `:seed` - defaults to 1.

  The files are in be-tree's lines: `betree_defs`, `betree_exprs`, `betree_constants` and `betree_events`. Generating
  takes about 15 microseconds an expression.
  """

  use BeTree.Workload, generator: BeTree.Tune.Calibration.AdTargeting

  alias BeTree.Workload.Lines

  @impl true
  def files(parameters) do
    ids = if parameters.expressions == 0, do: [], else: 1..parameters.expressions

    [{:constants, "betree_constants", Stream.map(ids, &constants/1)} | Lines.files(__MODULE__, parameters)]
  end

  # Campaigns of ten flights, groups of five campaigns, advertisers of twenty groups.
  defp constants(id) do
    [Enum.join([id, div(id, 50) + 1, div(id, 10) + 1, div(id, 1_000) + 1, id], ","), ?\n]
  end
end

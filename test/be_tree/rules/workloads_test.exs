defmodule BeTree.Rules.WorkloadsTest do
  # Workloads with totals on which two other engines agree.
  use ExUnit.Case, async: true

  alias BeTree.{Rules, RuleWorkloads}
  alias BeTree.Test.Runtimes

  for runtime <- Runtimes.all() do
    describe "on #{Runtimes.name(runtime)}" do
      @describetag runtime: runtime

      test "Miss Manners has the published totals", %{runtime: runtime} do
        for {guests, firings, asserted} <- [{8, 59, 110}, {16, 183, 286}, {32, 623, 833}], slice <- [1_000, 300_000] do
          {text, facts} = RuleWorkloads.manners(guests)
          rules = Rules.new!(text, runtime: runtime)
          assert Rules.assert_all!(rules, facts, slice: slice).firings == firings
          info = Rules.info!(rules)
          assert info.asserted == asserted
          seats = {guests, div(guests * (guests + 1), 2) - guests, guests - 1}
          assert {info.types["seating"], info.types["path"], info.types["chosen"]} == seats
        end
      end

      test "Waltzdb has the published totals", %{runtime: runtime} do
        for {regions, slice} <- [{1, 2_000}, {1, 300_000}, {4, 300_000}] do
          {text, facts} = RuleWorkloads.waltzdb(regions)
          rules = Rules.new!(text, runtime: runtime)
          assert Rules.assert_all!(rules, facts, slice: slice).firings == 803 * regions + 790
          types = Rules.info!(rules).types
          assert types["edge"] == 2 * (76 * regions + 72)
          assert types["junction"] == 60 * (regions + 1)
          assert {types["line"], types["illegal"]} == {0, 0}
          labels = rules |> Rules.facts!(:edge_label) |> Enum.frequencies_by(& &1.fields["name"])
          assert labels == %{"B" => 261 * regions + 252, "+" => 87 * regions + 100, "-" => 74 * regions + 91}
        end
      end
    end
  end
end

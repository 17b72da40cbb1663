defmodule BeTree.RealDataTest do
  use ExUnit.Case, async: true

  alias BeTree.Files
  alias BeTree.Test.BooleanNaive

  # erl-be-tree's files lie beside some checkouts and are not part of this project.
  @data Path.expand("../../../shared/data", __DIR__)

  unless File.dir?(@data), do: @moduletag(skip: "erl-be-tree's files are not in ../shared/data")

  for {name, expressions, events, sizes} <- [
        {"20 attributes", "P_20_Ex_300.txt", "P_20_Ev_3_000.txt", {300, 3_000}},
        {"10 attributes", "Params_10_Exprs_100.txt", "Params_10_Events_20.txt", {100, 20}}
      ] do
    test "#{name}: search/3 finds what the naive evaluator finds" do
      expressions_path = Path.join(@data, unquote(expressions))
      events_path = Path.join(@data, unquote(events))
      {_names, expressions, naive_events} = BooleanNaive.read(expressions_path, events_path)
      assert {length(expressions), length(naive_events)} == unquote(sizes)

      {:ok, domains, subscriptions} = Files.load(expressions_path)
      tree = BeTree.new!(domains)
      assert BeTree.insert_all!(tree, subscriptions) == length(expressions)

      for {{event, line}, naive_event} <- Enum.zip(Files.events(events_path), naive_events) do
        assert {line, BeTree.search!(tree, event)} == {line, BooleanNaive.matches(expressions, naive_event)}
      end
    end
  end
end

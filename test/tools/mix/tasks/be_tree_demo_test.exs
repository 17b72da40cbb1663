defmodule Mix.Tasks.BeTree.DemoTest do
  use ExUnit.Case

  import ExUnit.CaptureIO

  test "prints matches with reasons and figures, and leaves no files" do
    output = capture_io(fn -> Mix.Task.rerun("be_tree.demo", []) end)

    assert output =~ "5,000, built in"
    assert output =~ "10,000, built in"
    assert output =~ ~r/\d+ of its 128 predicates settle it/
    assert output =~ ~r/^    match\n    └─ /m
    assert output |> String.split("\n") |> length() < 60
    assert System.tmp_dir!() |> Path.join("be_tree_demo_*_#{System.pid()}") |> Path.wildcard() == []
  end

  test "takes no arguments" do
    assert_raise Mix.Error, "mix be_tree.demo takes no arguments, got: fast", fn ->
      Mix.Task.rerun("be_tree.demo", ["fast"])
    end
  end
end

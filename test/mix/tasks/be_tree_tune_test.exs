defmodule Mix.Tasks.BeTree.TuneTest do
  use ExUnit.Case

  import ExUnit.CaptureIO

  @tag timeout: 120_000
  test "measures this machine, and says what to configure" do
    output = capture_io(fn -> Mix.Task.rerun("be_tree.tune", ["--calibrate"]) end)

    assert [[_, fuel, rate], [_, _, _]] =
             Regex.scan(~r/^W[13]: ([\d,]+) fuel a search, ([\d,]+) fuel a microsecond$/m, output)

    assert number(fuel) > 100_000
    # From the slowest machine in a debugger to one ten times as fast as any there is.
    assert number(rate) in 50..100_000
    assert output =~ ~r/^ +10,000 +[+-]\d+\.\d % +[+-]\d+\.\d %$/m
    assert output =~ ~r/^ +10,000,000 +no yield +no yield$/m
    assert [_, ratio] = Regex.run(~r/^    config :be_tree, fuel_per_reduction: (\d+)$/m, output)
    assert_in_delta String.to_integer(ratio), number(rate) / 4, number(rate) / 4
  end

  test "says what it can do where it is asked for nothing" do
    assert_raise Mix.Error, ~r/--calibrate missing\n\nUsage: mix be_tree.tune --calibrate/, fn ->
      Mix.Task.rerun("be_tree.tune", [])
    end

    assert_raise Mix.Error, ~r/"fast" belongs to no option/, fn -> Mix.Task.rerun("be_tree.tune", ["fast"]) end
  end

  defp number(text), do: text |> String.replace(",", "") |> String.to_integer()
end

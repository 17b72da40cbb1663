defmodule BeTree.BencheeTest do
  # The scripts for Benchee. Where it is missing, that they say so; where it is there, that they run.
  use ExUnit.Case

  alias BeTree.Test.Reductions

  @scripts Path.wildcard("bench/benchee/*.exs") -- ["bench/benchee/support.exs"]

  setup do
    arguments = System.argv()
    conflict = Code.get_compiler_option(:ignore_module_conflict)
    Code.put_compiler_option(:ignore_module_conflict, true)

    on_exit(fn ->
      System.argv(arguments)
      Code.put_compiler_option(:ignore_module_conflict, conflict)
      # The scripts of a run require this file once.
      Code.unrequire_files([Path.expand("bench/benchee/support.exs")])
    end)
  end

  defp run(script, arguments) do
    System.argv(arguments)
    Code.eval_file(script)
  end

  test "there are scripts" do
    assert @scripts != []
  end

  for script <- @scripts do
    test "#{script} takes only --quick" do
      assert_raise Mix.Error, ~r/"W1" belongs to no option/, fn -> run(unquote(script), ["W1"]) end
    end

    if Code.ensure_loaded?(Benchee) do
      test "#{script} shows the fuel of a search beside its reductions" do
        output = ExUnit.CaptureIO.capture_io(fn -> run(unquote(script), ["--quick"]) end)
        assert output =~ "Reduction count statistics:"
        assert [_, table] = String.split(output, ~r/^Fuel of a search .*\n/m)
        rows = Regex.scan(~r/^(.+?) {2,}([\d.]+) +([\d.]+) +([\d.]+) +(-?[\d.]+)$/m, table, capture: :all_but_first)
        assert length(rows) >= 6

        for [_name, _time, reductions, fuel, elixir] <- rows do
          [reductions, fuel, elixir] = Enum.map([reductions, fuel, elixir], &String.to_float/1)
          assert_in_delta reductions - fuel, elixir, 0.11
          # Encoding the event and taking the list of ids.
          assert elixir > -100 and elixir < 2_000
        end
      end
    else
      test "#{script} says that Benchee is missing" do
        assert_raise Mix.Error, ~r/^Benchee is missing\. /, fn -> run(unquote(script), ["--quick"]) end
      end
    end
  end

  test "with a fuel unit a reduction, a search's reductions are its fuel and those of the Elixir code" do
    alias BeTree.Workload.W3
    parameters = %{W3.defaults() | expressions: 2_000, events: 30}
    tree = BeTree.new!(W3.schema(parameters), fuel_per_reduction: 1)
    BeTree.insert_all!(tree, parameters |> W3.expressions() |> Enum.with_index(&{&2, &1}))

    index = BeTree.publish!(tree)

    for event <- W3.events(parameters), slice <- [:infinity, 10_000, 300_000] do
      {:ok, _ids, %{fuel: fuel, slices: slices}} = BeTree.search(index, event, slice: slice, stats: true)

      # The Elixir code takes some dozens, and more for each time that the search is taken up again. The VM loses some dozens
      # when it takes a process off its scheduler.
      assert_in_delta least_reductions(index, event, slice), fuel, 200 + 30 * slices
      assert fuel > 20_000
    end
  end

  # The VM charges more when it takes a process off its scheduler, so the least of several counts is used.
  defp least_reductions(target, event, slice) do
    Enum.min(
      for _ <- 1..5, do: Reductions.reductions(fn -> {:ok, _ids} = BeTree.search(target, event, slice: slice) end)
    )
  end
end

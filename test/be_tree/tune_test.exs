defmodule BeTree.TuneTest do
  use ExUnit.Case

  import BeTree.Test.Eventually

  alias BeTree.{Index, Tune}
  alias BeTree.Input.Json
  alias BeTree.Tune.{Machine, Turn}

  doctest Tune

  defp tree do
    tree = BeTree.new!(age: :integer)
    BeTree.insert_all!(tree, for(id <- 1..200, do: {id, "not (age < #{id})"}))
    tree
  end

  defp events, do: for(age <- 1..40, do: %{age: age})

  test "the fuel is that of the searches, for a tree, an index and a copy" do
    tree = tree()
    fuels = for event <- events(), {:ok, _ids, stats} = BeTree.search(tree, event, stats: true), do: stats.fuel
    run = Tune.run!(tree, events(), seconds: nil)
    assert Enum.map(run.costs, & &1.fuel) == fuels
    assert Enum.map(run.costs, & &1.matches) == Enum.to_list(1..40)
    assert run.profile.fuel == Enum.sum(fuels)
    index = BeTree.publish!(tree)
    assert Enum.map(Tune.run!(index, events(), seconds: nil).costs, & &1.fuel) == fuels
    {:ok, copy} = Index.to_tree(index, 100_000_000)
    assert Enum.map(Tune.run!(copy, Stream.map(events(), & &1), seconds: nil).costs, & &1.fuel) == fuels
  end

  test "a run of a second has all figures" do
    run = Tune.run!(tree(), events(), seconds: 1)
    assert run.sweep.rounds.rounds >= 5

    for {load, figures} <- run.sweep.figures do
      assert figures.late[:p50].value <= figures.late[:p99].value
      assert figures.late[:p99].value <= figures.late[:"p99.9"].value

      with {:search, setting} <- load do
        assert figures.rate.low > 0 and figures.rate.low <= figures.rate.value
        assert map_size(figures.latency) == 4
        assert length(figures.turns.rate) == run.sweep.rounds.rounds
        assert setting.batch in [1, 8, 64, 256]
      end
    end

    assert run.sweep.front != []
    assert run.verdict.state in [:clear, :too_noisy]
    assert inspect(run) =~ ~r/^#BeTree\.Tune<40 events, (clear|too_noisy)>$/
    # A second run of the same input can be compared with the first on any machine.
    {:ok, earlier} = run |> Tune.to_json() |> Tune.read()
    assert Tune.compare(run, earlier, 1_000.0).comparison.worse == false
  end

  test "progress is reported" do
    test = self()
    Tune.run!(tree(), events(), seconds: nil, progress: fn part, share -> send(test, {part, share}) end)
    assert_received {:fuel, +0.0}
    assert_received {:profile, +0.0}
  end

  test "a run leaves nothing, even if it is killed" do
    tree = tree()
    test = self()

    {pid, monitor} =
      spawn_monitor(fn ->
        Tune.run!(tree, events(),
          seconds: 600,
          progress: fn part, _share -> send(test, part) end
        )
      end)

    assert_receive :sweep
    own = shared()
    assert own != []
    Process.exit(pid, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^pid, :killed}
    eventually(fn -> own -- shared() == own end)
  end

  defp shared, do: for({{Turn, _ref} = key, _value} <- :persistent_term.get(), do: key)

  test "wrong arguments are refused" do
    assert {:error, %{kind: :not_found}} = Tune.run(tree(), [])
    assert {:error, %{kind: :type}} = Tune.run(tree(), :none)
    assert_raise ArgumentError, ~r/expected a tree or an index, got: :ads/, fn -> Tune.run(:ads, events()) end
    assert_raise ArgumentError, ~r/seconds/, fn -> Tune.run(tree(), events(), seconds: 0) end
    assert_raise ArgumentError, ~r/lines/, fn -> Tune.run(tree(), events(), lines: [0]) end
    assert_raise ArgumentError, ~r/progress/, fn -> Tune.run(tree(), events(), progress: fn -> :ok end) end
  end

  test "JSON keeps 64-bit ids and any text" do
    id = 18_446_744_073_709_551_615
    tree = BeTree.new!(name: :string)
    text = ~s(name = "</script>\\"\\\\é")
    BeTree.insert!(tree, id, text)

    json =
      tree
      |> Tune.run!([%{name: "</script>\"\\é"}, %{name: "x"}], seconds: nil, subscriptions: [{id, text}])
      |> Tune.to_json()
      |> Json.decode!()

    assert json["subscriptions"] == [%{"id" => Integer.to_string(id), "text" => text}] or json["subscriptions"] == []
    assert hd(json["budget"]["events"])["text"] =~ "</script>"
  end

  test "others/2 returns the share of other programs" do
    assert Machine.others({10, 30, 100}, {20, 70, 200}) == 0.3
    # Rounding of ticks does not make it negative.
    assert Machine.others({10, 30, 100}, {22, 40, 200}) == 0.0
    assert Machine.others(nil, nil) == nil
    assert Machine.same?(%{"cpu" => "a", "schedulers" => 2}, %{"cpu" => "a", "schedulers" => 2, "otp" => "27"})
    refute Machine.same?(%{"cpu" => "a", "schedulers" => 2}, %{"cpu" => "a", "schedulers" => 4})
  end
end

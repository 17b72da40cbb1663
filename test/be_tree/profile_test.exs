defmodule BeTree.ProfileTest do
  use ExUnit.Case, async: true

  alias BeTree.Call.Instance
  alias BeTree.{Error, Profile, Search}
  alias BeTree.Test.{Language, Random, Runtimes}
  alias BeTree.Workload.{W1, W2, W3, W4, W5}

  doctest Profile

  @workloads [
    {W1, %{expressions: 300, attributes: 64}},
    {W2, %{expressions: 1_000}},
    {W3, %{expressions: 2_000}},
    {W4, %{expressions: 2_000}},
    {W5, %{expressions: 1_000, dimensions: 60}}
  ]
  @events 20

  for runtime <- Runtimes.all(), {workload, parameters} <- @workloads do
    @runtime runtime
    @workload workload
    @parameters workload.defaults() |> Map.merge(parameters) |> Map.put(:events, @events)

    @tag runtime: runtime
    test "#{Runtimes.name(runtime)}, #{inspect(workload)}: the parts' fuel adds up to that of the searches" do
      tree = BeTree.new!(@workload.schema(@parameters), runtime: @runtime)
      BeTree.insert_all!(tree, @parameters |> @workload.expressions() |> Enum.with_index(&{&2 + 1, &1}))
      adds_up(tree, @parameters |> @workload.events() |> Enum.to_list())
    end
  end

  test "the parts' fuel adds up for the whole language" do
    tree = BeTree.new!(Language.schema())
    BeTree.insert_all!(tree, Language.subscriptions())
    adds_up(tree, for({_text, event, _holds} <- Language.rows(), do: event))

    :rand.seed(:exsss, 7)
    domains = Random.schema()
    tree = BeTree.new!(domains)

    for id <- 1..400 do
      BeTree.insert(tree, id, domains |> Random.expression() |> Random.text(), constants: Random.constants())
    end

    adds_up(tree, for(_ <- 1..40, do: Random.event(domains)))
  end

  # The search itself is the oracle.
  defp adds_up(tree, events) do
    searches =
      for {event, position} <- Enum.with_index(events),
          {:done, ids, stats} <- [Search.run(tree, event, slice: :infinity)],
          do: {position, ids, stats}

    events = for {position, _ids, _stats} <- searches, do: Enum.at(events, position)
    {:ok, profile} = BeTree.profile(tree, events)

    assert profile.searches == length(searches)
    assert profile.fuel == Enum.sum(for {_position, _ids, stats} <- searches, do: stats.fuel)
    assert sum(profile.phases) == profile.fuel
    assert stacked(profile) == profile.fuel
    assert Enum.map(profile.events, & &1.fuel) == Enum.sort(Enum.map(profile.events, & &1.fuel), :desc)

    for {{_position, ids, stats}, event} <- Enum.zip(searches, Enum.sort_by(profile.events, & &1.position)) do
      assert {event.fuel, event.visited, event.evaluated} == {stats.fuel, stats.visited, stats.evaluated}
      assert event.matches == length(ids)
      assert sum(event.phases) == event.fuel
      assert Enum.all?(event.phases, fn {_phase, fuel} -> fuel > 0 end), inspect(event)
    end

    # Each candidate of the scan was run.
    runs = Enum.sum(for row <- profile.expressions, do: row.candidate)
    assert Enum.all?(profile.expressions, &(&1.matched + &1.failed == &1.candidate))
    assert Enum.sum(for row <- profile.attributes, do: row.candidates) <= runs
    {:ok, again} = BeTree.profile(BeTree.publish!(tree), events)
    assert again == profile
  end

  defp sum(phases), do: Enum.sum(for {_phase, fuel} <- phases, do: fuel)

  defp stacked(profile) do
    lines = profile |> Profile.folded() |> IO.iodata_to_binary() |> String.split("\n", trim: true)
    Enum.sum(for line <- lines, do: line |> String.split(" ") |> List.last() |> String.to_integer())
  end

  # `device` leads to 60 expressions; one of them is true of an event with this device and place.
  defp devices do
    tree = BeTree.new!(device: :string, geo: {:string, optional: true})

    BeTree.insert_all!(
      tree,
      for(id <- 1..60, do: {id, "device = 'tv' and not (geo = 'g#{id}' or geo is null) and geo <> 'x'"})
    )

    tree
  end

  test "names attributes and expressions with their deciding tests" do
    {:ok, profile} = BeTree.profile(devices(), List.duplicate(%{device: "tv", geo: "g7"}, 10))
    %{name: "device"} = device = Enum.find(profile.attributes, &(&1.name == "device"))
    assert device.lookups == 10
    assert device.candidates + device.proven >= 590
    assert Enum.all?(device.failed_by, fn {name, _times} -> name in ["device", "geo"] end)
    row = Enum.find(profile.expressions, &(&1.id == 7))
    assert row == nil or row.matched == 0
    assert [%{reason: reason} | _] = profile.events
    assert reason =~ ~r/^\d+ % in [a-z]+: /
    assert inspect(profile) == "#BeTree.Profile<10 searches, #{profile.fuel} fuel>"
  end

  test "advice names the leading and the failing attribute" do
    attribute = %{
      name: "device",
      lookups: 1,
      nodes: 1,
      entries: 1000,
      proven: 0,
      candidates: 610,
      failed: 600,
      failed_by: [{"geo", 567}, {"age", 33}]
    }

    other = %{attribute | name: "age", candidates: 390, failed: 0, failed_by: []}
    event = %{position: 0, fuel: 100, phases: [verify: 100], visited: 1, evaluated: 1, matches: 1, reason: ""}

    profile = %Profile{
      searches: 1,
      fuel: 100,
      phases: [verify: 100],
      attributes: [attribute, other],
      expressions: [],
      events: [event]
    }

    assert ["`device` leads to 61 % of candidates; 93 % of them fail on `geo`." <> _] = Profile.advice(profile)
    assert Profile.advice(%{profile | searches: 0, fuel: 0, phases: [], events: []}) == []
    assert [text] = Profile.advice(%{profile | phases: [walk: 100]})
    assert text =~ "No cause stands out"
  end

  test "a server's profile equals that of its searches" do
    start_supervised!({BeTree.Server, name: __MODULE__.Ads, schema: [age: :integer]})
    for id <- 1..50, do: :ok = BeTree.Server.insert(__MODULE__.Ads, id, "age > #{id}")
    {:ok, profile} = BeTree.profile(__MODULE__.Ads, [%{age: 20}])
    {:ok, ids, stats} = BeTree.search(__MODULE__.Ads, %{age: 20}, stats: true)
    assert {[event], 1} = {profile.events, profile.searches}
    assert {event.fuel, event.matches} == {stats.fuel, length(ids)}
  end

  test "profiling allows concurrent searches and changes" do
    tree = devices()

    events =
      Stream.map(1..20, fn id ->
        BeTree.insert!(tree, 1_000 + id, "device = 'pc'")
        %{device: "pc"}
      end)

    {:ok, profile} = BeTree.profile(tree, events)
    assert Enum.map(profile.events, & &1.matches) == List.duplicate(0, 20)
    assert length(BeTree.search!(tree, %{device: "pc"})) == 20
  end

  test "errors have the position of their event" do
    tree = devices()
    assert {:ok, %Profile{searches: 0, fuel: 0, phases: [], events: []} = empty} = BeTree.profile(tree, [])
    assert IO.iodata_to_binary(Profile.folded(empty)) == ""
    assert {:error, %Error{kind: :missing_attribute, position: 1}} = BeTree.profile(tree, [%{device: "tv"}, %{}])
    assert {:error, %Error{kind: :type, position: 0}} = BeTree.profile(tree, [7])
    assert {:error, %Error{kind: :type}} = BeTree.profile(tree, 7)
    assert {:error, %Error{kind: :timeout}} = BeTree.profile(tree, [%{device: "tv"}], timeout: 0)
    assert {:error, %Error{kind: :no_server}} = BeTree.profile(NoSuchServer, [])
    assert_raise ArgumentError, ~r/timout/, fn -> BeTree.profile(tree, [], timout: 1) end
    assert_raise Error, fn -> BeTree.profile!(tree, [%{}]) end
  end

  test "a module without profiles is reported" do
    {:ok, guest} = BeTree.Guest.load(BeTree.Test.WasmGuest.assemble([]))
    tree = BeTree.new!([a: :integer], guest: guest)
    assert {:error, %Error{kind: :bad_module, message: message}} = BeTree.profile(tree, [%{a: 1}])
    assert message =~ "be_tree_profile"
  end

  test "another call in between ends the module's profile" do
    %{runtime: runtime, instance: instance} = tree = devices()
    {:ok, format, bytes} = BeTree.Event.encode(%{device: String.duplicate("tv", 20_000), geo: "g7"})
    call = fn function, arguments, input -> Instance.call(runtime, instance, function, arguments, input) end
    start = fn -> call.("be_tree_profile", [format, byte_size(bytes)], bytes) end

    between = [
      fn -> BeTree.info!(tree) end,
      fn -> BeTree.insert!(tree, 1_000, "device = 'pc'") end,
      fn -> BeTree.search!(tree, %{device: "tv"}) end,
      fn -> BeTree.explain!(tree, %{device: "tv"}, 1) end,
      fn -> {:error, _not_under_way} = call.("be_tree_more", [5], nil) end
    ]

    for {meanwhile, at} <- Enum.with_index(between) do
      assert {:ok, ""} = start.()
      assert {:ok, <<0::little-32>>} = call.("be_tree_profile_part", [], nil)
      meanwhile.()
      assert {^at, {:error, %Error{kind: :not_found}}} = {at, call.("be_tree_profile_part", [], nil)}
      assert {^at, {:error, %Error{kind: :not_found}}} = {at, call.("be_tree_profile_counts", [], nil)}
    end

    assert length(BeTree.search!(tree, %{device: "tv", geo: "g7"})) == 59
  end
end

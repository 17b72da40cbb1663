defmodule BeTree.TelemetryTest do
  use ExUnit.Case, async: true

  alias BeTree.{Error, Search, Telemetry}
  alias BeTree.Telemetry.Span

  doctest Telemetry

  @compile {:no_warn_undefined, :telemetry}

  @event %{a: 500}

  # A sink that sends the events to the calling process.
  defmodule Recorder do
    def execute(name, measurements, metadata) do
      send(self(), {name, measurements, metadata})
      :ok
    end
  end

  defmodule Nobody do
    def execute(_name, _measurements, _metadata), do: :ok
  end

  setup do
    tree = BeTree.new!(a: :integer)
    BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "a > #{id} or a < -#{id}"}))
    {:ok, tree: tree}
  end

  defp received(name) do
    assert_received {[:be_tree, :search, ^name], measurements, metadata}
    {measurements, metadata}
  end

  defp received_all(name) do
    receive do
      {[:be_tree, :search, ^name], measurements, metadata} -> [{measurements, metadata} | received_all(name)]
    after
      0 -> []
    end
  end

  defp nothing_more, do: refute_received({[:be_tree, :search, _name], _measurements, _metadata})

  # Checks all events of a complete search.
  defp check_whole(tree, stats, ids) do
    {started, %{tree: ^tree, telemetry_span_context: context}} = received(:start)
    assert started |> Map.keys() |> Enum.sort() == [:monotonic_time, :system_time]
    assert_in_delta System.convert_time_unit(started.system_time, :native, :second), System.os_time(:second), 60

    yields = received_all(:yield)
    assert Enum.map(yields, fn {measured, _metadata} -> measured.slices end) == Enum.to_list(1..(stats.slices - 1))
    assert [_, _ | _] = fuels = Enum.map(yields, fn {measured, _metadata} -> measured.fuel end)
    assert fuels == fuels |> Enum.uniq() |> Enum.sort()

    {stopped, metadata} = received(:stop)
    assert metadata == %{tree: tree, telemetry_span_context: context, result: :ok}
    assert Enum.all?(yields, fn {_measured, yielded} -> yielded == Map.delete(metadata, :result) end)

    %{duration: duration, monotonic_time: ended} = stopped
    assert duration == ended - started.monotonic_time
    assert duration >= 0

    assert Map.take(stopped, [:fuel, :slices, :matches]) == %{
             fuel: stats.fuel,
             slices: stats.slices,
             matches: length(ids)
           }

    assert stats.fuel >= List.last(fuels)
    nothing_more()
  end

  describe "a span" do
    # Calls the span functions like BeTree.Search does.
    defp search(tree, options) do
      span = Span.start(Recorder, :search, Span.target(tree))
      {:yield, search} = tree |> Search.start(@event, options)
      observe({:yield, search}, %{search | slices: %{search.slices | fuel: 0, count: 0}}, span)
    end

    defp observe(answer, before, span) do
      assert Span.observe(answer, %{before | span: span}) == answer

      with {:yield, search} <- answer do
        quiet = %{search | span: Span.start(Nobody, :search, %{})}
        observe(Search.resume(quiet), quiet, span)
      end
    end

    test "emits a start, a yield for each slice but the last, and a stop", %{tree: tree} do
      {:done, ids, stats} = search(tree, slice: 10_000)
      check_whole(tree, stats, ids)
    end

    test "stops with the error of a refused search", %{tree: tree} do
      for {options, kind} <- [{[slice: 10_000, timeout: 0], :timeout}, {[slice: 10_000, fuel: 25_000], :out_of_fuel}] do
        {:error, %Error{kind: ^kind} = error} = search(tree, options)
        {_started, %{telemetry_span_context: context}} = received(:start)
        [{%{fuel: fuel, slices: slices}, _metadata} | _] = Enum.reverse(received_all(:yield))
        {failed, metadata} = received(:stop)
        result = %{result: :error, error_kind: kind, error: error}
        assert metadata == Map.merge(%{tree: tree, telemetry_span_context: context}, result)
        assert %{fuel: ^fuel, slices: ^slices, matches: 0, duration: duration, monotonic_time: _} = failed
        assert duration > 0
        nothing_more()
      end
    end

    test "emits an exception with a stack trace without arguments" do
      # A list, so that the compiler cannot infer the wrong type.
      secret = Enum.at([{:secret, 1}], 0)
      raise_it = fn -> :erlang.binary_to_atom(secret) end
      measure = fn _result -> %{} end
      assert_raise ArgumentError, fn -> Span.run(Recorder, :search, %{server: Ads}, raise_it, measure) end
      received(:start)
      {%{duration: _, monotonic_time: _}, metadata} = received(:exception)
      assert %{kind: :error, reason: :badarg, stacktrace: [_ | _] = stacktrace, server: Ads} = metadata
      refute inspect(stacktrace) =~ "secret"
      assert catch_throw(Span.run(Recorder, :search, %{}, fn -> throw(:ball) end, measure)) == :ball
      received(:start)
      assert {_measured, %{kind: :throw, reason: :ball}} = received(:exception)
    end

    test "ends once, even if the search is resumed again", %{tree: tree} do
      {:yield, search} = Search.start(tree, @event, slice: 10_000)
      search = %{search | span: Span.start(Recorder, :search, %{})}
      received(:start)
      Search.cancel(search)
      assert {:error, %Error{kind: :not_found}} = answer = Search.resume(search)
      assert Span.observe(answer, search) == answer
      nothing_more()
    end
  end

  describe "searches with :telemetry present" do
    @describetag skip: unless(Telemetry.enabled?(), do: "the package :telemetry is not there")

    setup %{test: test} do
      {:ok, _started} = Application.ensure_all_started(:telemetry)
      names = for name <- [:start, :yield, :stop, :exception], do: [:be_tree, :search, name]
      :ok = :telemetry.attach_many(test, names, &__MODULE__.forward/4, self())
      on_exit(fn -> :telemetry.detach(test) end)
    end

    # Handlers run for all searches, in their processes.
    def forward(name, measurements, metadata, pid) do
      if self() == pid, do: send(pid, {name, measurements, metadata})
    end

    test "emit their events", %{tree: tree} do
      {:ok, ids, stats} = BeTree.search(tree, @event, slice: 10_000, stats: true)
      check_whole(tree, stats, ids)
    end

    test "emit their errors", %{tree: tree} do
      for {event, options, kind, slices} <- [
            {%{}, [], :missing_attribute, 0},
            {:no_event, [], :type, 0},
            {@event, [ids: [-1]], :out_of_bounds, 0},
            {@event, [slice: 10_000, timeout: 0], :timeout, 1}
          ] do
        {:error, %Error{kind: ^kind} = error} = BeTree.search(tree, event, options)
        {_started, %{telemetry_span_context: context}} = received(:start)
        assert length(received_all(:yield)) == slices
        {%{slices: ^slices}, metadata} = received(:stop)
        result = %{result: :error, error_kind: kind, error: error}
        assert metadata == Map.merge(%{tree: tree, telemetry_span_context: context}, result)
        nothing_more()
      end
    end

    test "emit nothing after they are cancelled", %{tree: tree} do
      {:yield, search} = Search.start(tree, @event, slice: 10_000)
      received(:start)
      received(:yield)
      Search.cancel(search)
      {:error, %Error{kind: :not_found}} = Search.resume(search)
      nothing_more()
    end
  end
end

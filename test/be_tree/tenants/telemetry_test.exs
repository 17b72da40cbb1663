defmodule BeTree.Tenants.TelemetryTest do
  # The test replaces the sink of the node.
  use ExUnit.Case, async: false

  import BeTree.Test.{Quiet, Recorder, Tenants}

  alias BeTree.Tenants

  setup [:quiet, :record]

  @wait_ms 300_000

  test "matches, loads and evictions emit events" do
    name = start()
    Tenants.change!(name, "a", put: [{1, "a > 0"}])
    Tenants.match!(name, "a", %{a: 1})
    assert_receive {[:tenants, :match], measurements, %{tenants: ^name, tenant: "a"}, _pid}, @wait_ms
    assert %{events: 1, matches: 1, errors: 0, skipped: 0, fuel: fuel, duration: duration} = measurements
    assert fuel > 0 and duration > 0
    :ok = Tenants.evict(name, "a")

    assert_receive {[:tenants, :evict], %{duration: _duration, bytes: bytes}, %{tenants: ^name, tenant: "a"}, _pid},
                   @wait_ms

    assert bytes > 0
    Tenants.match_many!(name, [{"a", %{a: 1}}, {"a", %{a: "x"}}])

    assert_receive {[:tenants, :load], %{duration: _duration, bytes: _bytes}, %{tenants: ^name, tenant: "a"}, _pid},
                   @wait_ms

    assert_receive {[:tenants, :match], %{events: 2, matches: 1, errors: 1}, %{tenants: ^name, tenant: nil}, _pid},
                   @wait_ms
  end

  test "a move emits an event here, and a restore at its target" do
    [from, to] = [start(), start()]
    Tenants.change!(from, "a", put: [{1, "a > 0"}])
    Tenants.move!(from, "a", {to, node()})
    target = {to, node()}
    assert_receive {[:tenants, :restore], %{duration: restored}, %{tenants: ^to, tenant: "a"}, _pid}, @wait_ms

    assert_receive {[:tenants, :move], %{duration: moved}, %{tenants: ^from, tenant: "a", target: ^target}, _pid},
                   @wait_ms

    assert moved > restored and restored > 0
  end

  test "a quota warns at 80 and 100 percent of its burst, each once" do
    name = start([], %{clock: clock(clocks())})
    Tenants.change!(name, "a", put: [{1, "a > 0"}])
    for _number <- 1..3, do: Tenants.match!(name, "a", %{a: 1})
    {:ok, %{days: days}} = Tenants.usage(name, "a")
    [%{search: search}] = Map.values(days)
    Tenants.change!(name, "a", quota: [rate: 1, burst: 10 * search])

    refused = fn refused ->
      case Tenants.match(name, "a", %{a: 1}) do
        {:ok, _ids} -> refused.(refused)
        {:error, error} -> error
      end
    end

    assert refused.(refused).kind == :quota

    assert_receive {[:tenants, :quota], %{left: left, burst: _burst, rate: 1},
                    %{tenants: ^name, tenant: "a", threshold: 80}, _pid},
                   @wait_ms

    assert left > 0
    assert_receive {[:tenants, :quota], %{left: none}, %{threshold: 100}, _pid}, @wait_ms
    assert none <= 0
    refute_received {[:tenants, :quota], _measurements, _metadata, _pid}
  end
end

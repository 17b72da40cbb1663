defmodule BeTree.PubSub.TelemetryTest do
  # The test replaces the sink of the node.
  use ExUnit.Case, async: false

  import BeTree.Test.{PubSubs, Quiet}

  alias BeTree.{PubSub, Telemetry}

  # Sends the events of a pubsub to the test.
  defmodule Recorder do
    def execute([:be_tree, :pub_sub, event], measurements, metadata) do
      with test when is_pid(test) <- Process.whereis(BeTree.PubSub.TelemetryTest),
           do: send(test, {event, measurements, metadata})

      :ok
    end

    def execute(_event, _measurements, _metadata), do: :ok
  end

  setup :quiet

  setup do
    before = Telemetry.sink()
    Process.register(self(), __MODULE__)
    Telemetry.put_sink(Recorder)
    on_exit(fn -> Telemetry.put_sink(before) end)
  end

  test "publishes, full subscribers and their recovery emit events" do
    name = start(limit: 4)
    slow = actor()
    run(slow, fn -> PubSub.subscribe!(name, "a > 0") end)
    true = :erlang.suspend_process(slow)
    PubSub.publish_many!(name, for(a <- 1..3, do: %{a: a}))
    assert_receive {:publish, %{events: 3, delivered: 3, dropped: 0, unsent: 0, duration: duration}, %{pubsub: ^name}}
    assert duration > 0
    PubSub.publish!(name, %{a: 4})
    PubSub.publish!(name, %{a: 5})
    assert_receive {:publish, %{events: 1, delivered: 0, dropped: 1}, _metadata}
    assert_receive {:full, %{waiting: 4}, %{pubsub: ^name, process: ^slow}}, 60_000
    :erlang.resume_process(slow)
    assert run(slow, fn -> length(messages()) end) == 4
    assert_receive {:recovered, %{waiting: waiting}, %{pubsub: ^name, process: ^slow}}, 60_000
    assert waiting <= 2
    {:error, _error} = PubSub.publish(name, %{})
    refute_received {:publish, %{events: 0}, _metadata}
  end
end

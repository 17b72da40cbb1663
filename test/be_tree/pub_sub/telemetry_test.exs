defmodule BeTree.PubSub.TelemetryTest do
  # The test replaces the sink of the node.
  use ExUnit.Case, async: false

  import BeTree.Test.{PubSubs, Quiet, Recorder}

  alias BeTree.PubSub

  setup [:quiet, :record]

  test "publishes, full subscribers and their recovery emit events" do
    name = start(limit: 4)
    slow = actor()
    run(slow, fn -> PubSub.subscribe!(name, "a > 0") end)
    true = :erlang.suspend_process(slow)
    PubSub.publish_many!(name, for(a <- 1..3, do: %{a: a}))

    assert_receive {[:pub_sub, :publish], %{events: 3, delivered: 3, dropped: 0, unsent: 0, duration: duration},
                    %{pubsub: ^name}, _pid}

    assert duration > 0
    PubSub.publish!(name, %{a: 4})
    PubSub.publish!(name, %{a: 5})
    assert_receive {[:pub_sub, :publish], %{events: 1, delivered: 0, dropped: 1}, _metadata, _pid}
    assert_receive {[:pub_sub, :full], %{waiting: 4}, %{pubsub: ^name, process: ^slow}, _pid}, 60_000
    :erlang.resume_process(slow)
    assert run(slow, fn -> length(messages()) end) == 4
    assert_receive {[:pub_sub, :recovered], %{waiting: waiting}, %{pubsub: ^name, process: ^slow}, _pid}, 60_000
    assert waiting <= 2
    {:error, _error} = PubSub.publish(name, %{})
    refute_received {[:pub_sub, :publish], %{events: 0}, _metadata, _pid}
  end
end

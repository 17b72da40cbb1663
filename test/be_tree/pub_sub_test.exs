defmodule BeTree.PubSubTest do
  use ExUnit.Case, async: true

  import BeTree.Test.{Kill, PubSubs, Quiet}

  alias BeTree.{Error, Explanation, PubSub}
  alias BeTree.PubSub.Message

  doctest PubSub

  setup :quiet

  describe "start_link/1" do
    test "refuses a name that is taken" do
      name = start()
      pid = Process.whereis(name)
      assert PubSub.start_link(name: name, schema: [a: :integer]) == {:error, {:already_started, pid}}
    end

    test "refuses the name of another ETS table" do
      :ets.new(:pub_sub_other_table, [:named_table])
      assert {:error, %Error{kind: :overloaded}} = PubSub.start_link(name: :pub_sub_other_table, schema: [a: :integer])
    end

    test "refuses a wrong schema" do
      assert {:error, %Error{kind: :type}} =
               PubSub.start_link(name: :pub_sub_bad, schema: [a: {:integer, min: 9, max: 0}])
    end

    test "returns the error of the index" do
      Process.flag(:trap_exit, true)

      assert {:error, %Error{kind: :out_of_memory}} =
               PubSub.start_link(name: :pub_sub_bad, schema: [a: :integer], memory: 1)

      assert :ets.whereis(:pub_sub_bad) == :undefined
    end

    test "raises for unknown options and values" do
      for options <- [
            [schema: [a: :integer]],
            [name: nil, schema: []],
            [name: :x, schema: [], limit: 0],
            [name: :x, schema: [], overflow: :block],
            [name: :x, schema: [], ids: :term]
          ] do
        assert_raise ArgumentError, fn -> PubSub.start_link(options) end
      end
    end

    test "leaves nothing when it stops" do
      name = start()
      processes = processes(name)
      assert length(processes) > 5
      PubSub.subscribe!(name, "a = 1")
      stop_supervised!(name)
      refute Enum.any?(processes, &Process.alive?/1)
      assert {:error, %Error{kind: :no_server}} = PubSub.publish(name, %{a: 1})
      assert {:error, %Error{kind: :no_server}} = PubSub.subscribe(name, "a = 1")
      assert {:error, %Error{kind: :no_server}} = PubSub.unsubscribe(name)
      assert {:error, %Error{kind: :no_server}} = PubSub.stats(name)
    end
  end

  describe "publish/3" do
    test "sends one message to a process, with the tags in the order of its subscriptions" do
      name = start()
      others = for _number <- 1..3, do: actor()

      for {actor, number} <- Enum.with_index(others),
          do: run(actor, fn -> PubSub.subscribe!(name, "a > #{number}", tag: number) end)

      for {expression, tag} <- [{"a > 5", 1}, {"a < 5", 2}, {"a = 7", 3}, {"a in (6, 7)", 1}],
          do: PubSub.subscribe!(name, expression, tag: tag)

      assert PubSub.publish(name, %{a: 7}) == :ok
      assert PubSub.publish(name, %{a: 2}) == :ok
      assert PubSub.publish(name, %{a: 5}) == :ok
      assert [%Message{tags: [1, 3, 1], event: %{a: 7}, dropped: 0}, %Message{tags: [2], event: %{a: 2}}] = messages()

      assert for(actor <- others, do: run(actor, fn -> for(%{tags: tags} <- messages(), do: tags) end)) ==
               [[[0], [0], [0]], [[1], [1], [1]], [[2], [2]]]

      assert %{published: 3, delivered: 10, dropped: 0, subscriptions: 7, subscribers: 4} = PubSub.stats!(name)
    end

    test "delivers nothing of an event that is refused" do
      schema = [a: :integer, user: [name: {:string, optional: true}]]
      name = start(schema: schema, strict: true)
      PubSub.subscribe!(name, "a > 0 or user.name = 'x'")
      assert {:error, %Error{kind: :missing_attribute}} = PubSub.publish(name, %{user: %{name: "x"}})
      assert {:error, %Error{kind: :unknown_attribute}} = PubSub.publish(name, %{a: 1, b: 2})
      assert {:error, %Error{kind: :type}} = PubSub.publish(name, %{a: 1, user: %{name: 5}})
      assert {:error, %Error{kind: :type}} = PubSub.publish(name, :no_event)
      assert {:error, %Error{kind: :type, position: 1}} = PubSub.publish_many(name, [%{a: 1}, %{a: "x"}])
      assert {:error, %Error{kind: :unknown_attribute, position: 0}} = PubSub.publish_many(name, [%{a: 1, b: 1}])
      assert_raise Error, fn -> PubSub.publish!(name, %{}) end
      assert messages() == []
      assert :ok = PubSub.publish(name, {:json, ~s({"a": 0, "user": {"name": "x"}})})
      assert [%Message{event: {:json, _json}}] = messages()
    end

    test "takes values that do not fit as undefined, as the schema says" do
      name = start(schema: [a: :integer, ip: {:ip, optional: true}], on_mismatch: :undefined)
      PubSub.subscribe!(name, "ip is null")
      PubSub.publish!(name, %{a: 1, ip: "a.host.name"})
      assert %{tags: [nil]} = message()
    end

    test "explains the matches of the subscriptions that ask" do
      name = start()
      PubSub.subscribe!(name, "a > 1", tag: {:over, 1}, why: true)
      PubSub.subscribe!(name, "a > 2", tag: :silent)
      PubSub.subscribe!(name, "a > 3", tag: "over 3", why: true)
      PubSub.publish!(name, %{a: 9})
      assert %{tags: [{:over, 1}, :silent, "over 3"], why: [{{:over, 1}, first}, {"over 3", second}]} = message()
      assert %Explanation{match: true} = first
      assert to_string(second) =~ "a > 3: true (a is 9)"
      PubSub.publish!(name, %{a: 3})
      assert %{why: [{{:over, 1}, %Explanation{}}]} = message()
    end
  end

  describe "publish_many/3" do
    test "sends a message for each event, in order" do
      name = start()
      PubSub.subscribe!(name, "a > 500", tag: :upper)
      PubSub.subscribe!(name, "a > 0", tag: :all)
      assert :ok = PubSub.publish_many(name, Stream.map(1..1_000, &%{a: &1}))

      assert for(%{event: %{a: a}, tags: tags} <- messages(), do: {a, length(tags)}) ==
               for(a <- 1..1_000, do: {a, if(a > 500, do: 2, else: 1)})

      assert PubSub.publish_many(name, []) == :ok
      assert {:error, %Error{kind: :type}} = PubSub.publish_many(name, :no_list)
      assert PubSub.stats!(name).published == 1_000
    end
  end

  describe "subscribe/3" do
    test "returns the error of an expression with its column" do
      name = start()

      assert {:error, %Error{kind: :syntax, column: 5, text: "a = = 1", position: nil} = error} =
               PubSub.subscribe(name, "a = = 1")

      refute error.message =~ "subscription"
      assert {:error, %Error{kind: :unknown_attribute, column: 1}} = PubSub.subscribe(name, "b = 1")
      assert {:error, %Error{kind: :type}} = PubSub.subscribe(name, 5)
      assert {:error, %Error{kind: :type}} = PubSub.subscribe(name, "a = 1", constants: 5)
      settle(name, 0, 0)
    end

    test "keeps other subscriptions of the same moment when one is refused" do
      name = start()
      registrar = PubSub.Table.process(name, :registrar)
      :sys.suspend(registrar)

      tasks =
        for number <- 1..40 do
          Task.async(fn ->
            PubSub.subscribe(name, if(rem(number, 4) == 0, do: "a = ", else: "a = #{number}")) |> elem(0)
          end)
        end

      BeTree.Test.Eventually.eventually(fn ->
        Process.info(registrar, :message_queue_len) == {:message_queue_len, 40}
      end)

      :sys.resume(registrar)
      assert Enum.frequencies(Task.await_many(tasks, 60_000)) == %{ok: 30, error: 10}
      settle(name, 0, 0)
    end

    test "takes constants, and raises for unknown options" do
      name = start(schema: [frequency_caps: {:frequency_caps, optional: true}, now: :integer])
      text = "within_frequency_cap('flight', 'ns', 100, 0)"
      assert {:error, %Error{kind: :missing_attribute}} = PubSub.subscribe(name, text)
      assert {:ok, _subscription} = PubSub.subscribe(name, text, constants: [flight_id: 10])
      PubSub.publish!(name, %{now: 1, frequency_caps: []})
      assert %{} = message()

      for options <- [[limit: 0], [overflow: :block], [why: 1], [node: node()], [timeout: -1], :tag],
          do: assert_raise(ArgumentError, fn -> PubSub.subscribe(name, "now = 1", options) end)
    end

    test "leaves nothing after its timeout" do
      name = start()
      registrar = PubSub.Table.process(name, :registrar)
      :sys.suspend(registrar)
      assert {:error, %Error{kind: :timeout}} = PubSub.subscribe(name, "a = 1", timeout: 1)
      :sys.resume(registrar)
      PubSub.subscribe!(name, "a = 1", tag: :second)
      PubSub.publish!(name, %{a: 1})
      assert %{tags: [:second]} = message()
      settle(name, 1, 1)
    end

    test "takes large lists of ids from many processes" do
      name = start()
      size = 2_000
      actors = for _number <- 1..20, do: actor()

      for {actor, number} <- Enum.with_index(actors) do
        ids = Enum.map_join((number * size)..(number * size + 2 * size - 1), ", ", &Integer.to_string/1)
        run(actor, fn -> PubSub.subscribe!(name, "a in (#{ids})", tag: number) end)
      end

      PubSub.publish!(name, %{a: 5 * size + 1})
      found = for actor <- actors, %{tags: tags} <- run(actor, &messages/0), do: tags
      assert found == [[4], [5]]
    end
  end

  describe "unsubscribe/3" do
    test "ends one subscription, again without effect" do
      name = start()
      first = PubSub.subscribe!(name, "a = 1", tag: 1)
      second = PubSub.subscribe!(name, "a = 1", tag: 2)
      assert PubSub.unsubscribe(name, first) == :ok
      assert PubSub.unsubscribe(name, first) == :ok
      PubSub.publish!(name, %{a: 1})
      assert %{tags: [2]} = message()
      settle(name, 1, 1)
      PubSub.unsubscribe!(name, second)
      PubSub.publish!(name, %{a: 1})
      assert messages() == []
      settle(name, 0, 0)
    end

    test "ends a subscription of another process" do
      name = start()
      actor = actor()
      subscription = run(actor, fn -> PubSub.subscribe!(name, "a = 1") end)
      PubSub.unsubscribe!(name, subscription)
      PubSub.publish!(name, %{a: 1})
      assert run(actor, &messages/0) == []
    end

    test "raises for a subscription of another pubsub" do
      subscription = PubSub.subscribe!(start(), "a = 1")
      name = start()
      assert_raise ArgumentError, fn -> PubSub.unsubscribe(name, subscription) end
      assert_raise ArgumentError, fn -> PubSub.unsubscribe(name, 1) end
    end
  end

  describe "unsubscribe/1" do
    test "ends all subscriptions of the caller, which may subscribe again at once" do
      name = start()
      actor = actor()
      run(actor, fn -> PubSub.subscribe!(name, "a > 0") end)
      for number <- 1..1_500, do: PubSub.subscribe!(name, "a > 0 and a < #{number}")
      PubSub.unsubscribe!(name)
      PubSub.publish!(name, %{a: 5})
      PubSub.subscribe!(name, "a = 6", tag: :again)
      PubSub.publish!(name, %{a: 6})
      assert [%{tags: [:again]}] = messages()
      settle(name, 2, 2)
      assert run(actor, fn -> length(messages()) end) == 2
    end
  end

  test "a process that ends is forgotten, with all of its subscriptions" do
    name = start()
    actor = actor()
    run(actor, fn -> for(number <- 1..1_200, do: PubSub.subscribe!(name, "a > #{number}")) end)
    other = actor()
    run(other, fn -> PubSub.subscribe!(name, "a > 0") end)
    stop(actor)
    settle(name, 1, 1)
    PubSub.publish!(name, %{a: 5_000})
    assert %{delivered: 1, dropped: 0} = PubSub.stats!(name)
  end

  describe "while the index is gone" do
    # Kills the server of the index, and keeps the supervisor from starting another one until `function` returns.
    defp without_index(name, function) do
      supervisor = Process.whereis(name)
      :ok = :sys.suspend(supervisor)
      kill(Process.whereis(table(name).index))
      function.()
    after
      :sys.resume(Process.whereis(name))
    end

    test "a publish waits, or returns an error of kind :not_ready after its timeout" do
      name = start()
      PubSub.subscribe!(name, "a = 1", tag: :before)

      task =
        without_index(name, fn ->
          assert {:error, %Error{kind: :not_ready}} = PubSub.publish(name, %{a: 1}, timeout: 20)
          assert {:error, %Error{kind: :not_ready}} = PubSub.publish_many(name, [%{a: 1}], timeout: 0)
          Task.async(fn -> PubSub.publish(name, %{a: 1}, timeout: :infinity) end)
        end)

      assert Task.await(task, 60_000) == :ok
      assert [%{tags: [:before]}] = messages()
    end

    test "subscriptions are made and ended when it is back" do
      name = start()
      kept = PubSub.subscribe!(name, "a = 1", tag: :kept)
      ended = PubSub.subscribe!(name, "a = 1", tag: :ended)
      actor = actor()

      task =
        without_index(name, fn ->
          PubSub.unsubscribe!(name, ended)
          Task.async(fn -> run(actor, fn -> PubSub.subscribe!(name, "a = 1") end) end)
        end)

      Task.await(task, 60_000)
      PubSub.publish!(name, %{a: 1})
      assert [%{tags: [:kept]}] = messages()
      assert run(actor, fn -> length(messages()) end) == 1
      settle(name, 2, 2)
      PubSub.unsubscribe!(name, kept)
    end
  end

  test "names that are no atoms raise" do
    for call <- [&PubSub.publish(&1, %{}), &PubSub.subscribe(&1, "a = 1"), &PubSub.stats/1, &PubSub.unsubscribe/1],
        name <- [nil, "name", {:via, Registry, 1}, self()] do
      assert_raise ArgumentError, fn -> call.(name) end
    end
  end
end

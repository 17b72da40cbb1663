defmodule BeTree.MismatchTest do
  use ExUnit.Case, async: true

  alias BeTree.{Cluster, Domain, Error, Event, Image, Profile, Search, Server}
  alias BeTree.Call.Reply
  alias BeTree.Test.{Json, Naive, Nested, Random, Runtimes, Servers}

  @schema [
    sourceIPAddress: {:ip, optional: true},
    eventName: :string,
    tags: {:string_list, optional: true},
    user: [id: {:integer, optional: true}, name: {:string, optional: true}]
  ]

  @expressions [{1, "eventName = 'DeleteTrail'"}, {2, "sourceIPAddress in ('10.0.0.0/8') or user.id = 1"}]

  # Events of every form, each with its number of mismatches.
  @service "cloudformation.amazonaws.com"
  @events [
    {{:json, ~s({"sourceIPAddress": "#{@service}", "eventName": "DeleteTrail"})}, 1},
    {{:json, ~s({"eventName": "DeleteTrail", "user": "root", "tags": ["a", null]})}, 2},
    {%{sourceIPAddress: @service, eventName: "DeleteTrail", user: %{id: 1.5}}, 2},
    {%{"eventName" => "DeleteTrail", "user" => %{"id" => %{"x" => 1}}}, 1},
    {[eventName: "DeleteTrail", tags: ["a", nil], user: "root"], 2},
    {[eventName: "DeleteTrail", user: [1, 2]], 1},
    {{:record, [5, "DeleteTrail", "tag", 2 ** 70, :x]}, 3},
    {{:records, [{:event, "x", "DeleteTrail", 1, 7, :name}]}, 3}
  ]

  defp tree(schema \\ @schema, options) do
    tree = BeTree.new!(schema, options)
    BeTree.insert_all!(tree, @expressions)
    tree
  end

  # Every function that searches, as a function of a target, events and options.
  defp ways do
    [
      fn target, events, options -> for event <- events, do: BeTree.search!(target, event, options) end,
      &BeTree.search_many!/3,
      fn target, events, options -> Enum.flat_map(events, &BeTree.search_many!(target, [&1], options)) end,
      fn target, events, options -> for {_event, {:ok, ids}} <- BeTree.stream(target, events, options), do: ids end,
      fn target, events, options ->
        options = [fuel: 100_000_000] ++ options
        for {_event, {:ok, ids}} <- BeTree.stream(target, events, options), do: ids
      end
    ]
  end

  describe "search/3" do
    for runtime <- Runtimes.all() do
      @tag runtime: runtime
      test "counts mismatches as undefined by attribute, schema or call, on #{Runtimes.name(runtime)}" do
        runtime = unquote(runtime)

        by_attribute = [
          sourceIPAddress: {:ip, optional: true, on_mismatch: :undefined},
          eventName: :string,
          tags: {:string_list, optional: true, on_mismatch: :undefined},
          user: %{
            id: {:integer, optional: true, on_mismatch: :undefined},
            name: {:string, optional: true, on_mismatch: :undefined}
          }
        ]

        for {tree, options} <- [
              {tree(by_attribute, runtime: runtime), []},
              {tree(on_mismatch: :undefined, runtime: runtime), []},
              {tree(runtime: runtime), [on_mismatch: :undefined]}
            ],
            {event, mismatches} <- @events do
          assert {:ok, [1], stats} = BeTree.search(tree, event, [stats: true] ++ options)
          assert stats.mismatches == mismatches, inspect(event)
          assert {:done, [1], %{mismatches: ^mismatches}} = Search.run(tree, event, options)
          assert {:ok, [[1], [1]]} = BeTree.search_many(tree, [event, event], options)

          for form <- [:binary, :bitmap] do
            found = BeTree.search!(tree, %{eventName: "DeleteTrail"}, as: form)

            assert {:ok, ^found, %{mismatches: ^mismatches}} =
                     BeTree.search(tree, event, [as: form, stats: true] ++ options)

            assert {:ok, [^found]} = BeTree.search_many(tree, [event], [as: form] ++ options)
            assert {:ok, [^found, ^found]} = BeTree.search_many(tree, [event, event], [as: form] ++ options)
          end
        end
      end
    end

    test "refuses mismatches by default and names the attribute" do
      tree = tree([])

      for {event, _mismatches} <- @events do
        assert {:error, %Error{kind: kind, attribute: attribute, message: message}} = BeTree.search(tree, event)
        assert kind in [:type, :out_of_bounds]
        assert message =~ attribute
      end
    end

    test "refuses a mismatch of a required attribute in any call" do
      tree = tree(on_mismatch: :undefined)
      assert {:error, %Error{kind: :type, attribute: "eventName"} = error} = BeTree.search(tree, %{eventName: 7})
      assert error.message =~ "expected a string"
      assert {:error, %Error{kind: :type}} = BeTree.search(tree, %{eventName: 7}, on_mismatch: :undefined)
      assert {:error, %Error{kind: :syntax}} = BeTree.search(tree, {:json, ~s({"eventName": )})
      assert {:error, %Error{kind: :type}} = BeTree.search(tree, {:record, []})
    end

    test "prefers the attribute's own option" do
      schema = [a: {:integer, optional: true, on_mismatch: :error}, b: {:integer, optional: true}]
      tree = BeTree.new!(schema, on_mismatch: :undefined)
      assert {:ok, []} = BeTree.search(tree, %{b: "x"})
      assert {:error, %Error{attribute: "a"}} = BeTree.search(tree, %{a: "x"})
      assert {:ok, []} = BeTree.search(tree, %{a: "x"}, on_mismatch: :undefined)

      assert_raise ArgumentError, ~r/on_mismatch takes :error or :undefined/, fn ->
        BeTree.search(tree, %{}, on_mismatch: 1)
      end
    end

    test "refuses unknown names beside mismatches" do
      tree = tree(on_mismatch: :undefined)
      event = %{eventName: "x", user: [1], tag: 1}
      assert {:error, %Error{kind: :unknown_attribute, attribute: "tag"}} = BeTree.search(tree, event, strict: true)
      assert {:ok, []} = BeTree.search(tree, Map.delete(event, :tag), strict: true)
    end
  end

  test "counts mismatches in every kind of search and on every target" do
    tree = tree(on_mismatch: :undefined)
    strict = tree([])
    {:ok, image} = Image.to_binary(tree)
    server = Servers.start(schema: @schema, on_mismatch: :undefined)
    Server.insert_all!(server, @expressions)
    terms = Servers.start(schema: @schema, on_mismatch: :undefined, ids: :term)
    Server.insert_all!(terms, @expressions)
    other = Servers.start(schema: @schema)
    Server.insert_all!(other, @expressions)
    cluster = Cluster.new([{server, node()}])
    events = for {event, _mismatches} <- @events, do: event
    expected = for _event <- events, do: [1]

    for {target, options} <- [
          {tree, []},
          {BeTree.publish!(tree), []},
          {Image.read!({:binary, image}), []},
          {Image.read_tree!({:binary, image}), []},
          {server, []},
          {terms, []},
          {cluster, []},
          {strict, [on_mismatch: :undefined]},
          {BeTree.publish!(strict), [on_mismatch: :undefined]},
          {other, [on_mismatch: :undefined]}
        ] do
      for way <- ways(), do: assert(way.(target, events, options) == expected)

      for {event, mismatches} <- @events do
        assert {:ok, [1], %{mismatches: ^mismatches}} = BeTree.search(target, event, [stats: true] ++ options)
        assert BeTree.explain!(target, event, 1, options).match
        refute BeTree.explain!(target, event, 2, options).match
        prepared = Event.prepare!(target, event, options)
        assert {:ok, [1], %{mismatches: ^mismatches}} = BeTree.search(target, prepared, [stats: true] ++ options)
        # The mismatch was counted when the event was prepared.
        assert BeTree.search!(strict, prepared) == [1]
      end

      # Events before and after a refused one have results.
      events = [hd(events), %{}, hd(events)]
      results = for {_event, result} <- BeTree.stream(target, events, options), do: result
      assert [{:ok, [1]}, {:error, %Error{kind: :missing_attribute}}, {:ok, [1]}] = results
    end

    for target <- [tree, server], do: assert(%Profile{searches: 8} = BeTree.profile!(target, events))
    assert %Profile{searches: 8} = BeTree.profile!(strict, events, on_mismatch: :undefined)
    assert {:error, %Error{position: 0}} = BeTree.profile(strict, events)
  end

  describe "Domain.parse/2" do
    test "refuses the option for a required attribute and says how to fix it" do
      assert {:error, %Error{kind: :type, attribute: "a.b"} = error} =
               Domain.parse(a: [b: {:ip, on_mismatch: :undefined}])

      assert error.message == "on_mismatch: of `a.b` is :undefined, but an event must define `a.b`; make it optional"
      assert {:error, %Error{}} = Domain.parse(a: {:ip, optional: true, on_mismatch: :ignore})
      assert {:error, %Error{}} = Domain.parse(a: {:integer, unit: :second})
      assert {:error, %Error{message: message}} = Domain.parse(a: {:datetime, unit: :minute})
      assert message =~ "one of :second, :millisecond, :microsecond"
    end

    test "returns attributes that it accepts again, encoded too" do
      schema = [
        a: {:datetime, optional: true, unit: :second, on_mismatch: :undefined},
        b: {:integer, optional: true, coerce: true, on_mismatch: :error},
        c: {:list, [d: {:datetime, unit: :millisecond}], optional: true},
        e: :integer
      ]

      for default <- [:error, :undefined] do
        {:ok, parsed} = Domain.parse(schema, default)
        assert Domain.parse(parsed, :undefined) == {:ok, parsed}
        assert parsed |> Domain.encode() |> Reply.schema() == {:ok, parsed}
      end
    end
  end

  describe "unit:" do
    test "makes numbers times of that unit, in every form of events and in expressions" do
      schema = [
        at: {:datetime, optional: true, unit: :second},
        ms: {:datetime, optional: true, unit: :millisecond},
        l: {:list, [at: {:datetime, unit: :second}], optional: true}
      ]

      tree = BeTree.new!(schema)

      BeTree.insert_all!(tree, [
        {1, "at > '2019-01-01T00:00:00Z'"},
        {2, "at = 1557933565"},
        {3, "ms = 1557933565250"},
        {4, "any l (at = '2019-05-15T15:19:25Z')"}
      ])

      for {event, expected} <- [
            {{:json, ~s({"at": 1557933565})}, [1, 2]},
            {{:json, ~s({"at": 1557933565.5, "ms": 1557933565250.0})}, [1, 3]},
            {%{at: 1_557_933_565, ms: 1_557_933_565_250}, [1, 2, 3]},
            {%{at: ~U[2019-05-15 15:19:25Z], ms: "2019-05-15T15:19:25.25Z"}, [1, 2, 3]},
            {%{l: [%{at: 1_557_933_565}]}, [4]},
            {{:record, [1_557_933_565, nil, nil]}, [1, 2]},
            {{:records, [{:e, 1_557_933_565, :undefined}]}, [1, 2]}
          ] do
        assert BeTree.search(tree, event) == {:ok, expected}
        assert BeTree.search(tree, Event.prepare!(tree, event)) == {:ok, expected}
      end

      assert {:error, %Error{kind: :out_of_bounds, attribute: "at"}} = BeTree.search(tree, %{at: 2 ** 62})
      assert {:ok, []} = BeTree.search(tree, %{at: 2 ** 62}, on_mismatch: :undefined)
      assert {:ok, image} = Image.to_binary(tree)
      assert BeTree.search(Image.read!({:binary, image}), %{at: 1_557_933_565}) == {:ok, [1, 2]}
    end
  end

  # Random events with mismatches in optional attributes.
  test "search/3 finds what the oracle finds for the event without these values" do
    for seed <- 1..30 do
      :rand.seed(:exsss, seed)
      domains = Random.nested_schema()
      expressions = for id <- 1..60, do: {id, Random.expression(domains)}
      texts = Random.subscriptions(expressions)
      by_call = BeTree.new!(domains)
      by_schema = BeTree.new!(domains, on_mismatch: :undefined)
      for tree <- [by_call, by_schema], do: BeTree.insert_all!(tree, texts)

      for number <- 1..20 do
        event = Random.event(domains)
        {plain, spoilt, count} = Random.spoil(event, domains)
        expected = for {id, expr} <- expressions, Naive.eval(expr, Map.new(plain), Random.constants()), do: id
        record = for {name, _spec} <- domains, do: Map.new(spoilt)[name]
        nested = Nested.nest(spoilt)

        for form <- [nested, {:json, Json.encode(nested)}, {:record, record}],
            {tree, options} <- [{by_call, [on_mismatch: :undefined]}, {by_schema, []}] do
          where = "seed #{seed}, event #{number}: #{inspect(form, limit: :infinity)}"
          assert {:ok, found, stats} = BeTree.search(tree, form, [stats: true] ++ options), where
          assert {found, stats.mismatches} == {expected, count}, where
          assert BeTree.search_many!(tree, [form, form], options) == [expected, expected], where
          prepared = Event.prepare!(tree, form, options)
          assert {:ok, ^found, %{mismatches: ^count}} = BeTree.search(tree, prepared, [stats: true] ++ options)
        end
      end
    end
  end
end

defmodule BeTree.TestTest do
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Test.{Language, Random}

  doctest BeTree.Test

  describe "events/2" do
    test "makes events that fit schemas of all types, and nested ones" do
      for make <- [&Random.schema/0, &Random.nested_schema/0, &Language.schema/0], _round <- 1..5 do
        schema = make.()
        tree = BeTree.new!(schema)
        BeTree.insert!(tree, 1, "true")
        events = schema |> BeTree.Test.events() |> Enum.take(100)
        assert tree |> BeTree.search_many!(events, strict: true) |> Enum.uniq() == [[1]]
      end
    end

    test "makes the same events from the same seed, and follows ExUnit's seed" do
      take = fn options ->
        [a: :float, b: {:string_list, optional: true}] |> BeTree.Test.events(options) |> Enum.take(50)
      end

      assert take.(seed: "x") == take.(seed: "x")
      assert take.(seed: "x") != take.(seed: "y")
      :rand.seed(:exsss, 1)
      first = take.([])
      :rand.seed(:exsss, 1)
      assert take.([]) == first
      assert take.([]) != first
    end

    @bounds [
      a: {:integer, min: 3},
      b: {:integer, max: -3},
      c: {:integer, min: 5, max: 5},
      d: {:float, min: 0.25},
      e: {:float, min: -1.5, max: 1.5},
      f: {:integer_list, min: 0, max: 2},
      g: {:integer, min: 0x7FFF_FFFF_FFFF_FFF0}
    ]

    test "keeps bounds, and reaches them" do
      events =
        @bounds |> BeTree.Test.events(near: ["a > 3 or b < -3 or d > 0.25 or e < 1.5 or 1 in f"]) |> Enum.take(500)

      values = for name <- ~w(a b c d e f g), into: %{}, do: {name, events |> Enum.map(& &1[name]) |> List.flatten()}
      assert {Enum.min(values["a"]), Enum.max(values["b"])} == {3, -3}
      assert Enum.uniq(values["c"]) == [5]
      assert Enum.min(values["d"]) == 0.25
      assert {Enum.min(values["e"]), Enum.max(values["e"])} == {-1.5, 1.5}
      assert {Enum.min(values["f"]), Enum.max(values["f"])} == {0, 2}
      assert Enum.max(values["g"]) == 0x7FFF_FFFF_FFFF_FFFF
    end

    @schema [
      now: :integer,
      latitude: :float,
      longitude: :float,
      segments_with_timestamp: :segments,
      frequency_caps: :frequency_caps,
      b: :boolean,
      i: :integer,
      f: :float,
      s: :string,
      e: :integer_enum,
      ints: :integer_list,
      strings: :string_list,
      ip: :ip,
      ip6: :ip,
      at: :datetime,
      second: {:datetime, unit: :second},
      user: [name: :string, "`first name`": {:string, optional: true}],
      items: {:list, sku: :string, qty: {:integer, optional: true}}
    ]

    # Random values hardly decide these.
    @near [
      "b",
      "i = 123456789",
      "i between 4000000000 and 4000000001",
      "f < 0.30000000000000004 and f >= 0.1",
      "f = 1e300",
      "s = 'it\\'s \\\\ \"quoted\"'",
      "s like 'db-*-eu'",
      "starts_with(s, 'été-')",
      "lower(s) = 'mixed'",
      "length(s) = 17",
      "e in (77, 99)",
      "ints one of (5000) and not (ints one of (5001))",
      "strings all of ('ski', 'hike')",
      "ip in ('10.20.0.0/16')",
      "ip6 not in ('2001:db8::/32', '::/1')",
      "at >= '2031-05-06T07:08:09Z' and at < '2031-05-06T07:08:09.000001Z'",
      "second = '2031-05-06T07:08:09Z'",
      "user.name = 'ann'",
      "user.`first name` = 'bob'",
      "any items (sku = 'x-1' and qty > 7000)",
      "i * 2 > 9000 or i <> 3",
      "geo_within_radius(45.5, -73.6, 25.0)",
      "segment_within(7, 86400)",
      "segment_before(7, 86400)",
      {1, "not within_frequency_cap('flight', 'ads', 9, 86400)", constants: [flight_id: 50]}
    ]

    test "makes events that decide each expression in both ways" do
      subscriptions =
        for {near, id} <- Enum.with_index(@near) do
          case near do
            {_id, text, options} -> {id, text, options}
            text -> {id, text}
          end
        end

      tree = BeTree.new!(@schema)
      BeTree.insert_all!(tree, subscriptions)
      events = @schema |> BeTree.Test.events(near: @near, seed: 1) |> Enum.take(3_000)
      counts = tree |> BeTree.search_many!(events) |> List.flatten() |> Enum.frequencies()
      assert for({near, id} <- Enum.with_index(@near), Map.get(counts, id, 0) in [0, 3_000], do: near) == []
    end

    test "refuses a wrong schema, expression and option" do
      assert_raise Error, ~r/type `int`|:int/, fn -> BeTree.Test.events(a: :int) end
      assert_raise Error, ~r/`c`/, fn -> BeTree.Test.events([a: :integer], near: ["c = 1"]) end
      assert_raise ArgumentError, ~r/:near/, fn -> BeTree.Test.events([a: :integer], near: "a = 1") end
      assert_raise ArgumentError, ~r/:nera/, fn -> BeTree.Test.events([a: :integer], nera: []) end
    end
  end

  describe "generator/2" do
    if Code.ensure_loaded?(StreamData) do
      test "makes events that fit, and shrinks them" do
        tree = BeTree.new!(@schema)
        BeTree.insert!(tree, 1, "true")
        options = [initial_seed: {1, 2, 3}, max_runs: 300]

        fits = fn event ->
          if BeTree.search(tree, event, strict: true) == {:ok, [1]}, do: {:ok, nil}, else: {:error, event}
        end

        assert {:ok, _runs} = StreamData.check_all(BeTree.Test.generator(@schema, near: @near), options, fits)

        # The smallest failing event has the constant, and nothing that is not needed.
        schema = [n: :integer, s: {:string, optional: true}]
        check = fn event -> if event["n"] >= 4_711, do: {:error, event}, else: {:ok, event} end
        generator = BeTree.Test.generator(schema, near: ["n >= 4711"])
        assert {:error, %{shrunk_failure: event}} = StreamData.check_all(generator, options, check)
        assert Map.keys(event) == ["n"] and event["n"] >= 4_711
      end
    else
      test "says what to do without StreamData" do
        assert_raise ArgumentError, ~r/:stream_data.*events\/2/, fn -> BeTree.Test.generator(a: :integer) end
      end
    end
  end

  describe "assert_matches/3 and refute_matches/3" do
    setup do
      tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      BeTree.insert_all!(tree, [{1, "age >= 21"}, {2, "age >= 65"}, {3, "country = 'CA'"}])
      {:ok, tree: tree, index: BeTree.publish!(tree)}
    end

    test "take ids in any order", %{tree: tree, index: index} do
      for target <- [tree, index] do
        assert BeTree.Test.assert_matches(target, %{age: 30, country: "CA"}, [3, 1]) == :ok
        assert BeTree.Test.assert_matches(target, %{age: 3}, []) == :ok
        assert BeTree.Test.refute_matches(target, %{age: 30}, [2, 3, 99]) == :ok
      end
    end

    test "explain the missing and the unexpected ids", %{tree: tree} do
      error =
        assert_raise ExUnit.AssertionError, fn ->
          BeTree.Test.assert_matches(tree, {:json, ~s({"age": 30})}, [1, 3, 99])
        end

      assert error.message == """
             The search returned [1].

             3 is missing: no match
             └─ country = 'CA': false (country is undefined)

             99 is missing: no subscription has the id 99

             Event: {:json, "{\\"age\\": 30}"}\
             """

      error = assert_raise ExUnit.AssertionError, fn -> BeTree.Test.refute_matches(tree, %{age: 30}, [1, 2]) end
      assert error.message =~ "1 is unexpected: match\n└─ age >= 21: true (age is 30)"
      refute error.message =~ "2 is"
    end

    test "explain at most five of many ids", %{tree: tree} do
      error =
        assert_raise ExUnit.AssertionError, fn -> BeTree.Test.assert_matches(tree, %{age: 1}, Enum.to_list(10..19)) end

      assert error.message =~ "14 is missing"
      refute error.message =~ "15 is missing"
      assert error.message =~ "5 more are missing."
    end

    test "take the name of a server with ids of its own" do
      {:ok, _pid} = start_supervised({BeTree.Server, name: __MODULE__, schema: [age: :integer], ids: :term})
      :ok = BeTree.insert(__MODULE__, {:rule, "adults"}, "age >= 21")
      assert BeTree.Test.assert_matches(__MODULE__, %{age: 21}, [{:rule, "adults"}]) == :ok

      error =
        assert_raise ExUnit.AssertionError, fn ->
          BeTree.Test.refute_matches(__MODULE__, %{age: 21}, [{:rule, "adults"}])
        end

      assert error.message =~ ~s({:rule, "adults"} is unexpected)
    end

    test "raise the error of the search, and for wrong ids", %{tree: tree} do
      assert_raise Error, fn -> BeTree.Test.assert_matches(tree, %{}, []) end
      assert_raise ArgumentError, ~r/a list of ids/, fn -> BeTree.Test.assert_matches(tree, %{age: 1}, 1) end
      assert_raise ArgumentError, ~r/a list of ids/, fn -> BeTree.Test.refute_matches(tree, %{age: 1}, nil) end
    end
  end
end

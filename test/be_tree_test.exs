defmodule BeTreeTest do
  use ExUnit.Case, async: true

  alias BeTree.Error

  doctest BeTree

  @greatest 0xFFFF_FFFF_FFFF_FFFF

  describe "new" do
    test "an unknown or wrong option raises" do
      for options <- [
            [memroy: 1],
            [memory: 0],
            [memory: :infinity],
            [fuel_per_reduction: 0.5],
            [guest: :mine],
            [:memory]
          ] do
        assert_raise ArgumentError, fn -> BeTree.new([a: :integer], options) end
      end
    end

    test "accepts no attributes, for constant expressions" do
      tree = BeTree.new!([])
      BeTree.insert_all!(tree, [{1, "true"}, {2, "false"}, {3, "not false"}])
      assert BeTree.search(tree, %{}) == {:ok, [1, 3]}
    end

    test "trees are isolated from each other" do
      [one, other] = for _ <- 1..2, do: BeTree.new!(a: :integer)
      BeTree.insert!(one, 1, "a = 1")
      assert BeTree.search(other, %{a: 1}) == {:ok, []}
    end

    test "a memory limit refuses an insertion and keeps earlier ones" do
      tree = BeTree.new!([a: :integer], memory: 4_000_000)
      BeTree.insert!(tree, 1, "a = 1")
      rules = for id <- 2..200_000, do: {id, "a = #{id} or a in (#{id + 1}, #{id + 2}) and a <> #{id * 7}"}

      assert {:error, %Error{kind: :out_of_memory}} = BeTree.insert_all(tree, rules)
      assert BeTree.search(tree, %{a: 1}) == {:ok, [1]}
      assert BeTree.insert(tree, 2, "a = 1") == :ok
      assert BeTree.search(tree, %{a: 1}) == {:ok, [1, 2]}
    end

    test "a memory limit below the need of the module is an error of kind :out_of_memory" do
      assert {:error, %Error{kind: :out_of_memory}} = BeTree.new([a: :integer], memory: 1)
    end
  end

  describe "insert/4 and delete/2" do
    setup do
      {:ok, tree: BeTree.new!(a: {:integer, optional: true}, now: :integer, frequency_caps: :frequency_caps)}
    end

    test "ids are unsigned 64-bit integers, returned in order", %{tree: tree} do
      ids = [@greatest, 0, 0x8000_0000_0000_0000, 1, 0x7FFF_FFFF_FFFF_FFFF, @greatest - 1]
      for id <- ids, do: assert(BeTree.insert(tree, id, "true") == :ok)
      event = %{now: 0, frequency_caps: []}
      assert BeTree.search(tree, event) == {:ok, Enum.sort(ids)}
      assert BeTree.search(tree, event, ids: [@greatest, 1, 2]) == {:ok, [1, @greatest]}
      assert BeTree.explain!(tree, event, @greatest).id == @greatest
      assert BeTree.delete(tree, @greatest) == :ok
      assert BeTree.search(tree, event) == {:ok, Enum.sort(ids) -- [@greatest]}
    end

    test "other terms than ids are refused", %{tree: tree} do
      for {id, kind} <- [
            {-1, :out_of_bounds},
            {@greatest + 1, :out_of_bounds},
            {1.0, :type},
            {"1", :type},
            {nil, :type}
          ] do
        assert {:error, %Error{kind: ^kind}} = BeTree.insert(tree, id, "true")
        assert {:error, %Error{kind: ^kind, position: 0}} = BeTree.insert_all(tree, [{id, "true"}])
        assert {:error, %Error{kind: ^kind}} = BeTree.delete(tree, id)
        assert {:error, %Error{kind: ^kind}} = BeTree.search(tree, %{}, ids: [1, id])
      end
    end

    test "a duplicate id is refused until its deletion", %{tree: tree} do
      event = %{a: 1, now: 0, frequency_caps: []}
      assert BeTree.insert(tree, 1, "a = 1") == :ok
      assert {:error, %Error{kind: :duplicate_id}} = BeTree.insert(tree, 1, "a = 2")
      assert BeTree.search(tree, event) == {:ok, [1]}
      assert BeTree.delete(tree, 1) == :ok
      assert BeTree.search(tree, event) == {:ok, []}
      assert {:error, %Error{kind: :not_found}} = BeTree.delete(tree, 1)
      assert BeTree.insert(tree, 1, "a = 2") == :ok
      assert BeTree.search(tree, %{event | a: 2}) == {:ok, [1]}
    end

    test "refuse an expression that is no string", %{tree: tree} do
      for expression <- [nil, ~c"a = 1", ["a = ", "1"], :a] do
        assert {:error, %Error{kind: :type}} = BeTree.insert(tree, 1, expression)
      end
    end

    test "show the column of a syntax error under the text", %{tree: tree} do
      {:error, error} = BeTree.insert(tree, 1, "a = 1 and and")
      assert {error.kind, error.column, error.text} == {:syntax, 11, "a = 1 and and"}
      assert Exception.message(error) =~ ~r/^ *a = 1 and and\n *\^/m
      assert_raise Error, fn -> BeTree.insert!(tree, 1, "a = 1 and and") end
    end

    test "take constants as a keyword list or a map of integers", %{tree: tree} do
      expression = "within_frequency_cap('flight', 'ns', 5, 0)"
      assert {:error, %Error{kind: :missing_attribute, attribute: "flight_id"}} = BeTree.insert(tree, 1, expression)

      for {constants, id} <- Enum.with_index([[flight_id: 7], %{flight_id: 7}, [{"flight_id", 7}], %{"flight_id" => 7}]) do
        assert BeTree.insert(tree, id, expression, constants: constants) == :ok
      end

      capped = %{now: 0, frequency_caps: [{{"flight", 7, "ns"}, 5, nil}]}
      assert BeTree.search(tree, capped) == {:ok, []}
      assert BeTree.search(tree, %{capped | frequency_caps: []}) == {:ok, [0, 1, 2, 3]}

      for {constants, kind} <- [
            {[flight_id: 0x8000_0000_0000_0000], :out_of_bounds},
            {[flight_id: 1.0], :type},
            {[flight_id: nil], :type},
            {[{1, 2}], :type},
            {[:flight_id], :type},
            {[{:flight_id, 1} | 2], :type},
            {:flight_id, :type}
          ] do
        assert {:error, %Error{kind: ^kind}} = BeTree.insert(tree, 9, expression, constants: constants)
      end
    end

    test "raise on an unknown option", %{tree: tree} do
      assert_raise ArgumentError, fn -> BeTree.insert(tree, 1, "true", constant: []) end
      assert_raise ArgumentError, fn -> BeTree.insert_all(tree, [{1, "true", [1]}]) end
    end
  end

  describe "insert_all/3" do
    setup do
      {:ok, tree: BeTree.new!(a: :integer)}
    end

    test "takes any enumerable, and an empty one", %{tree: tree} do
      assert BeTree.insert_all(tree, []) == {:ok, 0}
      assert BeTree.insert_all(tree, Stream.map(1..10, &{&1, "a = #{&1}"})) == {:ok, 10}
      assert BeTree.insert_all(tree, %{11 => "a > 3"}) == {:ok, 1}
      assert BeTree.insert_all(tree, [{12, "a > 4", constants: %{}}, {13, "a > 5", []}]) == {:ok, 2}
      assert BeTree.search(tree, %{a: 5}) == {:ok, [5, 11, 12]}
    end

    test "is all or nothing, and names the wrong subscription", %{tree: tree} do
      BeTree.insert!(tree, 1, "a = 1")
      info = BeTree.info!(tree)

      for {bad, kind} <- [
            {{77, "a = "}, :syntax},
            {{77, "b = 1"}, :unknown_attribute},
            {{77, "a = 'x'"}, :type},
            {{1, "a = 2"}, :duplicate_id},
            {{2, "a = 2"}, :duplicate_id}
          ] do
        {id, text} = bad
        rules = [{2, "a = 1"}, {3, "a >= 1"}, bad, {4, "a = 1"}]
        assert {:error, %Error{kind: ^kind, position: 2, text: ^text} = error} = BeTree.insert_all(tree, rules)
        assert Exception.message(error) =~ "subscription #{id}"
        assert BeTree.search(tree, %{a: 1}) == {:ok, [1]}
        assert BeTree.info!(tree).expressions == info.expressions
      end

      assert BeTree.insert_all(tree, [{2, "a = 1"}, {3, "a >= 1"}]) == {:ok, 2}
      assert BeTree.search(tree, %{a: 1}) == {:ok, [1, 2, 3]}
    end

    test "other elements than subscriptions are refused with their position", %{tree: tree} do
      for other <- [1, {1}, {1, "true", %{}}, {1, "true", [], []}, nil] do
        assert {:error, %Error{kind: :type, position: 1}} = BeTree.insert_all(tree, [{1, "true"}, other])
      end

      assert BeTree.search(tree, %{a: 1}) == {:ok, []}
    end

    test "works again after ten thousand deletions", %{tree: tree} do
      rules = for id <- 1..10_000, do: {id, "a > #{id} or a = #{-id}"}
      assert BeTree.insert_all(tree, rules) == {:ok, 10_000}
      for id <- 1..10_000//2, do: BeTree.delete!(tree, id)
      assert BeTree.search(tree, %{a: 5_001}) == {:ok, Enum.to_list(2..5_000//2)}
      assert BeTree.info!(tree).expressions == 5_000
      assert BeTree.insert_all(tree, Enum.take_every(rules, 2)) == {:ok, 5_000}
      assert BeTree.search(tree, %{a: 5_001}) == {:ok, Enum.to_list(1..5_000)}
      assert BeTree.search(tree, %{a: -77}) == {:ok, [77]}
    end
  end

  describe "search/3" do
    setup do
      tree = BeTree.new!(a: :integer, s: {:string, optional: true})
      BeTree.insert_all!(tree, for(id <- 1..1_000, do: {id, "a > #{id} or s = 'x#{id}'"}))
      {:ok, tree: tree}
    end

    test "returns only ids of the option :ids", %{tree: tree} do
      assert BeTree.search(tree, %{a: 5}, ids: [7, 3, 3, 1, 99_999]) == {:ok, [1, 3]}
      assert BeTree.search(tree, %{a: 5}, ids: []) == {:ok, []}
      assert {:error, %Error{kind: :missing_attribute}} = BeTree.search(tree, %{}, ids: [])
    end

    test "returns its statistics", %{tree: tree} do
      assert BeTree.search(tree, %{a: 3}) == {:ok, [1, 2]}
      assert {:ok, [1, 2], %BeTree.Stats{} = stats} = BeTree.search(tree, %{a: 3}, stats: true)
      assert stats.fuel > 0 and stats.slices == 1 and stats.visited > 0
      assert {[1, 2], ^stats} = BeTree.search!(tree, %{a: 3}, stats: true)
      assert BeTree.search(tree, %{a: 3}, stats: false) == {:ok, [1, 2]}
    end

    test "search_many/3 has one budget for many events", %{tree: tree} do
      events = [%{a: 2}, [a: 1], {:json, ~s({"a": 3})}]
      assert BeTree.search_many(tree, events) == {:ok, [[1], [], [1, 2]]}
      assert BeTree.search_many(tree, Stream.map(1..2, &%{a: &1}), ids: [1]) == {:ok, [[], [1]]}
      assert BeTree.search_many(tree, []) == {:ok, []}

      fuel = for event <- events, do: tree |> BeTree.search!(event, stats: true) |> elem(1) |> Map.fetch!(:fuel)
      assert {:ok, [_, _, _]} = BeTree.search_many(tree, events, fuel: 2 * Enum.sum(fuel))

      assert {:error, %Error{kind: :out_of_fuel, position: nil}} =
               BeTree.search_many(tree, events, fuel: Enum.max(fuel))

      assert {:error, %Error{kind: :type, position: 1}} = BeTree.search_many(tree, [%{a: 1}, %{a: "1"}])
      assert {:error, %Error{kind: :type, position: 0}} = BeTree.search_many(tree, [%{a: "1"}])

      for {events, kind} <- [{%{a: 1}, "a map of 1 key"}, {5, "an integer"}, {"a", "a string of 1 byte"}] do
        assert {:error, %Error{kind: :type, message: message}} = BeTree.search_many(tree, events)
        assert message == "events are a list or a stream, got: #{kind}"
      end

      assert {:error, %Error{kind: :type, message: message}} = BeTree.search(tree, 5)
      assert message =~ ~r/, got: an integer$/
      assert {:error, %Error{kind: :syntax, position: 0}} = BeTree.search_many(tree, [{:json, "{"}])
      assert {:error, %Error{position: 0}} = BeTree.search_many(tree, [self()])
      assert {:error, %Error{kind: :out_of_fuel, position: nil}} = BeTree.search_many(tree, [%{a: 1}], fuel: 10)
      assert BeTree.search_many(tree, [%{a: 3}], ids: [2]) == {:ok, [[2]]}
      assert_raise Error, fn -> BeTree.search_many!(tree, [%{}]) end
      assert_raise ArgumentError, fn -> BeTree.search_many(tree, events, stats: true) end
    end

    test "wrong options raise", %{tree: tree} do
      for options <- [
            [fule: 1],
            [fuel: 0],
            [fuel: 1.5],
            [slice: -1],
            [slice: :none],
            [timeout: -1],
            [timeout: 1.0],
            [ids: :all],
            [ids: :infinity],
            [ids: [1 | 2]],
            [stats: 1],
            [:stats]
          ] do
        assert_raise ArgumentError, fn -> BeTree.search(tree, %{a: 1}, options) end
      end
    end

    test "50 concurrent processes search one tree", %{tree: tree} do
      found =
        1..50
        |> Task.async_stream(fn a -> for _ <- 1..20, do: BeTree.search!(tree, %{a: a}, slice: 2_000) end,
          max_concurrency: 50
        )
        |> Enum.map(fn {:ok, lists} -> Enum.uniq(lists) end)

      assert found == for(a <- 1..50, do: [Enum.to_list(1..(a - 1)//1)])
    end
  end

  test "inspect/1 of a tree shows its expressions and its memory" do
    tree = BeTree.new!(a: :integer)
    assert inspect(tree) =~ ~r/^#BeTree<0 expressions, \d+\.\d MB>$/
    BeTree.insert!(tree, 1, "a = 1")
    assert inspect(tree) =~ ~r/^#BeTree<1 expression, /
    BeTree.insert_all!(tree, [{2, "a = 1"}, {3, "a = 2"}])
    assert inspect(tree) =~ ~r/^#BeTree<3 expressions, /
  end

  test "info/2 counts expressions and bytes" do
    tree = BeTree.new!(a: :integer)
    {:ok, empty} = BeTree.info(tree)
    assert empty.expressions == 0

    assert empty |> Map.keys() |> Enum.sort() ==
             ~w(code_bytes depth entries expressions memory_bytes nodes predicates strings unindexed)a

    BeTree.insert_all!(tree, for(id <- 1..50_000, do: {id, "a > #{id} and a < #{id + 9}"}))
    {:ok, full} = BeTree.info(tree)
    assert full.expressions == 50_000
    assert full.memory_bytes > empty.memory_bytes
  end
end

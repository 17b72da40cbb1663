defmodule BeTree.Search.BatchTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Eventually

  alias BeTree.{Error, Event}
  alias BeTree.Test.{Json, Random}

  defp random_tree(seed, expressions) do
    :rand.seed(:exsss, seed)
    domains = Random.schema() ++ for number <- 1..8, do: {"dense#{number}", {:boolean, [optional: true]}}
    tree = BeTree.new!(domains)
    random = for id <- 1..expressions, do: {id, if(rem(id, 2) == 0, do: dense(3), else: Random.expression(domains))}
    BeTree.insert_all!(tree, Random.subscriptions(random))
    {tree, domains, random}
  end

  # Boolean attributes alone offer the index no selective access predicate.
  defp dense(0), do: {:variable, "dense#{Enum.random(1..8)}"}

  defp dense(depth) do
    case :rand.uniform(5) do
      1 -> {:not, dense(depth - 1)}
      n when n < 4 -> {:or, dense(depth - 1), dense(depth - 1)}
      _ -> {:and, dense(depth - 1), dense(depth - 1)}
    end
  end

  defp event(domains) do
    Random.event(domains) ++
      for {"dense" <> _ = name, _} <- domains, :rand.uniform(3) > 1, do: {name, :rand.uniform(2) == 1}
  end

  defp events(domains, count), do: for(_ <- 1..count, do: domains |> event() |> Enum.uniq_by(&elem(&1, 0)))

  defp matches(expressions, event) do
    Random.matches(expressions, Map.new(event))
  end

  defp encode(event, tree, domains) do
    case :rand.uniform(5) do
      1 -> Map.new(event)
      2 -> event
      3 -> {:json, Json.encode(event)}
      4 -> {:record, for({name, _spec} <- domains, do: Map.new(event)[name])}
      5 -> Event.prepare!(tree, event)
    end
  end

  defp ids(bitmap), do: for(<<byte <- bitmap>>, bit <- 0..7, do: Bitwise.band(Bitwise.bsr(byte, bit), 1)) |> ones()
  defp ones(bits), do: for({1, id} <- Enum.with_index(bits), do: id)

  test "batches of every size return the ids of the oracle, for every form, slice and :ids" do
    for {count, seed} <- Enum.with_index([1, 15, 16, 100, 256, 257, 600]) do
      {tree, domains, expressions} = random_tree(seed, 200)
      events = events(domains, count)
      expected = Enum.map(events, &matches(expressions, &1))
      encoded = Enum.map(events, &encode(&1, tree, domains))

      assert BeTree.search_many(tree, encoded) == {:ok, expected}
      assert BeTree.search_many(tree, encoded, slice: 1_000) == {:ok, expected}
      packed = for ids <- expected, do: for(id <- ids, into: <<>>, do: <<id::little-64>>)
      assert BeTree.search_many(tree, encoded, as: :binary) == {:ok, packed}
      assert Enum.map(BeTree.search_many!(tree, encoded, as: :bitmap), &ids/1) == expected
      half = Enum.take_every(1..200, 2)

      assert BeTree.search_many(tree, encoded, ids: half) ==
               {:ok, Enum.map(expected, fn ids -> Enum.filter(ids, &(&1 in half)) end)}

      answers = for {event, ids} <- Enum.zip(encoded, expected), do: {event, {:ok, ids}}
      assert Enum.to_list(BeTree.stream(tree, encoded)) == answers
      assert Enum.to_list(BeTree.stream(tree, encoded, fuel: 100_000_000, timeout: 60_000)) == answers
      assert Enum.to_list(BeTree.stream(tree, encoded, max_concurrency: 3, slice: 5_000)) == answers

      for {event, ids, packed} <- Enum.zip([encoded, expected, packed]) |> Enum.take(20) do
        assert BeTree.search(tree, event) == {:ok, ids}
        assert BeTree.search(tree, event, as: :binary) == {:ok, packed}
        assert tree |> BeTree.search!(event, as: :bitmap) |> ids() == ids
      end
    end
  end

  describe "large results" do
    setup do
      tree = BeTree.new!(a: :integer, b: :boolean)
      BeTree.insert_all!(tree, for(id <- 1..20_000, do: {id, "a > 0 and not (b and a > #{id})"}))
      {:ok, tree: tree}
    end

    test "are returned in parts", %{tree: tree} do
      events = for a <- [0, 1, 5, 0, 20_001, 7], b <- [true, false], do: %{a: a, b: b}
      expected = Enum.map(events, &BeTree.search!(tree, &1))
      assert expected |> Enum.map(&length/1) |> Enum.sum() > 100_000
      assert BeTree.search_many!(tree, events) == expected
      assert BeTree.search_many!(tree, events, slice: 10_000) == expected
      assert Enum.map(BeTree.search_many!(tree, events, as: :bitmap), &ids/1) == expected
    end

    test "restore the heap settings of the caller", %{tree: tree} do
      settings = fn -> Process.info(self(), :garbage_collection) |> elem(1) |> Keyword.delete(:minor_gcs) end
      before = settings.()
      events = for a <- 1..40, do: %{a: a, b: true}
      assert BeTree.search_many!(tree, events) |> List.flatten() |> length() > 100_000
      assert {:error, %{position: 39}} = BeTree.search_many(tree, List.replace_at(events, 39, %{}))
      assert settings.() == before
    end

    test "are complete when other calls intervene", %{tree: tree} do
      events = for a <- 1..40, do: %{a: a, b: true}
      expected = Enum.map(events, &BeTree.search!(tree, &1))

      tasks =
        for _ <- 1..4 do
          Task.async(fn ->
            for _ <- 1..5, do: assert(BeTree.search_many!(tree, events) == expected)
            assert BeTree.search!(tree, %{a: 0, b: true}) == []
          end)
        end

      Task.await_many(tasks, 60_000)
    end

    test "do not grow the memory", %{tree: tree} do
      events = for a <- 1..300, do: %{a: a, b: true}
      BeTree.search_many!(tree, events, as: :binary)
      %{memory_bytes: before} = BeTree.info!(tree)
      for _ <- 1..3, do: BeTree.search_many!(tree, events, as: :binary)
      assert BeTree.info!(tree).memory_bytes == before
    end
  end

  describe "an invalid event" do
    setup do
      tree = BeTree.new!(a: :integer, b: {:string, optional: true})
      BeTree.insert_all!(tree, for(id <- 1..100, do: {id, "a >= #{id}"}))
      {:ok, tree: tree}
    end

    @bad [
      {%{}, :missing_attribute},
      {{:json, ~s({"a": 1, "b": })}, :syntax},
      {%{a: "1"}, :type},
      {:none, :type},
      {7, :type}
    ]

    test "ends search_many/3 with its position", %{tree: tree} do
      for {bad, kind} <- @bad, count <- [1, 20, 300, 600], position <- [0, div(count, 2), count - 1] do
        events = for n <- 0..(count - 1), do: if(n == position, do: bad, else: %{a: n})
        assert {:error, %Error{kind: ^kind, position: ^position}} = BeTree.search_many(tree, events)
        # A later fault makes no difference.
        assert {:error, %Error{kind: ^kind, position: ^position}} = BeTree.search_many(tree, events ++ [:later, %{}])
      end
    end

    test "has its column and no text", %{tree: tree} do
      events = List.duplicate(%{a: 1}, 20) ++ [{:json, ~s({"a": oops})}]
      {:error, error} = BeTree.search_many(tree, events)
      assert {error.position, error.column, error.text} == {20, 7, nil}
    end

    test "is one result of a stream, between those of the other events", %{tree: tree} do
      for {bad, kind} <- @bad, count <- [1, 20, 600], concurrency <- [1, 2] do
        bad_at = MapSet.new([0, div(count, 3), div(count, 2), count - 1])
        events = for n <- 0..(count - 1), do: if(n in bad_at, do: bad, else: %{a: rem(n, 120)})
        {streamed, answers} = tree |> BeTree.stream(events, max_concurrency: concurrency) |> Enum.unzip()
        assert streamed == events
        budget = [max_concurrency: concurrency, timeout: 60_000]

        assert tree |> BeTree.stream(events, budget) |> Enum.map(&elem(elem(&1, 1), 0)) ==
                 Enum.map(answers, &elem(&1, 0))

        for {answer, n} <- Enum.with_index(answers) do
          if n in bad_at,
            do: assert({:error, %Error{kind: ^kind, position: nil}} = answer),
            else: assert(answer == {:ok, Enum.to_list(1..min(rem(n, 120), 100)//1)})
        end
      end
    end
  end

  describe "budgets and timeouts" do
    setup do
      tree = BeTree.new!(a: :integer)
      BeTree.insert_all!(tree, for(id <- 1..2_000, do: {id, "a <> #{id}"}))
      {:ok, tree: tree, events: for(a <- 1..600, do: %{a: a})}
    end

    test "of search_many/3 hold for all events together", %{tree: tree, events: events} do
      for options <- [[fuel: 1], [fuel: 1_000_000], [fuel: 1_000_000, slice: 10_000]] do
        assert {:error, %Error{kind: :out_of_fuel, position: nil}} = BeTree.search_many(tree, events, options)
      end

      assert {:error, %Error{kind: :timeout, position: nil}} =
               BeTree.search_many(tree, events, timeout: 1, slice: 1_000)

      assert {:ok, answers} = BeTree.search_many(tree, events, timeout: 60_000, fuel: 1_000_000_000)
      assert length(answers) == 600
    end

    test "charge the caller reductions for fuel", %{tree: tree, events: events} do
      reductions = fn tree ->
        Task.async(fn ->
          {:reductions, before} = Process.info(self(), :reductions)
          BeTree.search_many!(tree, events, as: :bitmap)
          {:reductions, later} = Process.info(self(), :reductions)
          later - before
        end)
        |> Task.await(:infinity)
      end

      cheap = %{tree | fuel_per_reduction: 1_000_000_000}
      assert reductions.(tree) > 5 * reductions.(cheap)
    end
  end

  describe "streams" do
    setup do
      tree = BeTree.new!(a: :integer)
      BeTree.insert!(tree, 1, "a > 0")
      {:ok, tree: tree}
    end

    test "consume events lazily and hold a bounded number", %{tree: tree} do
      me = self()

      events =
        Stream.map(Stream.iterate(1, &(&1 + 1)), fn n ->
          send(me, {:event, n})
          %{a: n}
        end)

      for concurrency <- [1, 2] do
        stream = BeTree.stream(tree, events, max_concurrency: concurrency)
        refute_received {:event, _}
        assert Enum.take(stream, 300) == for(n <- 1..300, do: {%{a: n}, {:ok, [1]}})
        assert taken() <= 256 * (2 + 2 * concurrency)
      end
    end

    defp taken do
      receive do
        {:event, _n} -> 1 + taken()
      after
        0 -> 0
      end
    end

    test "end their processes when the consumer halts", %{tree: tree} do
      events = Stream.cycle([%{a: 1}])
      before = links()
      assert [{%{a: 1}, {:ok, [1]}}] = tree |> BeTree.stream(events, max_concurrency: 4) |> Enum.take(1)
      # A process ends shortly after its result was taken.
      eventually(fn -> links() == before end)
      assert tree |> BeTree.stream(events, max_concurrency: 4) |> Enum.take(3_000) |> length() == 3_000
      eventually(fn -> links() == before end)

      assert_raise RuntimeError, fn ->
        tree |> BeTree.stream(events, max_concurrency: 4) |> Stream.drop(2_000) |> Enum.each(fn _ -> raise "enough" end)
      end

      eventually(fn -> links() == before end)
      assert BeTree.search(tree, %{a: 1}) == {:ok, [1]}
    end

    defp links do
      {:links, links} = Process.info(self(), :links)
      Enum.sort(links)
    end

    test "search few events first", %{tree: tree} do
      me = self()

      events =
        Stream.map(1..10_000, fn a ->
          send(me, {:event, a})
          %{a: a}
        end)

      assert [_] = tree |> BeTree.stream(events, max_concurrency: 2) |> Enum.take(1)
      assert taken() == 1
      assert [_, _, _] = tree |> BeTree.stream(events, max_concurrency: 2) |> Enum.take(3)
      assert taken() == 3
    end

    test "of a list return the same pairs to consumers that pause, halt or drop", %{tree: tree} do
      for length <- [0, 1, 6, 7, 8, 9, 15, 16, 300], concurrency <- [1, 2], options <- [[], [timeout: 60_000]] do
        events = for a <- 1..length//1, do: if(rem(a, 7) == 6, do: %{}, else: %{a: 2 - rem(a, 3)})
        stream = BeTree.stream(tree, events, [max_concurrency: concurrency] ++ options)
        pairs = for event <- events, do: {event, BeTree.search(tree, event)}
        assert Enum.to_list(stream) == pairs
        # Stream.zip pauses both sides after each pair.
        assert Enum.zip(stream, stream) == Enum.zip(pairs, pairs)
        for some <- [1, 7, 8, 20], do: assert(Enum.take(stream, some) == Enum.take(pairs, some))
        assert stream |> Stream.drop(8) |> Enum.to_list() == Enum.drop(pairs, 8)
        assert stream |> Stream.chunk_every(3) |> Enum.concat() == pairs
      end
    end

    test "apply the budget and the timeout to each event", %{tree: tree} do
      BeTree.insert_all!(tree, for(id <- 2..2_000, do: {id, "a <> #{id}"}))
      {:ok, _ids, %{fuel: fuel}} = BeTree.search(tree, %{a: 1}, stats: true)
      events = for a <- 1..600, do: %{a: a}

      for concurrency <- [1, 2] do
        enough = BeTree.stream(tree, events, fuel: 2 * fuel, max_concurrency: concurrency)
        assert Enum.all?(enough, &match?({_event, {:ok, [_ | _]}}, &1))
        little = BeTree.stream(tree, events, fuel: div(fuel, 10), max_concurrency: concurrency)
        assert Enum.all?(little, &match?({_event, {:error, %Error{kind: :out_of_fuel, position: nil}}}, &1))
        late = BeTree.stream(tree, events, timeout: 0, slice: 1_000, max_concurrency: concurrency)
        assert Enum.all?(late, &match?({_event, {:error, %Error{kind: :timeout, position: nil}}}, &1))
      end
    end

    test "refuse wrong options", %{tree: tree} do
      for options <- [[max_concurrency: 0], [max_concurrency: :all], [fuel: 0], [timeout: -1], [as: :tuple], [slice: 0]] do
        assert_raise ArgumentError, fn -> BeTree.stream(tree, [], options) end
      end
    end
  end

  describe "prepared events" do
    test "fit trees with the same attributes and other bounds" do
      tree = BeTree.new!(a: {:integer, min: 0, max: 9}, b: {:string, optional: true})
      same = BeTree.new!(a: :integer, b: {:string, optional: true, count: 3})
      BeTree.insert!(same, 1, "b = 'x' and a = 3")
      {:ok, event} = Event.prepare(tree, {:json, ~s({"a": 3, "b": "x"})})
      assert BeTree.search(same, event) == {:ok, [1]}
      assert BeTree.explain!(same, event, 1).match

      for domains <- [
            [a: :integer],
            [a: :integer, b: :string],
            [b: {:string, optional: true}, a: :integer],
            [a: :integer, c: {:string, optional: true}],
            [a: :integer_enum, b: {:string, optional: true}]
          ] do
        assert {:error, %Error{kind: :type}} = BeTree.search(BeTree.new!(domains), event)
      end
    end

    test "are refused like other events" do
      tree = BeTree.new!(a: :integer)
      assert {:error, %Error{kind: :missing_attribute, attribute: "a"}} = Event.prepare(tree, %{})
      assert {:error, %Error{kind: :syntax, column: 2, text: nil}} = Event.prepare(tree, {:json, "{"})
      assert {:error, %Error{kind: :type}} = Event.prepare(tree, 7)
      assert_raise Error, fn -> Event.prepare!(tree, %{}) end
      %{bytes: bytes} = prepared = Event.prepare!(tree, %{a: 1})
      assert {:error, %Error{kind: :type}} = BeTree.search(tree, %{prepared | bytes: ""})
      cut = %{prepared | bytes: binary_part(bytes, 0, byte_size(bytes) - 1)}
      assert {:error, %Error{kind: :syntax}} = BeTree.search(tree, cut)
    end

    test "can be large" do
      tree = BeTree.new!(a: :string_list)
      BeTree.insert!(tree, 1, "'12345' in a")
      event = %{a: for(n <- 1..20_000, do: Integer.to_string(n))}
      assert BeTree.search(tree, Event.prepare!(tree, event)) == {:ok, [1]}
    end
  end

  test "a module that returns too few or too many lists is an error of kind :bad_module" do
    tree = BeTree.new!([], guest: BeTree.Test.WasmGuest.assemble([]))

    for as <- [:list, :binary],
        do: assert({:error, %Error{kind: :bad_module}} = BeTree.search_many(tree, [%{}, %{}], as: as))

    assert [{%{}, {:error, %Error{kind: :bad_module}}}, {%{}, {:error, %Error{kind: :bad_module}}}] =
             [%{}, %{}] |> Stream.map(& &1) |> then(&BeTree.stream(tree, &1)) |> Enum.to_list()
  end

  test "a bitmap refuses ids above its limit" do
    tree = BeTree.new!(a: :boolean, b: :boolean)
    BeTree.insert_all!(tree, [{1_048_575, "a"}, {1_048_576, "b"}])
    {:ok, bitmap} = BeTree.search(tree, %{a: true, b: false}, as: :bitmap)
    assert {byte_size(bitmap), :binary.decode_unsigned(bitmap, :little)} == {131_072, Integer.pow(2, 1_048_575)}
    assert {:error, %Error{kind: :out_of_bounds}} = BeTree.search(tree, %{a: true, b: true}, as: :bitmap)
    events = [%{a: true, b: false}, %{a: false, b: true}]
    assert {:error, %Error{kind: :out_of_bounds, position: 1}} = BeTree.search_many(tree, events, as: :bitmap)
    assert BeTree.search_many(tree, events, as: :binary) == {:ok, [<<1_048_575::little-64>>, <<1_048_576::little-64>>]}
  end
end

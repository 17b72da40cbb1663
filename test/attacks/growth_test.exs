defmodule BeTree.Attacks.GrowthTest do
  @moduledoc false
  # Fuel and memory of a change are linear in its text, for every kind of expression and any content of the tree.
  use ExUnit.Case, async: true

  alias BeTree.Pattern
  alias BeTree.Test.{Attack, Metered}

  # Bounds on the fuel of a text twice as long: a factor above 2, because tables grow in steps, and a constant, because a
  # test for free memory above 128 KB clears pieces.
  @max_growth 2.4
  @constant_fuel 1_000_000

  @schema [
            i: :integer,
            j: :integer,
            f: :float,
            s: :string,
            l: :integer_list,
            sl: :string_list,
            ip: :ip,
            b: :boolean,
            latitude: :float,
            longitude: :float,
            now: :integer,
            segments_with_timestamp: :segments,
            frequency_caps: :frequency_caps,
            rows: {:list, [x: :integer, y: :string]}
          ] ++ for(n <- 1..20, do: {:"o#{n}", {:integer, optional: true}})

  @constants [flight_id: 10]

  # For each kind: the maximum fuel and bytes of an alternative, the text of an alternative by its number, and an event that
  # makes the second alternative true.
  @alternatives [
    integers: {33_000, 3_500, "i = ?", %{i: 2}},
    strings: {35_000, 3_500, "s = 'v?'", %{s: "v2"}},
    in: {46_000, 4_500, "i in (?, -?)", %{i: 2}},
    starts: {38_000, 4_100, "starts_with(s, 'v?x')", %{s: "v2xyz"}},
    ends: {37_000, 4_500, "ends_with(s, 'x?v')", %{s: "zx2v"}},
    contains: {16_000, 2_500, "contains(s, 'word ? ')", %{s: "a word 2 of it"}},
    like: {40_000, 4_000, "s like 'a*b?c*d'", %{s: "axb2cxd"}},
    lower: {41_000, 4_000, "lower(s) = 'v?'", %{s: "V2"}},
    contains_lower: {18_000, 3_000, "contains(lower(s), 'word ? ')", %{s: "A WORD 2 OF IT"}},
    matches: {30_000, 6_000, "s matches 'ab?c+d'", %{s: "ab2cccd"}},
    network: {42_000, 4_500, "ip in ('2001:db8:?::/48')", %{ip: "2001:db8:2::1"}},
    lists: {43_000, 3_000, "l one of (?, -?)", %{l: [2]}},
    all_of: {14_000, 3_000, "sl all of ('v?', 'w')", %{sl: ["v2", "w"]}},
    floats: {10_000, 2_500, "f = ?.5", %{f: 2.5}},
    ranges: {117_000, 4_000, "(i > ?0 and i < ?5)", %{i: 22}},
    wide_ranges: {66_000, 4_000, "(i > ? and i < ?00)", %{i: 100}},
    pairs: {54_000, 4_000, "(i = ? and s = 'v?')", %{i: 2, s: "v2"}},
    negations: {58_000, 4_500, "(not (i = ?) and s = 'v?')", %{i: 1, s: "v2"}},
    beside_one: {70_000, 4_000, "(i = 1 and s = 'v?')", %{i: 1, s: "v2"}},
    beside_two: {101_000, 5_500, "(i = 1 and j > ? and j < ?1)", %{i: 1, j: 3}},
    arithmetic: {20_000, 4_500, "i * ? + j = ?", %{i: 0, j: 2}},
    objects: {27_000, 6_000, "any rows (x = ? and y = 'v?')", %{rows: [%{x: 2, y: "v2"}]}},
    circles: {38_000, 5_000, "geo_within_radius(?.1, 1.?, 10)", %{latitude: 2.1, longitude: 1.2}},
    segments: {11_000, 2_500, "segment_within(?, 20)", %{segments_with_timestamp: [{2, 1_000_000}], now: 1}}
  ]

  # Other shapes, with the maximum fuel of an insertion for each byte.
  @shapes [
    conjunction: 1_200,
    conjunction_of_disjunctions: 1_100,
    wide_conjunction_beside_a_disjunction: 1_600,
    disjunction_of_lists_of_exceptions: 2_100,
    nested: 2_200,
    nested_without_literals: 1_300,
    repeated: 3_200,
    long_string: 400,
    long_list: 700,
    long_list_in_each_part: 900,
    frequency_caps: 300,
    parentheses: 1_400,
    negations: 1_100
  ]

  defp shape(:conjunction, n), do: join(n, " and ", "i <> ?")
  defp shape(:conjunction_of_disjunctions, n), do: join(n, " and ", "(i = ? or s = 'v?')")

  defp shape(:wide_conjunction_beside_a_disjunction, n),
    do: join(n, " and ", "i > ?") <> " and (" <> join(n, " or ", "s = 'v?'") <> ")"

  defp shape(:disjunction_of_lists_of_exceptions, n),
    do: "i not in (" <> join(n, ", ", "?") <> ") and (" <> join(n, " or ", "s = 'v?'") <> ")"

  defp shape(:nested, n), do: Enum.reduce(1..n, "i = 0", &"(j = 1 and (s = 'v#{&1}' or #{&2}))")

  defp shape(:nested_without_literals, n),
    do: Enum.reduce(1..n, "(i = 0 or j = 0)", &"(s = 'v#{&1}' or (s = 'a' or f > 1.5) and #{&2})")

  defp shape(:repeated, n), do: join(n, " or ", "i = 1 and s = 'v'")
  defp shape(:long_string, n), do: "contains(s, '" <> String.duplicate("abcdefgh", n) <> "')"
  defp shape(:long_list, n), do: "l one of (" <> join(n, ", ", "?") <> ")"

  defp shape(:long_list_in_each_part, n) do
    list = join(div(n, 10), ", ", "?")
    join(10, " or ", "(i in (#{list}) and s = 'v?')")
  end

  defp shape(:frequency_caps, n), do: join(n, " or ", "within_frequency_cap('flight', 'ns?', 100, 0)")
  defp shape(:parentheses, n), do: String.duplicate("(", n) <> "i = 1" <> String.duplicate(")", n)
  defp shape(:negations, n), do: String.duplicate("not ", n) <> "i = 1"

  defp part(template, number), do: String.replace(template, "?", "#{number}")
  defp join(count, by, template), do: Enum.map_join(1..count, by, &part(template, &1))

  # A tree with `count` expressions. Every other one shares its value with the expressions under test.
  defp tree(template, count) do
    tree = BeTree.new!(@schema, runtime: Metered)

    for id <- 1..count//1 do
      text = part(template, if(rem(id, 2) == 0, do: id, else: 8_000 + id))
      BeTree.insert!(tree, 1_000 + id, text, constants: @constants)
    end

    tree
  end

  # Returns the fuel of inserting `text`, replacing it by itself, explaining it, and deleting it.
  defp fuels(tree, text) do
    run = fn change ->
      {result, fuel} = Metered.measure(change)
      refute match?({:error, _}, result)
      fuel
    end

    [
      insert: run.(fn -> BeTree.insert(tree, 1, text, constants: @constants) end),
      # In a large tree one of several changes rebuilds a node, at the cost of its content.
      put: Enum.min(for _ <- 1..2, do: run.(fn -> BeTree.put(tree, 1, text, constants: @constants) end)),
      explain: run.(fn -> BeTree.explain(tree, event(), 1) end),
      delete: run.(fn -> BeTree.delete(tree, 1) end)
    ]
  end

  # Adds the other required attributes to `values`.
  defp event(values \\ %{}) do
    %{i: 0, j: 0, f: 0.0, s: "", l: [], sl: [], ip: "10.0.0.1", b: false, latitude: 0.0, longitude: 0.0, now: 0}
    |> Map.merge(%{segments_with_timestamp: [], frequency_caps: [], rows: []})
    |> Map.merge(values)
  end

  defp check_doubled(what, fuels, doubled) do
    for {{change, fuel}, {change, more}} <- Enum.zip(fuels, doubled) do
      assert more <= @max_growth * fuel + @constant_fuel,
             "#{change} of #{what}: #{fuel} fuel, and #{more} of twice as much"
    end
  end

  defp bytes(tree), do: BeTree.info!(tree).memory_bytes

  for {name, {fuel, bytes, template, values}} <- @alternatives do
    @template template
    @values Macro.escape(values)

    test "many alternatives of #{name} are found at linear cost" do
      for held <- Attack.size([0, 1, 50], [0, 1, 50, 1_000]) do
        [fewer, more] = for n <- [400, 800], do: fuels(tree(@template, held), join(n, " or ", @template))
        check_doubled("#{unquote(name)} beside #{held}", fewer, more)
        assert div(more[:insert], 800) <= unquote(fuel), "#{div(more[:insert], 800)} fuel beside #{held}"
      end

      tree = tree(@template, 0)
      before = bytes(tree)
      BeTree.insert!(tree, 99, "true")
      assert BeTree.insert(tree, 1, join(2_500, " or ", @template), constants: @constants) == :ok
      assert div(bytes(tree) - before, 2_500) <= unquote(bytes)
      assert BeTree.search(tree, event(unquote(@values))) == {:ok, [1, 99]}
      refute 1 in BeTree.search!(tree, event(%{i: -5_000_000, now: 9_000_000}))
      assert BeTree.delete(tree, 1) == :ok
      assert BeTree.search(tree, event(unquote(@values))) == {:ok, [99]}
    end
  end

  for {name, fuel} <- @shapes do
    test "an expression of the shape #{name} has linear cost" do
      for held <- [0, 50] do
        texts = for n <- [400, 800], do: shape(unquote(name), n)
        [fewer, more] = for text <- texts, do: fuels(tree("i = ? and s = 'v?' and j > ?", held), text)
        check_doubled("#{unquote(name)} beside #{held}", fewer, more)
        assert div(more[:insert], byte_size(List.last(texts))) <= unquote(fuel)
      end
    end
  end

  test "every function that inserts accepts thousands of alternatives" do
    text = join(2_500, " or ", "i = ?")
    tree = BeTree.new!(i: :integer, s: :string)
    assert BeTree.insert(tree, 99, "true") == :ok
    assert BeTree.put(tree, 1, text) == :ok
    assert BeTree.put(tree, 1, text) == :ok
    # The last of many, and one rolled back.
    assert {:ok, _ids} = BeTree.insert_all(tree, for(id <- 2..40, do: {id, "i = -#{id}"}) ++ [{50, text}])
    assert {:error, %{position: 1}} = BeTree.insert_all(tree, [{51, text}, {52, "i ="}])
    assert BeTree.search(tree, %{i: 14, s: ""}) == {:ok, [1, 50, 99]}
    assert BeTree.search(tree, %{i: -14, s: ""}) == {:ok, [14, 99]}

    pattern = Pattern.to_expression!(%{"s" => for(n <- 1..3_000, do: %{"prefix" => "v#{n}x"})})
    assert BeTree.insert(tree, 60, pattern) == :ok
    assert BeTree.search(tree, %{i: -1, s: "v2xyz"}) == {:ok, [60, 99]}
  end

  test "erl_betree takes thousands of alternatives" do
    {:ok, tree} = :erl_betree.betree_make([[{:i, :int, :disallow_undefined}]])

    for {id, text} <- [{1, join(2_500, " or ", "i = ?")}, {2, "i = 14"}] do
      {:ok, sub} = :erl_betree.betree_make_sub(tree, id, [], text)
      assert :erl_betree.betree_insert_sub(tree, sub) == :ok
    end

    assert :erl_betree.betree_search(tree, [{:event, 14}]) == {:ok, [1, 2]}
  end

  test "large expressions that share their values cost as much as others" do
    [fewer, more] =
      for n <- [100, 200] do
        tree = BeTree.new!(@schema, runtime: Metered)
        texts = for k <- 1..40, do: join(n, " or ", "i = ? and s = 'v?-#{k}'")
        insert = fn -> for {text, id} <- Enum.with_index(texts), do: :ok = BeTree.insert(tree, id, text) end
        {_, fuel} = Metered.measure(insert)
        assert BeTree.search(tree, event(%{i: 7, s: "v7-3"})) == {:ok, [2]}
        {_, deletion} = Metered.measure(fn -> for id <- 0..39, do: :ok = BeTree.delete(tree, id) end)
        [insert: fuel, delete: deletion]
      end

    check_doubled("40 large expressions", fewer, more)
  end

  test "merging many ranges has linear cost" do
    [fewer, more] =
      for n <- [200, 400] do
        tree = BeTree.new!(@schema, runtime: Metered)
        texts = for k <- 1..8, do: join(n, " or ", "i > ?#{k}0 and i < ?#{k}9")
        for {text, id} <- Enum.with_index(texts), do: :ok = BeTree.insert(tree, id, text)
        {_, fuel} = Metered.measure(fn -> for id <- 0..6, do: :ok = BeTree.delete(tree, id) end)
        assert BeTree.search(tree, event(%{i: 3_085})) == {:ok, [7]}
        [delete: fuel]
      end

    check_doubled("7 expressions of ranges", fewer, more)
  end

  test "a conjunction of lists is not expanded into their product" do
    tree = BeTree.new!(@schema, runtime: Metered)

    text = fn n, lists ->
      Enum.map_join(1..lists, " and ", &"o#{&1} in (1, 2, 3, 4, 5, 6, 7, 8)") <> " and s <> 'v#{n}'"
    end

    for {lists, from} <- [{3, 0}, {6, 100}, {12, 200}] do
      {_, fuel} = Metered.measure(fn -> for n <- 1..100, do: :ok = BeTree.insert(tree, from + n, text.(n, lists)) end)
      assert fuel < 600_000_000
    end

    values = for n <- 1..12, into: %{}, do: {:"o#{n}", rem(n, 8) + 1}
    assert length(BeTree.search!(tree, event(values))) == 300
    assert length(BeTree.search!(tree, event(Map.merge(values, %{o12: 9, s: "v7"})))) == 198
    assert bytes(tree) < 8_000_000
    for id <- 1..300, do: :ok = BeTree.delete(tree, id)
  end

  test "expressions with many parts of strings take linear memory" do
    [few, many] =
      for parts <- [5, 60] do
        tree = BeTree.new!(h: :string)
        before = bytes(tree)
        for n <- 1..300, do: BeTree.insert!(tree, n, join(parts, " or ", "contains(lower(h), 'w#{n}x? ')"))
        bytes(tree) - before
      end

    assert many <= 12 * few
    assert many <= 300 * 60 * 400
  end

  test "a rule with thousands of long parts takes a few megabytes" do
    tree = BeTree.new!(h: :string)
    before = bytes(tree)
    long = String.duplicate("a part of a command line ", 2)
    assert BeTree.insert(tree, 1, join(4_432, " or ", "contains(h, '#{long}?x')")) == :ok
    assert bytes(tree) - before < 17_000_000
    assert BeTree.search(tree, %{h: "x #{long}77x"}) == {:ok, [1]}
  end

  test "100,000 alternatives take about 2 billion fuel" do
    tree = BeTree.new!([i: :integer], runtime: Metered)
    {result, fuel} = Metered.measure(fn -> BeTree.insert(tree, 1, join(100_000, " or ", "i = ?")) end)
    assert result == :ok
    assert fuel < 2_000_000_000
    assert BeTree.search(tree, %{i: 77_777}) == {:ok, [1]}
  end
end

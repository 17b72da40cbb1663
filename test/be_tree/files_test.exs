defmodule BeTree.FilesTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Files

  alias BeTree.{Domain, Files}
  alias BeTree.Files.Terms

  doctest BeTree.Files

  @moduletag :tmp_dir

  defp message({:error, %Files.Error{} = error}, folder) do
    error |> Exception.message() |> String.replace(folder <> "/", "")
  end

  defp message_of_events(path, folder) do
    error = assert_raise Files.Error, fn -> path |> Files.events() |> Stream.run() end
    message({:error, error}, folder)
  end

  describe "Erlang terms" do
    test "declare every type of attribute with its bounds", %{tmp_dir: folder} do
      path =
        write(folder, "exprs", """
        [{a,bool,disallow_undefined}, {b,int,allow_undefined,-5,10}, {c,int64,allow_undefined}, {'d-1',int_enum,allow_undefined,9},
         {e,float,allow_undefined,0,1.5},{f,bin,disallow_undefined,20}, {g,int_list,allow_undefined,1,2},
         {h,bin_list,allow_undefined,3},{i,segments,allow_undefined},{j,frequency_caps,allow_undefined}].
        """)

      assert {:ok, domains, []} = Files.load(path)

      assert domains == [
               %Domain{name: "a", type: :boolean},
               %Domain{name: "b", type: :integer, optional: true, min: -5, max: 10},
               %Domain{name: "c", type: :integer, optional: true},
               %Domain{name: "d-1", type: :integer_enum, optional: true, count: 9},
               %Domain{name: "e", type: :float, optional: true, min: 0.0, max: 1.5},
               %Domain{name: "f", type: :string, count: 20},
               %Domain{name: "g", type: :integer_list, optional: true, min: 1, max: 2},
               %Domain{name: "h", type: :string_list, optional: true, count: 3},
               %Domain{name: "i", type: :segments, optional: true},
               %Domain{name: "j", type: :frequency_caps, optional: true}
             ]
    end

    test "have expressions with ids from 1 in any layout", %{tmp_dir: folder} do
      path =
        write(folder, "exprs", """
        % comments and line ends may stand between tokens
        [{a,bool,disallow_undefined}
         %% and here
        ].
        <<"a">>. <<"not a">>.\t<<"a or
        """)

      assert message(Files.load(path), folder) =~ ~r/\Aexprs:5:30: expected the closing " in this line\n/

      path =
        write(folder, "exprs", """
        % comments and line ends may stand between tokens
        [{a,bool,disallow_undefined}
         %% and here
        ].
        <<"a">>. <<"not a">>.\t<<"a or "
          "not a">>

        . <<"s = \\"é\\\\\\x{e9}\\303\\""/utf8>>. % the end
        <<97,32,111,114,"\\sa">>.
        """)

      assert {:ok, [_a], subscriptions} = Files.load(path)

      assert subscriptions == [
               {1, "a"},
               {2, "not a"},
               {3, "a or not a"},
               {4, ~S(s = "é\éÃ")},
               {5, "a or a"}
             ]
    end

    test "are read like Erlang reads them", %{tmp_dir: folder} do
      :rand.seed(:exsss, {1, 2, 3})
      terms = for _number <- 1..300, do: random_term(3)
      path = write(folder, "terms", for(term <- terms, do: "~tp.~n" |> :io_lib.format([term]) |> List.to_string()))

      assert {:ok, ^terms} = :file.consult(path)
      assert path |> Terms.stream() |> Enum.map(&elem(&1, 0)) == terms
    end

    defp random_term(depth) do
      case :rand.uniform(if depth == 0, do: 5, else: 7) do
        1 -> :rand.uniform(1_000) - 500
        2 -> :rand.uniform(0x7FFF_FFFF_FFFF_FFFF)
        3 -> (:rand.uniform() - 0.5) * :math.pow(10, :rand.uniform(40) - 20)
        4 -> Enum.random([true, false, :undefined])
        5 -> for _byte <- 1..:rand.uniform(90), into: "", do: <<Enum.random(~c( aZ"\\\n\t~.,%\eéλ) ++ [0, 127])::utf8>>
        6 -> for _element <- 1..:rand.uniform(40), do: random_term(depth - 1)
        7 -> List.to_tuple(for(_element <- 2..:rand.uniform(5)//1, do: random_term(depth - 1)))
      end
    end

    test "create no atoms", %{tmp_dir: folder} do
      name = "attribute_that_is_nowhere_else_" <> Integer.to_string(System.unique_integer([:positive]))
      exprs = write(folder, "exprs", "[{#{name}_a,bin,disallow_undefined}].\n<<\"a\">>.\n")
      events = write(folder, "events", "[#{name}_b, '#{name} c'].\n")

      assert {:ok, [%Domain{}], [_subscription]} = Files.load(exprs)
      assert Enum.to_list(Files.events(events)) == [{{:record, ["#{name}_b", "#{name} c"]}, 1}]

      for atom <- ["#{name}_a", "#{name}_b", "#{name} c"] do
        assert_raise ArgumentError, fn -> String.to_existing_atom(atom) end
      end
    end

    test "have events as lists of values", %{tmp_dir: folder} do
      path =
        write(folder, "events", """
        [1,0,true,false,undefined,-7,1.5e-3,<<"CA">>,[1,-2],[<<"a">>,<<>>],[{3,1500000}]].
        [{{<<"flight">>,10,<<"ns">>},4,undefined}
        ,[ ],"ab",ca].
        """)

      assert Enum.to_list(Files.events(path)) == [
               {{:record, [1, 0, true, false, :undefined, -7, 0.0015, "CA", [1, -2], ["a", ""], [{3, 1_500_000}]]}, 1},
               {{:record, [{{"flight", 10, "ns"}, 4, :undefined}, [], ~c"ab", "ca"]}, 2}
             ]
    end

    for {content, expected} <- [
          {"[1,0", "events:1:5: expected a comma or the closing ], but the file ends here\n\n    [1,0\n        ^"},
          {"[1,0]", "events:1:6: expected the full stop that ends a term, but the file ends here"},
          {"[1,0]\n[0,1].", "events:2:1: expected the full stop that ends a term\n\n    [0,1].\n    ^"},
          {"[1 0].", "events:1:4: expected a comma or the closing ]\n\n    [1 0].\n       ^"},
          {"[1,].", "events:1:4: expected an Erlang term: a list, tuple, binary, number or atom"},
          {"[1,0].\n[{1,2].\n", "events:2:6: expected a comma or the closing }"},
          {"[Variable].", "events:1:2: expected an Erlang term"},
          {"[1].\n{1,2}.\n", "events:2:1: an event is a list of values in the order of the attributes"},
          {"[99999999999999999999999].", "events:1:2: an integer has at most 64 bits"},
          {"[1.5e999].", "events:1:2: a float is finite and has 64 bits"},
          {"[<<256>>].", "events:1:4: a byte of a binary is from 0 to 255"},
          {"[<<\"a\"].", "events:1:7: expected a string, a byte or >>"},
          {"[\"\\x{zz}\"].", "events:1:6: expected a character's code in hexadecimal and a closing brace"},
          {"[\"\\xg0\"].", "events:1:4: expected two hexadecimal digits after \\x"},
          {"[<<\"é\">>,§].", "events:1:10: expected an Erlang term"},
          {String.duplicate("[", 100_000), "events:1:17: terms are nested at most 16 deep"}
        ] do
      test "report a fault with its place: #{String.slice(inspect(content), 0, 40)}", %{tmp_dir: folder} do
        path = write(folder, "events", unquote(content))
        assert String.starts_with?(message_of_events(path, folder), unquote(expected))
      end
    end

    for {declaration, expected} <- [
          {"{a,boolean,allow_undefined}", "a type is one of bin, bin_list, bool, float"},
          {"{a,bool}", "an attribute is {Name, Type, allow_undefined}"},
          {"{a,bool,maybe}", "after the type comes allow_undefined or disallow_undefined"},
          {"{7,bool,allow_undefined}", "a name is an atom"},
          {"{a,bool,allow_undefined,1}", "this type has no bounds"},
          {"{a,bin,allow_undefined,1,2}", "this type has one bound, a count"},
          {"{a,int,allow_undefined,x}", "bounds are numbers"},
          {"{a,int,allow_undefined,2,1}", "min: of `a` is 2, above its max: 1"}
        ] do
      test "refuse the declaration #{declaration}", %{tmp_dir: folder} do
        path = write(folder, "exprs", "\n [#{unquote(declaration)}].\n")
        message = message(Files.load(path), folder)
        assert String.starts_with?(message, "exprs:2:2: in {")
        assert message =~ unquote(expected)
      end
    end

    test "may have the attributes in a file of their own", %{tmp_dir: folder} do
      domains = write(folder, "domains", "[{a,bool,disallow_undefined}].\n")
      exprs = write(folder, "exprs", "<<\"a\">>.\n")

      assert {:ok, [%Domain{name: "a"}], [{1, "a"}]} = Files.load(exprs, schema: domains)

      assert message(Files.load(exprs), folder) ==
               "exprs: does not begin with its attributes; name the file that has them: `--schema` of a task, `schema:` in Elixir"

      assert message(Files.load(domains, schema: domains), folder) =~
               "domains:1:1: the attributes begin here; remove the option schema\n"

      assert message(Files.load(exprs, schema: exprs), folder) =~ "exprs:1:1: expected a list of attributes"
    end

    test "refuse a term that is no expression", %{tmp_dir: folder} do
      path = write(folder, "exprs", "[{a,bool,disallow_undefined}].\n<<\"a\">>.\n  [1].\n")
      assert message(Files.load(path), folder) =~ "exprs:3:3: an expression is a binary, <<\"a and b\">>\n"
    end
  end

  describe "be-tree's lines" do
    test "have attributes, expressions, constants and events", %{tmp_dir: folder} do
      domains =
        write(folder, "defs", """
        a|boolean|true
        b|integer|false|-5|10
        c|integer|true||10
        d|integer enum|true|9
        e|float|true|0|1.5

        f|string|false|20
        g|integer list|true|1|2
        h|string list|true
        i|segments|true
        j|frequency caps|true||
        k|frequency|true
        """)

      exprs = write(folder, "exprs", "a\r\n\r\nb > 3 and\tf = \"[x]\"\r\n   not a")
      constants = write(folder, "constants", "7,1,2,3,4\n18446744073709551615, 5,-6,7,8")
      events = write(folder, "events", ~s({"a":true}\n\n  {"b": 1, "f": "é"}))

      assert message(Files.load(exprs), folder) ==
               "exprs: has no attributes; name the file that has them: `--schema` of a task, `schema:` in Elixir"

      assert {:ok, parsed, subscriptions} = Files.load(exprs, schema: domains)
      assert subscriptions == [{1, "a"}, {2, "b > 3 and\tf = \"[x]\""}, {3, "   not a"}]

      assert parsed == [
               %Domain{name: "a", type: :boolean, optional: true},
               %Domain{name: "b", type: :integer, min: -5, max: 10},
               %Domain{name: "c", type: :integer, optional: true, max: 10},
               %Domain{name: "d", type: :integer_enum, optional: true, count: 9},
               %Domain{name: "e", type: :float, optional: true, min: 0.0, max: 1.5},
               %Domain{name: "f", type: :string, count: 20},
               %Domain{name: "g", type: :integer_list, optional: true, min: 1, max: 2},
               %Domain{name: "h", type: :string_list, optional: true},
               %Domain{name: "i", type: :segments, optional: true},
               %Domain{name: "j", type: :frequency_caps, optional: true},
               %Domain{name: "k", type: :frequency_caps, optional: true}
             ]

      assert message(Files.load(exprs, schema: domains, constants: constants), folder) =~
               ~r/\Aconstants: has 2 lines for the 3 expressions of .*exprs; there must be one for each\z/

      exprs = write(folder, "exprs", "a\nnot a\n")
      assert {:ok, _domains, subscriptions} = Files.load(exprs, schema: domains, constants: constants)

      assert subscriptions == [
               {7, "a", constants: [campaign_group_id: 1, campaign_id: 2, advertiser_id: 3, flight_id: 4]},
               {0xFFFF_FFFF_FFFF_FFFF, "not a",
                constants: [campaign_group_id: 5, campaign_id: -6, advertiser_id: 7, flight_id: 8]}
             ]

      assert Enum.to_list(Files.events(events)) == [
               {{:json, ~s({"a":true})}, 1},
               {{:json, ~s(  {"b": 1, "f": "é"})}, 3}
             ]
    end

    for {line, expected} <- [
          {"b|bool|true", "defs:3:3: a type is one of boolean, float, frequency, frequency caps"},
          {"b|boolean|yes",
           "defs:3:11: whether undefined is allowed is true or false\n\n    b|boolean|yes\n              ^"},
          {"b|boolean", "defs:3:1: an attribute is name|type|allow undefined"},
          {"b|integer|true|1|2|3", "defs:3:1: an attribute is name|type|allow undefined"},
          {"b|integer|true|1|x", "defs:3:18: a bound is a number"},
          {"b|integer|true|1.5", "defs:3:1: min: of `b` is an integer, got: 1.5"},
          {"b|string|true|1|2", "defs:3:1: this type has one bound, a count"},
          {"b|segments|true|1", "defs:3:1: this type has no bounds"},
          {"|boolean|true", "defs:3:1: the name of an attribute is"}
        ] do
      test "refuse the declaration #{line}", %{tmp_dir: folder} do
        domains = write(folder, "defs", "a|boolean|true\n\n#{unquote(line)}\n")
        exprs = write(folder, "exprs", "a\n")
        assert String.starts_with?(message(Files.load(exprs, schema: domains), folder), unquote(expected))
      end
    end

    test "refuse wrong constants", %{tmp_dir: folder} do
      domains = write(folder, "defs", "a|boolean|true\n")
      exprs = write(folder, "exprs", "a\na\n")

      constants = write(folder, "constants", "1,2,3,4,5\n2,2,3,4\n")
      message = message(Files.load(exprs, schema: domains, constants: constants), folder)
      assert message =~ "constants:2:1: constants are an id, campaign_group_id, campaign_id, advertiser_id, flight_id"

      constants = write(folder, "constants", "1,2,3,4,5\n2,2,3,four,5\n")
      message = message(Files.load(exprs, schema: domains, constants: constants), folder)
      assert message == "constants:2:7: expected an integer\n\n    2,2,3,four,5\n          ^"
    end
  end

  describe "be-tree's frequency caps" do
    @defs "now|integer|true\nfrequency_caps|frequency|true\na|integer|true\n"

    defp capped(folder, line) do
      domains = write(folder, "defs", @defs)

      exprs =
        write(
          folder,
          "exprs",
          ~s|within_frequency_cap("flight", "ns", 2, 100)\nwithin_frequency_cap("flight:ip", "ns", 2, 100)\n|
        )

      constants = write(folder, "constants", "1,40,30,20,10\n2,40,30,20,10\n")
      {:ok, schema, subscriptions} = Files.load(exprs, schema: domains, constants: constants)
      tree = BeTree.new!(schema)
      BeTree.insert_all!(tree, subscriptions)
      [{event, 1}] = folder |> write("events", line <> "\n") |> Files.events() |> Enum.to_list()
      BeTree.search(tree, event)
    end

    test "may be flat or have their keys in arrays", %{tmp_dir: folder} do
      for {caps, expected} <- [
            {~s([["flight", 10, "ns", 2, 0]]), [2]},
            {~s([ [ "flight" , 10,"ns" ,1,0],["flight:ip",10,"ns",2,0] ]), [1]},
            {~s([["flight:ip", 10, "ns", 2, 0], [["flight", 10, "ns"], 2, 0]]), []},
            {~s([["flight", 10, "ns", 2, null]]), [1, 2]},
            {~s([["flight", 10, "n\\"s", 2, 0]]), [1, 2]},
            {~s([["flight", -10, "ns", 2, 0]]), [1, 2]},
            {"[]", [1, 2]}
          ] do
        assert {caps, capped(folder, ~s({"now": 30, "frequency_caps": #{caps}}))} == {caps, {:ok, expected}}
      end
    end

    test "differ from strings of the same text", %{tmp_dir: folder} do
      text = ~S({"frequency_caps": [], "x": "[\"flight\", 10, \"ns\", 2, 0]", "y": ["[", "flight", 10, "ns", 2]})
      [{event, 1}] = folder |> write("events", text) |> Files.events() |> Enum.to_list()
      assert event == {:json, text}
    end

    test "are refused at their place if they are wrong", %{tmp_dir: folder} do
      assert {:error, error} = capped(folder, ~s({"now": 30, "frequency_caps": [["flight", 10, "ns", "2", 0]]}))
      assert error.message =~ "an integer as a frequency cap's value"
      assert {:error, error} = capped(folder, ~s({"now": 30, "frequency_caps": [["fly", 10, "ns", 2, 0]]}))
      assert error.message =~ "frequency cap"
    end
  end

  describe "any file" do
    test "is read lazily", %{tmp_dir: folder} do
      path = write(folder, "events", "[1].\n[0].\n[oops")
      assert path |> Files.events() |> Enum.take(2) |> Enum.map(&elem(&1, 0)) == [{:record, [1]}, {:record, [0]}]
      assert message_of_events(path, folder) =~ "events:3:6: "
    end

    test "may be empty, but not missing or a folder", %{tmp_dir: folder} do
      domains = write(folder, "defs", "a|boolean|true\n")
      empty = write(folder, "empty", "\n\n")

      assert Enum.to_list(Files.events(empty)) == []
      assert {:ok, [_a], []} = Files.load(empty, schema: domains)
      assert message(Files.load(Path.join(folder, "none")), folder) == "none: no such file or directory"
      assert message(Files.load(folder), folder) =~ "illegal operation on a directory"
      assert_raise Files.Error, ~r/none: no such file/, fn -> Files.events(Path.join(folder, "none")) end
    end

    test "is quoted around the caret without control characters", %{tmp_dir: folder} do
      values = String.duplicate("1,", 200)
      path = write(folder, "events", "[" <> values <> "? \t\xFF" <> values <> "1].")
      [headline, "", excerpt, caret] = path |> message_of_events(folder) |> String.split("\n")

      assert headline =~ "events:1:402: "
      assert String.printable?(excerpt)
      assert String.length(excerpt) < 120
      assert String.at(excerpt, String.length(caret) - 1) == "?"
    end
  end

  describe "locate/3" do
    test "finds the place of a refused expression", %{tmp_dir: folder} do
      domains = write(folder, "defs", "a|boolean|true\ns|string|true\n")
      exprs = write(folder, "exprs", "a\n\n  s = \"x\" and and\n")
      options = [schema: domains]

      assert {:ok, attributes, subscriptions} = Files.load(exprs, options)
      tree = BeTree.new!(attributes)
      assert {:error, error} = BeTree.insert_all(tree, subscriptions)
      located = Files.locate(error, exprs, options)
      assert {located.line, located.column, located.caret} == {3, 15, 15}
      assert message({:error, located}, folder) =~ ~r/\Aexprs:3:15: .*\n\n      s = "x" and and\n                  \^\z/

      terms = write(folder, "terms", ~S([{a,bool,allow_undefined},{s,bin,allow_undefined}]. <<"a">>.
  <<"s = \"x\" and and">>.))

      assert {:ok, attributes, subscriptions} = Files.load(terms)
      tree = BeTree.new!(attributes)
      assert {:error, error} = BeTree.insert_all(tree, subscriptions)
      located = Files.locate(error, terms)
      # In the file two characters stand before the term, three before the text, and two of the text are escaped.
      assert {located.line, located.column, located.caret} == {2, 2 + 3 + 2 + 13, 13}
      assert message({:error, located}, folder) =~ ~r/\Aterms:2:20: .*\n\n    s = "x" and and\n                \^\z/
    end

    test "finds a repeated id in the constants", %{tmp_dir: folder} do
      domains = write(folder, "defs", "a|boolean|true\n")
      exprs = write(folder, "exprs", "a\nnot a\n")
      constants = write(folder, "constants", "5,1,2,3,4\n\n5,1,2,3,4\n")
      options = [schema: domains, constants: constants]

      assert {:ok, attributes, subscriptions} = Files.load(exprs, options)
      assert {:error, error} = BeTree.insert_all(BeTree.new!(attributes), subscriptions)
      assert %Files.Error{path: ^constants, line: 3} = Files.locate(error, exprs, options)
    end

    test "finds the file of refused attributes", %{tmp_dir: folder} do
      domains = write(folder, "defs", "a|boolean|true\na|string|true\n")
      exprs = write(folder, "exprs", "a\n")

      assert {:ok, attributes, _subscriptions} = Files.load(exprs, schema: domains)
      assert {:error, error} = BeTree.new(attributes)
      assert message({:error, Files.locate(error, exprs, schema: domains)}, folder) =~ ~r/\Adefs: .*`a`/
    end

    test "finds the line of a refused event", %{tmp_dir: folder} do
      events = write(folder, "events", ~s({"a": true}\n{"a": tru}\n))
      tree = BeTree.new!(a: :boolean)

      [_first, {event, line}] = Enum.to_list(Files.events(events))
      assert {:error, error} = BeTree.search(tree, event)
      located = Files.locate_event(error, event, events, line)
      assert %Files.Error{path: ^events, line: 2, text: ~s({"a": tru})} = located
      assert located.column == error.column and is_integer(error.column)
    end
  end

  describe "latencies" do
    alias BeTree.Files.Latencies

    test "have percentiles exact to half a percent" do
      durations = for number <- 1..10_000, do: number * 37
      latencies = Enum.reduce(Enum.shuffle(durations), %Latencies{}, &Latencies.add(&2, &1))

      for share <- [0.001, 0.5, 0.99, 1.0] do
        exact = Enum.at(durations, ceil(share * 10_000) - 1)
        assert_in_delta Latencies.percentile(latencies, share), exact, exact / 200
      end

      assert map_size(latencies.counts) < 3_000
      assert Latencies.percentile(%Latencies{}, 0.5) == 0
    end
  end

  test "results are compact JSON arrays" do
    lines = for ids <- [[], [7], [1, 20, 0xFFFF_FFFF_FFFF_FFFF]], do: Files.Results.line(ids)
    assert IO.iodata_to_binary(lines) == "[]\n[7]\n[1,20,18446744073709551615]\n"
  end
end

defmodule BeTree.ErlBenchTest do
  use ExUnit.Case, async: true

  import BeTree.Test.Files
  import ExUnit.CaptureIO

  alias BeTree.ErlBench.{Comparison, Data, Report, Stats, Way}
  alias BeTree.Test.BooleanNaive

  @moduletag :tmp_dir

  # The document's own example: 100 sums of 10, and 20 of 9, 20 of 10, 50 of 14, 10 of 16, in thousands of nanoseconds
  # an event.
  @base List.duplicate(10_000_000, 100)
  @target for {count, sum} <- [{20, 9}, {20, 10}, {50, 14}, {10, 16}], _ <- 1..count, do: sum * 1_000_000

  @ratios """
  +=========+=====================+
  |         | search_iterator/    |
  |  Params | search_all          |
  +---------+---------------------+
  |         |  range: (-10%, 60%) |
  |      64 | median: 40%         |
  |         |   99th: 60%         |
  |         | better: 20%         |
  +---------+---------------------+
  |         |  range: (0%, 0%)    |
  |     128 | median: 0%          |
  |         |   99th: 0%          |
  |         | better: 0%          |
  +=========+=====================+
  """

  @times """
  +=========+===============+==================+
  |         |               | search_iterator/ |
  |  Params | betree_search | search_all       |
  +---------+---------------+------------------+
  |      64 | 10.0 us       | 14.0 us          |
  +---------+---------------+------------------+
  |     128 | 10.0 us       | 10.0 us          |
  +=========+===============+==================+
  """

  defp generate(folder, expressions \\ 40, events \\ 2_000) do
    {:ok, expressions, events} = :erl_betree_bench.generate(64, expressions, events, folder)
    {expressions, events}
  end

  defp call(function, arguments) do
    {answer, _printed} = with_io(fn -> apply(:erl_betree_bench, function, arguments) end)
    answer
  end

  describe "statistics" do
    test "are those of the document's example" do
      comparison = Comparison.new(@base, Enum.shuffle(@target), 1_000)
      assert comparison.min == {-10.0, -1_000.0}
      assert comparison.max == {60.0, 6_000.0}
      assert comparison.median == {40.0, 4_000.0}
      assert comparison.ninety_ninth == {60.0, 6_000.0}
      assert comparison.average == {24.0, 2_400.0}
      assert comparison.better == 20.0
      assert {comparison.base, comparison.target} == {10_000.0, 14_000.0}
    end

    test "compare the sums in order, not sorted" do
      comparison = Comparison.new([100, 200, 400], [200, 100, 400], 1)
      assert {comparison.min, comparison.median, comparison.max} == {{-50.0, -100.0}, {0.0, 0.0}, {100.0, 100.0}}
      assert_in_delta comparison.better, 33.3, 0.1
    end

    test "are printed like the document's tables" do
      rows = [
        {64, [iterated_all: Comparison.new(@base, @target, 1_000)]},
        {128, [iterated_all: Comparison.new(@base, @base, 1_000)]}
      ]

      assert IO.iodata_to_binary(Report.ratios(rows)) == @ratios
      assert IO.iodata_to_binary(Report.times(rows)) == @times
    end

    test "are sums of full thousands, in a file of Erlang terms", %{tmp_dir: folder} do
      stats = Enum.reduce(1..2_500, Stats.new("some way"), &Stats.add(&2, &1)) |> Stats.finish()
      path = Path.join(folder, "stats.txt")
      Stats.write!(stats, path, [])

      assert Stats.read!(path) == {[500_500, 1_500_500], 1_000}
      assert {:ok, terms} = :file.consult(path)
      assert terms[:n_events] == 2_500
      assert terms[:info] == ~c"some way"
      assert {{_, _, _}, {_, _, _}} = terms[:start_local_time]
    end
  end

  describe ":erl_betree_bench" do
    test "generates the same files from the same numbers", %{tmp_dir: folder} do
      files = for name <- ["one", "other"], do: folder |> Path.join(name) |> generate()
      assert [{expressions, events}, _] = files
      assert Path.basename(expressions) == "P_64_Ex_40.txt"
      assert Path.basename(events) == "P_64_Ev_2_000.txt"

      assert [same, same] = for({expressions, events} <- files, do: {File.read!(expressions), File.read!(events)})
      assert_raise FunctionClauseError, fn -> :erl_betree_bench.generate(65, folder) end
    end

    test "finds the true expressions in every way, in comparable files", %{tmp_dir: folder} do
      {expressions, events} = generate(folder)

      outputs =
        for way <- Way.all() do
          output = Path.join(folder, "output_#{way}.txt")
          assert call(:"#{way}_output", [expressions, events, output]) == :ok
          output
        end

      {_names, parsed, maps} = BooleanNaive.read(expressions, events)
      assert {:ok, found} = outputs |> hd() |> :file.consult()
      assert Enum.map(found, &Enum.sort/1) == for(event <- maps, do: BooleanNaive.matches(parsed, event))
      for other <- tl(outputs), do: assert(:erl_betree_bench.diff(hd(outputs), other) == {2_000, []})
      assert :erl_betree_bench.check(expressions, events) == {2_000, []}
    end

    test "measures the times of every way", %{tmp_dir: folder} do
      {expressions, events} = generate(folder, 3)

      for way <- Way.all() do
        stats = Data.stats(folder, 64, way)
        assert call(:"#{way}_stats", [expressions, events, stats]) == :ok
        assert {[first, second], 1_000} = Stats.read!(stats)
        assert first > 0 and second > 0

        assert capture_io(fn -> apply(:erl_betree_bench, way, [expressions, events]) end) =~
                 ~r"2000, \d+ microseconds/event"
      end

      [base, target] = for way <- [:std, :iterated_next], do: Data.stats(folder, 64, way)

      assert [
               min: {:relative, min, :%},
               max: {:relative, max, :%},
               avg: _,
               median: {:relative, median, :%},
               "99th": _,
               better: {better, :%}
             ] =
               for(
                 term <- :erl_betree_bench.compare_stats(base, target),
                 do: term |> Tuple.to_list() |> Enum.take(2) |> List.to_tuple()
               )

      assert Path.basename(target) == "stats_P_64_next.txt"
      tables = capture_io(fn -> assert :erl_betree_bench.tables(folder) == :ok end)
      assert Regex.scan(~r/^\| +(\d+) /m, tables, capture: :all_but_first) == [["64"], ["64"]]
      assert min <= median and median <= max and better in [0, 50, 100]
    end

    test "passes attributes of other types through", %{tmp_dir: folder} do
      expressions =
        write(folder, "expressions", """
        [{age,int64,disallow_undefined,0,99},{country,bin,allow_undefined},{vip,bool,disallow_undefined}].
        <<"age > 20 and vip">>.
        <<"country = \\"CA\\"">>.
        """)

      events = write(folder, "events", ~s([1,<<"CA">>,0].\n[30,undefined,1].\n[30,<<"CA">>,true].\n))
      output = Path.join(folder, "output")
      assert call(:std_output, [expressions, events, output]) == :ok
      assert :file.consult(output) == {:ok, [[2], [1], [1, 2]]}
      assert :erl_betree_bench.check(expressions, events) == {3, []}
    end
  end

  describe "a difference between files" do
    test "is reported with its event and both lists", %{tmp_dir: folder} do
      one = write(folder, "one", "[1,2].\n[3].\n[].\n")
      other = write(folder, "other", "[2,\n 1].\n[3,4].\n[].\n")
      assert :erl_betree_bench.diff(one, other) == {3, [{2, [3], [3, 4]}]}
      assert :erl_betree_bench.diff(String.to_charlist(one), one) == {3, []}
    end

    test "is also a file that ends early", %{tmp_dir: folder} do
      one = write(folder, "one", "[1].\n[3].\n")
      other = write(folder, "other", "[1].\n")
      assert :erl_betree_bench.diff(one, other) == {2, [{2, [3], :eof}]}
      assert :erl_betree_bench.diff(other, one) == {2, [{2, :eof, [3]}]}
    end
  end

  describe "errors" do
    test "in files are reported with their place", %{tmp_dir: folder} do
      {expressions, events} = generate(folder, 2, 2)
      missing = Path.join(folder, "missing")
      gone = {:error, {:file_does_not_exist, String.to_charlist(missing)}}
      assert :erl_betree_bench.std(missing, events) == gone
      assert :erl_betree_bench.std(expressions, missing) == gone
      assert :erl_betree_bench.diff(missing, events) == gone
      assert :erl_betree_bench.compare_stats(missing, missing) == gone

      assert bad(:std, [write(folder, "text", "hello"), events]) =~ "text"
      assert bad(:std, [events, events]) =~ "P_64_Ev_2.txt:1:1: in 0: an attribute is {Name, Type, allow_undefined}"
      refused = write(folder, "refused", "[{a,bool,disallow_undefined}].\n<<\"a\">>.\n<<\"b and a\">>.\n")
      assert bad(:check, [refused, events]) == "#{refused}: expression 2 is refused: {:error, :failed}"
      short = write(folder, "short", "[1].\n[1,0].\n")
      one = write(folder, "one", "[{a,bool,disallow_undefined}].\n<<\"a\">>.\n")
      assert bad(:check, [one, short]) == "#{short}:2: 2 values for 1 attributes"
      assert bad(:std, [one, write(folder, "unknown", "[7].\n")]) =~ "unknown:1: erl_betree refuses the event"
      assert bad(:std, [one, write(folder, "json", ~s({"a": true}\n))]) =~ "json:1: expected an event as an Erlang list"
      assert bad(:std_output, [expressions, events, folder]) == "#{folder}: illegal operation on a directory"
      assert bad(:generate, [64, 1, 1, short]) =~ "short"
      assert bad(:diff, [write(folder, "ids", "{1}.\n"), short]) =~ "ids:1:1: expected a list of ids"
    end

    test "in statistics are reported", %{tmp_dir: folder} do
      stats = fn name, sums ->
        write(folder, name, "{n_events,9}.\n{snapshot_freq,3}.\n{nano_diffs,#{inspect(sums)}}.\n")
      end

      two = stats.("two", [1, 2])

      assert bad(:compare_stats, [two, stats.("three", [1, 2, 3])]) =~
               "three: has 3 sums of 3 events, #{two} has 2 of 3"

      assert bad(:compare_stats, [two, stats.("none", [])]) =~ "none: has no sums: a sum is of 1000 events"
      assert bad(:compare_stats, [two, write(folder, "other", "{a,1}.\n[].\n")]) =~ "other: is no file of statistics"
      assert bad(:tables, [folder]) == "#{folder}: has no statistics of two ways to be compared"
      assert bad(:compare_stats, [write(folder, "torn", "{a,\n"), two]) =~ "torn:"
    end
  end

  defp bad(function, arguments) do
    assert {:error, {:bad_file, message}} = call(function, arguments)
    message
  end
end

defmodule :erl_betree_bench do
  @moduledoc """
  This module is the benchmark of erl-be-tree's document, for callers from Erlang. `mix be_tree.erl_bench` is the same as a
  command.

      1> {ok, Ex, Ev} = erl_betree_bench:generate(128, "bench_data").
      {ok,"bench_data/P_128_Ex_5_000.txt","bench_data/P_128_Ev_100_000.txt"}
      2> erl_betree_bench:std_stats(Ex, Ev, "bench_data/stats_P_128_std.txt").
      ok
      3> erl_betree_bench:iterated_all_stats(Ex, Ev, "bench_data/stats_P_128_all.txt").
      ok
      4> erl_betree_bench:tables("bench_data").

  The functions have the names and the arguments of that library's runner, and read and write the same files. Each way to
  evaluate an event has three functions with different output:

  | calls of erl_betree | prints times | a file of statistics | a file of ids |
  | --- | --- | --- | --- |
  | `betree_search/2` | `std/2` | `std_stats/3` | `std_output/3` |
  | `search_iterator/2`, `search_all/1` | `iterated_all/2` | `iterated_all_stats/3` | `iterated_all_output/3` |
  | `search_iterator/2`, `search_next/1` to the last | `iterated_next/2` | `iterated_next_stats/3` | `iterated_next_output/3` |
  | `betree_make_event/2`, `betree_search/3` | `with_event/2` | `with_event_stats/3` | `with_event_output/3` |

  The first argument is a file of expressions and the second a file of events, both in erl-be-tree's format (`BeTree.Files`),
  with attributes of any type. After every thousand events each function prints their number and the time of one event.

  Statistics are Erlang terms. `nano_diffs` are sums of nanoseconds of `snapshot_freq`, 1,000, events each. Events after the
  last full thousand are not in them.

  File names are strings or binaries. On an error a function returns `{error, {file_does_not_exist, File}}` or
  `{error, {bad_file, Message}}`; the message has the file and the line.
  """

  alias BeTree.ErlBench.{Comparison, Data, Output, Report, Run, Stats, Tree}
  alias Mix.BeTree.Command

  @typedoc "The name of a file or a folder."
  @type file :: charlist | binary

  @type failure :: {:error, {:file_does_not_exist, charlist} | {:bad_file, binary}}

  @doc """
  Generates 5,000 expressions over `parameters` parameters (64, 96 or 128) and 100,000 events, into files of this folder.

  The function makes a missing folder and overwrites files. The same numbers give the same files.
  """
  @spec generate(pos_integer, file) :: {:ok, charlist, charlist} | failure
  def generate(parameters, folder), do: generate(parameters, 5_000, 100_000, folder)

  @doc "Like `generate/2`, with these numbers of expressions and events. A smaller number gives a prefix of a larger one."
  @spec generate(pos_integer, non_neg_integer, non_neg_integer, file) :: {:ok, charlist, charlist} | failure
  def generate(parameters, expressions, events, folder) when parameters in [64, 96, 128] do
    guarded([], fn ->
      files = Data.generate!(parameters, expressions, events, text(folder))
      {:ok, String.to_charlist(files.expressions), String.to_charlist(files.events)}
    end)
  end

  for way <- BeTree.ErlBench.Way.all() do
    @doc "Evaluates the events and prints times."
    @spec unquote(way)(file, file) :: :ok | failure
    def unquote(way)(expressions, events), do: run(unquote(way), expressions, events, nil, nil)

    @doc "Evaluates the events and writes a file of statistics."
    @spec unquote(:"#{way}_stats")(file, file, file) :: :ok | failure
    def unquote(:"#{way}_stats")(expressions, events, stats), do: run(unquote(way), expressions, events, nil, stats)

    @doc "Evaluates the events and writes a file of ids, one list an event."
    @spec unquote(:"#{way}_output")(file, file, file) :: :ok | failure
    def unquote(:"#{way}_output")(expressions, events, output), do: run(unquote(way), expressions, events, output, nil)
  end

  @doc """
  Evaluates the events in all four ways and compares the ids, event by event, without a file.

  Returns the number of events, and for each difference the number of the event, the way, the ids of `betree_search/2` and
  the ids of that way. With `{100000, []}` all ways agree on 100,000 events.
  """
  @spec check(file, file) :: {non_neg_integer, [{pos_integer, atom, [BeTree.id()], [BeTree.id()]}]} | failure
  def check(expressions, events) do
    guarded([expressions, events], fn -> expressions |> text() |> Tree.load!() |> Run.check!(text(events)) end)
  end

  @doc """
  Compares two files of ids, event by event, in any order of the ids.

  Returns the number of compared events, and for each difference the number of the event and the ids of both files, or `eof`
  at the end of a file.
  """
  @spec diff(file, file) :: {non_neg_integer, [{pos_integer, Output.ids() | :eof, Output.ids() | :eof}]} | failure
  def diff(first, second) do
    guarded([first, second], fn -> Output.diff!(text(first), text(second)) end)
  end

  @doc """
  Compares two files of statistics, sum by sum. The first file is the base of the differences.

  Returns the least, the greatest, the average and the median difference, and the 99th percentile. Each is in percent of the
  base and in microseconds an event, rounded up. The last value is the percentage of sums that are less than the base's.
  """
  @spec compare_stats(file, file) :: [{atom, tuple} | {atom, tuple, tuple}] | failure
  def compare_stats(base, target) do
    guarded([base, target], fn ->
      comparison = Comparison.read!(text(base), text(target))

      differences =
        for {name, key} <- [min: :min, max: :max, avg: :average, median: :median, "99th": :ninety_ninth] do
          {percent, nanoseconds} = Map.fetch!(comparison, key)
          {name, {:relative, ceil(percent), :%}, {:value, ceil(nanoseconds / 1_000), :microsecond}}
        end

      differences ++ [better: {floor(comparison.better), :%}]
    end)
  end

  @doc """
  Prints two tables of the statistics in a folder.

  One has the differences of the ways from `betree_search/2` in percent, and the other the time of an event in each.

  The files are `stats_P_64_std.txt`, and `all`, `next` and `event` for the other ways, the same for 96 and 128. Missing
  files are skipped.
  """
  @spec tables(file) :: :ok | failure
  def tables(folder) do
    guarded([folder], fn -> folder |> text() |> Report.tables!(Data.parameters()) |> IO.write() end)
  end

  defp run(way, expressions, events, output, stats) do
    guarded([expressions, events], fn ->
      progress = fn _way, %{title: title, events: count, sums: [sum | _]} ->
        microseconds = ceil(sum / Stats.events_a_sum() / 1_000)
        :io.format("~ts: ~p, ~p microseconds/event~n", [title, count, microseconds])
      end

      inputs = [text(expressions), text(events)]
      for path <- [output, stats], path != nil, do: Command.check_output!(text(path), inputs)
      tree = expressions |> text() |> Tree.load!()
      measured = Run.one!(tree, text(events), way, output && text(output), progress)
      if stats, do: Stats.write!(measured, text(stats), inputs), else: :ok
    end)
  end

  # Returns the result of `fun` if these files exist.
  defp guarded(files, fun) do
    case Enum.find(files, &(not File.exists?(text(&1)))) do
      nil -> fun.()
      missing -> {:error, {:file_does_not_exist, missing |> text() |> String.to_charlist()}}
    end
  rescue
    error in [BeTree.Files.Error, File.Error, Mix.Error] -> {:error, {:bad_file, Exception.message(error)}}
  end

  defp text(file), do: IO.chardata_to_string(file)
end

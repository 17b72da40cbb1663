defmodule Mix.Tasks.BeTree.ErlBench do
  @shortdoc "Runs the benchmark of erl-be-tree's document"
  @moduledoc """
  This task runs the benchmark of erl-be-tree's document through `:erl_betree`.

      mix be_tree.erl_bench generate
      mix be_tree.erl_bench measure
      mix be_tree.erl_bench compare_stats

  These three commands generate 5,000 dense boolean expressions (`BeTree.Workload.W1`) and 100,000 events for each of 64,
  96 and 128 parameters, evaluate the events in four ways, and print the document's tables. Together they take five to ten
  minutes. `:erl_betree_bench` has the same for callers from Erlang, with files of your own.

  ## Commands

    * `generate` - writes the expressions and the events. The same numbers give the same files;
    * `std`, `iterated_all`, `iterated_next`, `with_event` - evaluate the events one way and write its statistics: sums of
      nanoseconds, 1,000 events each. With `--output` also the ids, a list per event: about 12 KB each at 128 parameters;
    * `measure` - evaluates the events all four ways, in turns of 100 events, and writes the statistics of each. Other
      work on the machine then affects all alike;
    * `check` - evaluates each event all four ways and compares the ids. A difference ends it with status 1;
    * `diff FIRST SECOND` - compares two files of ids. A difference ends it with status 1;
    * `compare_stats` - prints the differences of the ways from `betree_search`, and the time of an event in each, from the
      statistics in the folder. `compare_stats BASE TARGET` compares two files.

  A comparison of two ways takes the differences between their sums, thousand by thousand, in percent of the base's. The
  table has the range, the median and the 99th percentile, and the percentage of sums that are better than the base's.
  Percents are rounded up.

  ## Options

    * `--parameters` - 64, 96 or 128. Defaults to all three, one after the other;
    * `--expressions`, `--events` - the numbers of expressions and events. Default to 5,000 and 100,000;
    * `--dir` - the folder of the files. Defaults to `_build/erl_bench`;
    * `--output` - also write the ids.

  ## Example

      mix be_tree.erl_bench generate --parameters 64 --events 10000
      mix be_tree.erl_bench measure --parameters 64 --events 10000
      mix be_tree.erl_bench compare_stats --parameters 64
  """

  use Mix.Task

  alias Mix.BeTree.Command
  alias BeTree.ErlBench.{Comparison, Data, Output, Report, Run, Stats, Tree, Way}
  alias BeTree.Files

  import BeTree.Input.Describe, only: [grouped: 1]

  @requirements ["app.start"]

  @switches [parameters: :integer, expressions: :integer, events: :integer, dir: :string, output: :boolean]

  @ways Enum.map(Way.all(), &Atom.to_string/1)
  @commands ["generate"] ++ @ways ++ ["measure", "check", "diff", "compare_stats"]

  @usage "mix be_tree.erl_bench #{Enum.join(@commands, "|")} " <>
           "[--parameters 64|96|128] [--expressions N] [--events N] [--dir FOLDER] [--output]\n" <>
           "       mix be_tree.erl_bench diff FIRST SECOND\n" <>
           "       mix be_tree.erl_bench compare_stats [BASE TARGET]"

  # The greatest number of differences that are printed.
  @shown 10

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  defp run(options, rest) do
    for name <- [:expressions, :events], do: Command.check_count!(options, name)

    parameters =
      case options[:parameters] do
        nil -> Data.parameters()
        one -> if one in Data.parameters(), do: [one], else: Mix.raise("--parameters is 64, 96 or 128, got: #{one}")
      end

    if options[:output] && hd(rest ++ [nil]) not in @ways,
      do: Mix.raise("--output belongs to #{Enum.join(@ways, ", ")}")

    command(rest, %{
      parameters: parameters,
      expressions: options[:expressions] || 5_000,
      events: options[:events] || 100_000,
      folder: options[:dir] || "_build/erl_bench",
      output: options[:output] || false
    })
  rescue
    error in [Files.Error, File.Error] -> Mix.raise(Exception.message(error))
  end

  defp command(["generate"], options) do
    for parameters <- options.parameters do
      files = Data.generate!(parameters, options.expressions, options.events, options.folder)
      say("#{parameters} parameters: #{files.expressions}, #{files.events}")
    end
  end

  defp command([name], options) when name in @ways do
    way = String.to_existing_atom(name)

    for parameters <- options.parameters do
      {tree, events} = load(parameters, options)
      output = if options.output, do: Data.output(options.folder, parameters, way)
      stats = Run.one!(tree, events, way, output, &show/2)
      written = [keep(stats, parameters, way, options) | List.wrap(output)]
      say("#{summary(stats)}, in #{Enum.join(written, ", ")}")
    end
  end

  defp command(["measure"], options) do
    for parameters <- options.parameters do
      {tree, events} = load(parameters, options)

      for {way, stats} <- Run.in_turns!(tree, events, &show/2) do
        say("#{summary(stats)}, in #{keep(stats, parameters, way, options)}")
      end
    end
  end

  defp command(["check"], options) do
    for parameters <- options.parameters do
      {tree, events} = load(parameters, options)
      {count, differences} = Run.check!(tree, events)

      report(count, for({event, way, expected, ids} <- differences, do: {event, "#{way}, std", ids, expected}))
    end
  end

  defp command(["diff", first, second], _options) do
    {count, differences} = Output.diff!(first, second)
    report(count, for({event, one, other} <- differences, do: {event, "#{first}, #{second}", one, other}))
  end

  defp command(["compare_stats", base, target], _options) do
    base |> Comparison.read!(target) |> Report.comparison() |> say()
  end

  defp command(["compare_stats"], options) do
    options.folder |> Report.tables!(options.parameters) |> say()
  end

  defp command([], _options), do: Mix.raise("a command is to be named\n\nUsage: #{@usage}")

  defp command(["diff" | _other], _options), do: Mix.raise("diff compares two files\n\nUsage: #{@usage}")

  defp command(["compare_stats" | _other], _options) do
    Mix.raise("compare_stats compares two files, or without them what is in the folder\n\nUsage: #{@usage}")
  end

  defp command([name | _], _options) when name in @commands do
    Mix.raise("more arguments than #{name} takes\n\nUsage: #{@usage}")
  end

  defp command([name | _], _options) do
    Mix.raise("there is no command #{name}, only #{Enum.join(@commands, ", ")}\n\nUsage: #{@usage}")
  end

  # Returns the tree and the file of events.
  defp load(parameters, options) do
    expressions = Data.expressions(options.folder, parameters, options.expressions)
    events = Data.events(options.folder, parameters, options.events)

    for file <- [expressions, events], not File.exists?(file) do
      Mix.raise("there is no #{file}; mix be_tree.erl_bench generate, with the same options, makes it")
    end

    tree = Tree.load!(expressions)

    say(
      "#{parameters} parameters: #{grouped(tree.expressions)} expressions, built in #{grouped(div(tree.build, 1_000))} ms"
    )

    {tree, events}
  end

  defp keep(stats, parameters, way, options) do
    path = Data.stats(options.folder, parameters, way)

    inputs = [
      Data.expressions(options.folder, parameters, options.expressions),
      Data.events(options.folder, parameters, options.events)
    ]

    Stats.write!(stats, path, inputs)
    path
  end

  defp report(count, []), do: say("#{grouped(count)} events, no differences")

  defp report(count, differences) do
    for {event, names, one, other} <- Enum.take(differences, @shown) do
      say("event #{event}: #{names}: only the first has #{only(one, other)}, only the second #{only(other, one)}")
    end

    Mix.raise("#{grouped(count)} events, #{grouped(length(differences))} differences")
  end

  defp only(:eof, _other), do: "no such event"
  defp only(ids, :eof), do: only(ids, [])
  defp only(ids, other), do: inspect(ids -- other, charlists: :as_lists)

  defp summary(%{sums: []} = stats), do: "  #{stats.title}: #{grouped(stats.events)} events, fewer than a sum has"

  defp summary(stats) do
    average = Enum.sum(stats.sums) / length(stats.sums) / Stats.events_a_sum()
    "  #{stats.title}: #{grouped(stats.events)} events, #{Report.microseconds(average)} us each"
  end

  # Prints a line that the next one overwrites, if the output is a terminal.
  defp show(way, stats) do
    if Command.terminal?(), do: IO.write(["\r", String.pad_trailing("#{way}: #{grouped(stats.events)}", 40), "\r"])
  end

  defp say(text), do: text |> to_string() |> String.trim_trailing() |> Mix.shell().info()
end

defmodule Mix.Tasks.BeTree.Match do
  @shortdoc "Matches a file of events against a file of expressions"
  @moduledoc """
  Matches a file of events against a file of expressions.

      mix be_tree.match --expressions FILE --events FILE [--schema FILE] [--constants FILE] [--out FILE] [--on-mismatch undefined] [--stats]
      mix be_tree.match --image FILE [--ids FILE] --events FILE [--out FILE] [--on-mismatch undefined] [--stats]

  The files are in the formats of `BeTree.Files`, told apart by their content. The schema is JSON, as in the playground. Expressions
  are JSON objects, one a line, or CSV with ids; plain lines, whose ids are their numbers; or patterns of EventBridge, one JSON object a
  line (`BeTree.Pattern`), whose attributes need no file. Events are JSON, one a line.

  ## Example

      mix be_tree.match --schema schema.json --expressions expressions.csv --events events.ndjson --out results.ndjson
      mix be_tree.match --expressions P_128_Ex_5_000.txt --events P_128_Ev_3_000.txt
      mix be_tree.match --schema betree_defs --expressions betree_exprs --events betree_events --out results

  At the end the task prints the numbers of expressions, events and matches, the speed of the searches, and their fuel and
  slices. The times are those of the searches only, including the decoding of the event. Expressions are built and
  then published (`BeTree.publish/2`), and an image is a published index too, so both are timed alike.

  ## Options

    * `--expressions` - the expressions;
    * `--image` - an image in place of the expressions, as `mix be_tree.image` builds it;
    * `--ids` - the file of ids that `mix be_tree.image build --ids` wrote with the image;
    * `--events` - the events;
    * `--schema` - the attributes, unless the file of expressions begins with them or has patterns;
    * `--constants` - the ids and constants of the expressions;
    * `--out` - a file for the results: for each event a line with a JSON array of ids as the expressions' file has them. They
      ascend, or are in the order of that file if an id in it is no unsigned 64-bit integer. With `-` the results go to
      the standard output, and the other output to the standard error. An existing file is replaced when all events are matched,
      and stays as it is if one cannot be;
    * `--on-mismatch` - with `undefined` a value of an event that does not fit its attribute counts as undefined, unless the attribute is
      required (`BeTree.Domain`). Defaults to `error`;
    * `--quiet` - no progress. Otherwise the task tells it on the standard error: on a terminal in one line, else every ten seconds;
    * `--stats` - also print the work of the index and its size.

  Each input may be a pipe, or `-` for the standard input: it is opened and read once. An output may be a pipe or a device. It must not be one of
  the inputs.

  On an error in a file the task prints the file, the line and the column, and ends with status 1.
  Expressions are held in memory; events are read one by one.
  """

  use Mix.Task

  alias Mix.BeTree.{Command, Progress}
  alias BeTree.Files.{Match, Results}

  @requirements ["app.start"]

  @switches [
    expressions: :string,
    image: :string,
    ids: :string,
    events: :string,
    schema: :string,
    constants: :string,
    out: :string,
    on_mismatch: :string,
    quiet: :boolean,
    stats: :boolean
  ]

  @usage "mix be_tree.match --expressions FILE --events FILE " <>
           "[--schema FILE] [--constants FILE] [--out FILE] [--on-mismatch undefined] [--stats]\n" <>
           "       mix be_tree.match --image FILE [--ids FILE] --events FILE [--out FILE] [--on-mismatch undefined] [--stats]"

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  defp run(options, rest) do
    Command.check_sources!(options, rest, @usage)

    {target, summary} =
      Progress.run([quiet: quiet?(options)], fn show ->
        with_output(options, fn write ->
          {target, summary} = index(options, show)
          {target, match(target, summary, options, &write.(Results.line(&1, summary.ids)), show)}
        end)
      end)

    say(options, Match.report(summary))
    if options[:stats], do: say(options, Match.report_index(summary, target))
  end

  # Progress would stand between results on a terminal.
  defp quiet?(options), do: options[:quiet] || (options[:out] == "-" and Command.terminal?())

  defp index(options, show) do
    {target, summary} = Command.open!(options, show)
    {target, %{summary | on_mismatch: Command.on_mismatch!(options)}}
  end

  defp match(target, summary, options, write, show) do
    Command.ok!(
      Match.run(target, summary, options[:events], fn summary, _event, ids ->
        write.(ids)
        show.("searching for events", summary.events)
      end)
    )
  end

  # Calls `fun` with a function that writes a line of results.
  defp with_output(options, fun) do
    case options[:out] do
      nil ->
        fun.(fn _line -> :ok end)

      "-" ->
        fun.(&IO.binwrite/1)

      path ->
        Command.with_output!(path, Command.inputs(options), fun)
    end
  end

  defp say(options, text) do
    if options[:out] == "-", do: IO.write(:stderr, text), else: Mix.shell().info(String.trim_trailing(to_string(text)))
  end
end

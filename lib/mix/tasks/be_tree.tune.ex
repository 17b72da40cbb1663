defmodule Mix.Tasks.BeTree.Tune do
  @shortdoc "Measures an index on your events, and recommends how to search it"
  @moduledoc """
  Measures an index on your events, recommends how to search it, and writes a report.

      mix be_tree.tune --expressions FILE --events FILE [--schema FILE] [--constants FILE] [--out FOLDER]
      mix be_tree.tune --image FILE [--ids FILE] --events FILE
      mix be_tree.tune --workload W3
      mix be_tree.tune --budget ...
      mix be_tree.tune --compare OLD.json ...
      mix be_tree.tune --calibrate

  The files are in the formats of `BeTree.Files`, as those of `mix be_tree.match`. The first 10,000 events are used. In two minutes the task

    * counts the fuel of every event, and shows what total budgets would end, and where the fuel goes (`BeTree.profile/3`);
    * measures slices, fuel per reduction, batches, replicas and numbers of processes: searches a second, the time of a call from
      p50 to p99.9, and how late a process wakes that sleeps a millisecond beside the searches;
    * recommends one configuration, ready to paste, or says that the machine is too noisy for that;
    * writes `tune.html`, a page with charts that needs no network, and `tune.json`, which `--compare` reads.

  Nothing else should run meanwhile. `BeTree.Tune` describes the statistics.

  ## Options

    * `--expressions` - the expressions;
    * `--schema` - the attributes, unless the file of expressions begins with them;
    * `--constants` - the ids and constants of the expressions;
    * `--on-mismatch` - with `undefined` a value of an event that does not fit an optional attribute counts as undefined
      (`BeTree.Domain`). Defaults to `error`, and belongs to `--expressions`;
    * `--image` - an image in place of the expressions, as `mix be_tree.image` builds it;
    * `--ids` - the file of ids that `mix be_tree.image build --ids` wrote with the image;
    * `--events` - the events;
    * `--workload` - generated expressions and events in place of files: `W1`, dense boolean expressions, or `W3`, ad targeting;
    * `--out` - the folder of the report. Defaults to `be_tree_tune`, and to `be_tree_tune/compared` with `--compare`;
    * `--seconds` - the seconds that times are measured. Defaults to 120. In 20 seconds five rounds of short turns fit;
    * `--quick` - the same as `--seconds 20`;
    * `--budget` - only what total budgets would end, and where the fuel goes. No time is measured: it takes seconds, and the
      result is the same on every machine;
    * `--quiet` - no progress. Otherwise the task tells it on the standard error: on a terminal in one line, else every ten seconds;
    * `--compare` - a `tune.json` of an earlier run. The task prints what became better or worse, and ends with status 1 if
      a figure is worse by more than the threshold, with 95 % confidence. With `--budget` only fuel is compared, which suits a
      busy CI;
    * `--threshold` - percent. Defaults to 5;
    * `--calibrate` - measure the fuel per reduction of this machine on two generated trees (`BeTree.Tune.Calibration`), for about
      ten seconds, and print the line for the configuration with which a time slice of searching takes 2.2 times as long as
      one of plain Elixir.

  ## Example

      mix be_tree.tune --schema schema.json --expressions expressions.csv --events events.ndjson
      mix be_tree.tune --schema betree_defs --expressions betree_exprs --events betree_events
      mix be_tree.tune --schema betree_defs --expressions betree_exprs --events betree_events --budget --compare be_tree_tune/tune.json

  Each input may be a pipe, or `-` for the standard input: it is opened and read once. The files of the report must not be among the inputs, and
  replace earlier ones when they are complete.

  On an error in a file the task prints the file, the line and the column, and ends with status 1.
  """

  use Mix.Task

  alias BeTree.Files.{Ids, Match}
  alias BeTree.Tune.Calibration
  alias BeTree.{Files, Tune}
  alias Mix.BeTree.{CalibrationText, Command, Progress, TuneText}

  @requirements ["app.start"]

  @switches [
    expressions: :string,
    schema: :string,
    constants: :string,
    on_mismatch: :string,
    image: :string,
    ids: :string,
    events: :string,
    workload: :string,
    out: :string,
    seconds: :integer,
    quick: :boolean,
    quiet: :boolean,
    budget: :boolean,
    compare: :string,
    threshold: :float,
    calibrate: :boolean
  ]

  @usage "mix be_tree.tune --expressions FILE --events FILE [--schema FILE] [--constants FILE] [--out FOLDER]\n" <>
           "       mix be_tree.tune --image FILE [--ids FILE] --events FILE\n" <>
           "       mix be_tree.tune --workload W1|W3\n" <>
           "       mix be_tree.tune --calibrate"

  @workloads %{"W1" => Calibration.Dense, "W3" => Calibration.AdTargeting}
  @quick 20
  @max_events 10_000

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  defp run(_options, [first | _]), do: refuse("#{inspect(first)} belongs to no option")

  defp run(options, []) do
    if options[:calibrate], do: calibrate(Keyword.delete(options, :calibrate)), else: tune(options)
  end

  defp calibrate([]), do: Calibration.measure() |> CalibrationText.of() |> Mix.shell().info()
  defp calibrate([{name, _value} | _]), do: refuse("--calibrate and --#{name} exclude each other")

  defp tune(options) do
    check!(options)
    warn_of_missing_page()
    paths = for name <- ["tune.json", "tune.html"], do: Path.join(folder!(options), name)
    inputs = Command.values_of(options, [:expressions, :schema, :constants, :image, :ids, :events, :compare])
    for path <- paths, do: Command.check_output!(path, inputs)
    old = options[:compare] && earlier!(options[:compare])
    run = Progress.run(options, &measure(options, &1))
    run = if old, do: Tune.compare(run, old, (options[:threshold] || 5.0) / 100), else: run

    Mix.shell().info(TuneText.of(run))
    write!(run, paths, inputs)
    if run.comparison && run.comparison.worse, do: Mix.raise(TuneText.worse(run.comparison))
  end

  defp measure(options, show) do
    {target, events, others, ids} = input(options, show)
    progress = fn part, share -> show.(part_name(part), share) end

    target
    |> Tune.run(events, [seconds: seconds(options), progress: progress] ++ others)
    |> Command.ok!(&located(&1, events, others[:lines], options[:events]))
    |> with_ids(ids)
  end

  # Said before the measurement, which takes minutes.
  defp warn_of_missing_page do
    with {:error, error} <- Tune.Report.check(),
         do:
           Mix.shell().error(
             "There will be no page with charts, only text and tune.json: #{Exception.message(error)}\n"
           )
  end

  defp check!(options) do
    for {one, other} <- [
          expressions: :image,
          expressions: :workload,
          image: :workload,
          quick: :seconds,
          budget: :seconds,
          budget: :quick
        ],
        options[one] && options[other],
        do: refuse("--#{one} and --#{other} exclude each other")

    for name <- [:schema, :constants, :on_mismatch],
        options[name],
        not Keyword.has_key?(options, :expressions),
        do: refuse("--#{String.replace(to_string(name), "_", "-")} belongs to --expressions")

    Command.check_ids!(options, @usage)

    cond do
      options[:workload] && options[:events] -> refuse("--workload and --events exclude each other")
      options[:workload] -> :ok
      options[:image] -> Command.require!(options, [:events], @usage)
      true -> Command.require!(options, [:expressions, :events], @usage)
    end

    if options[:seconds] && options[:seconds] < 1, do: refuse("--seconds is 1 or more, got: #{options[:seconds]}")

    if options[:threshold] && options[:threshold] < 0,
      do: refuse("--threshold is 0 or more, got: #{options[:threshold]}")

    if options[:threshold] && !options[:compare], do: refuse("--threshold belongs to --compare")
  end

  defp folder(options), do: options[:out] || if(options[:compare], do: "be_tree_tune/compared", else: "be_tree_tune")

  # Makes the folder if it is missing.
  defp folder!(options) do
    folder = folder(options)
    File.mkdir_p!(folder)
    folder
  rescue
    error in File.Error -> Mix.raise(Exception.message(error))
  end

  defp seconds(options) do
    cond do
      options[:budget] -> nil
      options[:quick] -> @quick
      true -> options[:seconds] || 120
    end
  end

  # Returns the searched tree or index, the events, further options of `BeTree.Tune.run/3`, and the given ids.
  defp input(options, show) do
    cond do
      name = options[:workload] -> workload(name)
      options[:image] -> image(options)
      true -> files(options, show)
    end
  end

  defp image(options) do
    {index, summary} = options |> Keyword.take([:image, :ids]) |> Match.open() |> Command.ok!()
    with_events(index, options, [], summary.ids)
  end

  defp files(options, show) do
    others = [progress: show] ++ Keyword.take(options, [:schema, :constants])

    case Match.build_with_subscriptions(options[:expressions], others, on_mismatch: Command.on_mismatch!(options)) do
      {:ok, tree, summary, subscriptions} ->
        with_events(tree, options, [subscriptions: subscriptions], summary.ids)

      {:error, error} ->
        Mix.raise(Exception.message(error))
    end
  end

  defp with_events(target, options, others, ids) do
    {events, lines} = options[:events] |> Files.events() |> Enum.take(@max_events) |> Enum.unzip()
    if events == [], do: Mix.raise("#{options[:events]}: there are no events to measure with")
    {target, events, [lines: lines] ++ others, ids}
  rescue
    error in Files.Error -> Mix.raise(Exception.message(error))
  end

  defp workload(name) do
    workload =
      @workloads[name] ||
        refuse(
          "there is no workload #{name}, only W1 and W3. `mix be_tree.gen` writes files of others in a checkout of BeTree"
        )

    parameters = Map.put(workload.defaults(), :events, 1_000)
    subscriptions = parameters |> workload.expressions() |> Enum.with_index(&{&2 + 1, &1})
    tree = Command.ok!(BeTree.new(workload.schema(parameters)))
    BeTree.insert_all!(tree, subscriptions)
    {tree, Enum.to_list(workload.events(parameters)), [subscriptions: subscriptions], nil}
  end

  # Returns the run with the given id of each expression.
  defp with_ids(run, ids) do
    stops =
      for stop <- run.budget.stops do
        %{stop | most: stop.most && for(entry <- stop.most, do: %{entry | id: Ids.given(ids, entry.id)})}
      end

    texts = Map.new(run.input.texts, fn {number, text} -> {Ids.given(ids, number), text} end)

    %{
      run
      | profile: Match.with_ids(run.profile, ids),
        budget: %{run.budget | stops: stops},
        input: %{run.input | texts: texts}
    }
  end

  # An error of an event gets the event's line.
  defp located(%BeTree.Error{position: position} = error, events, lines, path)
       when is_list(lines) and is_integer(position) do
    [event, line] = for list <- [events, lines], do: Enum.at(list, position)
    error |> Files.locate_event(event, path, line) |> Exception.message()
  end

  defp located(error, _events, _lines, _path), do: Exception.message(error)

  defp write!(run, [json, html], inputs) do
    Command.write_output!(json, Tune.to_json(run), inputs)

    case Tune.to_html(run) do
      {:ok, page} ->
        Command.write_output!(html, page, inputs)
        Mix.shell().info("\nThe report: #{html}\nFor a later --compare: #{json}")

      {:error, error} ->
        Mix.shell().info("\nNo report: #{Exception.message(error)}\nFor a later --compare: #{json}")
    end
  end

  defp earlier!(path) do
    path |> Command.read_text!() |> Tune.read() |> Command.ok!(&"#{path}: #{Exception.message(&1)}")
  end

  defp part_name(:fuel), do: "counting fuel"
  defp part_name(:profile), do: "profiling"
  defp part_name(:sweep), do: "measuring configurations"
  defp part_name(:confirmation), do: "measuring the best again, beside the defaults"

  @spec refuse(String.t()) :: no_return
  defp refuse(message), do: Mix.raise("#{message}\n\nUsage: #{@usage}")
end

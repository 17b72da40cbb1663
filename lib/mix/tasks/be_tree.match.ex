defmodule Mix.Tasks.BeTree.Match do
  @shortdoc "Matches a file of events against a file of expressions"
  @moduledoc """
  Matches a file of events against a file of expressions.

      mix be_tree.match --expressions FILE --events FILE [--domains FILE] [--constants FILE] [--out FILE] [--stats]

  The files are in either of the formats of `BeTree.Files`, told apart by their content:

      mix be_tree.match --expressions P_128_Ex_5_000.txt --events P_128_Ev_3_000.txt
      mix be_tree.match --domains betree_defs --expressions betree_exprs --events betree_events --out results

  At the end it prints how many expressions, events and matches there were, how fast the searches went, and what fuel
  and how many slices they took. The clock runs during the searches only, the decoding of the event included.

  ## Options

    * `--expressions` - the expressions;
    * `--events` - the events;
    * `--domains` - the attributes, where the file of expressions does not begin with them;
    * `--constants` - the ids and constants of the expressions;
    * `--out` - a file for the results, one JSON array of ascending ids a line and event. With `-` they go to the
      standard output and all else to the standard error;
    * `--stats` - also print what the index did and how large it is.

  Where anything is wrong with the files, it says so with the file, the line and the column, and ends with status 1.
  Expressions are held in memory, events are read one by one.
  """

  use Mix.Task

  alias BeTree.Command
  alias BeTree.Files.{Match, Results}

  @requirements ["app.start"]

  @switches [
    expressions: :string,
    events: :string,
    domains: :string,
    constants: :string,
    out: :string,
    stats: :boolean
  ]

  @usage "mix be_tree.match --expressions FILE --events FILE " <>
           "[--domains FILE] [--constants FILE] [--out FILE] [--stats]"

  # How often a terminal is told how far it is.
  @progress_milliseconds 200

  @impl true
  def run(arguments) do
    {options, rest} = Command.parse!(arguments, @switches)
    if rest != [], do: Mix.raise("#{inspect(hd(rest))} belongs to no option\n\nUsage: #{@usage}")
    Command.require!(options, [:expressions, :events], @usage)

    with_output(options[:out], fn write ->
      {tree, summary} = build(options)
      summary = match(tree, summary, options, write)
      say(options, Match.report(summary))
      if options[:stats], do: say(options, Match.report_index(summary, tree))
    end)
  end

  defp build(options) do
    show(options, "building the index")

    case Match.build(options[:expressions], Keyword.take(options, [:domains, :constants])) do
      {:ok, tree, summary} -> {tree, summary}
      {:error, error} -> Mix.raise(Exception.message(error))
    end
  end

  defp match(tree, summary, options, write) do
    progress = progress(options)

    matched =
      Match.run(tree, summary, options[:events], fn summary, _event, ids ->
        write.(ids)
        progress.(summary)
      end)

    case matched do
      {:ok, summary} -> summary
      {:error, error} -> Mix.raise(Exception.message(error))
    end
  end

  # Calls `fun` with a function that writes the ids of one event.
  defp with_output(nil, fun), do: fun.(fn _ids -> :ok end)
  defp with_output("-", fun), do: fun.(&IO.binwrite(Results.line(&1)))

  defp with_output(path, fun) do
    case :file.open(path, [:write, :raw, :delayed_write]) do
      {:ok, device} ->
        fun.(&write!(device, path, Results.line(&1)))
        finish!(:file.close(device), path)

      {:error, reason} ->
        finish!({:error, reason}, path)
    end
  end

  defp write!(device, path, line), do: finish!(:file.write(device, line), path)

  defp finish!(:ok, _path), do: :ok
  defp finish!({:error, reason}, path), do: Mix.raise("#{path}: #{:file.format_error(reason)}")

  defp say(options, text) do
    if options[:out] == "-", do: IO.write(:stderr, text), else: Mix.shell().info(String.trim_trailing(to_string(text)))
  end

  # A function that shows now and then how many events are done, on a terminal.
  defp progress(options) do
    shown = :atomics.new(1, [])

    fn summary ->
      now = System.monotonic_time(:millisecond)

      if now - :atomics.get(shown, 1) >= @progress_milliseconds do
        :atomics.put(shown, 1, now)
        show(options, "#{Command.grouped(summary.events)} events")
      end
    end
  end

  # A line that the next one overwrites; only where somebody looks, and no results go there.
  defp show(options, text) do
    if options[:out] != "-" and Command.terminal?(), do: IO.write(["\r", String.pad_trailing(text, 40), "\r"])
  end
end

defmodule Mix.Tasks.BeTree.Profile do
  @shortdoc "Shows where the fuel of searches goes"
  @moduledoc """
  Searches for a file of events in a file of expressions, and shows where the fuel goes: by phase, by attribute, by expression
  and by event (`BeTree.Profile`).

      mix be_tree.profile --expressions FILE --events FILE [--schema FILE] [--constants FILE] [--top N] [--folded FILE]
      mix be_tree.profile --image FILE [--ids FILE] --events FILE [--top N] [--folded FILE]

  The files are in the formats of `BeTree.Files`, told apart by their content, as those of `mix be_tree.match`.

  The output is the same on every machine, as it counts fuel and not time. An event takes some five times as long as its
  search. The profile of all events is held in memory.

  ## Options

    * `--expressions` - the expressions;
    * `--image` - an image in place of the expressions, as `mix be_tree.image` builds it;
    * `--ids` - the file of ids that `mix be_tree.image build --ids` wrote with the image;
    * `--events` - the events;
    * `--schema` - the attributes, unless the file of expressions begins with them;
    * `--constants` - the ids and constants of the expressions;
    * `--on-mismatch` - with `undefined` a value of an event that does not fit its attribute counts as undefined, unless the attribute is
      required (`BeTree.Domain`). Defaults to `error`;
    * `--top` - the number of attributes, expressions and events to show, 10 by default;
    * `--quiet` - no progress. Otherwise the task tells it on the standard error: on a terminal in one line, else every ten seconds;
    * `--folded` - a file for the stacks in the folded format, from which tools such as `flamegraph.pl`, inferno and speedscope
      draw a flame graph.

  Each input may be a pipe, or `-` for the standard input: it is opened and read once. An existing file of stacks is replaced as a whole. It may be a
  pipe or a device, and must not be one of the inputs.

  ## Example

      mix be_tree.profile --schema schema.json --expressions expressions.csv --events events.ndjson
      mix be_tree.profile --schema betree_defs --expressions betree_exprs --events betree_events --folded search.folded
  """

  use Mix.Task

  alias BeTree.Files.Match
  alias BeTree.Profile
  alias Mix.BeTree.{Command, Progress}

  import BeTree.Input.Describe, only: [grouped: 1]

  @requirements ["app.start"]

  @switches [
    expressions: :string,
    image: :string,
    ids: :string,
    events: :string,
    schema: :string,
    constants: :string,
    on_mismatch: :string,
    quiet: :boolean,
    top: :integer,
    folded: :string
  ]

  @usage "mix be_tree.profile --expressions FILE --events FILE [--schema FILE] [--constants FILE] [--top N] [--folded FILE]\n" <>
           "       mix be_tree.profile --image FILE [--ids FILE] --events FILE [--top N] [--folded FILE]"

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  defp run(options, rest) do
    Command.check_sources!(options, rest, @usage)
    Command.check_count!(options, :top)

    inputs = Command.inputs(options)
    if options[:folded], do: Command.check_output!(options[:folded], inputs)
    profile = Progress.run(options, &profile(options, &1))
    if options[:folded], do: Command.write_output!(options[:folded], Profile.folded(profile), inputs)

    profile
    |> report(Keyword.get(options, :top, 10))
    |> IO.iodata_to_binary()
    |> String.trim_trailing()
    |> Mix.shell().info()
  end

  defp profile(options, show) do
    {index, summary} = Command.open!(options, show)
    show.("profiling the searches", nil)
    summary = %{summary | on_mismatch: Command.on_mismatch!(options)}
    index |> Match.profile(summary, options[:events]) |> Command.ok!()
  end

  defp report(%{searches: 0}, _top), do: "There are no events.\n"

  defp report(profile, top) do
    [
      "#{grouped(profile.searches)} searches, #{grouped(profile.fuel)} fuel, #{grouped(div(profile.fuel, profile.searches))} a search\n\n",
      for(text <- Profile.advice(profile), do: ["  ", text, ".\n"]),
      "\nphase             fuel      %\n",
      for({phase, fuel} <- profile.phases, do: phase(phase, fuel, profile.fuel)),
      table(
        "\nattribute that leads",
        ~w(lookups nodes entries proven candidates failed),
        profile.attributes,
        top,
        fn row ->
          {row.name || "(every event)", [row.lookups, row.nodes, row.entries, row.proven, row.candidates, row.failed],
           failed_by(row)}
        end
      ),
      table("\nexpression", ~w(candidate tests matched failed), profile.expressions, top, fn row ->
        {to_string(row.id), [row.candidate, row.tests, row.matched, row.failed], ""}
      end),
      table("\nevent, from 0", ~w(fuel visited evaluated matches), profile.events, top, fn row ->
        {Integer.to_string(row.position), [row.fuel, row.visited, row.evaluated, row.matches], row.reason}
      end)
    ]
  end

  defp phase(phase, fuel, all) do
    percent = :erlang.float_to_binary(100 * fuel / all, decimals: 1)

    [
      String.pad_trailing(Atom.to_string(phase), 10),
      String.pad_leading(grouped(fuel), 12),
      String.pad_leading(percent, 7),
      "\n"
    ]
  end

  defp failed_by(%{failed_by: []}), do: ""
  defp failed_by(%{failed_by: [{name, times} | _]}), do: "#{grouped(times)} on #{name}"

  defp table(_title, _columns, [], _top, _cells), do: []
  defp table(_title, _columns, _rows, 0, _cells), do: []

  defp table(title, columns, rows, top, cells) do
    [
      line(title, columns, ""),
      for(
        row <- Enum.take(rows, top),
        {name, numbers, note} = cells.(row),
        do: line(name, Enum.map(numbers, &grouped/1), note)
      ),
      if(length(rows) > top, do: "and #{grouped(length(rows) - top)} more\n", else: [])
    ]
  end

  defp line(name, cells, note) do
    cells = for cell <- cells, do: String.pad_leading(cell, 12)
    [String.trim_trailing(IO.iodata_to_binary([String.pad_trailing(name, 22), cells, "  ", note])), "\n"]
  end
end

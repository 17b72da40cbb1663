defmodule Mix.Tasks.BeTree.Demo do
  @shortdoc "Demonstrates BeTree on two generated workloads"
  @moduledoc """
  This task demonstrates BeTree on two workloads that it generates into a temporary folder.

      mix be_tree.demo

  It matches events against 5,000 dense boolean trees (`BeTree.Workload.W1`) and against 10,000 ad-targeting expressions
  (`BeTree.Workload.W3`). It prints an explanation of one match in each, and the cost of the searches.

  ## Options

  There are none but `--help`.

  ## Example

      mix be_tree.demo
  """

  use Mix.Task

  alias BeTree.{Explanation, Files, Workload}
  alias Mix.BeTree.Command
  alias BeTree.Files.Match

  @requirements ["app.start"]

  # Expressions near this length fit a terminal and are not trivial.
  @telling_length 120

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, [], &run/2)

  defp run([], rest) do
    if rest != [], do: Mix.raise("mix be_tree.demo takes no arguments, got: #{Enum.join(rest, " ")}")

    with_folder(fn folder ->
      show("Dense trees over 128 boolean attributes", Workload.W1, 5_000, 1_000, folder, &show_dense/4)
      say("")
      show("Ad targeting, 122 attributes", Workload.W3, 10_000, 5_000, folder, &show_targeting/4)
    end)
  end

  defp with_folder(fun) do
    folder = Path.join(System.tmp_dir!(), "be_tree_demo_#{System.unique_integer([:positive])}_#{System.pid()}")

    try do
      fun.(folder)
    after
      File.rm_rf!(folder)
    end
  end

  defp show(title, workload, expressions, events, folder, show_match) do
    say([:bright, title, :reset])
    files = Workload.write(workload, %{workload.defaults() | expressions: expressions, events: events}, folder)
    options = files |> Map.take([:schema]) |> Map.to_list()

    {tree, summary} = Command.ok!(Match.build(files.expressions, options))
    [{event, _line}] = files.events |> Files.events() |> Enum.take(1)
    {_schema, subscriptions} = Command.ok!(Files.load(files.expressions, options))
    show_match.(tree, event, BeTree.search!(tree, event), subscriptions)

    summary = Command.ok!(Match.run(tree, summary, files.events, fn _summary, _event, _ids -> :ok end))
    say(["\n", Match.report(summary)])
  end

  defp show_dense(tree, event, [id | _rest] = ids, subscriptions) do
    {text, length} = text(subscriptions, id)
    {:record, bits} = event
    settled = length(Explanation.deciding(BeTree.explain!(tree, event, id)))

    say("""

      event         #{bits |> Enum.join() |> String.slice(0, 60)}...
      matches       #{length(ids)} expressions, the first #{ids |> Enum.take(8) |> Enum.join(", ")}
      expression #{id}  #{String.slice(text, 0, 60)}... (#{length} characters)
      its reason    #{settled} of its #{length(bits)} predicates settle it
    """)
  end

  defp show_targeting(tree, event, ids, subscriptions) do
    {id, text} = ids |> Enum.map(&{&1, elem(text(subscriptions, &1), 0)}) |> Enum.min_by(&strangeness/1)
    {:json, json} = event

    say("""

      event         #{String.slice(json, 0, 90)}...
      matches       #{length(ids)} expressions, the first #{ids |> Enum.take(8) |> Enum.join(", ")}
      expression #{id}  #{text}
    """)

    for line <- tree |> BeTree.explain!(event, id) |> to_string() |> String.split("\n"), do: say(["    ", line])
  end

  # The distance of an expression from an ideal example: a conjunction of that length.
  defp strangeness({_id, text}), do: {not String.contains?(text, " and "), abs(String.length(text) - @telling_length)}

  defp text(subscriptions, id) do
    text = subscriptions |> List.keyfind!(id, 0) |> elem(1)
    {text, String.length(text)}
  end

  defp say(text), do: text |> IO.ANSI.format() |> to_string() |> String.trim_trailing("\n") |> Mix.shell().info()
end

defmodule Mix.Tasks.BeTree.Bench do
  @shortdoc "Measures the index natively, in the sandbox and from Elixir, beside its peers"
  @moduledoc """
  This task measures BeTree on generated workloads: natively, in the sandbox with and without fuel, and from Elixir. The
  same run measures a plain loop over all expressions, a bit-sliced loop, and the crates a-tree and quamina.

      mix be_tree.bench [--quick] [--only W1,W3]

  The task works in a checkout of BeTree, not in a project that depends on it. The first run compiles the measuring
  program of `bench/native`, and generates the workloads into `_build/bench`. A full run then takes about a quarter of an
  hour, and a quick one less than two minutes. Run nothing else meanwhile.

  All engines must find the same ids. The count and the sum of the ids are compared event by event, and a difference ends
  the run with status 1. A slow time does not. Each workload has a table of times in microseconds an event. Lines with
  conclusions follow, each with its bar, if it has one, and whether that holds. All results are also written to
  `_build/bench/results.jsonl`, times in nanoseconds an event (`build` in microseconds): first a line about the machine,
  then one line per measurement and per bar.

  | workload | content |
  | --- | --- |
  | `tiny` | three expressions: what a call costs |
  | `W1` | dense boolean trees |
  | `W3` | ad targeting |
  | `W4` | alert routing, with events that match and events that nearly do |
  | `W8` | alert routing by starts, ends and parts of a message |
  | `W9` | circles around places |
  | `W2` | arbitrary expressions with shared parts |
  | `W6` | W3 while expressions come and go |
  | `W5` | conjunctive publish/subscribe |
  | `structures` | rules that are one predicate of each kind that leads, changes of them, and adversaries |
  | `adversaries` | skewed values and events, wide domains, many alternatives |

  ## Options

    * `--quick` - run fewer and smaller cases for a shorter time;
    * `--only` - the workloads to run, in this order.

  ## Example

      mix be_tree.bench --quick --only W1,W3
  """

  use Mix.Task

  alias Mix.BeTree.Command

  # Compiled by load/0.
  @compile {:no_warn_undefined, [BeTree.Bench, BeTree.Bench.Cases]}

  @requirements ["app.start"]

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, [quick: :boolean, only: :string], &run/2)

  defp run(options, rest) do
    if rest != [], do: Mix.raise("#{inspect(hd(rest))} belongs to no option")
    load()
    names = BeTree.Bench.Cases.names()
    only = if options[:only], do: String.split(options[:only], ","), else: names

    for name <- only, name not in names do
      Mix.raise("there is no workload #{inspect(name)}, only #{Enum.join(names, ", ")}")
    end

    BeTree.Bench.run(only, options[:quick] || false)
  end

  # The benchmark is not part of the library, so it is compiled when it runs.
  defp load do
    if not Code.ensure_loaded?(BeTree.Bench) do
      paths = Path.wildcard("bench/*.ex")
      if paths == [], do: Mix.raise("there is no folder bench here; the benchmark runs in a checkout of BeTree")
      {:ok, _modules, _warnings} = Kernel.ParallelCompiler.compile(paths, return_diagnostics: true)
    end
  end
end

defmodule Mix.Tasks.BeTree.Bench do
  @shortdoc "Measures the index natively, in the sandbox and from Elixir, beside its peers"
  @moduledoc """
  Measures BeTree on generated workloads: natively, in the sandbox with and without fuel, and from Elixir, in the same
  run as a plain loop over all expressions, a bit-sliced loop, and the crates a-tree and quamina.

      mix be_tree.bench [--quick] [--only W1,W3]

  It works in a checkout of BeTree, not in a project that depends on it. The first run compiles the measuring program of
  `bench/native`, and generates the workloads into `_build/bench`; a full run then takes about a quarter of an hour, a
  quick one less than two minutes. Nothing else should be running.

  Every engine has to find the same ids, of which the count and the sum are compared event by event: one that finds
  others ends the run with status 1. No time ever does. Each workload has a table of times in microseconds an event,
  then lines that say what follows from them, each beside the bar that it is held against, if there is one, and whether
  that holds. All of it is also written to `_build/bench/results.jsonl`, times in nanoseconds an event (`build` in
  microseconds): first a line about the machine, then one line a measurement and one a bar.

  | workload | what it is like |
  | --- | --- |
  | `tiny` | three expressions: what a call costs |
  | `W1` | dense boolean trees |
  | `W3` | ad targeting |
  | `W4` | alert routing, with events that match and events that nearly do |
  | `W2` | arbitrary expressions with shared parts |
  | `W6` | W3 while expressions come and go |
  | `W5` | conjunctive publish/subscribe |
  | `adversaries` | skewed values and events, wide domains, many alternatives |

  ## Options

    * `--quick` - fewer and smaller cases, measured for a shorter time;
    * `--only` - the workloads to run, in this order.
  """

  use Mix.Task

  alias Mix.BeTree.Command

  # Compiled by load/0.
  @compile {:no_warn_undefined, [BeTree.Bench, BeTree.Bench.Cases]}

  @requirements ["app.start"]

  @impl true
  def run(arguments) do
    {options, rest} = Command.parse!(arguments, quick: :boolean, only: :string)
    if rest != [], do: Mix.raise("#{inspect(hd(rest))} belongs to no option")
    load()
    names = BeTree.Bench.Cases.names()
    only = if options[:only], do: String.split(options[:only], ","), else: names

    for name <- only, name not in names do
      Mix.raise("there is no workload #{inspect(name)}, only #{Enum.join(names, ", ")}")
    end

    BeTree.Bench.run(only, options[:quick] || false)
  end

  # The benchmark is no part of the library, so it is compiled where it is run.
  defp load do
    if not Code.ensure_loaded?(BeTree.Bench) do
      paths = Path.wildcard("bench/*.ex")
      if paths == [], do: Mix.raise("there is no folder bench here; the benchmark runs in a checkout of BeTree")
      {:ok, _modules, _warnings} = Kernel.ParallelCompiler.compile(paths)
    end
  end
end

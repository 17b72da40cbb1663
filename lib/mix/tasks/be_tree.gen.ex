defmodule Mix.Tasks.BeTree.Gen do
  @shortdoc "Generates a workload: expressions and events"
  @moduledoc """
  Generates a workload of `BeTree.Workload`: files of expressions and events for `mix be_tree.match`.

      mix be_tree.gen W1 --out FOLDER [--seed N] [--expressions N] [--events N] [--attributes 64|96|128]
      mix be_tree.gen W3 --out FOLDER [--seed N] [--expressions N] [--events N]

  The same options give the same files. Files that are there are overwritten. What a workload is like, and what its
  options are where they are not given, `BeTree.Workload.W1` and `BeTree.Workload.W3` tell.

  ## Options

    * `--out` - the folder, which is made where it is missing;
    * `--seed` - 0 or more;
    * `--expressions`, `--events` - how many;
    * `--attributes` - how many, for W1.
  """

  use Mix.Task

  alias BeTree.{Command, Workload}

  @requirements ["app.start"]

  @switches [out: :string, seed: :integer, expressions: :integer, events: :integer, attributes: :integer]
  @usage "mix be_tree.gen WORKLOAD --out FOLDER [--seed N] [--expressions N] [--events N] [--attributes N]"

  @impl true
  def run(arguments) do
    {options, rest} = Command.parse!(arguments, @switches)
    workload = workload!(rest)
    Command.require!(options, [:out], @usage)
    for name <- [:seed, :expressions, :events], do: Command.check_count!(options, name)

    parameters = parameters!(hd(rest), workload.defaults(), Keyword.delete(options, :out))
    {elapsed, files} = :timer.tc(fn -> write!(workload, parameters, options[:out]) end)

    Mix.shell().info("""
    #{Command.grouped(parameters.expressions)} expressions and #{Command.grouped(parameters.events)} events \
    in #{Command.grouped(div(elapsed, 1_000))} ms. To match them:

        mix be_tree.match #{match_arguments(files)}\
    """)
  end

  defp workload!([name]) do
    case Workload.all() do
      %{^name => workload} -> workload
      all -> Mix.raise("there is no workload #{name}, only #{Enum.join(Map.keys(all), " and ")}")
    end
  end

  defp workload!(_other), do: Mix.raise("one workload is to be named\n\nUsage: #{@usage}")

  defp parameters!(name, defaults, options) do
    for {key, value} <- options, reduce: defaults do
      parameters ->
        cond do
          not is_map_key(defaults, key) -> Mix.raise("#{name} has no --#{key}")
          key == :attributes and value not in [64, 96, 128] -> Mix.raise("--attributes is 64, 96 or 128, got: #{value}")
          true -> %{parameters | key => value}
        end
    end
  end

  defp write!(workload, parameters, folder) do
    Workload.write(workload, parameters, folder)
  rescue
    error in File.Error -> Mix.raise(Exception.message(error))
  end

  defp match_arguments(files) do
    roles = for role <- [:domains, :expressions, :constants, :events], is_map_key(files, role), do: role
    Enum.map_join(roles, " ", &"--#{&1} #{files[&1]}")
  end
end

defmodule Mix.Tasks.BeTree.Gen do
  @shortdoc "Generates a workload: expressions and events"
  @moduledoc """
  This task generates a workload of `BeTree.Workload`: files of expressions and events for `mix be_tree.match`.

      mix be_tree.gen WORKLOAD --out FOLDER [--seed N] [--expressions N] [--events N] [options of the workload]

  The same options give the same files. Existing files are replaced, each when it is complete. `BeTree.Workload` lists the workloads,
  whose modules describe the defaults of their options.

  ## Options

    * `--out` - the folder, which is made if it is missing;
    * `--seed` - a number from 0;
    * `--expressions`, `--events` - the numbers of expressions and events;
    * `--attributes` - for W1: 64, 96 or 128;
    * `--sharing` - for W2: the exponent, from 0.0;
    * `--near-miss` - for W4: events that nothing matches;
    * `--dimensions` - for W5: the number of dimensions, from 1;
    * `--skew` - for W5: the exponent, from 0.0;
    * `--equality` - for W5: the share of equalities, from 0.0 to 1.0;
    * `--matching` - for W5: the probability of a match, from 0.001 to 1.0;
    * `--patterns` - for W8: the percentage of rules with patterns, from 0 to 100;
    * `--form` - for W8: `start`, `end`, `part`, `like`, `network`, `regex` or `mixed`;
    * `--city` - for W9: circles around one city.

  ## Example

      mix be_tree.gen W3 --out tmp/w3 --expressions 10000 --events 1000
  """

  use Mix.Task

  alias BeTree.Input.Describe
  alias BeTree.Workload
  alias Mix.BeTree.Command

  @requirements ["app.start"]

  @switches [
    out: :string,
    seed: :integer,
    expressions: :integer,
    events: :integer,
    attributes: :integer,
    sharing: :float,
    near_miss: :boolean,
    dimensions: :integer,
    skew: :float,
    equality: :float,
    matching: :float,
    patterns: :integer,
    form: :string,
    city: :boolean
  ]

  @usage "mix be_tree.gen WORKLOAD --out FOLDER [--seed N] [--expressions N] [--events N] [options of the workload]"

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, @switches, &run/2)

  defp run(options, rest) do
    workload = workload!(rest)
    Command.require!(options, [:out], @usage)
    for name <- [:seed, :expressions, :events], do: Command.check_count!(options, name)

    parameters = parameters!(hd(rest), workload.defaults(), Keyword.delete(options, :out))
    {elapsed, files} = :timer.tc(fn -> write!(workload, parameters, options[:out]) end)

    Mix.shell().info("""
    #{Describe.grouped(parameters.expressions)} expressions and #{Describe.grouped(parameters.events)} events \
    in #{Describe.grouped(div(elapsed, 1_000))} ms. To match them:

        mix be_tree.match #{match_arguments(files)}\
    """)
  end

  defp workload!([name]) do
    case Workload.all() do
      %{^name => workload} -> workload
      all -> Mix.raise("there is no workload #{name}, only #{all |> Map.keys() |> Enum.sort() |> Enum.join(", ")}")
    end
  end

  defp workload!(_other), do: Mix.raise("one workload is to be named\n\nUsage: #{@usage}")

  defp parameters!(name, defaults, options) do
    for {key, value} <- options, reduce: defaults do
      parameters ->
        if not is_map_key(defaults, key), do: Mix.raise("#{name} has no #{switch(key)}")
        check!(key, value)
        %{parameters | key => value}
    end
  end

  defp check!(:attributes, value), do: check!(:attributes, value, value in [64, 96, 128], "64, 96 or 128")
  defp check!(:dimensions, value), do: check!(:dimensions, value, value > 0, "1 or more")
  defp check!(key, value) when key in [:sharing, :skew], do: check!(key, value, value >= 0, "0.0 or more")
  defp check!(:equality, value), do: check!(:equality, value, value >= 0 and value <= 1, "from 0.0 to 1.0")
  defp check!(:matching, value), do: check!(:matching, value, value >= 0.001 and value <= 1, "from 0.001 to 1.0")
  defp check!(:patterns, value), do: check!(:patterns, value, value in 0..100, "from 0 to 100")

  defp check!(:form, value),
    do:
      check!(
        :form,
        value,
        value in ~w(start end part like network regex mixed),
        "start, end, part, like, network, regex or mixed"
      )

  defp check!(_key, _value), do: :ok

  defp check!(key, value, right?, expected) do
    if not right?, do: Mix.raise("#{switch(key)} is #{expected}, got: #{value}")
  end

  defp switch(key), do: "--" <> String.replace(to_string(key), "_", "-")

  defp write!(workload, parameters, folder) do
    Workload.write(workload, parameters, folder)
  rescue
    error in File.Error -> Mix.raise(Exception.message(error))
  end

  defp match_arguments(files) do
    roles = for role <- [:schema, :expressions, :constants, :events], is_map_key(files, role), do: role
    Enum.map_join(roles, " ", &"--#{&1} #{files[&1]}")
  end
end

defmodule BeTree.Bench.Rules.Peers do
  @moduledoc false
  # Runs other engines on the same rules and facts. Each function returns the seconds of its runs and its totals by name, or
  # the reason why the engine is left out.

  alias BeTree.Bench.Rules.{Clips, Drools, Program}

  @class_path "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"

  @type result :: {:ok, %{seconds: [float], totals: %{String.t() => integer}}} | {:skipped, String.t()}

  @doc "Returns the names and versions of installed peers, and the reasons for missing ones."
  @spec find(Path.t()) :: %{atom => {:ok, String.t(), term} | {:skipped, String.t()}}
  def find(folder) do
    %{clips: find_clips(), durable: find_durable(folder), drools: find_drools(folder)}
  end

  # The newest CLIPS of Debian. Its banner has the version.
  defp find_clips do
    case System.find_executable("clips") do
      nil -> {:skipped, "there is no clips; apt-get install clips"}
      clips -> {:ok, "CLIPS #{clips_version(clips)}", clips}
    end
  end

  defp clips_version(clips) do
    {banner, _status} = System.cmd("sh", ["-c", "echo '(exit)' | #{clips}"])
    [version] = Regex.run(~r/\d+\.\d+(?:\.\d+)?/, banner)
    version
  end

  # A Python virtual environment with durable_rules, compiled by pip.
  defp find_durable(folder) do
    # System.cmd does not find a program by a relative path.
    python = Path.expand("durable/bin/python", folder)

    unless File.exists?(python) do
      System.cmd(
        "sh",
        ["-c", "python3 -m venv #{folder}/durable && #{python} -m pip install --quiet setuptools durable_rules"],
        stderr_to_stdout: true
      )
    end

    case System.cmd("sh", ["-c", "#{python} -m pip show durable_rules"], stderr_to_stdout: true) do
      {shown, 0} -> {:ok, "durable_rules " <> hd(Regex.run(~r/(?<=Version: )\S+/, shown)), python}
      {_message, _status} -> {:skipped, "pip cannot install durable_rules"}
    end
  end

  # A class path of the libraries of Drools, fetched by Maven.
  defp find_drools(folder) do
    path = Path.join(folder, "drools.path")

    with java when java != nil <- System.find_executable("java"),
         maven when maven != nil <- System.find_executable("mvn") do
      unless File.exists?(path) do
        System.cmd(
          maven,
          ~w(--quiet --batch-mode --file bench/rules/drools/pom.xml #{@class_path} -Dmdep.outputFile=#{Path.expand(path)}),
          stderr_to_stdout: true
        )
      end

      case File.read(path) do
        {:ok, libraries} -> {:ok, "Drools " <> drools_version(libraries), {java, libraries}}
        {:error, _reason} -> {:skipped, "Maven cannot fetch Drools"}
      end
    else
      nil -> {:skipped, "there is no java or no mvn; apt-get install default-jdk-headless maven"}
    end
  end

  defp drools_version(libraries), do: hd(Regex.run(~r/(?<=drools-core-)[\d.]+\d/, libraries))

  @doc "Runs rules on facts in Drools, and fires them after each fact if the facts are messages."
  @spec drools({Path.t(), String.t()}, {String.t(), [String.t()]}, keyword, pos_integer, Path.t()) :: result
  def drools({java, libraries}, {rules, facts}, options, runs, folder) do
    [program, input] = for name <- ["program.drl", "facts"], do: Path.join(folder, name)
    File.write!(program, rules |> Program.read() |> Drools.program(options[:depth_first] || []))
    File.write!(input, Enum.intersperse(facts, "\n"))
    moment = if options[:messages], do: "each", else: "end"
    arguments = ["-cp", libraries, "bench/rules/drools/Run.java", program, input, moment, to_string(runs)]
    # The libraries log to the standard error.
    case System.cmd("sh", ["-c", ~s(exec "$0" "$@" 2>/dev/null), java | arguments ++ options[:counted]]) do
      {output, 0} -> {:ok, read(output, %{})}
      {output, status} -> raise "Drools ended with status #{status}:\n#{output}"
    end
  end

  @doc "Runs rules on facts in CLIPS."
  @spec clips(Path.t(), {String.t(), [String.t()]}, [String.t()], pos_integer, Path.t()) :: result
  def clips(clips, {rules, facts}, counted, runs, folder) do
    file = Path.join(folder, "program.clp")
    File.write!(file, rules |> Program.read() |> Clips.program(facts, runs, counted))
    {output, 0} = System.cmd("sh", ["-c", "#{clips} -f2 #{file} </dev/null"], stderr_to_stdout: true)

    {:ok,
     read(output, Map.new(Regex.scan(~r/(\d+) (rules) fired/, output), fn [_all, count, _] -> {"firings", count} end))}
  end

  @doc "Runs a message test in durable_rules, on messages decoded by its Python."
  @spec durable(Path.t(), String.t(), [String.t()], pos_integer, Path.t()) :: result
  def durable(python, test, facts, runs, folder) do
    file = Path.join(folder, "messages.json")
    File.write!(file, facts |> Enum.map(&json/1) |> Enum.intersperse("\n"))

    {output, 0} = System.cmd(python, ["bench/rules/messages.py", test, file, to_string(runs)], stderr_to_stdout: true)

    {:ok, read(output, %{})}
  end

  defp json(line) do
    {_type, fields} = Program.fact(line)
    fields = for {name, value} <- fields, do: "#{inspect(name)}:#{inspect(value)}"
    "{#{Enum.join(fields, ",")}}"
  end

  # Each line has a name and a number.
  defp read(output, totals) do
    pairs = Regex.scan(~r/^(\w+) (\d[\d.e-]*)$/m, output, capture: :all_but_first)
    seconds = for ["seconds", text] <- pairs, do: text |> Float.parse() |> elem(0)
    named = for [name, text] <- pairs, name != "seconds", into: totals, do: {name, text}
    if seconds == [], do: raise("no times in the output:\n#{output}")
    %{seconds: seconds, totals: Map.new(named, fn {name, text} -> {name, String.to_integer(text)} end)}
  end
end

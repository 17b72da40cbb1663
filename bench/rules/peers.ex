defmodule BeTree.Bench.Rules.Peers do
  @moduledoc false
  # Runs other engines on the same rules and facts. Each function returns the seconds of its runs and its totals by name, or the
  # reason why it is left out.

  alias BeTree.Bench.Rules.{Clips, Drools, Program}

  @type result :: {:ok, %{seconds: [float], totals: %{String.t() => integer}}} | {:skipped, String.t()}

  @doc "Returns the names and versions of the peers that the machine has, and the reasons for the others."
  @spec find(Path.t()) :: %{atom => {:ok, String.t(), term} | {:skipped, String.t()}}
  def find(folder), do: %{clips: find_clips(), durable: find_durable(folder), drools: find_drools(folder)}

  # The newest CLIPS that Debian has. Its banner names the version.
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

  # A virtual environment of Python with durable_rules, which pip compiles.
  defp find_durable(folder) do
    python = Path.join(folder, "durable/bin/python")

    unless File.exists?(python) do
      System.cmd("sh", ["-c", "python3 -m venv #{folder}/durable && #{python} -m pip install --quiet setuptools durable_rules"],
        stderr_to_stdout: true
      )
    end

    case System.cmd("sh", ["-c", "#{python} -m pip show durable_rules"], stderr_to_stdout: true) do
      {shown, 0} -> {:ok, "durable_rules " <> hd(Regex.run(~r/(?<=Version: )\S+/, shown)), python}
      {_message, _status} -> {:skipped, "pip cannot install durable_rules"}
    end
  end

  # Maven fetches Drools and compiles the small program that drives it.
  defp find_drools(folder) do
    target = Path.join(folder, "drools")

    with mvn when mvn != nil <- System.find_executable("mvn"),
         {:built, {_log, 0}} <- {:built, build_drools(mvn, target)} do
      [version] = Regex.run(~r/(?<=<drools.version>)[^<]+/, File.read!("bench/rules/drools/pom.xml"))
      {:ok, "Drools #{version}", Path.join(target, "classes") <> ":" <> Path.join(target, "libraries/*")}
    else
      nil -> {:skipped, "there is no mvn; apt-get install maven"}
      {:built, {log, _status}} -> {:skipped, "mvn failed: #{log |> String.split("\n") |> Enum.find(&(&1 =~ "ERROR"))}"}
    end
  end

  defp build_drools(mvn, target) do
    File.mkdir_p!(target)
    File.cp_r!("bench/rules/drools", target)

    arguments = ["-q", "-B", "compile", "dependency:copy-dependencies", "-DoutputDirectory=#{target}/libraries"]
    {log, status} = System.cmd(mvn, arguments, cd: target, stderr_to_stdout: true)
    File.rm_rf!(Path.join(target, "classes"))
    if status == 0, do: File.cp_r!(Path.join(target, "target/classes"), Path.join(target, "classes"))
    {log, status}
  end

  @doc "Runs rules on facts in CLIPS."
  @spec clips(Path.t(), {String.t(), [String.t()]}, [String.t()], pos_integer, Path.t()) :: result
  def clips(clips, {rules, facts}, counted, runs, folder) do
    file = Path.join(folder, "program.clp")
    File.write!(file, rules |> Program.read() |> Clips.program(facts, runs, counted))
    {output, 0} = System.cmd("sh", ["-c", "#{clips} -f2 #{file} </dev/null"], stderr_to_stdout: true)
    {:ok, read(output, Map.new(Regex.scan(~r/(\d+) (rules) fired/, output), fn [_all, count, _] -> {"firings", count} end))}
  end

  @doc "Runs rules on facts in Drools. The Java machine compiles during the first runs, which do not count."
  @spec drools(String.t(), {String.t(), [String.t()]}, [String.t()], pos_integer, Path.t()) :: result
  def drools(classes, {rules, facts}, counted, runs, folder) do
    [drl, lines] = for name <- ["rules.drl", "facts.txt"], do: Path.join(folder, name)
    File.write!(drl, rules |> Program.read() |> Drools.program())
    File.write!(lines, Enum.intersperse(facts, "\n"))
    arguments = ["-Xmx4g", "-cp", classes, "Drools", drl, lines, to_string(2 * runs) | counted]
    {output, 0} = System.cmd("java", arguments, stderr_to_stdout: true)
    %{seconds: seconds} = result = read(output, %{})
    {:ok, %{result | seconds: Enum.drop(seconds, runs)}}
  end

  @doc "Runs a message test in durable_rules, on messages that its Python has decoded."
  @spec durable(Path.t(), String.t(), [String.t()], pos_integer, Path.t()) :: result
  def durable(python, test, facts, runs, folder) do
    file = Path.join(folder, "messages.json")
    File.write!(file, facts |> Enum.map(&json/1) |> Enum.intersperse("\n"))

    {output, 0} =
      System.cmd(python, ["bench/rules/durable.py", test, file, to_string(runs)], stderr_to_stdout: true)

    {:ok, read(output, %{})}
  end

  defp json(line) do
    {_type, fields} = Program.fact(line)
    fields = for {name, value} <- fields, do: "#{inspect(name)}:#{inspect(value)}"
    "{#{Enum.join(fields, ",")}}"
  end

  # Lines of a name and a number.
  defp read(output, totals) do
    pairs = Regex.scan(~r/^(\w+) (\d[\d.e-]*)$/m, output, capture: :all_but_first)
    seconds = for ["seconds", text] <- pairs, do: text |> Float.parse() |> elem(0)
    named = for [name, text] <- pairs, name != "seconds", into: totals, do: {name, text}
    if seconds == [], do: raise("no times in the output:\n#{output}")
    %{seconds: seconds, totals: Map.new(named, fn {name, text} -> {name, String.to_integer(text)} end)}
  end
end

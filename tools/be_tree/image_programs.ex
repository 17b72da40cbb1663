defmodule BeTree.ImagePrograms do
  @moduledoc false
  # Runs the programs that search an image in another WebAssembly runtime: those of `examples/images` and of `clients/go`.
  # `scripts/setup runtimes` installs what they need.

  @match "_build/runtimes/match"

  @typedoc "A runtime: Node, wasmtime in Python, wazero in Go with and without a time limit, or Chicory on the JVM."
  @type runtime :: :node | :python | :go | :go_unlimited | :java

  @doc "Returns each runtime with the builds of the index module that it runs. Chicory has no vector instructions."
  @spec all() :: [{runtime, :fast | :portable}]
  def all do
    for(runtime <- [:node, :python, :go, :go_unlimited], build <- [:fast, :portable], do: {runtime, build}) ++
      [java: :portable]
  end

  @doc "Builds the program in Go."
  @spec build!() :: :ok
  def build! do
    arguments = ["-C", "clients/go", "build", "-o", Path.expand(@match), "./examples/match"]
    {output, status} = System.cmd(Path.expand("scripts/go"), arguments, stderr_to_stdout: true)
    if status == 0, do: :ok, else: Mix.raise("the program in Go could not be built:\n\n#{output}")
  end

  @doc """
  Searches the image at the path `image` for each line of the file `events`. `memory` limits the memory of the index, in bytes,
  in runtimes that can limit it.

  Returns the exit status, the text of errors, the lines of the output, one for each event, and the processor time in
  microseconds.
  """
  @spec run(runtime, Path.t(), Path.t(), pos_integer | nil) ::
          {non_neg_integer, String.t(), [String.t()], non_neg_integer}
  def run(runtime, image, events, memory \\ nil) do
    [results, errors, times] = for name <- ~w(results errors times), do: "#{image}.#{name}"
    # `time` is a part of bash, not a program.
    shell = ~S(TIMEFORMAT='%3U %3S'; { time "${@:5}" <"$1" >"$2" 2>"$3"; } 2>"$4")
    arguments = ["-c", shell, "bash", events, results, errors, times | command(runtime, image, memory)]
    {_nothing, status} = System.cmd("bash", arguments, env: [{"MEMORY", memory && Integer.to_string(memory)}])
    lines = results |> File.read!() |> String.split("\n", trim: true)
    {status, File.read!(errors), lines, microseconds(File.read!(times))}
  end

  # The seconds in user and in system mode.
  defp microseconds(times) do
    times |> String.split() |> Enum.map(&round(String.to_float(&1) * 1_000_000)) |> Enum.sum()
  end

  defp command(:node, image, _memory), do: ["node", "examples/images/search.mjs", image]
  defp command(:python, image, _memory), do: ["_build/runtimes/python/bin/python", "examples/images/search.py", image]

  defp command(:java, image, _memory),
    do: ["java", "-cp", "_build/runtimes/jars/*", "examples/images/Search.java", image]

  defp command(:go, image, memory), do: [@match | memory_limit(memory)] ++ [image]
  defp command(:go_unlimited, image, memory), do: [@match, "-timeout", "0"] ++ memory_limit(memory) ++ [image]

  defp memory_limit(nil), do: []
  defp memory_limit(bytes), do: ["-memory", Integer.to_string(bytes)]
end

defmodule Mix.BeTree.Command do
  @moduledoc false
  # Functions that the Mix tasks share: arguments, files, terminals, numbers.

  alias BeTree.Files.Match
  alias BeTree.Input.{AtomicFile, FileReader}
  alias Mix.BeTree.Progress

  # Runs a task: prints the task's documentation for `--help`, otherwise calls `fun` with the options and the other
  # arguments.
  # `switches` are those of `OptionParser`.
  @spec run(module, [String.t()], keyword, (keyword, [String.t()] -> term)) :: term
  def run(task, arguments, switches, fun) do
    if Enum.any?(arguments, &(&1 in ["--help", "-h"])) do
      Mix.shell().info(Mix.Task.moduledoc(task) || "mix help #{Mix.Task.task_name(task)} has no text in this build")
    else
      {options, rest} = parse!(arguments, switches)
      fun.(standard_input!(options), rest)
    end
  end

  # Options whose value is a file that a task reads.
  @inputs [:expressions, :schema, :constants, :events, :image, :compare]

  # Replaces `-` by the standard input, which only one option can read.
  defp standard_input!(options) do
    case for {name, "-"} <- options, name in @inputs, do: name do
      [first, second | _others] ->
        Mix.raise("--#{first} and --#{second} are both -, but the standard input is read once")

      _at_most_one ->
        for {name, value} <- options, do: {name, if(value == "-" and name in @inputs, do: "/dev/stdin", else: value)}
    end
  end

  # Parses `arguments`. Refuses an unknown option and suggests the nearest one.
  @spec parse!([String.t()], keyword) :: {keyword, [String.t()]}
  def parse!(arguments, switches) do
    case OptionParser.parse(arguments, strict: switches) do
      {options, rest, []} -> {options, rest}
      {_options, _rest, [{name, value} | _]} -> Mix.raise(wrong(name, value, switches))
    end
  end

  defp wrong(typed, value, switches) do
    names = for {name, _type} <- switches, do: switch(name)
    known = Enum.find(switches, fn {name, _type} -> switch(name) == typed end)

    cond do
      known && value -> "#{typed} : Expected type #{elem(known, 1)}, got #{inspect(value)}"
      known -> "#{typed} : Missing argument of type #{elem(known, 1)}"
      names == [] -> "#{typed} : Unknown option. There are no options but --help"
      true -> "#{typed} : Unknown option. Did you mean #{Enum.max_by(names, &String.jaro_distance(&1, typed))}?"
    end
  end

  defp switch(name), do: "--" <> String.replace(Atom.to_string(name), "_", "-")

  # Raises unless each of `names` is among the options.
  @spec require!(keyword, [atom], String.t()) :: :ok
  def require!(options, names, usage) do
    case Enum.reject(names, &Keyword.has_key?(options, &1)) do
      [] -> :ok
      missing -> Mix.raise("#{Enum.map_join(missing, ", ", &"--#{&1}")} missing\n\nUsage: #{usage}")
    end
  end

  # Raises if the option `name` is given together with one of `others`.
  @spec check_one!(keyword, atom, [atom], String.t()) :: :ok
  def check_one!(options, name, others, usage) do
    with true <- Keyword.has_key?(options, name),
         other when other != nil <- Enum.find(others, &Keyword.has_key?(options, &1)) do
      Mix.raise("--#{name} and --#{other} exclude each other\n\nUsage: #{usage}")
    else
      _only_one -> :ok
    end
  end

  # Returns the option `on_mismatch` for the functions of BeTree.
  @spec on_mismatch!(keyword) :: BeTree.Domain.on_mismatch()
  def on_mismatch!(options) do
    case options[:on_mismatch] do
      nil -> :error
      "error" -> :error
      "undefined" -> :undefined
      other -> Mix.raise("--on-mismatch is error or undefined, got: #{other}")
    end
  end

  # Raises if the option is negative.
  @spec check_count!(keyword, atom) :: :ok
  def check_count!(options, name) do
    if options[name] != nil and options[name] < 0, do: Mix.raise("--#{name} is 0 or more, got: #{options[name]}")
    :ok
  end

  # Raises unless `path` is writable and none of `inputs`. Changes nothing.
  @spec check_output!(Path.t(), [Path.t()]) :: :ok
  def check_output!(path, inputs), do: written!(AtomicFile.check(path, inputs), path)

  # Writes a file atomically.
  @spec write_output!(Path.t(), iodata, [Path.t()]) :: :ok
  def write_output!(path, bytes, inputs), do: written!(AtomicFile.write_file(path, bytes, inputs), path)

  # Calls `fun` with a function that writes to `path`. The file appears with its content when `fun` returns. If `fun`
  # raises, an existing file is unchanged.
  @spec with_output!(Path.t(), [Path.t()], ((iodata -> :ok) -> result)) :: result when result: term
  def with_output!(path, inputs, fun) do
    output = written!(AtomicFile.open(path, inputs), path)

    result =
      try do
        fun.(&written!(AtomicFile.write(output, &1), path))
      catch
        kind, reason ->
          AtomicFile.discard(output)
          :erlang.raise(kind, reason, __STACKTRACE__)
      end

    written!(AtomicFile.commit(output), path)
    result
  end

  defp written!(:ok, _path), do: :ok
  defp written!({:ok, output}, _path), do: output
  defp written!({:error, text}, path), do: Mix.raise("#{path}: #{text}")

  # Reads an input as text, without a byte order mark.
  @spec read_text!(Path.t()) :: binary
  def read_text!(path), do: path |> read_input!() |> String.replace_prefix("\uFEFF", "")

  # Reads an input as bytes.
  @spec read_input!(Path.t()) :: binary
  def read_input!(path) do
    case FileReader.read_file(path) do
      {:ok, bytes} -> bytes
      {:error, reason} -> Mix.raise("#{path}: #{:file.format_error(reason)}")
    end
  end

  # Returns the values of the given options among `names`, such as paths of inputs.
  @spec values_of(keyword, [atom]) :: [term]
  def values_of(options, names), do: for({name, value} <- options, name in names, do: value)

  # Returns whether the output is a terminal. Elixir checks that when it starts; Erlang without a shell cannot.
  @spec terminal?() :: boolean
  def terminal?, do: IO.ANSI.enabled?()

  # Returns the value of a result, or raises its error, which `text` describes.
  @spec ok!(:ok | {:ok, value} | {:ok, value, more} | {:error, error}, (error -> String.t())) ::
          :ok | value | {value, more}
        when value: term, more: term, error: Exception.t()
  def ok!(result, text \\ &Exception.message/1)
  def ok!(:ok, _text), do: :ok
  def ok!({:ok, value}, _text), do: value
  def ok!({:ok, value, more}, _text), do: {value, more}
  def ok!({:error, error}, text), do: Mix.raise(text.(error))

  # The options that `open!/1` takes.
  @sources [:expressions, :image, :ids, :schema, :constants]

  # Checks the options of a task that searches for `:events` in the index of a file.
  @spec check_sources!(keyword, [String.t()], String.t()) :: :ok
  def check_sources!(options, rest, usage) do
    if rest != [], do: Mix.raise("#{inspect(hd(rest))} belongs to no option\n\nUsage: #{usage}")
    require!(options, [if(options[:image], do: :image, else: :expressions), :events], usage)
    check_one!(options, :image, @sources -- [:image, :ids], usage)
    check_ids!(options, usage)
  end

  # Raises if a file of ids is there without an image.
  @spec check_ids!(keyword, String.t()) :: :ok
  def check_ids!(options, usage) do
    if options[:ids] && !options[:image], do: Mix.raise("--ids belongs to --image\n\nUsage: #{usage}")
    :ok
  end

  # Returns the index of the files among the options, and the summary of its build.
  @spec open!(keyword, Progress.show()) :: {BeTree.Index.t(), Match.t()}
  def open!(options, show), do: ok!(Match.open([progress: show] ++ Keyword.take(options, @sources)))

  # Returns the paths of the input files of such a task.
  @spec inputs(keyword) :: [Path.t()]
  def inputs(options), do: values_of(options, [:events | @sources])
end

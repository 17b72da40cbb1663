defmodule Mix.BeTree.Command do
  @moduledoc false
  # Functions that the Mix tasks share: arguments, terminals, numbers.

  # Returns the options and the other arguments in `arguments`. `switches` are those of `OptionParser`.
  @spec parse!([String.t()], keyword) :: {keyword, [String.t()]}
  def parse!(arguments, switches) do
    OptionParser.parse!(arguments, strict: switches)
  rescue
    error in OptionParser.ParseError -> Mix.raise(Exception.message(error))
  end

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

  # Raises unless the option is absent or not negative.
  @spec check_count!(keyword, atom) :: :ok
  def check_count!(options, name) do
    if options[name] != nil and options[name] < 0, do: Mix.raise("--#{name} is 0 or more, got: #{options[name]}")
    :ok
  end

  # Returns whether the output is a terminal. Elixir checks that when it starts; without a shell, Erlang cannot.
  @spec terminal?() :: boolean
  def terminal?, do: IO.ANSI.enabled?()

  # Formats 1234567 as 1,234,567.
  @spec grouped(integer) :: String.t()
  defdelegate grouped(integer), to: BeTree.Engine.Describe
end

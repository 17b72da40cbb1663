defmodule BeTree.Processes.Failure do
  @moduledoc false
  # Puts failures of the user's code into words.
  #
  # CrashReport keeps the messages of exceptions out of logs, because the messages may contain values of events. An exception of the
  # user's own code is described with its class and message: without these nobody finds the fault. Exceptions that the VM raises print the
  # value that did not match. `:private` drops their messages, for functions that get events or messages.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Processes.Log

  @typedoc "Whether an exception may print the values that the function had."
  @type values :: :public | :private

  # The characters of a failure in an error, which is one line.
  @max_characters 500

  # Exceptions whose messages print a value of the function that raised them.
  @with_values [
    ArithmeticError,
    BadBooleanError,
    BadFunctionError,
    BadMapError,
    BadStructError,
    CaseClauseError,
    ErlangError,
    KeyError,
    MatchError,
    Protocol.UndefinedError,
    TryClauseError,
    UnicodeConversionError,
    WithClauseError
  ]

  # If a function of these applications raises, its caller is at fault.
  @languages [:crypto, :elixir, :kernel, :stdlib]
  # Without Mix and releases they may run without being loaded, and then their modules are not known.
  @known [:elixir, :be_tree]

  @doc "Returns a failure in words, such as `raised RuntimeError: no connection`."
  @spec describe(:error | :exit | :throw, term, values) :: String.t()
  def describe(:error, %Error{kind: kind} = error, :private), do: "raised BeTree.Error, #{kind}: #{error.message}"
  def describe(:error, %_{} = error, values), do: "raised #{exception(error, values)}"
  def describe(:error, reason, values), do: describe(:error, Exception.normalize(:error, reason), values)
  def describe(:exit, reason, :public), do: "exited: #{Exception.format_exit(reason)}"
  def describe(:exit, reason, :private), do: "exited: #{Describe.reason(reason)}"
  def describe(:throw, value, :public), do: "threw #{Describe.value(value)}"
  def describe(:throw, value, :private), do: "threw #{Describe.kind(value)}"

  defp exception(%module{}, :private) when module in @with_values, do: inspect(module)
  defp exception(%module{} = error, _values), do: "#{inspect(module)}: #{Exception.message(error)}"

  @doc "Returns the reason for which the user's code refused something: a text, or an exception with its message, in one line."
  @spec reason(term) :: String.t()
  def reason(text) when is_binary(text), do: if(String.printable?(text), do: line(text), else: Describe.kind(text))
  def reason(%Error{message: message}), do: message
  def reason(error) when is_exception(error), do: error |> exception(:private) |> line()
  def reason(other), do: Describe.reason(other)

  @doc "Returns a text in one line, shortened if it is long."
  @spec line(String.t()) :: String.t()
  def line(text) do
    line = text |> String.split() |> Enum.join(" ")
    if String.length(line) > @max_characters, do: String.slice(line, 0, @max_characters) <> "...", else: line
  end

  @doc """
  Returns an error of kind `:callback` with the failure and its place if code of another application failed, such as a runtime of the
  user. Returns `nil` for a failure of this library.
  """
  @spec of_user(:error | :exit | :throw, term, Exception.stacktrace()) :: Error.t() | nil
  def of_user(kind, reason, stacktrace) do
    Enum.each(@known, &:application.load/1)

    with {module, _function, _arity, location} = entry <- Enum.find(stacktrace, &(not language?(&1))),
         true <- :application.get_application(module) != {:ok, :be_tree} do
      reason = if kind == :error, do: Exception.normalize(:error, reason, stacktrace), else: reason
      failure = kind |> describe(reason, :private) |> line()
      place = if location[:file], do: " (#{location[:file]}:#{location[:line]})", else: ""
      %Error{kind: :callback, message: "#{function(entry)} #{failure}#{place}"}
    else
      _ours -> nil
    end
  end

  defp language?({module, _function, _arity, _location}) do
    :application.get_application(module) in Enum.map(@languages, &{:ok, &1}) or :code.which(module) == :preloaded
  end

  # A function value.
  defp language?(_entry), do: true

  defp function({module, function, arguments, _location}) when is_list(arguments),
    do: Exception.format_mfa(module, function, length(arguments))

  defp function({module, function, arity, _location}), do: Exception.format_mfa(module, function, arity)

  @doc "Logs a failure with its stack trace."
  @spec log(String.t(), Exception.stacktrace()) :: :ok
  def log(failure, stacktrace) do
    trace = stacktrace |> without_arguments() |> Exception.format_stacktrace()
    Log.error("#{failure}\n#{trace}")
  end

  @doc "Returns a stack trace without the arguments of its first function, if it has them."
  @spec without_arguments(Exception.stacktrace()) :: Exception.stacktrace()
  def without_arguments([{module, function, arguments, location} | rest]) when is_list(arguments) do
    [{module, function, length(arguments), location} | rest]
  end

  def without_arguments(stacktrace), do: stacktrace
end

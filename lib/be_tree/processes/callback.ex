defmodule BeTree.Processes.Callback do
  @moduledoc false
  # Calls functions of the user, and reports their failures.
  #
  # CrashReport keeps messages of exceptions out of logs, because they may have values of events. An exception of the user's own
  # function is reported with its class, message and stack trace: without them no user finds the fault. Exceptions that the VM
  # raises print the value that did not match. `:private` drops their messages, for functions that get events or messages.

  alias BeTree.Error
  alias BeTree.Input.Describe
  alias BeTree.Processes.CrashReport

  @typedoc "Whether an exception may print the values that the function had."
  @type values :: :public | :private

  # The characters of an exception's message in an error, which is one line.
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
    WithClauseError
  ]

  @doc """
  Returns what `function` returns. If it fails, logs the failure with its stack trace and returns an error of kind `:callback`. `name`
  names the function in both.
  """
  @spec run(String.t(), values, (... -> result)) :: result | {:error, Error.t()} when result: term
  def run(name, values, function) do
    function.()
  catch
    kind, reason -> {:error, failed(name, values, kind, reason, __STACKTRACE__)}
  end

  @doc "Logs a failure with its stack trace, and returns its error."
  @spec failed(String.t(), values, :error | :exit | :throw, term, Exception.stacktrace()) :: Error.t()
  def failed(name, values, kind, reason, stacktrace) do
    reason = if kind == :error, do: Exception.normalize(:error, reason, stacktrace), else: reason
    failure = describe(kind, reason, values)
    trace = stacktrace |> CrashReport.without_arguments() |> Exception.format_stacktrace()

    :logger.error("BeTree: #{name} #{failure}\n#{trace}", %{domain: [:be_tree]})
    %Error{kind: :callback, message: "#{name} #{shorten(failure)}; the log has its stack trace"}
  end

  @doc "Returns a failure in words, such as `raised RuntimeError: no connection`."
  @spec describe(:error | :exit | :throw, term, values) :: String.t()
  def describe(:error, %Error{kind: kind} = error, :private), do: "raised BeTree.Error, #{kind}: #{error.message}"
  def describe(:error, %module{}, :private) when module in @with_values, do: "raised #{inspect(module)}"
  def describe(:error, %module{} = error, _values), do: "raised #{inspect(module)}: #{Exception.message(error)}"
  def describe(:error, reason, values), do: describe(:error, Exception.normalize(:error, reason), values)
  def describe(:exit, reason, :public), do: "exited: #{Exception.format_exit(reason)}"
  def describe(:exit, reason, :private), do: "exited: #{Describe.reason(reason)}"
  def describe(:throw, value, :public), do: "threw #{Describe.value(value)}"
  def describe(:throw, value, :private), do: "threw #{Describe.kind(value)}"

  defp shorten(failure) do
    line = failure |> String.split() |> Enum.join(" ")
    if String.length(line) > @max_characters, do: String.slice(line, 0, @max_characters) <> "...", else: line
  end
end

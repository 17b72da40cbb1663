defmodule BeTree.Processes.Callback do
  @moduledoc false
  # Calls functions of the user, and reports their failures.

  alias BeTree.Error
  alias BeTree.Processes.Failure

  @doc """
  Returns what `function` returns. If it fails, logs the failure with its stack trace and returns an error of kind `:callback`. `name`
  names the function in both.
  """
  @spec run(String.t(), Failure.values(), (... -> result)) :: result | {:error, Error.t()} when result: term
  def run(name, values, function) do
    function.()
  catch
    kind, reason -> {:error, failed(name, values, kind, reason, __STACKTRACE__)}
  end

  defp failed(name, values, kind, reason, stacktrace) do
    reason = if kind == :error, do: Exception.normalize(:error, reason, stacktrace), else: reason
    failure = Failure.describe(kind, reason, values)
    Failure.log("#{name} #{failure}", stacktrace)
    %Error{kind: :callback, message: "#{name} #{Failure.line(failure)}; the log has its stack trace"}
  end
end

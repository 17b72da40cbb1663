defmodule BeTree.Processes.Aside do
  @moduledoc false
  # Calls a function in a linked process and raises its exception in the caller. A crash of the process itself would log arguments of
  # functions, which may be events.

  alias BeTree.Processes.CrashReport
  alias BeTree.Error

  @type outcome(result) :: {:returned, result} | {:caught, :error | :exit | :throw, term, Exception.stacktrace()}

  @doc "Returns the function's result, or an error of kind `:timeout` after `timeout` milliseconds, when the process is killed."
  @spec run((() -> result), timeout) :: result | {:error, Error.t()} when result: term
  def run(function, :infinity), do: function.()

  def run(function, timeout) do
    task = start(function)

    outcome = Task.yield(task, timeout) || Task.shutdown(task, :brutal_kill)
    forget(task)

    case outcome do
      {:ok, outcome} -> returned(outcome)
      nil -> {:error, %Error{kind: :timeout, message: "the call passed its timeout"}}
    end
  end

  # Removes the exit signal of the task from the mailbox of a caller that traps exits.
  defp forget(%Task{pid: pid}) do
    Process.unlink(pid)

    receive do
      {:EXIT, ^pid, _reason} -> :ok
    after
      0 -> :ok
    end
  end

  @doc "Starts a task with the function. Its outcome is for `returned/1`."
  @spec start((() -> term)) :: Task.t()
  def start(function), do: Task.async(fn -> outcome(function) end)

  @doc "Returns what the function returned, or raises what it raised."
  @spec returned(outcome(result)) :: result when result: term
  def returned({:returned, result}), do: result
  def returned({:caught, kind, reason, stacktrace}), do: :erlang.raise(kind, reason, stacktrace)

  defp outcome(function) do
    {:returned, function.()}
  catch
    kind, reason -> {:caught, kind, reason, CrashReport.without_arguments(__STACKTRACE__)}
  end
end

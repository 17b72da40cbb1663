defmodule BeTree.Processes.Aside do
  @moduledoc false
  # Calls a function in a linked process and raises its exception in the caller. A crash of the process itself would log arguments of
  # functions, which may be events.

  alias BeTree.Processes.Failure
  alias BeTree.Error

  @type outcome(result) :: {:returned, result} | {:caught, :error | :exit | :throw, term, Exception.stacktrace()}

  @doc "Returns the function's result, or an error of kind `:timeout` after `timeout` milliseconds, when the process is killed."
  @spec run((... -> result), timeout) :: result | {:error, Error.t()} when result: term
  def run(function, :infinity), do: function.()

  def run(function, timeout) do
    task = start(function)

    case Task.yield(task, timeout) || shut_down(task) do
      {:ok, outcome} -> returned(task, outcome)
      nil -> {:error, %Error{kind: :timeout, message: "the call passed its timeout"}}
    end
  end

  @doc "Starts a task with the function. Its outcome is for `await/1`, or for `returned/2` if the caller received its message."
  @spec start((... -> term)) :: Task.t()
  def start(function), do: Task.async(fn -> outcome(function) end)

  @doc "Returns what the task's function returned, or raises what it raised. No link or message of the task is left."
  @spec await(Task.t()) :: term
  def await(task), do: returned(task, Task.await(task, :infinity))

  @doc "The same for an outcome that the caller received as the message `{task.ref, outcome}`."
  @spec returned(Task.t(), outcome(result)) :: result when result: term
  def returned(task, outcome) do
    forget(task)

    case outcome do
      {:returned, result} -> result
      {:caught, kind, reason, stacktrace} -> :erlang.raise(kind, reason, stacktrace)
    end
  end

  @doc "Kills the task. Returns `{:ok, outcome}` if it had ended before."
  @spec shut_down(Task.t()) :: {:ok, outcome(term)} | nil
  def shut_down(task) do
    outcome = Task.shutdown(task, :brutal_kill)
    forget(task)
    outcome
  end

  # A task sends its outcome before it exits. Removes its link, its monitor, and the exit signal from the mailbox of a caller that traps
  # exits.
  defp forget(%Task{pid: pid, ref: monitor}) do
    Process.demonitor(monitor, [:flush])
    Process.unlink(pid)

    receive do
      {:EXIT, ^pid, _reason} -> :ok
    after
      0 -> :ok
    end
  end

  defp outcome(function) do
    {:returned, function.()}
  catch
    kind, reason -> {:caught, kind, reason, Failure.without_arguments(__STACKTRACE__)}
  end
end

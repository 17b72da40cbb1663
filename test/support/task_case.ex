defmodule BeTree.Test.TaskCase do
  @moduledoc """
  The case of a Mix task: `use BeTree.Test.TaskCase, task: "be_tree.gen"`.

  The shell sends the texts of the task to the test. `run/1` runs the task, and `refusal/1` returns the message with which it
  ends. Each test has a folder, `:tmp_dir`.
  """

  use ExUnit.CaseTemplate

  using options do
    quote do
      @moduletag :tmp_dir

      import BeTree.Test.TaskCase

      defp run(arguments), do: Mix.Task.rerun(unquote(options[:task]), arguments)
      defp refusal(arguments), do: Exception.message(assert_raise(Mix.Error, fn -> run(arguments) end))
    end
  end

  setup do
    shell = Mix.shell()
    Mix.shell(Mix.Shell.Process)
    on_exit(fn -> Mix.shell(shell) end)
  end

  @doc "Returns the next text of the task."
  def said do
    assert_received {:mix_shell, :info, [text]}
    text
  end

  @doc "Returns all texts of the task since the last one that was taken."
  def all_said do
    receive do
      {:mix_shell, :info, [text]} -> [text | all_said()]
    after
      0 -> []
    end
  end
end

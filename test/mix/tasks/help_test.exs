defmodule Mix.Tasks.BeTree.HelpTest do
  # Every task of the project answers --help, and names the nearest option for one that it does not know.
  use ExUnit.Case

  import ExUnit.CaptureIO

  {:ok, modules} = :application.get_key(:be_tree, :modules)

  @tasks for module <- modules,
             name = inspect(module),
             String.starts_with?(name, "Mix.Tasks.BeTree."),
             function_exported?(module, :run, 1) or Code.ensure_loaded?(module),
             not String.ends_with?(name, "Test"),
             do: {module, Mix.Task.task_name(module)}

  defp help(task), do: capture_io(fn -> Mix.Task.rerun(task, ["--help"]) end)

  test "the project has tasks" do
    names = for {_module, name} <- @tasks, do: name

    assert Enum.all?(
             ~w(be_tree.match be_tree.rules be_tree.tune be_tree.profile be_tree.image be_tree.gen be_tree.bench),
             &(&1 in names)
           )
  end

  for {_module, task} <- @tasks do
    test "mix #{task} --help prints usage, options and an example" do
      text = help(unquote(task))
      assert text =~ ~r/^    mix #{unquote(task)}/m
      assert text =~ ~r/^## Options$/m
      assert text =~ ~r/^## Example$\n\n    mix #{unquote(task)}/m
      assert capture_io(fn -> Mix.Task.rerun(unquote(task), ["-h"]) end) == text
    end

    test "mix #{task} suggests the nearest option for an unknown one" do
      for [option] <- Regex.scan(~r/^  \* `--([a-z-]+)`/m, help(unquote(task)), capture: :all_but_first) do
        error = assert_raise Mix.Error, fn -> Mix.Task.rerun(unquote(task), ["--#{option}x"]) end
        assert Exception.message(error) == "--#{option}x : Unknown option. Did you mean --#{option}?"
      end

      assert_raise Mix.Error, ~r/^--zzz : Unknown option\. (Did you mean --|There are no options)/, fn ->
        Mix.Task.rerun(unquote(task), ["--zzz"])
      end
    end
  end
end

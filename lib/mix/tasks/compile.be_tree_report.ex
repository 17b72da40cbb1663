defmodule Mix.Tasks.Compile.BeTreeReport do
  @shortdoc "Installs the page of the tuning report, tune.html"

  @moduledoc """
  This task copies the page of `mix be_tree.tune` to `priv/tune.html` in the build of the project.

  `mix compile` runs it. A released package has the page. In a checkout `make report` builds it with npm, in the folder
  `report`. Where there is no page the task does nothing, and `mix be_tree.tune` writes no report and says why.
  """

  use Mix.Task.Compiler

  alias Mix.BeTree.Build

  @file_name "tune.html"
  @sources ["report/dist/#{@file_name}", "priv/#{@file_name}"]

  @impl Mix.Task.Compiler
  def run(_arguments) do
    with source when source != nil <- Enum.find(@sources, &File.regular?/1),
         page = File.read!(source),
         false <- File.read(installed()) == {:ok, page} do
      File.write!(installed(), page)
      {:ok, []}
    else
      _absent_or_same -> {:noop, []}
    end
  end

  @impl Mix.Task.Compiler
  def clean do
    File.rm(installed())
    :ok
  end

  # With rebar3 it is the file of the sources.
  defp installed, do: Path.join(Build.priv(), @file_name)
end

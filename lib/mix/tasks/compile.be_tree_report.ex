defmodule Mix.Tasks.Compile.BeTreeReport do
  @moduledoc false
  # This task copies the pages of `mix be_tree.tune` and `mix be_tree.tenants` to `priv/tune.html` and `priv/tenants.html` in the build of
  # the project.
  #
  # `mix compile` runs it. A released package has the pages. In a checkout `make report` builds them with npm, in the folder
  # `report`. Where there is no page the task does nothing, and the task that needs it says why it cannot go on.

  use Mix.Task.Compiler

  alias Mix.BeTree.Build

  @pages ["tune.html", "tenants.html"]
  @folders ["report/dist", "priv"]

  @impl Mix.Task.Compiler
  def run(_arguments) do
    if Enum.any?(Enum.map(@pages, &install/1)), do: {:ok, []}, else: {:noop, []}
  end

  # Returns whether the page is another one than before.
  defp install(name) do
    with source when source != nil <- @folders |> Enum.map(&Path.join(&1, name)) |> Enum.find(&File.regular?/1),
         page = File.read!(source),
         false <- File.read(installed(name)) == {:ok, page} do
      File.write!(installed(name), page)
      true
    else
      _absent_or_same -> false
    end
  end

  @impl Mix.Task.Compiler
  def clean do
    for name <- @pages, do: File.rm(installed(name))
    :ok
  end

  # With rebar3 it is the file of the sources.
  defp installed(name), do: Path.join(Build.priv(), name)
end

defmodule Mix.Tasks.BeTree.Web do
  @shortdoc "Builds the package for JavaScript"
  @moduledoc """
  This task builds the package for JavaScript, `_build/web/package` (`BeTree.Web`), and prints its folder.

      mix be_tree.web
  """

  use Mix.Task

  alias Mix.BeTree.Command

  @requirements ["compile"]

  @impl true
  def run(arguments) do
    {[], rest} = Command.parse!(arguments, [])
    if rest != [], do: Mix.raise("mix be_tree.web takes no arguments, got: #{Enum.join(rest, " ")}")
    Mix.shell().info(BeTree.Web.build())
  end
end

defmodule Mix.Tasks.BeTree.Web do
  @shortdoc "Builds the package for JavaScript"
  @moduledoc """
  This task builds the package for JavaScript, `_build/web/package` (`BeTree.Web`), and prints its folder.

      mix be_tree.web

  ## Options

  There are none.

  ## Example

      mix be_tree.web
  """

  use Mix.Task

  alias Mix.BeTree.Command

  @requirements ["compile"]

  @impl true
  def run(arguments), do: Command.run(__MODULE__, arguments, [], &run/2)

  defp run([], rest) do
    if rest != [], do: Mix.raise("mix be_tree.web takes no arguments, got: #{Enum.join(rest, " ")}")
    Mix.shell().info(BeTree.Web.build())
  end
end

defmodule Flags.MixProject do
  use Mix.Project

  def project, do: [app: :flags, version: "1.0.0", elixir: "~> 1.14", deps: [{:be_tree, path: "../.."}]]

  def application, do: [mod: {Flags.Application, []}, extra_applications: [:logger, :crypto]]
end

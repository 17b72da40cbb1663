defmodule Fraud.MixProject do
  use Mix.Project

  def project, do: [app: :fraud, version: "1.0.0", elixir: "~> 1.14", deps: [{:be_tree, path: "../.."}]]

  def application, do: [mod: {Fraud.Application, []}, extra_applications: [:logger]]
end

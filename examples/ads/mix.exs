defmodule Ads.MixProject do
  use Mix.Project

  def project, do: [app: :ads, version: "1.0.0", elixir: "~> 1.14", deps: [{:be_tree, path: "../.."}]]

  def application, do: [mod: {Ads.Application, []}, extra_applications: [:logger, :inets]]
end

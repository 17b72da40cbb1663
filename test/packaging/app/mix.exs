defmodule Ads.MixProject do
  use Mix.Project

  # The test of releases builds this application elsewhere, so that nothing is written here.
  @runtime System.get_env("ADS_RUNTIME", "wasmtime")

  def project, do: [app: :ads, version: "1.0.0", deps: [{:be_tree, path: "../../.."}]]

  # wasmex is found where the tests of BeTree find it.
  def application, do: [extra_applications: if(@runtime == "wasmex", do: [:wasmex], else: [])]
end

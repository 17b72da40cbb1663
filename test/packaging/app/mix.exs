defmodule Ads.MixProject do
  use Mix.Project

  # The build folder is set from outside, so the test writes nothing here.
  @runtime System.get_env("ADS_RUNTIME", "wasmtime")

  def project, do: [app: :ads, version: "1.0.0", deps: [{:be_tree, path: "../../.."}]]

  # wasmex is found where the tests of BeTree find it.
  def application, do: [extra_applications: if(@runtime == "wasmex", do: [:wasmex], else: [])]
end

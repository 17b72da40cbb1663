defmodule BeTree.Test.Browser do
  @moduledoc "Checks for the tools of the browser tests beyond Elixir and Rust."

  @doc "Returns the missing tools as text, or nil."
  def missing do
    cond do
      System.find_executable("node") == nil -> "Node"
      not File.exists?("test/browser/node_modules/playwright-core") -> "the packages of test/browser (npm ci)"
      not chromium?() -> "Chromium"
      not Enum.all?(~w(tune tenants), &page?/1) -> "the pages of the tuning report and of tenants (make report)"
      true -> nil
    end
  end

  defp page?(name), do: :be_tree |> Application.app_dir("priv/#{name}.html") |> File.exists?()

  defp chromium? do
    places = [
      System.get_env("CHROMIUM") | Enum.map(~w(chromium chromium-browser google-chrome), &Path.join("/usr/bin", &1))
    ]

    Enum.any?(places, &(&1 != nil and File.exists?(&1)))
  end
end

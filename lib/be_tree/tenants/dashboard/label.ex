defmodule BeTree.Tenants.Dashboard.Label do
  @moduledoc false
  # Names of tenants and texts of expressions for the page: valid UTF-8 of a bounded length, without control characters. The page
  # makes text nodes of them.

  alias BeTree.Input.Describe

  @max_name 120
  @max_text 1_000

  @doc "Returns the name of a tenant: its text, or its term as Elixir prints it."
  @spec tenant(term) :: String.t()
  def tenant(tenant) when is_binary(tenant) do
    if String.valid?(tenant) and tenant != "", do: clean(tenant, @max_name), else: Describe.value(tenant)
  end

  def tenant(tenant), do: tenant |> Describe.value() |> clean(@max_name)

  @doc "Returns the text of an expression."
  @spec text(String.t()) :: String.t()
  def text(text), do: clean(text, @max_text)

  @doc "Returns a value of an attribute as text."
  @spec value(term) :: term
  def value(value) when is_binary(value),
    do: if(String.valid?(value), do: clean(value, @max_name), else: Describe.kind(value))

  def value(value), do: value

  # Control characters, and those that change the direction of others.
  defp clean(text, max) do
    text = if String.length(text) > max, do: String.slice(text, 0, max - 1) <> "…", else: text
    String.replace(text, ~r/[\p{Cc}\p{Zl}\p{Zp}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]/u, "\uFFFD")
  end
end

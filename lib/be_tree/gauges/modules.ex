defmodule BeTree.Gauges.Modules do
  @moduledoc false
  # The index modules that run under names on this node, as text: the first digits of the SHA-256 of each, and whether it is another one
  # than the module of this version of BeTree. This is no gauge, because a gauge is a number.

  alias BeTree.Call.Instance
  alias BeTree.{Gauges, Guest}
  alias BeTree.Gauges.Running
  alias BeTree.Image.Digest
  alias BeTree.Server.Lookup

  # The bytes of a digest that are shown. Two modules of a cluster have the same ones by chance once in 2^48 times.
  @shown_bytes 6

  @doc "Returns the modules of all servers, or of all tenants, by name. A server without an index has none."
  @spec of(Gauges.kind()) :: %{term => String.t()}
  def of(kind) do
    guests = for name <- Running.names()[kind], {:ok, guest} <- [guest(kind, name)], into: %{}, do: {name, guest}
    # Most indexes have the same module, and its digest takes milliseconds.
    texts = guests |> Map.values() |> Enum.uniq() |> Map.new(&{&1, text(&1)})
    Map.new(guests, fn {name, guest} -> {name, texts[guest]} end)
  end

  defp guest(:server, name), do: with({:ok, base} <- Lookup.base(name), do: {:ok, base.index.guest})

  defp guest(:tenants, name),
    do: with({:ok, directory} <- BeTree.Tenants.Directory.fetch(name), do: {:ok, directory.guest})

  defp guest(_kind, _name), do: :none

  defp text(%Guest{runtime: runtime} = guest) do
    wasm = Instance.wasm(guest)
    digits = wasm |> Digest.sha256() |> binary_part(0, @shown_bytes) |> Base.encode16(case: :lower)
    if built_in?(wasm, runtime), do: digits, else: digits <> " (not built in)"
  end

  defp built_in?(wasm, runtime) do
    case Instance.built_in(runtime) do
      {:ok, built_in} -> Instance.wasm(built_in) == wasm
      {:error, _error} -> false
    end
  end
end

defmodule BeTree.Attacks.ModuleBytesTest do
  # Many index modules, each used once, leave nothing in memory. The test counts binaries of the whole node, so it runs alone.
  use ExUnit.Case, async: false

  import BeTree.Test.Eventually

  alias BeTree.{Guest, Image}
  alias BeTree.Call.Instance
  alias BeTree.Runtime.Native
  alias BeTree.Test.{Attack, WasmGuest}

  @moduletag runtime: BeTree.Runtime.Wasmtime

  test "the bytes of a module are freed with its last user" do
    # Allocations from here on are not permanent.
    BeTree.new!(a: :integer)
    settled()
    kept = :persistent_term.info().count
    {modules, _instances, _suspended} = Native.counts()

    for number <- 1..Attack.size(20, 2_000) do
      wasm = WasmGuest.spin(number)
      {:ok, guest} = Guest.load(wasm)
      assert Instance.wasm(guest) == wasm
      image = {:binary, Image.to_binary!(BeTree.new!([a: :integer], guest: guest))}
      assert Image.verify(image) == :ok
      Image.read!(image)
    end

    assert :persistent_term.info().count == kept
    settled()
    eventually(fn -> :erlang.garbage_collect() && elem(Native.counts(), 0) <= modules end)
  end

  test "the bytes of a module outlive the handle they came from" do
    wasm = WasmGuest.spin(1_000_001)
    bytes = Task.await(Task.async(fn -> wasm |> Guest.load() |> elem(1) |> Instance.wasm() end), :infinity)
    settled()
    assert bytes == wasm
  end

  defp settled, do: for(pid <- Process.list(), do: :erlang.garbage_collect(pid))
end

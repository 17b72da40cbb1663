defmodule BeTree.RuntimeTest do
  # Changes the application's environment.
  use ExUnit.Case, async: false

  alias BeTree.{Runtime, Runtime.Wasmex, Runtime.Wasmtime}

  doctest Runtime

  setup do
    on_exit(fn -> Application.delete_env(:be_tree, :runtime) end)
  end

  test "the built-in runtime precedes other usable ones" do
    assert Runtime.default() == hd(Runtime.available())
    assert Runtime.available() -- [Wasmtime, Wasmex] == []
    assert Wasmtime in Runtime.available() == Wasmtime.available?()
  end

  test "the application environment selects another runtime" do
    Application.put_env(:be_tree, :runtime, Wasmex)
    assert Runtime.default() == Wasmex
    Application.put_env(:be_tree, :runtime, "wasmex")
    assert_raise ArgumentError, ~r/config :be_tree, :runtime is a module/, fn -> Runtime.default() end
  end
end

defmodule BeTree.Runtime.Wasmex.SavedGlobalsTest do
  use ExUnit.Case, async: true

  import BeTree.WasmModule

  alias BeTree.Runtime.Wasmex.SavedGlobals

  test "are the exported mutable globals" do
    globals = [{"a", :i32, :mutable, -5}, {nil, :i64, :constant, 1_000_000}, {"b", :i64, :mutable, 7}]
    assert SavedGlobals.globals(assemble(globals: globals, memory: {1, 2})) == {:ok, ["a", "b"]}
    assert SavedGlobals.globals(assemble([])) == {:ok, []}
  end

  test "a module with state that cannot be copied is refused" do
    assert SavedGlobals.globals(assemble(globals: [{"a", :i32, :mutable, 1}, {nil, :i32, :mutable, 1}])) ==
             {:error, "its mutable global number 1 is not exported"}

    assert SavedGlobals.globals(assemble(memory: [{1, nil}, {1, nil}])) == {:error, "it has 2 memories"}
  end

  test "the built-in module can be copied, but for its globals" do
    wasm = File.read!(Application.app_dir(:be_tree, "priv/be_tree.wasm"))
    assert SavedGlobals.globals(wasm) == {:ok, ["__stack_pointer"]}
  end
end

defmodule BeTree.Attacks.ReloadTest do
  # Reloading the module of the NIF, as a development tool or a release upgrade may do, changes nothing.
  use ExUnit.Case, async: false

  import BeTree.Test.Quiet

  @moduletag runtime: BeTree.Runtime.Wasmtime

  setup :quiet

  test "reloading the NIF's module is refused and loses nothing" do
    tree = BeTree.new!(a: :integer)
    BeTree.insert!(tree, 1, "a = 1")

    assert :code.load_file(BeTree.Runtime.Native) == {:error, :on_load_failure}

    assert BeTree.Runtime.Native.loaded?()
    assert BeTree.search(tree, %{a: 1}) == {:ok, [1]}
    BeTree.insert!(tree, 2, "a > 0")
    assert BeTree.search(BeTree.publish!(tree), %{a: 1}) == {:ok, [1, 2]}
    assert {:ok, _tree} = BeTree.new(b: :integer)
  end
end

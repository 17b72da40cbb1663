defmodule BeTree.Attacks.ReloadTest do
  # The module of the NIF is loaded again, as a tool for development or a release upgrade may do: nothing changes.
  use ExUnit.Case, async: false

  import BeTree.Test.Quiet

  @moduletag runtime: BeTree.Runtime.Wasmtime

  setup :quiet

  test "the module of the NIF is not loaded again, and all that was there goes on" do
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

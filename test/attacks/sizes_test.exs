defmodule BeTree.Attacks.SizesTest do
  # Lengths beyond any memory are refused, and the tree stays usable.
  use ExUnit.Case, async: true

  alias BeTree.Runtime.Wasmtime

  @request %{input: nil, output: :none, fuel: :infinity, slice: :infinity, scheduler: :dirty}

  test "an inbox of nearly 4 GiB is refused" do
    tree = BeTree.new!(a: :integer)
    BeTree.insert!(tree, 1, "a > 1")

    for length <- [0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFF000, 0xF0F0F0F1, 0xF0F0F0F0, 0x80000000, 0x7FFFFFFF] do
      <<signed::signed-32>> = <<length::32>>
      assert {:done, 0, nil, _fuel} = Wasmtime.call(tree.instance, "be_tree_inbox", [signed], @request)
      assert BeTree.search(tree, %{a: 2}) == {:ok, [1]}
    end

    BeTree.insert!(tree, 2, "a > 0")
    assert BeTree.search(tree, %{a: 2}) == {:ok, [1, 2]}
  end
end

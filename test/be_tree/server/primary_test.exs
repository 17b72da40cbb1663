defmodule BeTree.Server.PrimaryTest do
  use ExUnit.Case, async: true

  alias BeTree.Error
  alias BeTree.Server.Primary

  @memory 64_000_000

  defp empty do
    {:ok, primary} = Primary.new(BeTree.new!(a: :integer), @memory)
    primary
  end

  defp wires(ids), do: for(id <- ids, do: {id, "a = #{id}", []})

  defp filled(ids) do
    {:ok, primary} = Primary.insert(empty(), wires(ids))
    primary
  end

  defp search(%{tree: tree}, value), do: BeTree.search!(tree, %{a: value})

  test "insert/2 inserts all or none, and counts them" do
    primary = filled([1, 2])
    assert primary.count == 2 and Primary.sound?(primary)
    assert {:error, %Error{kind: :duplicate_id}} = Primary.insert(primary, wires([3, 1]))
    assert Primary.sound?(primary) and search(primary, 3) == []
  end

  test "delete/2 deletes a subscription that is there" do
    primary = filled([1, 2])
    assert {:ok, %{count: 1} = primary} = Primary.delete(primary, 1)
    assert {:error, %Error{kind: :not_found}} = Primary.delete(primary, 1)
    assert Primary.sound?(primary)
  end

  describe "change/3" do
    test "deletes and replaces, and returns the deleted keys" do
      primary = filled([1, 2, 3])

      assert {:ok, [1, 2], %{count: 3} = primary} =
               Primary.change(primary, [1], [2, 5], [{2, "a = 9", []}, {4, "a = 9", []}])

      assert search(primary, 9) == [2, 4] and search(primary, 1) == []
      assert Primary.sound?(primary)
    end

    test "leaves the tree unchanged if the first deletion fails, or if nothing was deleted" do
      primary = filled([1])
      assert {:error, %Error{kind: :not_found}, :unchanged} = Primary.change(primary, [7, 1], [], [])
      assert {:error, %Error{kind: :syntax}, :unchanged} = Primary.change(primary, [], [], [{8, "a =", []}])
      assert Primary.sound?(primary)
    end

    test "leaves a torn tree if an insertion fails after a deletion, and rebuild/3 mends it" do
      base = BeTree.publish!(BeTree.new!(a: :integer))
      primary = filled([1, 2])
      assert {:error, %Error{kind: :syntax}, :torn} = Primary.change(primary, [1], [], [{8, "a =", []}])
      refute Primary.sound?(primary)
      primary = Primary.rebuild(primary, base, [{1, [], wires([1])}, {2, [], wires([2])}])
      assert primary.count == 2 and Primary.sound?(primary) and search(primary, 1) == [1]
    end
  end

  test "a tree above the memory limit refuses insertions until it fits" do
    base = BeTree.publish!(BeTree.new!(a: :integer))
    rows = [{1, [], for(id <- 1..20_000, do: {id, "a > #{id}", []})}]
    primary = Primary.rebuild(%{empty() | memory: 1_200_000}, base, rows)
    assert primary.unfit == 20_000
    assert {:error, %Error{kind: :out_of_memory, message: message}} = Primary.check_memory(primary)
    assert message =~ "memory limit of 1200000 bytes"
    refute Primary.may_fit?(primary)

    {:ok, primary} = Primary.delete(primary, 1)
    assert Primary.may_fit?(primary) and not Primary.fits?(primary)
    primary = Primary.fit(primary, base, rows)
    assert primary.unfit == 19_999 and not Primary.may_fit?(primary)

    primary = Primary.fit(primary, base, [{1, [], wires([1, 2])}])
    assert primary.unfit == nil and Primary.fits?(primary) and Primary.check_memory(primary) == :ok
  end

  test "emptied?/2 is true for a tree without subscriptions that is much smaller than the base" do
    tree = BeTree.new!(a: :integer)
    for id <- 1..5_000, do: BeTree.insert!(tree, id, "a > #{id}")
    base = BeTree.publish!(tree)
    assert Primary.emptied?(empty(), base)
    refute Primary.emptied?(filled([1]), base)
    refute Primary.emptied?(empty(), BeTree.publish!(BeTree.new!(a: :integer)))
  end
end

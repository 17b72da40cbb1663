defmodule BeTree.FuelTest do
  use ExUnit.Case

  alias BeTree.Fuel

  doctest Fuel

  test "one default slice is a time slice of the BEAM" do
    assert Fuel.from_reductions(4_000) == Fuel.default_slice()
  end

  test "a new tree reads the ratio from the application's environment" do
    on_exit(fn -> Application.delete_env(:be_tree, :fuel_per_reduction) end)
    Application.put_env(:be_tree, :fuel_per_reduction, 10)
    assert Fuel.per_reduction() == 10
    assert Fuel.to_reductions(99) == 10
    tree = BeTree.new!(b: :boolean)
    assert tree.fuel_per_reduction == 10
    assert BeTree.new!([b: :boolean], fuel_per_reduction: 7).fuel_per_reduction == 7
  end

  test "per_reduction/0 refuses an invalid ratio" do
    on_exit(fn -> Application.delete_env(:be_tree, :fuel_per_reduction) end)

    for wrong <- [0, -1, 1.5, nil] do
      Application.put_env(:be_tree, :fuel_per_reduction, wrong)
      assert_raise ArgumentError, ~r/fuel_per_reduction is a positive integer/, fn -> Fuel.per_reduction() end
    end
  end
end

defmodule BeTree.FuelTest do
  use ExUnit.Case

  alias BeTree.Fuel

  doctest Fuel

  test "a time slice of the BEAM is one default slice" do
    assert Fuel.from_reductions(4_000) == Fuel.default_slice()
  end

  test "the application's environment sets the ratio, which a tree reads when it is made" do
    on_exit(fn -> Application.delete_env(:be_tree, :fuel_per_reduction) end)
    Application.put_env(:be_tree, :fuel_per_reduction, 10)
    assert Fuel.per_reduction() == 10
    assert Fuel.to_reductions(99) == 10
    tree = BeTree.new!(b: :boolean)
    assert tree.fuel_per_reduction == 10
    assert BeTree.new!([b: :boolean], fuel_per_reduction: 7).fuel_per_reduction == 7
  end

  test "what is no ratio is refused" do
    on_exit(fn -> Application.delete_env(:be_tree, :fuel_per_reduction) end)

    for wrong <- [0, -1, 1.5, nil] do
      Application.put_env(:be_tree, :fuel_per_reduction, wrong)
      assert_raise ArgumentError, ~r/fuel_per_reduction is a positive integer/, fn -> Fuel.per_reduction() end
    end
  end
end

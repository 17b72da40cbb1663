defmodule BeTree.Tenants.DeclarationTest do
  use ExUnit.Case, async: true

  alias BeTree.Domain
  alias BeTree.Tenants.{Declaration, Usage}

  setup_all do
    {:ok, schema} = Domain.parse(price: :float, user: :integer, country: :string, tags: :string_list)
    %{schema: schema}
  end

  test "new/2 returns names, kinds, attributes and parameters in order", %{schema: schema} do
    stats = [users: {:uniques, :user}, total: {:sum, "price"}, best: {:top, :country}, first: {:top, :country, 3}]

    assert Declaration.new(stats, schema) ==
             {:ok,
              [
                {"users", :uniques, "user", 0},
                {"total", :sum, "price", 0},
                {"best", :top, "country", 10},
                {"first", :top, "country", 3}
              ]}

    assert Declaration.new(nil, schema) == {:ok, nil}
    assert Declaration.new(%{"a" => {:members, :tags, 5}}, schema) == {:ok, [{"a", :members, "tags", 5}]}
  end

  test "new/2 refuses wrong figures, and names the fault", %{schema: schema} do
    for {stats, kind, text} <- [
          {:users, :type, "stats are a keyword list or a map"},
          {[{:users, {:unique, :user}}], :type, "one of the kinds :members, :quantiles, :sum, :top, :uniques"},
          {[users: {:uniques, :usr}], :unknown_attribute, "`usr`, which the schema lacks"},
          {[total: {:sum, :country}], :type, "cannot count values of `country`, which has the type string"},
          {[best: {:top, :price}], :type, "cannot count values of `price`, which has the type float"},
          {[best: {:top, :country, 101}], :out_of_bounds, "a number from 1 to 100"},
          {[users: {:uniques, :user, 3}], :type, "takes no number"},
          {[{:a, {:sum, :user}}, {"a", {:sum, :user}}], :type, "the name `a` twice"},
          {for(n <- 1..17, do: {"n#{n}", {:sum, :user}}), :out_of_bounds, "at most 16 figures"},
          {[{"", {:sum, :user}}], :type, "the name of a figure is an atom or a string"}
        ] do
      assert {:error, error} = Declaration.new(stats, schema)
      assert error.kind == kind
      assert error.message =~ text
    end
  end

  test "Usage.open/2 keeps the latest day when the clock goes back" do
    {10, counters, days} = Usage.open([], 10)
    assert {10, ^counters, ^days} = Usage.open(days, 9)
    {11, other, [{11, other, nil}, {10, counters, nil}] = later} = Usage.open(days, 11)
    Usage.add(counters, :search, 5)
    Usage.add(other, :events, 2)
    assert [{10, %{search: 5, events: 0}}, {11, %{search: 0, events: 2}}] = Usage.not_stored(later)
    assert Usage.mark(other) == 2

    assert Usage.later(%{Usage.zero() | search: 3, load: 9}, Usage.totals(counters)) == %{
             Usage.zero()
             | search: 5,
               load: 9
           }
  end
end

defmodule BeTree.Domain.DifferenceTest do
  use ExUnit.Case, async: true

  alias BeTree.Domain
  alias BeTree.Domain.Difference

  defp text(found, schema) do
    [found, schema] = for attributes <- [found, schema], do: elem({:ok, _} = Domain.parse(attributes), 1)
    Difference.text(found, schema)
  end

  test "text/2 names an attribute that only one schema has" do
    assert text([a: :integer, b: :integer], a: :integer) == "with the attribute `b`"
    assert text([a: :integer], a: :integer, b: :integer) == "without the attribute `b`"
  end

  test "text/2 says that only the order differs" do
    assert text([a: :integer, b: :float], b: :float, a: :integer) == "with its attributes in another order"
  end

  for {found, domain, difference} <- [
        {:string, :integer, "the type :string, where the server has :integer"},
        {{:integer, optional: true}, :integer, "optional: true, where the server has optional: false"},
        {{:integer, min: 1, max: 5}, {:integer, min: 1}, "max: 5, where the server has no max:"},
        {:string, {:string, count: 3}, "no count:, where the server has count: 3"},
        {{:integer, coerce: true}, :integer, "coerce: true, where the server has coerce: false"},
        {{:datetime, unit: :second}, :datetime, "unit: :second, where the server has unit: :microsecond"},
        {{:integer, optional: true, on_mismatch: :undefined}, {:integer, optional: true},
         "on_mismatch: :undefined, where the server has on_mismatch: :error"},
        {{:integer, optional: true, min: 2}, {:integer, max: 9},
         "optional: true, min: 2, no max:, where the server has optional: false, no min:, max: 9"}
      ] do
    test "text/2 says for #{inspect(found)} and #{inspect(domain)} what differs" do
      assert text([severity: unquote(found)], severity: unquote(domain)) ==
               "in which `severity` has #{unquote(difference)}"
    end
  end
end

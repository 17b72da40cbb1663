defmodule BeTree.Test.Reason do
  @moduledoc """
  A naive search for the reason why an expression of `BeTree.Test.Naive` is false. It folds `true` and `false`, then
  evaluates operands from left to right until the value is known.
  """

  alias BeTree.Test.Naive

  @doc "Returns the value of an expression, and the name of the last evaluated predicate, or `nil` if there was none."
  def decide({:constant, value}, _event, _constants), do: {value, nil}

  def decide({:not, operand}, event, constants) do
    {value, last} = decide(operand, event, constants)
    {not value, last}
  end

  def decide({operator, left, right}, event, constants) when operator in [:and, :or] do
    # The operand's value that decides alone.
    decisive = operator == :or

    case {decide(left, event, constants), decide(right, event, constants)} do
      {{value, nil}, other} when value != decisive -> other
      {other, {value, nil}} when value != decisive -> other
      {{_, left}, {_, right}} when left == nil or right == nil -> {decisive, nil}
      {{^decisive, _} = left, _right} -> left
      {_left, right} -> right
    end
  end

  def decide(predicate, event, constants), do: {Naive.eval(predicate, event, constants), name(predicate)}

  defp name({:variable, name}), do: name
  defp name({:geo, _, _, _}), do: "geo"
  defp name({:segment, _, name, _, _}), do: name
  defp name({:cap, _, _, _, _}), do: "frequency_caps"
  defp name(predicate), do: elem(predicate, 2)
end

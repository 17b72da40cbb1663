defmodule BeTree.Test.Reason do
  @moduledoc """
  Why an expression of `BeTree.Test.Naive` is false, as plainly as can be: `true` and `false` are put in place first, then
  operands are evaluated from left to right and only as far as they decide.
  """

  alias BeTree.Test.Naive

  @doc "What an expression comes to, and the name of what was evaluated last; none where no predicate was."
  def decide({:constant, value}, _event, _constants), do: {value, nil}

  def decide({:not, operand}, event, constants) do
    {value, last} = decide(operand, event, constants)
    {not value, last}
  end

  def decide({operator, left, right}, event, constants) when operator in [:and, :or] do
    # The value of an operand that needs no look at the other.
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

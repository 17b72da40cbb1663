defmodule BeTree.Rules.Fact do
  @moduledoc """
  A stored fact, as `BeTree.Rules.facts/3` returns it.

    * `:id` - its number, for `BeTree.Rules.retract/3`. Later facts have higher numbers;
    * `:type` - the name of its type;
    * `:at` - its time in milliseconds;
    * `:fields` - the values by name, `nil` for undefined.
  """

  @enforce_keys [:id, :type, :at, :fields]
  defstruct @enforce_keys

  @type value :: integer | float | boolean | String.t() | nil

  @type t :: %__MODULE__{id: BeTree.Rules.id(), type: String.t(), at: integer, fields: %{String.t() => value}}

  @doc false
  # Returns the numbers of the facts that are equal apart from the number, in the order of `facts`.
  @spec equal([t], t) :: [BeTree.Rules.id()]
  def equal(facts, %__MODULE__{at: at, fields: fields}), do: for(%{at: ^at, fields: ^fields, id: id} <- facts, do: id)
end

defmodule BeTree.Rules.Notice do
  @moduledoc """
  A notice is the report of a `notify` in a rule.

    * `:rule` - the name of the rule;
    * `:name` - the name that the rule gives after `notify`, or `nil` if the firing failed: it would have stored a value outside of
      its field's domain, or left a required field undefined. Such a firing changes nothing;
    * `:values` - the values by name, `nil` for undefined. Of a firing that failed: the fact's `"type"` and the `"field"`.
  """

  @enforce_keys [:rule, :name, :values]
  defstruct @enforce_keys

  @type t :: %__MODULE__{rule: String.t(), name: String.t() | nil, values: %{String.t() => BeTree.Rules.Fact.value()}}
end

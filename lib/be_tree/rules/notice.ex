defmodule BeTree.Rules.Notice do
  @moduledoc """
  A notice is the report of a `notify` in a rule.

    * `:rule` - the name of the rule;
    * `:name` - the name that the rule gives after `notify`, or `nil` if the firing failed: it would have stored a value outside of
      its field's domain, or left a required field undefined. Such a firing changes nothing;
    * `:values` - the values by name, `nil` for undefined. Of a firing that failed: the fact's `"type"` and the `"field"`;
    * `:number` - the number of the notice in the server that sent it (`BeTree.Rules.Server`, Numbers), or `nil` in a page of
      `BeTree.Rules`;
    * `:partition` - the partition that sent it, from 0, or `nil` without partitions.
  """

  @derive {Inspect, optional: [:number, :partition]}
  @enforce_keys [:rule, :name, :values]
  defstruct @enforce_keys ++ [:number, :partition]

  @type t :: %__MODULE__{
          rule: String.t(),
          name: String.t() | nil,
          values: %{String.t() => BeTree.Rules.Fact.value()},
          number: pos_integer | nil,
          partition: non_neg_integer | nil
        }
end

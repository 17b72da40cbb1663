defmodule BeTree.Rules.Explanation do
  @moduledoc """
  An explanation of a rule, as `BeTree.Rules.explain/3` returns it. `Kernel.to_string/1` returns it as text.

    * `:verdict`
      * `:fired` - all conditions hold for `facts`, and the rule fired for them;
      * `:due` - all conditions hold, and the rule fires in the next call;
      * `:waits` - all conditions hold so far, and a window is open until the time `until`;
      * `:blocked` - the condition `condition` fails for `facts`;
      * `:unknown` - there are too many combinations of facts to examine;
    * `:facts` - the facts that meet the binding conditions, in the order of the conditions, as far as found;
    * `:until` - a time in milliseconds, or `nil`;
    * `:line`, `:condition` - the line of the text, from 1, in which the condition begins, and its content, or `nil`;
    * `:by` - the fact that violates a `none`, or `nil`.
  """

  alias BeTree.Rules.Fact

  @enforce_keys [:verdict, :facts]
  @derive {Inspect, optional: [:until, :line, :condition, :by]}
  defstruct [:verdict, :facts, :until, :line, :condition, :by]

  @type t :: %__MODULE__{
          verdict: :fired | :due | :waits | :blocked | :unknown,
          facts: [Fact.t()],
          until: integer | nil,
          line: pos_integer | nil,
          condition: String.t() | nil,
          by: Fact.t() | nil
        }

  defimpl String.Chars do
    def to_string(explanation) do
      Enum.join([verdict(explanation) | Enum.map(explanation.facts, &"  #{fact(&1)}")], "\n")
    end

    defp verdict(%{verdict: :fired}), do: "fired for"
    defp verdict(%{verdict: :due}), do: "is due for"
    defp verdict(%{verdict: :waits, until: until}), do: "waits until #{until} for"
    defp verdict(%{verdict: :unknown}), do: "has too many combinations of facts to look at"

    defp verdict(%{verdict: :blocked, line: line, condition: condition, by: by, facts: facts}) do
      violated = if by, do: ", because of #{fact(by)}", else: ""
      "is blocked at line #{line}: #{condition}#{violated}#{if facts != [], do: "; met so far"}"
    end

    defp fact(fact) do
      fields = Enum.map_join(fact.fields, ", ", fn {name, value} -> "#{name}: #{inspect(value)}" end)
      "#{fact.type} #{fact.id} at #{fact.at} (#{fields})"
    end
  end
end

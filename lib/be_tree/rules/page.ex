defmodule BeTree.Rules.Page do
  @moduledoc """
  A page is the result of a call of `BeTree.Rules`, or a part of it.

    * `:notices` - the notices, in the order of the firings: `BeTree.Rules.Notice`;
    * `:ids` - the numbers of the inserted and the waiting facts, in the order of the list;
    * `:firings` - the number of firings;
    * `:mismatches` - the values of the inserted facts that do not fit their fields and count as undefined, because the field has
      `on_mismatch undefined`;
    * `:late` - the number of inserted facts from before the watermark (`BeTree.Rules`, Time);
    * `:last_rule` - the name of the rule that fired last, or `nil`;
    * `:next_due` - the time, in milliseconds, to which `BeTree.Rules.advance/3` has to move for the next window to close or the next fact
      to wait no more, or `nil`;
    * `:fuel`, `:slices` - the fuel of the page (`BeTree.Fuel`), and its number of slices;
    * `:reason` - the limit that ended the page, `:firings` or `:notices`, or `nil`;
    * `:operation` - private: where `BeTree.Rules.next/1` continues; `nil` in the sum of several pages.
  """

  alias BeTree.Rules.Notice

  @derive {Inspect,
           except: [:operation], optional: [:last_rule, :next_due, :reason, :notices, :ids, :mismatches, :late]}
  @enforce_keys [:operation]
  defstruct [
    :operation,
    :last_rule,
    :next_due,
    :reason,
    notices: [],
    ids: [],
    firings: 0,
    mismatches: 0,
    late: 0,
    fuel: 0,
    slices: 0
  ]

  @type t :: %__MODULE__{
          notices: [Notice.t()],
          ids: [BeTree.Rules.id()],
          firings: non_neg_integer,
          mismatches: non_neg_integer,
          late: non_neg_integer,
          last_rule: String.t() | nil,
          next_due: integer | nil,
          fuel: BeTree.Fuel.t(),
          slices: non_neg_integer,
          reason: :firings | :notices | nil,
          operation: struct | nil
        }

  @doc false
  # Returns the sum of a page and the next one.
  @spec join(t, t) :: t
  def join(page, next) do
    %{
      next
      | notices: page.notices ++ next.notices,
        ids: page.ids ++ next.ids,
        firings: page.firings + next.firings,
        mismatches: page.mismatches + next.mismatches,
        late: page.late + next.late,
        last_rule: next.last_rule || page.last_rule,
        fuel: page.fuel + next.fuel,
        slices: page.slices + next.slices,
        operation: nil
    }
  end
end

defmodule BeTree.Stats do
  @moduledoc """
  What one search did.

    * `fuel` - the fuel it burnt (see `BeTree.Fuel`), the same whatever the slice;
    * `slices` - how often it ran: 1 where it never yielded;
    * `visited` - how many entries of the index it looked at;
    * `evaluated` - how many expressions it evaluated.
  """

  @enforce_keys [:fuel, :slices, :visited, :evaluated]
  defstruct @enforce_keys

  @type t :: %__MODULE__{
          fuel: BeTree.Fuel.t(),
          slices: pos_integer,
          visited: non_neg_integer,
          evaluated: non_neg_integer
        }
end

defmodule BeTree.Stats do
  @moduledoc """
  Statistics count the work of one search.

    * `fuel` - the fuel of the search (`BeTree.Fuel`), the same for every slice;
    * `slices` - the number of slices, 1 if the search never yielded;
    * `visited` - the number of index entries that the search visited;
    * `evaluated` - the number of expressions that the search evaluated.
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

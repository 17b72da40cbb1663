defmodule BeTree.Stats do
  @moduledoc """
  The statistics of one search.

    * `fuel` - the fuel of the search (`BeTree.Fuel`), the same for every slice;
    * `slices` - the number of slices; 1 when the search never yielded;
    * `visited` - the entries of the index that the search scanned;
    * `evaluated` - the expressions that the search evaluated;
    * `mismatches` - the values of the event that count as undefined because they do not fit (`BeTree.Domain`). A map, or a
      list of objects, counts as one value.
  """

  @enforce_keys [:fuel, :slices, :visited, :evaluated]
  defstruct @enforce_keys ++ [mismatches: 0]

  @type t :: %__MODULE__{
          fuel: BeTree.Fuel.t(),
          slices: pos_integer,
          visited: non_neg_integer,
          evaluated: non_neg_integer,
          mismatches: non_neg_integer
        }
end

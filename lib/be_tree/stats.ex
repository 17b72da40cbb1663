defmodule BeTree.Stats do
  @moduledoc """
  The statistics of one search.

    * `fuel` - the fuel of the search (`BeTree.Fuel`), the same for every slice;
    * `slices` - the number of slices; 1 when the search never yielded;
    * `visited` - the entries of the index that the search visited;
    * `evaluated` - the expressions that the search evaluated.
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

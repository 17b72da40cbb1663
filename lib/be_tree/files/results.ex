defmodule BeTree.Files.Results do
  @moduledoc false
  # The results format: one line per event, a compact JSON array of ascending ids.

  @spec line([non_neg_integer]) :: iodata
  def line([]), do: "[]\n"
  def line([first | rest]), do: [?[, Integer.to_string(first) | rest(rest)]

  defp rest([]), do: "]\n"
  defp rest([id | ids]), do: [?,, Integer.to_string(id) | rest(ids)]
end

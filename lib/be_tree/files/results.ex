defmodule BeTree.Files.Results do
  @moduledoc false
  # The results format: one line per event, a compact JSON array of ids. The numbers of the index ascend; `ids` has the given id of each.

  alias BeTree.Files.Ids
  alias BeTree.Input.Json

  @spec line([BeTree.id()], Ids.t()) :: iodata
  def line(numbers, ids \\ nil)
  def line([], _ids), do: "[]\n"
  def line([first | rest], ids), do: [?[, id(first, ids) | rest(rest, ids)]

  defp rest([], _ids), do: "]\n"
  defp rest([number | numbers], ids), do: [?,, id(number, ids) | rest(numbers, ids)]

  defp id(number, nil), do: Integer.to_string(number)
  defp id(number, ids), do: ids |> Ids.given(number) |> Json.encode()
end

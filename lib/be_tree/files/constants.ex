defmodule BeTree.Files.Constants do
  @moduledoc false
  # be-tree's constants: one line per expression, `id,campaign_group_id,campaign_id,advertiser_id,flight_id`.

  alias BeTree.Files.Reader

  @constant_names [:campaign_group_id, :campaign_id, :advertiser_id, :flight_id]

  @spec names() :: [atom]
  def names, do: @constant_names

  # Returns the id and the constants of each line.
  @spec read(Path.t()) :: [{Reader.line(), {non_neg_integer, keyword(integer)}}]
  def read(path) do
    for {text, number} <- Reader.lines(path) do
      fields = String.split(text, ",")

      unless length(fields) == 1 + length(@constant_names) do
        reason = "constants are an id, #{Enum.join(@constant_names, ", ")}, with commas between: five integers"
        raise Reader.error(path, text, number, 0, reason)
      end

      [id | values] = integers(fields, 0, &Reader.error(path, text, number, &1, "expected an integer"))
      {{text, number}, {id, Enum.zip(@constant_names, values)}}
    end
  end

  defp integers([], _offset, _error), do: []

  defp integers([field | fields], offset, error) do
    case field |> String.trim() |> Integer.parse() do
      {integer, ""} -> [integer | integers(fields, offset + byte_size(field) + 1, error)]
      _other -> raise error.(offset)
    end
  end
end

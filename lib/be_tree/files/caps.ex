defmodule BeTree.Files.Caps do
  @moduledoc false
  # Frequency caps in be-tree's events. There an array of a cap is flat, or has the key in an array of its own.

  # The beginning of a flat cap: the type, the id and the namespace. A JSON string that ends with a bracket is followed by no letter,
  # so this is the beginning of an array and not within a string.
  @flat ~r/\[(\s*"(?:advertiser|campaign_group|campaign|flight|product)(?::ip)?"\s*,\s*-?\d+\s*,\s*"(?:[^"\\]|\\.)*+")\s*,/

  # Returns an event in JSON with the key of each cap in an array.
  @spec nested(String.t()) :: String.t()
  def nested(json) do
    case :binary.match(json, "frequency_caps") do
      :nomatch -> json
      _found -> Regex.replace(@flat, json, "[[\\1],")
    end
  end
end

defmodule BeTree.Files.Caps do
  @moduledoc false
  # Frequency caps in be-tree's events. An array of a cap is flat there, or has the key in an array of its own.

  # The beginning of a flat cap: type, id and namespace. It cannot match inside a string, because no letter follows the
  # closing quote of a JSON string that ends with a bracket.
  @flat_cap_start ~r/\[(\s*"(?:advertiser|campaign_group|campaign|flight|product)(?::ip)?"\s*,\s*-?\d+\s*,\s*"(?:[^"\\]|\\.)*+")\s*,/

  # Rewrites an event in JSON so that the key of each cap is an array.
  @spec nested(String.t()) :: String.t()
  def nested(json) do
    case :binary.match(json, "frequency_caps") do
      :nomatch -> json
      _found -> Regex.replace(@flat_cap_start, json, "[[\\1],")
    end
  end
end

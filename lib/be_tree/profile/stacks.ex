defmodule BeTree.Profile.Stacks do
  @moduledoc false
  # Apportions the fuel of a profile among the stacks of a flame graph.

  @type stack :: {[String.t()], BeTree.Fuel.t()}

  @doc "Returns the stacks. Their fuel adds up to that of the profile."
  @spec of(BeTree.Profile.t()) :: [stack]
  def of(profile) do
    for {phase, fuel} <- profile.phases,
        {frames, share} <- divide(fuel, shares(phase, profile)),
        share != 0,
        do: {["search", Atom.to_string(phase) | frames], share}
  end

  defp shares(:walk, profile), do: for(row <- profile.attributes, do: {[frame(row.name)], row.lookups + row.nodes})
  defp shares(:scan, profile), do: for(row <- profile.attributes, do: {[frame(row.name)], row.entries})

  defp shares(:verify, profile) do
    for row <- profile.attributes, row.candidates > 0, {outcome, times} <- outcomes(row) do
      {[frame(row.name), outcome], times}
    end
  end

  defp shares(_phase, _profile), do: []

  defp outcomes(row) do
    failed = for {name, times} <- row.failed_by, do: {"false by " <> frame(name), times}
    [{"true", row.candidates - row.failed} | failed]
  end

  # The folded format ends frames with semicolons and stacks with line breaks.
  defp frame(nil), do: "every event"
  defp frame(name), do: String.replace(name, [";", "\n"], "_")

  # Divides `fuel` in proportion to the weights, into integers that add up to `fuel`.
  defp divide(fuel, shares) do
    case shares |> Enum.map(fn {_frames, weight} -> weight end) |> Enum.sum() do
      0 ->
        [{[], fuel}]

      total ->
        {divided, _weights} =
          Enum.map_reduce(shares, 0, fn {frames, weight}, before ->
            after_it = before + weight
            {{frames, div(fuel * after_it, total) - div(fuel * before, total)}, after_it}
          end)

        divided
    end
  end
end

defmodule Mix.BeTree.CalibrationText do
  @moduledoc false
  # Prints the result of `mix be_tree.tune --calibrate`.

  alias BeTree.Input.Describe
  alias BeTree.Fuel
  alias BeTree.Tune.Calibration

  @spec of(Calibration.t()) :: String.t()
  def of(measured) do
    """
    #{rates(measured)}
    A reduction of plain Elixir takes #{decimal(measured.nanoseconds_per_reduction, 1)} ns, as long as \
    #{Describe.grouped(round(measured.nanoseconds_per_reduction * measured.fuel_per_microsecond / 1_000))} fuel; \
    4,000 of them take #{Describe.grouped(round(4 * measured.nanoseconds_per_reduction))} microseconds.

    #{slices(measured.workloads)}
    The default slice of #{Describe.grouped(Fuel.default_slice())} fuel takes about \
    #{Describe.grouped(round(Fuel.default_slice() / measured.fuel_per_microsecond))} microseconds here. \
    The 4,000 reductions of a time slice take
    #{Describe.grouped(round(Fuel.from_reductions(4_000) / measured.fuel_per_microsecond))} microseconds of searching at \
    #{Describe.grouped(Fuel.per_reduction())} fuel a reduction, as it is now. For 2.2 times as long as in plain Elixir:

        config :be_tree, fuel_per_reduction: #{underscored(measured.fuel_per_reduction)}
    """
  end

  defp rates(%{workloads: workloads}) do
    for {name, measured} <- workloads do
      "#{name}: #{Describe.grouped(round(measured.fuel))} fuel a search, " <>
        "#{Describe.grouped(round(measured.fuel_per_microsecond))} fuel a microsecond\n"
    end
  end

  defp slices([{_name, %{slices: slices}} | _] = workloads) do
    header = row(["slice" | for({name, _measured} <- workloads, do: name)])

    rows =
      for {slice, _percent} <- slices do
        row([Describe.grouped(slice) | for({_name, measured} <- workloads, do: percent(measured.slices, slice))])
      end

    [header | rows]
  end

  defp row([slice | cells]) do
    [String.pad_leading(slice, 12), for(cell <- cells, do: String.pad_leading(cell, 12)), ?\n]
  end

  defp percent(slices, slice) do
    case List.keyfind!(slices, slice, 0) do
      {_slice, nil} -> "no yield"
      {_slice, percent} when percent >= 0 -> "+#{decimal(percent, 1)} %"
      {_slice, percent} -> "#{decimal(percent, 1)} %"
    end
  end

  defp decimal(number, digits), do: :erlang.float_to_binary(number / 1, decimals: digits)

  # Writes a number as Elixir's formatter does.
  defp underscored(integer) when integer < 100_000, do: Integer.to_string(integer)
  defp underscored(integer), do: integer |> Describe.grouped() |> String.replace(",", "_")
end

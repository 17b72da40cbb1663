defmodule BeTree.Domain.Difference do
  @moduledoc false
  # Says how the schema that was found in a folder, an image or an index differs from the schema of a server.

  alias BeTree.Domain
  alias BeTree.Input.Describe

  @options [:optional, :min, :max, :count, :coerce, :unit, :on_mismatch]

  @doc "Returns the first difference of two schemas that are not the same, as the end of a sentence about the found one."
  @spec text([Domain.t()], [Domain.t()]) :: String.t()
  def text(found, schema) do
    of_server = Map.new(schema, &{&1.name, &1})
    names = MapSet.new(found, & &1.name)

    cond do
      domain = Enum.find(found, &(not is_map_key(of_server, &1.name))) ->
        "with the attribute #{Describe.quoted(domain.name)}"

      domain = Enum.find(schema, &(&1.name not in names)) ->
        "without the attribute #{Describe.quoted(domain.name)}"

      domain = Enum.find(found, &(&1 != of_server[&1.name])) ->
        "in which #{Describe.quoted(domain.name)} has #{differing(domain, of_server[domain.name])}"

      true ->
        "with its attributes in another order"
    end
  end

  defp differing(%{type: found}, %{type: type}) when found != type,
    do: "the type #{inspect(found)}, where the server has #{inspect(type)}"

  defp differing(found, domain) do
    options = Enum.filter(@options, &(Map.fetch!(found, &1) != Map.fetch!(domain, &1)))
    "#{values(found, options)}, where the server has #{values(domain, options)}"
  end

  defp values(domain, options), do: Enum.map_join(options, ", ", &value(&1, Map.fetch!(domain, &1)))

  defp value(option, nil), do: "no #{option}:"
  defp value(option, value), do: "#{option}: #{Describe.value(value)}"
end

defmodule BeTreeExchange.Schema do
  @moduledoc false
  # Reads the argument `x-schema`: JSON as the playground has it, or a table of AMQP of the same shape.
  #
  #     {"price": "float", "country": {"type": "string", "optional": true}, "user": {"city": "string"}}

  alias BeTree.Domain
  alias BeTree.Input.Json

  # Headers have no values of these types.
  @without [:segments, :frequency_caps]

  @doc "Returns the attributes, or the reason for which there are none."
  @spec parse(binary | map) :: {:ok, [Domain.t()]} | {:error, String.t()}
  def parse(json) when is_binary(json) do
    case Json.decode(json) do
      {:ok, schema} -> domains(schema)
      {:error, {:twice, name, offset}} -> {:error, "x-schema, column #{column(json, offset)}: #{name} is there twice"}
      {:error, offset} -> {:error, "x-schema, column #{column(json, offset)}: no JSON"}
    end
  end

  def parse(table) when is_map(table), do: domains(table)

  defp domains(schema) do
    with {:error, error} <- Domain.Json.domains(schema, @without), do: {:error, "x-schema: #{error.message}"}
  end

  defp column(json, offset), do: json |> binary_part(0, offset) |> String.length() |> Kernel.+(1)
end

defmodule BeTreeExchange.Schema do
  @moduledoc false
  # Reads the argument `x-schema`: JSON as the playground has it, or a table of AMQP of the same shape.
  #
  #     {"price": "float", "country": {"type": "string", "optional": true}, "user": {"city": "string"}}

  alias BeTree.Domain
  alias BeTree.Input.Json

  # Names of the JSON, and the options of BeTree.Domain.
  @options %{
    "optional" => :optional,
    "min" => :min,
    "max" => :max,
    "count" => :count,
    "coerce" => :coerce,
    "onMismatch" => :on_mismatch,
    "unit" => :unit
  }

  @types Map.new(
           ~w(boolean integer float string integer_enum integer_list string_list ip datetime object_list)a,
           &{Atom.to_string(&1), &1}
         )
  @words Map.new(~w(error undefined second millisecond microsecond)a, &{Atom.to_string(&1), &1})

  @doc "Returns the attributes, or the reason for which there are none."
  @spec parse(binary | map) :: {:ok, [Domain.t()]} | {:error, String.t()}
  def parse(json) when is_binary(json) do
    case Json.decode(json) do
      {:ok, fields} when is_map(fields) -> parse(fields)
      {:ok, _other} -> {:error, "x-schema is a JSON object, such as {\"price\": \"float\"}"}
      {:error, {:twice, name, offset}} -> {:error, "x-schema, column #{column(json, offset)}: #{name} is there twice"}
      {:error, offset} -> {:error, "x-schema, column #{column(json, offset)}: no JSON"}
    end
  end

  def parse(fields) when fields == %{}, do: {:error, "x-schema has no attribute; name one: {\"price\": \"float\"}"}

  def parse(fields) when is_map(fields) do
    with {:ok, schema} <- fields(fields, []), do: domains(schema)
  end

  defp column(json, offset), do: json |> binary_part(0, offset) |> String.length() |> Kernel.+(1)

  defp domains(schema) do
    with {:error, error} <- Domain.parse(schema), do: {:error, "x-schema: #{error.message}"}
  end

  defp fields(fields, path) do
    Enum.reduce_while(Enum.sort(fields), {:ok, []}, fn {name, domain}, {:ok, found} ->
      case field(domain, [name | path]) do
        {:ok, domain} -> {:cont, {:ok, found ++ [{name, domain}]}}
        {:error, reason} -> {:halt, {:error, reason}}
      end
    end)
  end

  # An object whose `type` is a string is a domain; any other object has fields.
  defp field(type, path) when is_binary(type), do: field(%{"type" => type}, path)

  defp field(%{"type" => type} = domain, path) when is_binary(type) do
    case @types do
      %{^type => type} -> options(domain, type, path)
      _others -> refuse(path, "`#{type}` is no type; the types are #{Enum.join(Map.keys(@types), ", ")}")
    end
  end

  defp field(fields, path) when is_map(fields) and fields != %{}, do: fields(fields, path)
  defp field(_other, path), do: refuse(path, "a domain is a type, or an object with a type or with fields")

  defp options(domain, type, path) do
    given = Map.delete(domain, "type")

    case Enum.find(Map.keys(given), &(not is_map_key(@options, &1))) do
      nil -> {:ok, {type, for({name, value} <- given, do: {@options[name], Map.get(@words, value, value)})}}
      unknown -> refuse(path, "no option `#{unknown}`; the options are #{Enum.join(Map.keys(@options), ", ")}")
    end
  end

  defp refuse(path, reason), do: {:error, "x-schema, `#{path |> Enum.reverse() |> Enum.join(".")}`: #{reason}"}
end

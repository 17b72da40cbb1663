defmodule BeTree.Domain.Json do
  @moduledoc false
  # Reads a schema in JSON, as the playground and the package for JavaScript have it:
  #
  #     {"price": "float", "country": {"type": "string", "optional": true}, "user": {"city": "string"}}
  #
  # An object whose `type` is a string is a domain. Any other object has the fields of a map. The objects of an `object_list` have
  # their attributes beside it: `{"items": "object_list", "items.sku": "string"}`.

  alias BeTree.{Domain, Error}
  alias BeTree.Domain.Path
  alias BeTree.Input.{Describe, Json}

  # The options of `BeTree.Domain`, by their names in JavaScript.
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
           ~w(boolean integer float string integer_enum integer_list string_list segments frequency_caps ip datetime object_list)a,
           &{Atom.to_string(&1), &1}
         )

  @words Map.new(~w(error undefined second millisecond microsecond)a, &{Atom.to_string(&1), &1})

  @example ~S({"price": "float", "country": {"type": "string", "optional": true}})

  @doc """
  Returns the attributes in the text of a schema, in the order of their names. A syntax error also has the byte at which the text is
  no JSON.
  """
  @spec parse(binary) :: {:ok, [Domain.t()]} | {:error, Error.t()} | {:error, Error.t(), offset :: non_neg_integer}
  def parse(text) do
    case Json.decode(text) do
      {:ok, schema} ->
        domains(schema)

      {:error, {:twice, name, offset}} ->
        {:error, fault("the name #{Json.encode(name)} is there twice; remove one"), offset}

      {:error, offset} ->
        {:error, fault("this is no JSON; a schema is an object such as #{@example}"), offset}
    end
  end

  @doc "Returns the attributes in a schema that is decoded already, whose types are all but those of `without`."
  @spec domains(term, [Domain.type()]) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def domains(schema, without \\ [])

  def domains(schema, without) when is_map(schema) and schema != %{} do
    types = Map.reject(@types, fn {_name, type} -> type in without end)
    with {:ok, schema} <- fields(schema, [], types), do: Domain.parse(schema)
  end

  def domains(_other, _without),
    do: refuse([], "a schema is a JSON object with an attribute or more, such as #{@example}")

  # `around` has the names of the maps that contain the fields, the innermost first.
  defp fields(fields, around, types) do
    fields
    |> Enum.sort()
    |> Enum.reduce_while({:ok, []}, fn {name, domain}, {:ok, found} ->
      case field(domain, [name | around], types) do
        {:ok, domain} -> {:cont, {:ok, [{name, domain} | found]}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
    |> then(fn result -> with {:ok, found} <- result, do: {:ok, Enum.reverse(found)} end)
  end

  defp field(type, path, types) when is_binary(type), do: field(%{"type" => type}, path, types)

  defp field(%{"type" => type} = domain, path, types) when is_binary(type) do
    case types do
      %{^type => type} -> options(Map.delete(domain, "type"), type, path)
      _others -> refuse(path, "#{Json.encode(type)} is no type#{here(type)}; the types are #{names(types)}")
    end
  end

  defp field(fields, path, types) when is_map(fields) and fields != %{}, do: fields(fields, path, types)

  defp field(other, path, _types) do
    refuse(
      path,
      "a domain is a type, or an object with a type or with fields, such as #{@example}; got: #{Json.encode(other)}"
    )
  end

  defp options(options, type, path) do
    case Enum.find(Map.keys(options), &(not is_map_key(@options, &1))) do
      nil -> {:ok, {type, for({name, value} <- options, do: {@options[name], Map.get(@words, value, value)})}}
      unknown -> refuse(path, "there is no option #{Json.encode(unknown)}; the options are #{names(@options)}")
    end
  end

  # A type that the caller does not take.
  defp here(type), do: if(is_map_key(@types, type), do: " that can be used here", else: "")

  defp names(map), do: map |> Map.keys() |> Enum.sort() |> Enum.join(", ")

  defp refuse([], reason), do: {:error, fault(reason)}

  defp refuse(path, reason) do
    name = path |> Enum.reverse() |> Path.join()
    {:error, %{fault("#{Describe.quoted(name)}: #{reason}") | attribute: name}}
  end

  defp fault(reason), do: %Error{kind: :type, message: reason}
end

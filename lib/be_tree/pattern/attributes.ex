defmodule BeTree.Pattern.Attributes do
  @moduledoc false
  # Finds the attributes that a set of patterns needs.

  alias BeTree.{Domain, Error}
  alias BeTree.Input.Describe
  alias BeTree.Pattern.{Expression, Reader}

  # How a test uses a field: as a string, an exact string (possibly an address), an address, a number, an integer or a
  # boolean.
  @typep use :: :string | :exact | :ip | :number | :integer | :boolean

  @doc "Returns the attributes of `patterns` by name. `arrays` are the paths of fields that may have arrays."
  @spec of([BeTree.Pattern.t()], MapSet.t(Reader.path())) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def of(patterns, arrays) do
    fields =
      patterns
      |> Enum.with_index()
      |> Enum.reduce(%{}, fn {pattern, position}, fields -> add(read(pattern, arrays, position), position, fields) end)

    {:ok, for({path, uses} <- Enum.sort(fields), do: declare(path, uses, path in arrays))}
  catch
    {:refused, error} -> {:error, error}
  end

  # Fields with arrays refuse unsupported tests here too.
  defp read(pattern, arrays, position) do
    with {:ok, read} <- Reader.read(pattern), {:ok, _text} <- Expression.text(read, arrays) do
      read
    else
      {:error, error} -> throw({:refused, %{error | position: position}})
    end
  end

  defp add({operator, parts}, position, fields) when operator in [:and, :or],
    do: Enum.reduce(parts, fields, &add(&1, position, &2))

  # The uses of a field, each with the position of the first pattern that has it.
  defp add({:field, path, tests}, position, fields) do
    uses = for test <- tests, use <- uses(test), into: %{}, do: {use, position}
    Map.update(fields, path, uses, &Map.merge(uses, &1))
  end

  @spec uses(Reader.test()) :: [use]
  defp uses({:equal, nil}), do: []
  defp uses({:equal, boolean}) when is_boolean(boolean), do: [:boolean]
  defp uses({:equal, integer}) when is_integer(integer), do: [:integer]
  defp uses({:equal, float}) when is_float(float), do: [:number]
  defp uses({:equal, string}) when is_binary(string), do: [:exact]
  defp uses({:numeric, _bounds}), do: [:number]
  defp uses({:cidr, _network}), do: [:ip]
  defp uses({:exists, _exists}), do: []
  defp uses({:but, tests}), do: Enum.flat_map(tests, &uses/1)
  defp uses(_test_of_strings), do: [:string]

  defp declare(path, uses, is_array) do
    {type, coerce} =
      case {uses |> Map.keys() |> Enum.map(&group(&1, uses)) |> Enum.uniq(), is_array} do
        {[], _is_array} -> {:string_list, true}
        {[:string], true} -> {:string_list, true}
        {[:number], true} -> {:integer_list, true}
        {[:string], false} -> {:string, false}
        {[:number], false} -> {:float, false}
        {[type], _is_array} -> {type, false}
        {_several, _is_array} -> refuse(path, uses)
      end

    %Domain{name: Domain.Path.join(path), type: type, optional: true, coerce: coerce}
  end

  # Beside tests of networks an exact string is an address.
  defp group(:exact, uses), do: if(is_map_key(uses, :ip) and not is_map_key(uses, :string), do: :ip, else: :string)
  defp group(:integer, _uses), do: :number
  defp group(use, _uses), do: use

  defp refuse(path, uses) do
    name = Domain.Path.join(path)
    [{first, _first}, {_second, position} = second] = uses |> Enum.sort_by(&elem(&1, 1)) |> two_kinds(uses)
    described = "#{describe(first)} and as #{describe(elem(second, 0))}"

    message =
      "#{Describe.quoted(name)} is tested as #{described}, but an attribute has one type; leave one of these tests out"

    throw({:refused, %Error{kind: :type, attribute: name, position: position, message: message}})
  end

  defp two_kinds([{use, _position} = first | rest], uses) do
    [first, Enum.find(rest, fn {other, _position} -> group(other, uses) != group(use, uses) end)]
  end

  defp describe(use) when use in [:string, :exact], do: "a string"
  defp describe(use) when use in [:number, :integer], do: "a number"
  defp describe(:boolean), do: "a boolean"
  defp describe(:ip), do: "an address"
end

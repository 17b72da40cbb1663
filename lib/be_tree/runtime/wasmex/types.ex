defmodule BeTree.Runtime.Wasmex.Types do
  @moduledoc false
  # Converts wasmex's types of imports and exports to those of BeTree.Runtime, and arguments to those of wasmex.

  import Bitwise

  alias BeTree.Error

  @doc "Returns the type of an import or an export."
  @spec external(tuple) :: BeTree.Runtime.external_type()
  def external({:fn, parameters, results}), do: {:function, values(parameters), values(results)}
  def external({:global, %{mutability: :var, type: type}}), do: {:global, value(type), :mutable}
  def external({:global, %{mutability: :const, type: type}}), do: {:global, value(type), :constant}

  def external({:memory, %{memory64: wide?, minimum: minimum} = memory}) do
    {:memory, if(wide?, do: 64, else: 32), minimum, memory[:maximum]}
  end

  def external({:table, %{minimum: minimum} = table}), do: {:table, minimum, table[:maximum]}
  def external(tag) when elem(tag, 0) == :tag, do: {:tag}

  defp values(types), do: Enum.map(types, &value/1)

  defp value({:reference, _type}), do: :reference
  defp value(type), do: type

  @doc "Returns the arguments of a call, with signed integers, if they fit the export."
  @spec arguments(%{String.t() => BeTree.Runtime.external_type()}, term, term) ::
          {:ok, [integer | float]} | {:error, Error.t()}
  def arguments(exports, export, arguments) when is_binary(export) do
    case exports do
      %{^export => {:function, parameters, results}} ->
        case Enum.find(parameters ++ results, &(&1 in [:v128, :reference])) do
          nil -> fit(export, parameters, arguments)
          type -> error(:bad_module, "the function #{export} has a type that cannot be passed: #{type}")
        end

      %{} ->
        error(:bad_module, "the module exports no function #{export}")
    end
  end

  defp fit(export, parameters, arguments) do
    cond do
      not is_list(arguments) or List.improper?(arguments) ->
        error(:type, "the arguments of the function #{export} are a list")

      length(arguments) != length(parameters) ->
        error(:type, "the function #{export} takes #{length(parameters)} arguments, and got #{length(arguments)}")

      true ->
        fit(export, Enum.zip(parameters, arguments), 1, [])
    end
  end

  defp fit(_export, [], _position, fitted), do: {:ok, Enum.reverse(fitted)}

  defp fit(export, [{type, argument} | rest], position, fitted) do
    case number(type, argument) do
      {:ok, number} ->
        fit(export, rest, position + 1, [number | fitted])

      :error ->
        error(
          :type,
          "#{export} takes an #{type} as argument #{position}, and got #{BeTree.Input.Describe.value(argument)}"
        )
    end
  end

  defp number(:i32, integer) when is_integer(integer), do: signed(integer, 32)
  defp number(:i64, integer) when is_integer(integer), do: signed(integer, 64)
  defp number(type, number) when type in [:f32, :f64] and is_number(number), do: {:ok, number * 1.0}
  defp number(_type, _other), do: :error

  defp signed(integer, bits) when integer >= -(1 <<< (bits - 1)) and integer < 1 <<< bits do
    {:ok, if(integer < 1 <<< (bits - 1), do: integer, else: integer - (1 <<< bits))}
  end

  defp signed(_integer, _bits), do: :error

  defp error(kind, message), do: {:error, %Error{kind: kind, message: message}}
end

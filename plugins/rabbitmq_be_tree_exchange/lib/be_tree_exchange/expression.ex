defmodule BeTreeExchange.Expression do
  @moduledoc false
  # The expression of a binding. The word `binding_key` in it stands for the key of the binding, as a string.

  import BeTreeExchange.Records

  alias BeTreeExchange.Records

  # Strings and quoted names are kept as they are.
  @parts ~r/'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|\bbinding_key\b(?!\s*\.)/su

  @doc "Returns the text of the expression, or the reason for which there is none."
  @spec of(Records.binding()) :: {:ok, String.t()} | {:error, String.t()}
  def of(binding_record(key: key, args: arguments)) do
    case argument(arguments, "expression") do
      {:longstr, text} -> with_key(text, key)
      nil -> {:error, "the argument expression is missing; give one, such as expression=\"price > 100\""}
      _other -> {:error, "the argument expression is a string"}
    end
  end

  defp with_key(text, key) do
    cond do
      not String.valid?(text) -> {:error, "the argument expression is not UTF-8"}
      not String.contains?(text, "binding_key") -> {:ok, text}
      true -> {:ok, Regex.replace(@parts, text, &part(&1, key))}
    end
  end

  defp part("binding_key", key), do: "'" <> String.replace(key, ["\\", "'"], &("\\" <> &1)) <> "'"
  defp part(kept, _key), do: kept
end

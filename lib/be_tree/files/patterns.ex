defmodule BeTree.Files.Patterns do
  @moduledoc false
  # Reads a file of patterns of EventBridge, one a line.

  alias BeTree.{Domain, Pattern}
  alias BeTree.Files.{Error, Reader}

  # Returns the attributes and the expressions. `schema` is nil if the patterns tell the attributes.
  @spec read(Path.t(), [Domain.t()] | nil) :: {[Domain.t()], [String.t()]}
  def read(path, schema) do
    lines = path |> Reader.lines() |> Enum.to_list()
    arrays = for %{name: name, type: type} <- schema || [], type in [:string_list, :integer_list], do: name
    texts = for {pattern, _number} = line <- lines, do: expression(pattern, arrays, line, path)
    {schema || derive(lines, path), texts}
  end

  defp expression(pattern, arrays, line, path) do
    case Pattern.to_expression(pattern, arrays: arrays) do
      {:ok, text} -> text
      {:error, error} -> refuse(error, line, path)
    end
  end

  defp derive(lines, path) do
    case Pattern.schema(for {pattern, _number} <- lines, do: pattern) do
      {:ok, schema} -> schema
      {:error, error} -> refuse(error, Enum.at(lines, error.position), path)
    end
  end

  @spec refuse(BeTree.Error.t(), {String.t(), pos_integer}, Path.t()) :: no_return
  defp refuse(error, {text, number}, path) do
    raise %Error{path: path, line: number, column: error.column, reason: error.message, text: text, caret: error.column}
  end
end

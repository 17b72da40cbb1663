defmodule BeTree.Files.Patterns do
  @moduledoc false
  # Translates files of EventBridge patterns, one pattern a line.

  alias BeTree.{Domain, Pattern}
  alias BeTree.Files.{Error, Reader}

  # Returns the attributes and the expressions. Without a `schema` the attributes are derived from the patterns.
  @spec read([Reader.line()], Path.t(), [Domain.t()] | nil) :: {[Domain.t()], [String.t()]}
  def read(lines, path, schema) do
    schema = schema || derive(lines, path)
    {schema, for({pattern, _number} = line <- lines, do: expression(pattern, schema, line, path))}
  end

  defp expression(pattern, schema, line, path) do
    case Pattern.to_expression(pattern, schema: schema) do
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

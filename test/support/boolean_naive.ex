defmodule BeTree.Test.BooleanNaive do
  @moduledoc """
  A naive parser and evaluator of expressions over boolean attributes. This oracle shares no code with the library; Erlang
  itself reads the files of terms.
  """

  @doc "Returns the names, the expressions by id, and the events as maps from names to booleans."
  def read(expressions_path, events_path) do
    {:ok, [domains | texts]} = :file.consult(expressions_path)
    {:ok, events} = :file.consult(events_path)
    names = for domain <- domains, do: domain |> elem(0) |> Atom.to_string()
    expressions = for {text, id} <- Enum.with_index(texts, 1), do: {id, parse(text)}
    {names, expressions, for(event <- events, do: to_map(names, event))}
  end

  @doc "Converts a list of `1`, `0`, `true` and `false` to a map."
  def to_map(names, values),
    do: names |> Enum.zip(values) |> Map.new(fn {name, value} -> {name, value in [1, true]} end)

  @doc "Returns the ids of the expressions that are true, ascending."
  def matches(expressions, event), do: for({id, expression} <- expressions, true?(expression, event), do: id)

  @doc "Returns a name, `{:not, a}`, `{:and, a, b}` or `{:or, a, b}`."
  def parse(text) do
    tokens = ~r/[()]|[^\s()]+/ |> Regex.scan(text) |> List.flatten()
    {expression, []} = disjunction(tokens)
    expression
  end

  defp disjunction(tokens) do
    case conjunction(tokens) do
      {left, ["or" | rest]} ->
        {right, rest} = disjunction(rest)
        {{:or, left, right}, rest}

      parsed ->
        parsed
    end
  end

  defp conjunction(tokens) do
    case negation(tokens) do
      {left, ["and" | rest]} ->
        {right, rest} = conjunction(rest)
        {{:and, left, right}, rest}

      parsed ->
        parsed
    end
  end

  defp negation(["not" | rest]) do
    {operand, rest} = negation(rest)
    {{:not, operand}, rest}
  end

  defp negation(["(" | rest]) do
    {inner, [")" | rest]} = disjunction(rest)
    {inner, rest}
  end

  defp negation([name | rest]) when name not in ["and", "or", ")"], do: {name, rest}

  defp true?({:and, left, right}, event), do: true?(left, event) and true?(right, event)
  defp true?({:or, left, right}, event), do: true?(left, event) or true?(right, event)
  defp true?({:not, operand}, event), do: not true?(operand, event)
  defp true?(name, event), do: Map.fetch!(event, name)
end

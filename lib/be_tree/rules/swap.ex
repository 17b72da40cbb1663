defmodule BeTree.Rules.Swap do
  @moduledoc false
  # Other rules with the same facts.

  alias BeTree.{Error, Rules}
  alias BeTree.Rules.Operation

  @doc "Returns other rules with the facts of `rules`, for which they do not fire."
  @spec swapped(Rules.t(), String.t(), keyword) :: {:ok, Rules.t()} | {:error, Error.t()}
  def swapped(rules, text, options) do
    with {:ok, info} <- Rules.info(rules),
         {:ok, facts} <- all_facts(rules, Map.keys(info.types)),
         {:ok, fresh} <- Rules.new(text, options),
         :ok <- load(fresh, Operation.encode(facts)),
         :ok <- quietly(info.now, &Operation.advance(fresh, &1, Operation.quiet(Rules.default_options()))),
         do: {:ok, fresh}
  end

  defp load(rules, input), do: done(Operation.assert_encoded(rules, input, Operation.quiet(Rules.default_options())))

  defp quietly(nil, _advance), do: :ok
  defp quietly(now, advance), do: done(advance.(now))

  defp done({:ok, _page}), do: :ok
  defp done({:more, page}), do: done(Rules.next(page))
  defp done({:error, error}), do: {:error, error}

  # The facts of all types, in the order in which they came.
  defp all_facts(rules, types) do
    types
    |> Enum.reduce_while({:ok, []}, fn type, {:ok, all} ->
      case Rules.facts(rules, type) do
        {:ok, facts} -> {:cont, {:ok, [facts | all]}}
        {:error, error} -> {:halt, {:error, error}}
      end
    end)
    |> case do
      {:ok, facts} ->
        facts = facts |> Enum.concat() |> Enum.sort_by(& &1.id)
        {:ok, for(fact <- facts, do: {fact.type, Map.put(fact.fields, "at", fact.at)})}

      {:error, error} ->
        {:error, error}
    end
  end
end

defmodule BeTree.Rules.Swap do
  @moduledoc false
  # Replaces rules and keeps the facts.

  alias BeTree.Call.Instance
  alias BeTree.{Error, Rules}
  alias BeTree.Error.Attempt
  alias BeTree.Rules.{Operation, Reply}

  @doc "Returns new rules with the facts of `rules`, without firing for these."
  @spec swapped(Rules.t(), String.t(), keyword) :: {:ok, Rules.t()} | {:error, Error.t()}
  def swapped(rules, text, options) do
    with {:ok, fresh} <- Rules.new(text, options),
         :ok <- move_facts(rules, fresh),
         do: {:ok, fresh}
  end

  @doc "Inserts the facts of `rules` into `fresh`, rules without facts, without firing for them. The two may have different modules."
  @spec move_facts(Rules.t(), Rules.t()) :: :ok | {:error, Error.t()}
  def move_facts(rules, fresh) do
    with {:ok, info} <- Rules.info(rules),
         {:ok, facts} <- all_facts(rules, Map.keys(info.types)),
         :ok <- load(fresh, encoded(facts)),
         :ok <- wait_again(rules, fresh, 0),
         :ok <- reach_again(rules, fresh),
         do: quietly(info.now, &Operation.advance(fresh, &1, Operation.quiet(Rules.default_options())))
  end

  defp load(rules, input),
    do: rules |> Operation.assert_encoded(input, Operation.quiet(Rules.default_options())) |> done() |> of_kept_fact()

  # The caller gave rules and no fact, so the error must name a kept fact, and has no position among the facts of a call.
  defp of_kept_fact({:error, %Error{kind: kind, message: message} = error})
       when kind in [:unknown_attribute, :missing_attribute, :type, :out_of_bounds] do
    # The rest of the message is for a caller who gives a fact.
    [fault | _mend] = String.split(message, "; ")

    text =
      "the new rules do not fit a kept fact: #{fault}; #{mend(kind)}, or retract such facts under the old rules first"

    {:error, %{error | message: text, position: nil}}
  end

  defp of_kept_fact(result), do: result

  defp mend(:missing_attribute), do: "declare it optional"
  defp mend(_kind), do: "keep the old declaration"

  # Facts read at a time.
  @page 1_000

  # Moves the waiting facts of `rules` to `fresh`, in order of arrival. They wait for the same time.
  defp wait_again(rules, fresh, from, read \\ []) do
    with {:ok, output} <- Instance.call(rules.runtime, rules.instance, "be_tree_waiting", [from, @page], nil),
         {:ok, facts, _more?} <- Reply.facts(output) do
      if length(facts) == @page,
        do: wait_again(rules, fresh, from + @page, [facts | read]),
        else: [facts | read] |> Enum.concat() |> encoded() |> hold(fresh)
    end
  end

  defp hold(input, rules),
    do: rules |> Operation.assert_encoded(input, Operation.held(Rules.default_options())) |> done() |> of_kept_fact()

  # Sets the event times of the sources, earliest first, so that time does not move.
  defp reach_again(rules, fresh) do
    with {:ok, output} <- Instance.call(rules.runtime, rules.instance, "be_tree_sources", [], nil),
         {:ok, floor, sources} <- Reply.sources(output),
         :ok <- quietly(floor, &Operation.advance(fresh, &1, Rules.default_options())) do
      sources
      |> Enum.sort_by(&elem(&1, 1))
      |> Attempt.each(fn {source, time} -> done(Operation.reach(fresh, source, time, Rules.default_options())) end)
    end
  end

  defp encoded(facts) do
    Operation.encode(for(fact <- Enum.sort_by(facts, & &1.id), do: {fact.type, Map.put(fact.fields, "at", fact.at)}))
  end

  defp quietly(nil, _advance), do: :ok
  defp quietly(now, advance), do: done(advance.(now))

  defp done({:ok, _page}), do: :ok
  defp done({:more, page}), do: done(Rules.next(page))
  defp done({:error, error}), do: {:error, error}

  # Returns the facts of all types in order of insertion.
  defp all_facts(rules, types) do
    with {:ok, facts} <- Attempt.map(types, &Rules.facts(rules, &1)), do: {:ok, Enum.concat(facts)}
  end
end

defmodule BeTree.Rules.Server.Change do
  @moduledoc false
  # A change of a server of rules: an operation that is made as a whole or not at all.
  #
  # An operation is `{:assert, input}`, `{:retract, id}` or `{:advance, now}`; `{:assert, input, source}`, `{:advance, now, source}`
  # (`nil`: facts without a source) or `{:end_source, source}`; `{:at, now, operation}`, which moves time first; or a sequence,
  # `{:steps, operations}`. It runs in a transaction of the engine: an error rolls all of it back. A long advance saves its time at
  # intervals, and an error rolls it back to the last saved time. Behind facts asserted or retracted in the same transaction nothing
  # is saved.

  alias BeTree.Call.Instance
  alias BeTree.{Error, Rules}
  alias BeTree.Error.Attempt
  alias BeTree.Rules.{Notice, Operation, Page, Reply}

  @type operation :: tuple

  @typedoc "The part of a change that an error stopped: the time of `{:at, now, operation}`, or the operation itself."
  @type stopped :: :time | :operation

  @typedoc """
  The point to which an error rolled back a long advance: `:time`, and `:firings`, the number of all firings up to there. `:pages` has the
  firings and the notices of the pages that were read, also of later ones, and `:pending` the notices of the page in which time was saved.
  """
  @type saved :: %{
          time: Rules.time(),
          firings: non_neg_integer,
          pages: [{non_neg_integer, [Notice.t()]}],
          pending: [Notice.t()]
        }

  @doc """
  Makes an operation that may fire `most` rules. `options` are those of a call; their `:fuel` is a budget for the whole operation.
  Returns the sum of its pages, without the notices, and the notices; or an error, the part that it stopped, and the saved point.
  """
  @spec make(Rules.t(), operation, pos_integer, map) ::
          {:ok, Page.t(), [Notice.t()]} | {:error, Error.t(), stopped, saved | nil}
  def make(rules, operation, most, options \\ Rules.default_options()) do
    with :ok <- begin(rules),
         {:ok, page, pages} <- parts(parts_of(operation), rules, most, options) do
      {:ok, page, for({_firings, notices} <- Enum.reverse(pages), notice <- notices, do: notice)}
    else
      {:error, reason, stopped, pages} ->
        {time, cycle} = roll_back(rules)
        {:error, error(reason, cycle), stopped, time && saved(rules, time, Enum.reverse(pages))}

      {:error, error} ->
        {:error, error, :operation, nil}
    end
  end

  defp begin(%{runtime: runtime, instance: instance}) do
    with {:ok, _nothing} <- Instance.call(runtime, instance, "be_tree_begin", [], nil, scheduler: :whole), do: :ok
  end

  defp roll_back(%{runtime: runtime, instance: instance}) do
    {:ok, output} = Instance.call(runtime, instance, "be_tree_roll_back", [], nil)
    {:ok, saved, cycle} = Reply.rolled_back(output)
    {saved, cycle}
  end

  # An advance to the present time only reads the notices that wait in the engine.
  defp saved(rules, time, pages) do
    {:ok, %{firings: firings}} = Rules.info(rules)
    {:ok, %{notices: pending}} = Operation.advance(rules, time, Rules.default_options())
    %{time: time, firings: firings, pages: pages, pending: pending}
  end

  @doc "Returns the notices up to a saved point of an operation before which rules had fired `fired` times."
  @spec notices_to(saved, non_neg_integer) :: [Notice.t()]
  def notices_to(%{firings: firings, pages: pages, pending: pending}, fired),
    do: to_saved(pages, firings - fired, pending)

  defp to_saved(_later, 0, _pending), do: []

  defp to_saved([{firings, notices} | pages], left, pending) when firings <= left,
    do: notices ++ to_saved(pages, left - firings, pending)

  # Time was saved within this page, which was read later. Then the engine has as many notices, with the content of a later page.
  defp to_saved([{_firings, notices} | _later], _left, pending), do: Enum.take(notices, length(pending))
  defp to_saved([], _left, pending), do: pending

  @doc "Sets the limits of rules."
  @spec set_limits(Rules.t(), map) :: {:ok, Rules.t()} | {:error, Error.t()}
  def set_limits(%{runtime: runtime, instance: instance} = rules, options) do
    limits = options |> Rules.limits() |> List.to_tuple() |> :erlang.term_to_binary()

    with {:ok, _nothing} <- Instance.call(runtime, instance, "be_tree_limits", [byte_size(limits)], limits),
         do: {:ok, %{rules | firings: options.firings}}
  end

  defp parts_of({:at, now, operation}), do: [{:time, {:advance, now}} | parts_of(operation)]
  defp parts_of({:steps, operations}), do: for(operation <- operations, do: {:operation, operation})
  defp parts_of(operation), do: [{:operation, operation}]

  defp parts(parts, rules, most, options) do
    # The number of facts of the parts before, the sum of the pages, and the firings and notices of each, the last ones first.
    sum = {0, %Page{operation: nil}, []}

    Attempt.reduce(parts, sum, fn {stopped, part}, {facts, sum, pages} ->
      most = most - sum.firings
      options = %{options | fuel: left(options.fuel, sum.fuel), firings: most}

      case part |> first(rules, options) |> pages(most, %Page{operation: nil}, pages) do
        {:ok, page, pages} -> {:ok, {facts + facts_of(part), Page.join(sum, page), pages}}
        {:error, reason, pages} -> {:error, placed(reason, facts), stopped, pages}
      end
    end)
    |> case do
      {:ok, {_facts, page, pages}} -> {:ok, page, pages}
      error -> error
    end
  end

  defp left(budget, used), do: Operation.left(budget, used)

  defp first({:assert, input}, rules, options), do: Operation.assert_encoded(rules, input, options)
  defp first({:assert, input, source}, rules, options), do: first({:assert, input}, rules, %{options | source: source})
  defp first({:advance, now, source}, rules, options), do: Operation.reach(rules, source, now, options)
  defp first({:end_source, source}, rules, options), do: Operation.reach(rules, source, :end, options)
  defp first({:retract, id}, rules, options), do: Operation.retract(rules, id, options)
  defp first({:advance, now}, rules, options), do: Operation.advance(rules, now, options)

  # The external term of a list contains its length, except that of the empty list.
  defp facts_of({:assert, <<131, 108, count::32, _facts::binary>>}), do: count
  defp facts_of({:assert, input, _source}), do: facts_of({:assert, input})
  defp facts_of(_part), do: 0

  defp placed(%Error{position: position} = error, facts) when position != nil,
    do: %{error | position: facts + position}

  defp placed(reason, _facts), do: reason

  defp pages({:error, error}, _most, _sum, pages), do: {:error, error, pages}

  defp pages({outcome, page}, most, sum, pages) do
    sum = Page.join(sum, %{page | notices: []})
    pages = if page.firings == 0, do: pages, else: [{page.firings, page.notices} | pages]

    cond do
      outcome == :ok ->
        {:ok, sum, pages}

      sum.firings < most ->
        page.operation |> rest(page, most - sum.firings) |> Operation.next() |> pages(most, sum, pages)

      true ->
        {:error, {:too_many, sum.firings}, pages}
    end
  end

  # Returns the operation with what a page left of its budget and its firings.
  defp rest(%{options: options} = operation, page, firings),
    do: %{operation | options: %{options | fuel: left(options.fuel, page.fuel), firings: firings}}

  defp error(%Error{} = error, _cycle), do: error

  defp error({:too_many, firings}, cycle) do
    rules = Enum.map_join(cycle, ", ", &"`#{&1}`")

    %Error{
      kind: :out_of_bounds,
      message:
        "the call fired #{firings} rules, as many as the option :firings allows, and was undone; its last firings were of #{rules}: mend " <>
          "rules that enable one another without end, or allow more firings"
    }
  end
end

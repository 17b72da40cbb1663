defmodule BeTree.Server.Checks do
  @moduledoc false
  # Checks expressions in an empty tree with the schema of a server, so that the server's process does nothing, and separates the wrong
  # subscriptions of a list from the others (`on_error: :collect`).

  alias BeTree.{Error, Index, Telemetry}
  alias BeTree.Call.Instance
  alias BeTree.Error.Attempt
  alias BeTree.Input.{Check, Subscription}
  alias BeTree.Input.Subscription.Id
  alias BeTree.Server.{Changes, Lookup, Names, Request}

  # The subscriptions that are checked at once, in about a millisecond.
  @check_size 100
  # Errors of these kinds concern the tree or the call, not a subscription.
  @of_call [:trap, :out_of_fuel, :out_of_memory, :timeout, :bad_module, :no_server, :not_ready]

  @typedoc "A subscription that was left out: its id, or `nil` if it has none, and its error."
  @type fault :: {term, Error.t()}

  @doc "Returns an empty tree with the schema and the module of a server."
  @spec scratch(BeTree.Server.name() | Names.table()) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def scratch(name) do
    with {:ok, _table} <- Request.table(name),
         {:ok, %{index: %Index{guest: guest, schema: schema}}} <- Lookup.base(name),
         do: BeTree.new(schema, guest: guest, runtime: guest.runtime)
  end

  @doc "Checks one subscription."
  @spec check(BeTree.t(), Subscription.wire()) :: :ok | {:error, Error.t()}
  def check(tree, {_id, text, constants}) do
    with {:error, error} <- check_all(tree, [{0, text, constants}]),
         do: {:error, Request.alone(%{error | position: 0}, 0, text)}
  end

  # A module that cannot check an expression inserts it.
  defp check_all(tree, wires) do
    if Instance.exports?(tree.guest, "be_tree_check"),
      do: Changes.check(tree, wires),
      else:
        with({:ok, _count} <- Changes.insert(tree, wires), do: Attempt.each(wires, &Changes.delete(tree, elem(&1, 0))))
  end

  @doc """
  Returns the subscriptions of `given` that can be read, and the faults: the others, and those with the id of an earlier
  one.
  """
  @spec read(Enumerable.t(), Id.kind()) :: {:ok, [Subscription.wire()], [fault]} | {:error, Error.t()}
  def read(given, kind) do
    with :ok <- Check.enumerable(given, "subscriptions") do
      {wires, faults, _ids} =
        given
        |> Stream.with_index()
        |> Enum.reduce({[], [], MapSet.new()}, fn {row, position}, {wires, faults, ids} ->
          with {:ok, {id, _text, _constants} = wire} <- Subscription.new(row, kind),
               :ok <- check_new(id, ids) do
            {[wire | wires], faults, MapSet.put(ids, id)}
          else
            {:error, error} -> {wires, [fault(row, error, position) | faults], ids}
          end
        end)

      {:ok, Enum.reverse(wires), Enum.reverse(faults)}
    end
  end

  @doc "Returns the ids of `given`, and the faults: those that are no ids, that occur twice, or are among the ids of `wires`."
  @spec read_ids(Enumerable.t(), Id.kind(), [Subscription.wire()]) :: {:ok, [term], [fault]} | {:error, Error.t()}
  def read_ids(given, kind, wires) do
    with :ok <- Check.enumerable(given, "ids") do
      {ids, faults, _seen} =
        Enum.reduce(given, {[], [], MapSet.new(wires, &elem(&1, 0))}, fn id, {ids, faults, seen} ->
          with :ok <- Id.check(id, kind), :ok <- check_new(id, seen) do
            {[id | ids], faults, MapSet.put(seen, id)}
          else
            {:error, error} -> {ids, [{id, error} | faults], seen}
          end
        end)

      {:ok, Enum.reverse(ids), Enum.reverse(faults)}
    end
  end

  defp check_new(id, ids), do: if(MapSet.member?(ids, id), do: {:error, Subscription.twice(id)}, else: :ok)

  @doc "Returns the fault of a row. The error of a row without an id has its position."
  @spec fault(term, Error.t(), non_neg_integer) :: fault
  def fault(row, error, position) do
    case row do
      {id, _expression} -> {id, %{error | position: nil}}
      {id, _expression, _options} -> {id, %{error | position: nil}}
      _other -> {nil, %{error | position: position}}
    end
  end

  @doc """
  Makes a change with `wires`, by the function `make`. If one of them is wrong, separates the wrong ones in an empty tree, which `tree` returns,
  and makes the change with the others. Returns what `make` returned, and the faults.
  """
  @spec collect([Subscription.wire()], (... -> {:ok, BeTree.t()} | failure), ([Subscription.wire()] -> outcome)) ::
          {outcome | failure, [fault]}
        when outcome: {:ok, term} | failure, failure: {:error, Error.t()}
  def collect(wires, tree, make) do
    case make.(wires) do
      {:error, error} -> if of_subscription?(error), do: collect_right(wires, tree, make), else: {{:error, error}, []}
      outcome -> {outcome, []}
    end
  end

  defp collect_right(wires, tree, make) do
    with {:ok, tree} <- tree.(),
         {:ok, right, faults} <- separate(wires, &check_all(tree, with_numbers(&1))),
         do: {make.(right), faults},
         else: (failure -> {failure, []})
  end

  # Keys (BeTree.Target.Ids): the guest gets the numbers, and messages name the ids.
  defp with_numbers(wires),
    do: for({{id, text, constants}, number} <- Enum.with_index(wires), do: {{number, id}, text, constants})

  @doc "Returns whether an error concerns one subscription of a list, and not the index or the call."
  @spec of_subscription?(Error.t()) :: boolean
  def of_subscription?(%Error{position: position, kind: kind}), do: position != nil and kind not in @of_call

  @doc "Calls `take` for parts of `wires`, and for each of a part that it refuses. Returns those that it has taken, and the faults."
  @spec separate([Subscription.wire()], ([Subscription.wire()] -> :ok | failure)) ::
          {:ok, [Subscription.wire()], [fault]} | failure
        when failure: {:error, Error.t()}
  def separate(wires, take) do
    parts = Enum.chunk_every(wires, @check_size)

    with {:ok, {right, faults}} <- Attempt.reduce(parts, {[], []}, &separate_part(&1, &2, take)),
         do: {:ok, Enum.reverse(right), Enum.reverse(faults)}
  end

  defp separate_part(wires, {right, faults}, take) do
    with {:error, error} <- take.(wires) do
      if of_subscription?(error),
        do: Attempt.reduce(wires, {right, faults}, &separate_one(&1, &2, take)),
        else: {:error, error}
    else
      :ok -> {:ok, {Enum.reverse(wires, right), faults}}
    end
  end

  defp separate_one({id, text, _constants} = wire, {right, faults}, take) do
    with {:error, error} <- take.([wire]) do
      if of_subscription?(error),
        do: {:ok, {right, [{id, Request.alone(error, id, text)} | faults]}},
        else: {:error, error}
    else
      :ok -> {:ok, {[wire | right], faults}}
    end
  end

  @doc "Emits the telemetry event of faults, unless there are none."
  @spec report(BeTree.Server.name(), atom, [fault]) :: :ok
  def report(_server, _operation, []), do: :ok

  def report(server, operation, faults),
    do: Telemetry.event([:server, :faults], %{faults: length(faults)}, %{server: server, operation: operation})
end

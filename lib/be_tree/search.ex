defmodule BeTree.Search do
  @moduledoc """
  One search as a value: started, resumed slice by slice, or cancelled.

  `BeTree.search/3` runs a search to its end. Here the caller holds the reins, to do something else between slices:

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id} or age < -\#{id}"}))
      iex> {:yield, search} = BeTree.Search.start(tree, %{age: 3}, slice: 1_000)
      iex> finish = fn
      ...>   {:yield, search}, finish -> finish.(BeTree.Search.resume(search), finish)
      ...>   {:done, ids, _stats}, _finish -> ids
      ...> end
      iex> finish.({:yield, search}, finish)
      [1, 2]

  A slice runs on the calling process's scheduler and ends where its fuel is exhausted. Then the process is charged
  one reduction for each `fuel_per_reduction` fuel (`BeTree.Fuel`), so that the scheduler preempts it as it would for
  Erlang code of the same length. What does not fill a reduction is carried on to the next slice: all in all, a search
  is charged its fuel, divided and rounded down.

  Ids and fuel are the same whatever the slice.

  ## Options

    * `:fuel` - the whole budget, an amount or `:infinity` (the default). Where it runs out, the answer is an error of
      kind `:out_of_fuel`: the search is gone, the tree unharmed. It is looked at once in each block of instructions, so
      a search that ends a few units beyond it is let through;
    * `:slice` - the fuel of a slice, #{BeTree.Fuel.default_slice()} by default, about 100 microseconds. `:infinity`
      never yields: a long search then holds its scheduler up;
    * `:timeout` - in milliseconds, or `:infinity` (the default). It is looked at between slices; past it the search is
      cancelled, and the answer is an error of kind `:timeout`;
    * `:ids` - a list of ids: only these subscriptions are looked at.

  A tree holds one search at a time: others wait until it is done or cancelled, and the process that holds it is refused
  as `:overloaded`. Any process may resume a search, from what its last step answered. One that nobody refers to any
  more is cancelled.
  """

  alias BeTree.{Answer, Error, Event, Fuel, Stats, Subscription}

  @enforce_keys [:runtime, :budget, :deadline, :per_reduction, :text]
  defstruct @enforce_keys ++ [:suspended, fuel: 0, slices: 0]

  @opaque t :: %__MODULE__{}

  @typedoc "See the options above."
  @type option ::
          {:fuel, Fuel.budget()}
          | {:slice, Fuel.budget()}
          | {:timeout, timeout}
          | {:ids, [BeTree.id()]}

  @typedoc "Where a search stands: at a slice's end, at its own, or gone for good."
  @type answer :: {:yield, t} | {:done, [BeTree.id()], Stats.t()} | {:error, Error.t()}

  @defaults %{fuel: :infinity, slice: Fuel.default_slice(), timeout: :infinity, ids: nil}

  # bump_reductions/1 counts no further than to the end of the process's time slice: what a call has above that is lost.
  # In steps of a twentieth of the 4,000, no more than 5 % is, and half of that on average.
  @step 200

  @doc """
  Starts a search and runs its first slice.

  Errors by kind: `:missing_attribute`, `:type`, `:out_of_bounds` and `:syntax` for the event or the ids,
  `:out_of_fuel`, `:out_of_memory`, `:trap`. An option that is unknown or wrong raises an `ArgumentError`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:done, [1], stats} = BeTree.Search.start(tree, %{age: 30})
      iex> stats.slices
      1
  """
  @spec start(BeTree.t(), Event.t(), [option]) :: answer
  def start(%BeTree{} = tree, event, options \\ []) do
    options = check(options)

    with {:ok, format, bytes} <- Event.encode(event),
         {:ok, input, ids_length} <- append_ids(bytes, options.ids) do
      request = %{
        input: input,
        output: :u64s,
        fuel: options.fuel,
        slice: options.slice,
        scheduler: :normal
      }

      search = %__MODULE__{
        runtime: tree.runtime,
        budget: options.fuel,
        deadline: deadline(options.timeout),
        per_reduction: tree.fuel_per_reduction,
        text: Event.text(event)
      }

      tree.instance
      |> tree.runtime.call("be_tree_search", [format, byte_size(bytes), ids_length], request)
      |> settle(search)
    end
  end

  @doc """
  Runs the next slice of a search that yielded.

  Errors by kind: those of `start/3`, `:timeout`, and `:not_found` where the search is done or was cancelled.

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id} or age < -\#{id}"}))
      iex> {:yield, search} = BeTree.Search.start(tree, %{age: 1}, slice: 1_000, timeout: 0)
      iex> {:error, error} = BeTree.Search.resume(search)
      iex> error.kind
      :timeout
  """
  @spec resume(t) :: answer
  def resume(%__MODULE__{suspended: suspended, runtime: runtime} = search) do
    if late?(search.deadline) do
      cancel(search)
      {:error, %Error{kind: :timeout, message: "the search passed its timeout after #{search.slices} slices"}}
    else
      settle(runtime.resume(suspended), search)
    end
  end

  @doc """
  Gives a search up; its tree is free for the next call.

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id} or age < -\#{id}"}))
      iex> {:yield, search} = BeTree.Search.start(tree, %{age: 2}, slice: 1_000)
      iex> BeTree.Search.cancel(search)
      :ok
      iex> BeTree.search(tree, %{age: 2})
      {:ok, [1]}
  """
  @spec cancel(t) :: :ok
  def cancel(%__MODULE__{suspended: suspended, runtime: runtime}), do: runtime.cancel(suspended)

  @doc """
  Runs a search to its end, slice by slice. Takes and answers what `start/3` does, but for the yields.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:done, ids, %BeTree.Stats{}} = BeTree.Search.run(tree, %{age: 30}, fuel: 1_000_000)
      iex> ids
      [1]
  """
  @spec run(BeTree.t(), Event.t(), [option]) :: {:done, [BeTree.id()], Stats.t()} | {:error, Error.t()}
  def run(tree, event, options \\ []), do: finish(start(tree, event, options))

  defp finish({:yield, search}), do: finish(resume(search))
  defp finish(answer), do: answer

  defp settle({:done, 0, [visited, evaluated | ids], fuel}, search) do
    charge(search, fuel)
    {:done, ids, %Stats{fuel: fuel, slices: search.slices + 1, visited: visited, evaluated: evaluated}}
  end

  defp settle({:yield, suspended, fuel}, search) do
    charge(search, fuel)
    {:yield, %{search | suspended: suspended, fuel: fuel, slices: search.slices + 1}}
  end

  defp settle({:done, 1, refusal, fuel}, search) when is_binary(refusal) do
    charge(search, fuel)
    {:error, %{Answer.refusal(refusal) | text: search.text}}
  end

  defp settle({:done, status, _output, fuel}, search) do
    charge(search, fuel)
    {:error, Answer.bad("a search with status #{status} and no list of ids")}
  end

  defp settle({:error, %Error{kind: :out_of_fuel} = error}, search) do
    charge(search, search.budget)
    {:error, error}
  end

  defp settle({:error, error}, _search), do: {:error, error}

  # Charges the process for what burnt since the last charge. Both amounts are counted from the search's start and
  # rounded down alike, so nothing is lost between slices.
  defp charge(%{fuel: before, per_reduction: ratio}, fuel), do: bump(div(fuel, ratio) - div(before, ratio))

  defp bump(reductions) when reductions > @step do
    :erlang.bump_reductions(@step)
    bump(reductions - @step)
  end

  defp bump(reductions) when reductions > 0, do: :erlang.bump_reductions(reductions)
  defp bump(_none), do: true

  defp append_ids(bytes, nil), do: {:ok, bytes, -1}

  defp append_ids(bytes, ids) do
    with {:ok, packed} <- pack(ids, <<>>), do: {:ok, bytes <> packed, byte_size(packed)}
  end

  defp pack([], packed), do: {:ok, packed}

  defp pack([id | rest], packed) do
    with :ok <- Subscription.check_id(id), do: pack(rest, <<packed::binary, id::little-64>>)
  end

  defp deadline(:infinity), do: :infinity
  defp deadline(timeout), do: System.monotonic_time(:millisecond) + timeout

  defp late?(:infinity), do: false
  defp late?(deadline), do: System.monotonic_time(:millisecond) >= deadline

  defp check([]), do: @defaults

  defp check(options) do
    options
    |> Keyword.validate!(Map.keys(@defaults))
    |> Enum.reduce(@defaults, fn {key, value}, checked -> %{checked | key => check(key, value)} end)
  end

  defp check(key, :infinity) when key in [:fuel, :slice, :timeout], do: :infinity
  defp check(key, fuel) when key in [:fuel, :slice] and is_integer(fuel) and fuel > 0, do: fuel
  defp check(:timeout, milliseconds) when is_integer(milliseconds) and milliseconds >= 0, do: milliseconds
  defp check(:ids, ids) when length(ids) >= 0, do: ids

  defp check(key, other) do
    expected =
      case key do
        :timeout -> "milliseconds or :infinity"
        :ids -> "a list of ids"
        _fuel -> "a positive integer or :infinity"
      end

    raise ArgumentError, "the option #{inspect(key)} takes #{expected}, got: #{inspect(other)}"
  end

  defimpl Inspect do
    def inspect(%{slices: slices, fuel: fuel}, _options) do
      "#BeTree.Search<#{slices} #{if slices == 1, do: "slice", else: "slices"}, #{fuel} fuel>"
    end
  end
end

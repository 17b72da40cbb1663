defmodule BeTree.Iterator do
  @moduledoc """
  A search step by step, and as a stream of ids.

  A step is a slice of fuel. The index module answers once it has all ids (`docs/abi.md`), so the steps before the last
  one yield control but no ids, and the last one yields all of them, ascending:

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id} or age < -\#{id}"}))
      iex> iterator = BeTree.Iterator.new(tree, %{age: 3}, slice: 1_000)
      iex> {:ok, [], iterator} = BeTree.Iterator.next(iterator)
      iex> BeTree.Iterator.cancel(iterator)
      :ok

  `stream/3` is the same as something enumerable, for `Stream` and `Enum`.

  Between the first step and the one that brings the ids, the iterator holds its tree, like the `BeTree.Search` that it
  is made of: others wait for it, and the process that holds it is refused as `:overloaded`. From the ids on it holds
  nothing, however slowly they are consumed. An iterator that nobody refers to any more, or whose process ended, lets go
  of the tree by itself.
  """

  alias BeTree.{Error, Event, Search, Stats}
  alias BeTree.Engine.{Check, Target}

  @enforce_keys [:state]
  defstruct @enforce_keys

  @typedoc "An iterator; its fields are private. Each is good for one step, which answers the next one."
  @opaque t :: %__MODULE__{
            state: {:new, BeTree.target(), Event.t(), [Search.option()]} | {:yielded, Search.t()} | Stats.t()
          }

  @doc """
  An iterator over the ids of the subscriptions in a tree or an index that `event` makes true. Nothing runs before the first step.

  Takes the options of `BeTree.Search`; one that is unknown or wrong raises an `ArgumentError`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.Iterator.new(tree, %{age: 30}, slice: 100_000)
      #BeTree.Iterator<not started>
  """
  @spec new(BeTree.target(), Event.t(), [Search.option()]) :: t
  def new(target, event, options \\ []) do
    Search.check(options)
    Target.resolve(target)
    %__MODULE__{state: {:new, target, event, options}}
  end

  @doc """
  Runs the next step: at most one slice, on the calling process's scheduler.

  Answers `{:ok, ids, iterator}`, with no ids where a slice ended before the search did; after the ids `{:done, stats}`,
  however often it is asked. Where the tree is busy, the first step waits for it.

  Errors by kind are those of `BeTree.Search.start/3` and `BeTree.Search.resume/1`; after one the iterator is of no use.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, [1], iterator} = tree |> BeTree.Iterator.new(%{age: 30}) |> BeTree.Iterator.next()
      iex> {:done, %BeTree.Stats{slices: 1}} = BeTree.Iterator.next(iterator)
      iex> {:error, error} = tree |> BeTree.Iterator.new(%{}) |> BeTree.Iterator.next()
      iex> error.kind
      :missing_attribute
  """
  @spec next(t) :: {:ok, [BeTree.id()], t} | {:done, Stats.t()} | {:error, Error.t()}
  def next(%__MODULE__{state: {:new, target, event, options}}), do: step(Search.start(target, event, options))
  def next(%__MODULE__{state: {:yielded, search}}), do: step(Search.resume(search))
  def next(%__MODULE__{state: %Stats{} = stats}), do: {:done, stats}
  def next(other), do: Check.expected!("a BeTree.Iterator", other)

  defp step({:yield, search}), do: {:ok, [], %__MODULE__{state: {:yielded, search}}}
  defp step({:done, ids, stats}), do: {:ok, ids, %__MODULE__{state: stats}}
  defp step({:error, error}), do: {:error, error}

  @doc """
  Gives the search up, wherever it stands; its tree is free for the next call.

      iex> tree = BeTree.new!(age: :integer)
      iex> tree |> BeTree.Iterator.new(%{age: 30}) |> BeTree.Iterator.cancel()
      :ok
  """
  @spec cancel(t) :: :ok
  def cancel(%__MODULE__{state: {:yielded, search}}), do: Search.cancel(search)
  def cancel(%__MODULE__{}), do: :ok
  def cancel(other), do: Check.expected!("a BeTree.Iterator", other)

  @doc """
  The ids as a stream: a search each time that it is enumerated, in the process that does.

  The search starts when the first id is asked for, and is cancelled where the enumeration ends before its ids are there:
  by a halt, a throw or a crash. Takes the options of `BeTree.Search`. Enumerating raises the errors of `next/1`.

      iex> tree = BeTree.new!(age: :integer)
      iex> {:ok, 100} = BeTree.insert_all(tree, for(id <- 1..100, do: {id, "age > \#{id}"}))
      iex> stream = BeTree.Iterator.stream(tree, %{age: 200})
      iex> stream |> Stream.filter(&(rem(&1, 2) == 0)) |> Enum.take(3)
      [2, 4, 6]
      iex> Enum.zip(stream, ~w(a b c))
      [{1, "a"}, {2, "b"}, {3, "c"}]
  """
  @spec stream(BeTree.target(), Event.t(), [Search.option()]) :: Enumerable.t()
  def stream(target, event, options \\ []) do
    iterator = new(target, event, options)
    Stream.resource(fn -> iterator end, &advance/1, &cancel/1)
  end

  defp advance(iterator) do
    case next(iterator) do
      {:ok, ids, iterator} -> {ids, iterator}
      {:done, _stats} -> {:halt, iterator}
      {:error, error} -> raise error
    end
  end

  defimpl Inspect do
    def inspect(%{state: state}, _options), do: "#BeTree.Iterator<#{standing(state)}>"

    defp standing({:new, _tree, _event, _options}), do: "not started"
    defp standing({:yielded, search}), do: Kernel.inspect(search)
    defp standing(%BeTree.Stats{}), do: "done"
  end
end

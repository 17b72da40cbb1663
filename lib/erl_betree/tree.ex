defmodule ErlBetree.Tree do
  @moduledoc false
  # What a reference to a tree holds, the errors of searching it, and what is asked of it beside searches.

  alias BeTree.{Domain, Error}
  alias BeTree.Engine.{Answer, Instance, Limits}
  alias ErlBetree.{Domains, Reference}

  @enforce_keys [:tree, :counters, :place, :reasons]
  defstruct @enforce_keys

  @typedoc """
  The handle without its schema, which each look at the reference would copy; the counters below; where the replicas are
  that stand in for the tree, if its runtime has such a place; and, where reasons are kept, the name of each.
  """
  @type t :: %__MODULE__{
          tree: BeTree.t(),
          counters: :atomics.atomics_ref(),
          place: BeTree.Runtime.place() | nil,
          reasons: tuple | nil
        }

  # How many subscriptions were inserted: the tree's version. The last version of which replicas were made, and one more.
  # How many searches found the tree busy at that version.
  @inserted 1
  @published 2
  @contended 3

  @doc "A reference to a new tree over what erl-be-tree calls domains, which tells reasons or does not."
  @spec make(term, boolean) :: reference
  def make(domains, with_reasons) do
    domains = Domains.parse(domains)

    with {:ok, tree} <- BeTree.new(domains),
         :ok <- if(with_reasons, do: keep_reasons(tree), else: :ok) do
      Reference.new(:tree, %__MODULE__{
        tree: %{tree | schema: []},
        counters: :atomics.new(3, []),
        place: if(function_exported?(tree.runtime, :place, 0), do: tree.runtime.place()),
        reasons: if(with_reasons, do: reasons(domains))
      })
    else
      {:error, error} -> fail(error)
    end
  end

  defp keep_reasons(tree) do
    with {:ok, answer} <- Instance.call(tree.runtime, tree.instance, "be_tree_keep_reasons", [], nil),
         do: Answer.nothing(answer)
  end

  # In the order of docs/abi.md. An expression that is false whatever the event has no attribute to name.
  defp reasons(domains) do
    names = for %Domain{name: name} <- domains, do: String.to_existing_atom(name)
    List.to_tuple(names ++ [:geo, :no_reason, :invalid_event])
  end

  @doc "What the reference holds, or a badarg."
  @spec open(reference) :: t
  def open(reference), do: Reference.open(:tree, reference)

  @doc "How many subscriptions were inserted."
  @spec inserted(t) :: non_neg_integer
  def inserted(%__MODULE__{counters: counters}), do: :atomics.get(counters, @inserted)

  @doc "Counts an insertion that was made."
  @spec count_insertion(t) :: :ok
  def count_insertion(%__MODULE__{counters: counters}), do: :atomics.add(counters, @inserted, 1)

  @doc "Raises an error: a badarg where it is the caller's input that is wrong."
  @spec fail(Error.t()) :: no_return
  def fail(%Error{kind: kind}) when kind in [:type, :out_of_bounds, :missing_attribute, :syntax, :not_found] do
    :erlang.error(:badarg)
  end

  def fail(%Error{} = error), do: raise(error)

  # A tree runs one search at a time. Where searches meet, they run on replicas of it from then on, until it changes; to make
  # these copies the tree's memory once, so it takes some searches that met at the same version.
  @meetings 8

  # A search that stands at its threshold holds one. They are made when they are needed.
  @replicas 1_000
  @queue Limits.default_queue()

  @doc "What to search in."
  @spec target(t) :: BeTree.t()
  def target(%__MODULE__{place: nil, tree: tree}), do: tree

  def target(%__MODULE__{tree: tree, counters: counters} = held) do
    with nil <- standing_in(held) do
      busy = tree.runtime.info(tree.instance).state != :free
      if busy and :atomics.add_get(counters, @contended, 1) >= @meetings, do: publish(held) || tree, else: tree
    end
  end

  @doc "Replicas of the tree as it stands, made where there are none; `nil` where there can be none."
  @spec replicas(t) :: BeTree.t() | nil
  def replicas(%__MODULE__{place: nil}), do: nil
  def replicas(%__MODULE__{} = held), do: standing_in(held) || publish(held)

  defp standing_in(%__MODULE__{tree: tree, place: place} = held) do
    case tree.runtime.place_get(place, inserted(held)) do
      nil -> nil
      replicas -> %{tree | instance: replicas}
    end
  end

  # Nothing where another process makes them already, or where there is no room for them. An insertion that comes in between
  # has another version, at which nobody looks for what is put there for this one.
  defp publish(%__MODULE__{tree: %{runtime: runtime} = tree, place: place, counters: counters} = held) do
    version = inserted(held)
    limits = [memory: tree.memory, replicas: @replicas, queue: @queue]

    with before when before != version + 1 <- :atomics.exchange(counters, @published, version + 1),
         :ok <- :atomics.put(counters, @contended, 0),
         {:ok, snapshot} <- runtime.snapshot(tree.instance, :infinity),
         {:ok, replicas} <- Instance.replicate(tree.guest, snapshot, limits) do
      :ok = runtime.place_put(place, version, replicas)
      %{tree | instance: replicas}
    else
      _none -> nil
    end
  end

  @doc "A picture of the tree in Graphviz's language."
  @spec draw(t) :: binary
  def draw(%__MODULE__{tree: tree}) do
    case Instance.call(tree.runtime, tree.instance, "be_tree_draw", [], nil) do
      {:ok, picture} -> picture
      {:error, error} -> fail(error)
    end
  end
end
